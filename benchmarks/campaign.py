"""Asking and telling after 10 and after 10,000 batches, on SQLite and, where a server can be had, on PostgreSQL."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np

import sourcewise as sw
from model import Result
from sourcewise.records import Event
from sourcewise.storage.base import Content, Snapshot, Total
from sourcewise.storage.sql import SqlStorage

T = TypeVar("T")
Times = dict[str, list[tuple[float, float]]]
"""By what was done: seconds on the clock, and seconds of this process."""

ROWS, ROUNDS, WARM = 1000, 60, 10
FEW, MANY = 10, 10_000


def study() -> sw.Study:
    sources = {"registry": sw.Source("z x", 1.0), "survey": sw.Source("z y", 3.0), "both": sw.Source("z x y", 6.0)}
    return sw.Study(["z*(x - alpha*z)", "z*(y - alpha*beta*z)"], "beta", sources)


def rows(source: str, n: int, seed: int) -> dict[str, np.ndarray]:
    z, u, noise = np.random.Generator(np.random.SFC64(seed)).standard_normal((3, n))
    people = {"z": z, "x": z + u, "y": z + 2 * u + noise}
    return {name: people[name] for name in study().sources[source].observes}


def begin(store: str, name: str, batches: int) -> sw.Campaign:
    """A campaign with so many batches of ten rows behind it, which it would take minutes to tell one by one."""
    campaign = sw.Campaign.create(store, study(), budget=1e8, policy=sw.ETG(4e-4), name=f"short {name}")
    for k, source in enumerate(study().sources):
        campaign.tell(source, rows(source, 10, k))
    storage = SqlStorage(store)
    seen = storage.read(campaign.name, lambda view: (view.design, view.progress, view.totals()))
    events, contents = list(storage.events(campaign.name)), list(storage.contents(campaign.name))
    for seq in range(len(events) + 1, batches + 2):
        told, kept = events[1 + seq % 3], contents[seq % 3]
        events.append(replace(told, seq=seq, key=f"batch {seq}"))
        contents.append(Content(seq, kept.source, kept.data))
    events[0] = Event(1, "created", events[0].time, "bench", f"first of {name}", events[0].body)
    totals = {source: _grown(total, batches // 3) for source, total in seen[2].items()}
    storage.create(name, Snapshot(seen[0], seen[1], tuple(events), totals, tuple(contents)))
    storage.close()
    return sw.Campaign.open(store, name)


def _grown(total: Total, times: int) -> Total:
    """As many deliveries of the same rows."""
    kept = sw.Statistics.from_json(total.content)
    grown = sw.Statistics(kept.source, kept.terms, kept.centre, kept.n * times, kept.gram * times)
    return replace(total, rows=grown.n, spent=total.spent * times, content=grown.to_json())


def timed(work: Callable[[], T], to: list[tuple[float, float]]) -> T:
    clock, own = time.perf_counter(), time.process_time()
    answer = work()
    to.append((time.perf_counter() - clock, time.process_time() - own))
    return answer


def one_round(store: str, name: str, times: Times, seed: Iterator[int]) -> None:
    campaign = timed(lambda: sw.Campaign.open(store, name), times["open"])
    order = timed(campaign.ask, times["ask"])
    assert order is not None
    assert timed(campaign.ask, times["the same order"]) == order
    timed(campaign.status, times["status"])
    for source in study().sources:  # all of them, whatever was ordered: both campaigns are told the same
        batch = rows(source, ROWS, next(seed))
        timed(lambda: campaign.tell(source, batch), times["tell"])  # noqa: B023
    if campaign.status().order is not None:
        campaign.close_order()
    campaign.__exit__(None, None, None)


def measure(store: str) -> dict[int, Times]:
    """The two campaigns take turns, so that whatever else the machine does disturbs both."""
    found: dict[int, Times] = {}
    for batches in (FEW, MANY):
        begin(store, str(batches), batches)
        found[batches] = {what: [] for what in ("ask", "tell", "the same order", "status", "open")}
    seed = iter(range(10**6))
    for _ in range(ROUNDS):
        for batches, times in found.items():
            one_round(store, str(batches), times, seed)
    return found


def p50(times: list[tuple[float, float]]) -> tuple[float, float]:
    """Milliseconds, on the clock and of this process."""
    clock, own = zip(*times[WARM:], strict=True)
    return 1e3 * median(clock), 1e3 * median(own)


@contextmanager
def stores() -> Iterator[dict[str, str]]:
    """A new store on each database; a PostgreSQL server is one of the test dependencies."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from servers import postgres

    with TemporaryDirectory() as directory, postgres() as server:
        yield {"SQLite": str(Path(directory) / "campaigns.db"), "PostgreSQL": server.database()}


def run() -> list[Result]:
    found: list[Result] = []
    with stores() as databases:
        for database, store in databases.items():
            measured = measure(store)
            for what in measured[MANY]:
                (clock, own), (_, own_few) = p50(measured[MANY][what]), p50(measured[FEW][what])
                rows_told = f" {ROWS:,} rows" if what == "tell" else ""
                bar = "≤ 30 ms" if database == "SQLite" and what in ("ask", "tell") else ""
                label = f"{database}: {what}{rows_told}, after {MANY:,} batches, p50"
                found.append((label, f"{clock:.1f} ms, CPU {own:.1f} ms", bar))
                found.append((f"… CPU after {MANY:,} / after {FEW}", f"{own / own_few:.2f}", "1 (± 0.1)"))
    return found
