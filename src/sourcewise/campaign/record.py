"""A campaign as records: where it stands, and everything that a report shows."""

from __future__ import annotations

import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from shlex import quote
from typing import Any, Literal

from sourcewise._version import __version__
from sourcewise.campaign.progress import batch_from_plain, look_from_plain, money
from sourcewise.campaign.seen import Seen
from sourcewise.campaign.steps import estimate, first_tightest, look_at
from sourcewise.campaign.terms import Terms
from sourcewise.policies import policy_to_plain
from sourcewise.records import (
    Amendment,
    Batch,
    CampaignRecord,
    Event,
    Look,
    Order,
    Round,
    SourceStatus,
    Status,
)
from sourcewise.spec.plain import study_to_plain

PACKAGES = ("numpy", "scipy", "clarabel", "sqlalchemy", "narwhals", "pyarrow")

NEXT = {"ready": "ask for the next order", "collecting": "rows are awaited"}


def versions() -> dict[str, str]:
    """Of everything that a number of this campaign may depend on."""
    found = {"sourcewise": __version__, "python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # vendored or stripped
            continue
    return found


def plain_terms(terms: Terms) -> dict[str, Any]:
    plain: dict[str, Any] = json.loads(terms.to_json())
    return plain


def sources_of(seen: Seen) -> tuple[SourceStatus, ...]:
    ordered = {} if seen.progress.order is None else seen.progress.order.rows
    found = []
    for name, source in seen.terms.study.sources.items():
        total = seen.totals.get(name)
        found.append(
            SourceStatus(
                name=name,
                observes=source.observes,
                price=source.cost,
                capacity=source.capacity,
                retired=name in seen.terms.retired,
                rows=0 if total is None else total.rows,
                spent=0.0 if total is None else total.spent,
                ordered=ordered.get(name, 0),
                received=seen.progress.received.get(name, 0),
            )
        )
    return tuple(found)


def reason_of(seen: Seen) -> str:
    progress = seen.progress
    return progress.stopped or progress.over or NEXT[progress.state]


def status_of(name: str, seen: Seen) -> Status:
    progress = seen.progress
    return Status(
        name=name,
        state=progress.state,
        reason=reason_of(seen),
        round=progress.round,
        order=progress.order,
        money=money(seen.terms.budget, seen.totals, progress),
        sources=sources_of(seen),
        target=seen.terms.study.target,
        target_width=seen.terms.target_width,
        level=seen.terms.level,
        look=progress.look,
        events=seen.seq,
        updated=progress.updated,
    )


def record_of(name: str, seen: Seen, events: tuple[Event, ...], time: str) -> CampaignRecord:
    """`seen` with its data, and all events up to it."""
    terms, first = seen.terms, events[0]
    current = _current(seen, time)
    history = read_history(events)
    return CampaignRecord(
        name=name,
        made=time,
        created=first.time,
        author=first.author,
        state=seen.progress.state,
        reason=reason_of(seen),
        target=terms.study.target,
        study=study_to_plain(terms.study),
        policy=policy_to_plain(terms.policy),
        target_width=terms.target_width,
        level=terms.level,
        money=money(terms.budget, seen.totals, seen.progress),
        sources=sources_of(seen),
        rounds=history.rounds,
        looks=_with_current(history.looks, current),
        current=current,
        batches=history.batches,
        amendments=history.amendments,
        versions=versions(),
        reproduce=(
            f"sourcewise export campaign.json --campaign {quote(name)}  # beside the store it is in",
            f"pip install sourcewise=={__version__}  # wherever it is to be checked",
            "sourcewise import campaign.json --store copy.db",
            "sourcewise report report.html --store copy.db",
        ),
        advice=() if current is None else current.advice,
    )


def amendment_of(event: Event) -> Amendment:
    changes = {term: (old, new) for term, (old, new) in event.body["changes"].items()}
    return Amendment(event.time, event.author, changes, event.body["reason"])


def _batch(event: Event) -> Batch:
    return batch_from_plain(event.body["batch"])


def _current(seen: Seen, time: str) -> Look | None:
    found = estimate(seen)
    if found is None:
        return None
    tightest = seen.progress.tightest or first_tightest(seen, found)
    return look_at(seen, found, tightest, time, weak=True)


@dataclass(frozen=True, slots=True)
class History:
    """What all events say."""

    rounds: tuple[Round, ...]
    looks: tuple[Look, ...]
    """Those of every `ask`."""
    batches: tuple[Batch, ...]
    amendments: tuple[Amendment, ...]


def read_history(events: tuple[Event, ...]) -> History:
    looks = [event.body["look"] for event in events if event.kind in ("asked", "over")]
    return History(
        _rounds(events),
        tuple(look_from_plain(look) for look in looks if look is not None),
        tuple(_batch(event) for event in events if event.kind == "told"),
        tuple(amendment_of(event) for event in events if event.kind == "amended"),
    )


def _with_current(looks: tuple[Look, ...], current: Look | None) -> tuple[Look, ...]:
    """The current one takes the place of the last if nothing came since."""
    if current is None:
        return looks
    if looks and looks[-1].rows == current.rows:
        looks = looks[:-1]
    return (*looks, current)


@dataclass(slots=True)
class _Open:
    """A round while its events are read."""

    order: Order
    received: dict[str, int] = field(default_factory=dict)
    settled: float = 0.0
    outcome: Literal["open", "filled", "closed"] = "open"
    ended: str | None = None
    note: str = ""

    def end(self, outcome: Literal["filled", "closed"], time: str, note: str = "") -> None:
        if self.outcome == "open":
            self.outcome, self.ended, self.note = outcome, time, note


def _rounds(events: Iterable[Event]) -> tuple[Round, ...]:
    """A delivery counts towards the last order made before it, also when that was closed."""
    found: list[_Open] = []
    for event in events:
        body: Mapping[str, Any] = event.body
        if event.kind == "asked":
            found.append(_Open(Order(**body["order"])))
        elif not found:
            continue
        elif event.kind == "told":
            batch, last = _batch(event), found[-1]
            last.received[batch.source] = last.received.get(batch.source, 0) + batch.rows
            last.settled += batch.cost
            if body["filled"]:
                last.end("filled", event.time)
        elif event.kind in ("closed", "stopped") or body.get("closed"):
            found[-1].end("closed", event.time, body["reason"] or event.kind)
    return tuple(Round(r.order, r.received, r.settled, r.outcome, r.ended, r.note) for r in found)
