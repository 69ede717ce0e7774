"""A campaign as its report receives it: three rounds of two sources, with hostile texts wherever a person may type."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from reporting.pages import HOSTILE
from sourcewise.records import (
    Agreement,
    Amendment,
    Batch,
    CampaignRecord,
    Look,
    Money,
    Order,
    Round,
    SourceStatus,
)

BAD = f"survey {HOSTILE}"
TIME = "2026-03-01T12:34:56.789+00:00"


def look(number: int, spent: float, stderr: float | None) -> Look:
    ends = (None, None) if stderr is None else (2 - 1.96 * stderr, 2 + 1.96 * stderr)
    wide = (None, None) if stderr is None else (2 - 3 * stderr, 2 + 3 * stderr)
    return Look(
        round=number,
        time=TIME,
        rows={"registry": 10 * number, BAD: 20 * number},
        spent=spent,
        value=None if stderr is None else 2.0,
        stderr=stderr,
        level=0.95,
        interval=ends,
        anytime=wide,
        mix={"registry": 1 / 3, BAD: 2 / 3},
        best_mix=None if stderr is None else {"registry": 0.25, BAD: 0.75},
        stderr_equal=None if stderr is None else 1.1 * stderr,
        stderr_best=None if stderr is None else 0.9 * stderr,
        strength=None if stderr is None else 4.5,
        overid=Agreement(3.25, 2, 0.197),
        overid_by_source={"registry": Agreement(None, 0, None), BAD: Agreement(1.5, 1, 0.221)},
        status="converged",
        weak=((0.5, 1.5), (1.75, None)),
    )


def step(number: int, came: int, outcome: Any, note: str = "") -> Round:
    order = Order(
        {"registry": 10, BAD: 20}, 70.5, {"registry": 0.3, BAD: 0.7}, number == 1, f"Reason {number} {HOSTILE}", number,
        time=TIME,
    )  # fmt: skip
    return Round(order, {"registry": 10, BAD: came}, 70.5, outcome, TIME, note)


def record(**changes: Any) -> CampaignRecord:
    looks = (look(1, 70.5, None), look(2, 141.0, 0.4), look(3, 211.5, 0.25))
    study = {
        "target": "beta",
        "moments": ["z*(x - alpha*z)", {"expr": "z*(y - alpha*beta*z)", "sources": [BAD]}],
        "sources": {"registry": {"observes": ["z", "x"]}, BAD: {"observes": ["z", "y"], "cost": 3.0}},
    }
    made = CampaignRecord(
        name=f"lottery {HOSTILE}",
        made=TIME,
        created=TIME,
        author=HOSTILE,
        state="collecting",
        reason="fill the open order",
        target="beta",
        study=study,
        policy={"kind": "etg", "batch": 0.25, "per": "budget", "aim": "nearest", "ridge": 0.01},
        target_width=0.5,
        level=0.95,
        money=Money(1000.0, 211.5, 70.5),
        sources=(
            SourceStatus("registry", ("z", "x"), 1.05, 500, False, 30, 31.5),
            SourceStatus(BAD, ("z", "y"), 3.0, None, True, 60, 180.0, ordered=20, received=5),
        ),
        rounds=(step(1, 20, "filled"), step(2, 13, "closed", f"ran out {HOSTILE}"), step(3, 20, "open")),
        looks=looks,
        current=looks[-1],
        batches=tuple(Batch(BAD, 20, 60.0, 20 * k, k, f"key {k} {HOSTILE}", 1, TIME, HOSTILE) for k in (1, 2, 3)),
        amendments=(Amendment(TIME, HOSTILE, {"budget": (900.0, 1000.0), f"cost of {BAD}": (2.5, None)}, HOSTILE),),
        versions={"sourcewise": "9.8.7", "numpy": "2.0"},
        reproduce=("sourcewise report report.html",),
        advice=(HOSTILE,),
    )
    return replace(made, **changes)


def untouched() -> CampaignRecord:
    """Created a moment ago."""
    return record(rounds=(), looks=(), current=None, batches=(), amendments=(), advice=(), state="ready")
