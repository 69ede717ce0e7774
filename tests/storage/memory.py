"""A store in memory, for tests that need thousands of campaigns: the shipped cases hold it to the same promises."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from threading import Lock
from typing import TypeVar

from sourcewise.errors import StorageError
from sourcewise.records import Event
from sourcewise.storage.base import Change, Content, Snapshot, Total, View

T = TypeVar("T")


class MemoryView:
    """A snapshot never changes, so whoever holds one sees one moment."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    @property
    def seq(self) -> int:
        return self._snapshot.events[-1].seq

    @property
    def design(self) -> str:
        return self._snapshot.design

    @property
    def progress(self) -> str:
        return self._snapshot.progress

    def event(self, key: str) -> Event | None:
        return next((event for event in self._snapshot.events if event.key == key), None)

    def total(self, source: str) -> Total | None:
        return self._snapshot.totals.get(source)

    def totals(self) -> dict[str, Total]:
        return dict(self._snapshot.totals)


class MemoryStorage:
    def __init__(self) -> None:
        self._kept: dict[str, Snapshot] = {}
        self._lock = Lock()

    def create(self, name: str, snapshot: Snapshot) -> None:
        with self._lock:
            known = self._kept.setdefault(name, snapshot)
        if known.events[0].key != snapshot.events[0].key:
            raise StorageError(f"there is a campaign {name!r} already")

    def names(self) -> tuple[str, ...]:
        return tuple(self._kept)

    def read(self, name: str, look: Callable[[View], T]) -> T:
        return look(MemoryView(self._of(name)))

    def change(self, name: str, decide: Callable[[View], tuple[T, Change | None]]) -> T:
        with self._lock:
            before = self._of(name)
            answer, change = decide(MemoryView(before))
            if change is not None:
                self._kept[name] = after(before, change)
        return answer

    def events(self, name: str, after: int = 0) -> Iterator[Event]:
        return iter([event for event in self._of(name).events if event.seq > after])

    def contents(self, name: str, source: str | None = None, after: int = 0) -> Iterator[Content]:
        found = self._of(name).contents
        return iter([kept for kept in found if kept.seq > after and source in (None, kept.source)])

    def problems(self) -> tuple[str, ...]:
        return ()

    def close(self) -> None: ...

    def _of(self, name: str) -> Snapshot:
        if name not in self._kept:
            raise StorageError(f"there is no campaign {name!r}; there are {', '.join(map(repr, self._kept))}")
        return self._kept[name]


def after(before: Snapshot, change: Change) -> Snapshot:
    seq = before.events[-1].seq + 1
    body = json.loads(json.dumps(change.body))
    entry = Event(seq, change.kind, change.time, change.author, change.key, body)
    totals, contents = dict(before.totals), before.contents
    if change.source is not None and change.total is not None:
        totals[change.source] = change.total
    if change.source is not None and change.content is not None:
        contents = (*contents, Content(seq, change.source, change.content))
    design = before.design if change.design is None else change.design
    return Snapshot(design, change.progress, (*before.events, entry), totals, contents)
