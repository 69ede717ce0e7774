"""Work does not grow with the history: counted in statements, and on SQLite in steps of its virtual machine.

Times are in benchmarks/campaign.py. A step that read the events would show here as thousands of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from sqlalchemy import event

import sourcewise as sw
from campaign.worlds import deal, study
from sourcewise.storage.base import Content, Snapshot
from sourcewise.storage.sql import SqlStorage

SHORT, LONG = "short", "long"


@pytest.fixture
def storage(store: str) -> Iterator[SqlStorage]:
    """Two campaigns that stand at the same point, one after 4 deliveries and one after 3,000."""
    made = SqlStorage(store, create=True)
    campaign = sw.Campaign.create(made, study(), budget=1e6, policy=sw.ETG(0.001), name=SHORT, author="ann")
    for k, source in enumerate(("registry", "survey") * 2):
        campaign.tell(source, deal(study(), source, 300, k), f"day {k}")
    state = made.read(SHORT, lambda view: (view.design, view.progress, view.totals()))
    events, contents = list(made.events(SHORT)), list(made.contents(SHORT))
    for seq in range(len(events) + 1, 3002):
        events.append(replace(events[4], seq=seq, key=f"day {seq}"))
        contents.append(Content(seq, contents[3].source, contents[3].data))
    events[0] = replace(events[0], key="another")
    made.create(LONG, Snapshot(state[0], state[1], tuple(events), state[2], tuple(contents)))
    yield made
    made.close()


@contextmanager
def counted(storage: SqlStorage) -> Iterator[dict[str, int]]:
    """Statements that are sent, and steps that SQLite takes for them."""
    work = {"statements": 0, "steps": 0}

    def statement(*_: Any) -> None:
        work["statements"] += 1

    def step() -> None:
        work["steps"] += 1

    def watch(connection: Any, *_: Any) -> None:
        if storage.engine.dialect.name == "sqlite":
            connection.set_progress_handler(step, 1)

    storage.close()  # so that every connection is made within, and watched
    event.listen(storage.engine, "connect", watch)
    event.listen(storage.engine, "before_cursor_execute", statement)
    try:
        yield work
    finally:
        event.remove(storage.engine, "connect", watch)
        event.remove(storage.engine, "before_cursor_execute", statement)


Action = Callable[[sw.Campaign], Any]
ACTIONS: dict[str, Action] = {
    "tell": lambda campaign: campaign.tell("survey", deal(study(), "survey", 1000, 7), "new"),
    "tell what was told": lambda campaign: campaign.tell("registry", deal(study(), "registry", 300, 0), "day 0"),
    "ask": lambda campaign: campaign.ask(),
    "ask and ask again": lambda campaign: (campaign.ask(), campaign.ask()),
    "status": lambda campaign: campaign.status(),
    "estimate": lambda campaign: campaign.estimate(),
    "amend": lambda campaign: campaign.amend(budget=2e6),
    "close": lambda campaign: (campaign.ask(), campaign.close_order()),
    "stop": lambda campaign: campaign.stop(),
}


@pytest.mark.parametrize("action", ACTIONS)
def test_work_does_not_grow_with_the_history(storage: SqlStorage, action: str) -> None:
    """Opening is part of each. A few steps more or less are the depth of an index."""
    found = {}
    for name in (SHORT, LONG):
        with counted(storage) as work:
            ACTIONS[action](sw.Campaign.open(storage, name))
        found[name] = work
    assert found[SHORT]["statements"] == found[LONG]["statements"] > 0
    assert abs(found[SHORT]["steps"] - found[LONG]["steps"]) < 100, found


def test_what_does_read_the_history_would_show(storage: SqlStorage) -> None:
    """The yardstick measures: a report grows with it, as it must."""
    found = []
    for name in (SHORT, LONG):
        with counted(storage) as work:
            sw.Campaign.open(storage, name).history()
        found.append(work)
    assert found[1]["statements"] > found[0]["statements"]
    if storage.engine.dialect.name == "sqlite":
        assert found[1]["steps"] > found[0]["steps"] + 3000
