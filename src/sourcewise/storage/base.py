"""What a store of campaigns must do. `sourcewise.testing.storage` checks that one does.

A campaign is an append-only list of events and, beside it, the state that the events add up to: its terms (`design`),
where it stands (`progress`), and one `Total` a source. Each `Change` writes an event and the state after it in one
transaction, so nobody ever replays a history, and one delivery costs the same after ten thousand others.

What design, progress and contents mean is the campaign's business: to a store they are texts and bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from sourcewise.records import Event

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Total:
    """What all deliveries of a source add up to: rows, money, and their merged statistics as a text."""

    rows: int
    spent: float
    content: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One event and the state after it; what is None stays as it was."""

    kind: str
    key: str
    """Unique in its campaign: it tells a repeated request from a new one."""
    time: str
    author: str
    body: Mapping[str, Any]
    progress: str
    design: str | None = None
    source: str | None = None
    """The source that `total` and `content` belong to."""
    total: Total | None = None
    content: bytes | None = None
    """What was delivered: statistics, or rows where they are kept."""


@dataclass(frozen=True, slots=True)
class Content:
    """A delivery as it was kept, under the number of its event."""

    seq: int
    source: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A whole campaign, to start one or to carry one to another store."""

    design: str
    progress: str
    events: tuple[Event, ...]
    totals: Mapping[str, Total] = field(default_factory=dict)
    contents: tuple[Content, ...] = ()


class View(Protocol):
    """One campaign as one transaction sees it."""

    @property
    def seq(self) -> int:
        """Number of the last event. Two views with the same number show the same campaign."""

    @property
    def design(self) -> str: ...

    @property
    def progress(self) -> str: ...

    def event(self, key: str) -> Event | None:
        """The event with this key, if there is one."""

    def total(self, source: str) -> Total | None:
        """None when nothing came from this source yet."""

    def totals(self) -> dict[str, Total]:
        """Of all sources that delivered, by name."""


class Storage(Protocol):
    """A store of campaigns. Every method may be called from several processes at once."""

    def create(self, name: str, snapshot: Snapshot) -> None:
        """Add a campaign. If one of this name exists: nothing when its first event has the same key (then it is this
        one, and the answer was lost), else a StorageError."""

    def names(self) -> tuple[str, ...]:
        """Of all campaigns, in the order in which they were created."""

    def read(self, name: str, look: Callable[[View], T]) -> T:
        """What `look` makes of a consistent view; never waits for a writer, and no writer waits for it."""

    def change(self, name: str, decide: Callable[[View], tuple[T, Change | None]]) -> T:
        """Let `decide` look and say what to write, in one transaction that no other change can come between.

        Returns its answer once the change is durable. `decide` may be called again after a conflict or a lost
        connection, also when the first attempt did succeed without our knowing: it looks its key up first."""

    def events(self, name: str, after: int = 0) -> Iterator[Event]:
        """In order, those with a number above `after`."""

    def contents(self, name: str, source: str | None = None, after: int = 0) -> Iterator[Content]:
        """Deliveries in order, of all sources or of one, those with a number above `after`."""

    def problems(self) -> tuple[str, ...]:
        """What is wrong with the stored data, in sentences; empty when all is well."""

    def close(self) -> None:
        """Give connections back. A closed store may be used again."""
