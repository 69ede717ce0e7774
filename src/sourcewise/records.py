"""Facts of a campaign that cross layers: frozen dataclasses of plain values, without NumPy and without behaviour.

What is not known, or not identified, is None and never NaN or an infinity, so that every record is JSON as it stands
(`plain`). Times are ISO 8601 in UTC, money is in the unit of the study's prices, and mappings are by source unless
they say otherwise.

    CampaignRecord          everything a report shows
    ├── design              what was asked and on which terms: study, policy, budget, width
    ├── Money               budget, settled, reserved, left
    ├── SourceStatus        one a source: price, rows, money
    ├── Round               one an order: the Order, what came of it, how it ended
    ├── Look                one an estimate: intervals, mix, agreement of the sources
    ├── Batch               one a delivery
    └── Amendment           one a change of the terms, with author and time
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, Literal

Interval = tuple[float | None, float | None]
"""Lower and upper end; None is an end at infinity."""

State = Literal["ready", "collecting", "over", "stopped"]
"""ready: no order is open, `ask` makes the next. collecting: an order is open. over: the budget or the width was
reached, and an amendment can lead on. stopped: by hand."""


@dataclass(frozen=True, slots=True)
class Order:
    """Rows to ask of each source next, what they cost, the ratio of all rows aimed at, and the reason in words."""

    rows: Mapping[str, int]
    cost: float
    target: Mapping[str, float]
    explores: bool
    reason: str
    round: int = 0
    """1, 2, … in a campaign; 0 for an order that no campaign made."""
    prices: Mapping[str, float] = field(default_factory=dict)
    """Of one row, when the order was made."""
    centre: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Where owners summarize their rows themselves: the centre to use, by source and variable. A source that has not
    delivered yet has none: its first batch sets it."""
    time: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """The answer to a delivery: what was accepted, what it cost, and where its source stands now."""

    source: str
    rows: int
    cost: float
    so_far: int
    """Rows of this source, this batch included."""
    round: int
    """The order that it counts towards; that of the last order when none was open, 0 before the first."""
    key: str
    dropped: int = 0
    """Rows left out because of missing values."""
    time: str = ""
    author: str = ""
    repeated: bool = field(default=False, compare=False)
    """This delivery was known already: nothing was counted again, and this is the answer that was given then."""


@dataclass(frozen=True, slots=True)
class Event:
    """One entry of the history. Entries are only ever added; `body` is plain values."""

    seq: int
    kind: str
    """created, asked, told, closed, amended, over, stopped."""
    time: str
    author: str
    key: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Money:
    """Settled when rows are told, reserved while an order is open."""

    budget: float
    spent: float
    reserved: float

    @property
    def left(self) -> float:
        """What no order and no row has taken; below 0 when more came than the budget pays for."""
        return self.budget - self.spent - self.reserved


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """Where a source stands."""

    name: str
    observes: tuple[str, ...]
    price: float
    capacity: int | None
    retired: bool
    rows: int
    spent: float
    ordered: int = 0
    """Rows that the open order asks of it."""
    received: int = 0
    """Rows that came while that order has been open."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """A test of over-identifying restrictions; `pvalue` is None where there is nothing to test."""

    statistic: float | None
    df: int
    pvalue: float | None


@dataclass(frozen=True, slots=True)
class Look:
    """The estimate at one moment: after a round, or of all rows that there are when a record is made."""

    round: int
    """Rounds that had ended."""
    time: str
    rows: Mapping[str, int]
    spent: float
    value: float | None
    stderr: float | None
    """None where the data do not identify the target."""
    level: float
    interval: Interval
    """For one look, fixed in advance."""
    anytime: Interval
    """Holds at all looks together, so that one may stop because of it."""
    mix: Mapping[str, float]
    """Shares of the rows so far."""
    best_mix: Mapping[str, float] | None
    """Estimated best shares of the rows."""
    stderr_equal: float | None
    """That equally many rows of every source would have had for the same money, at this estimate."""
    stderr_best: float | None
    """That the best mix would have had for the same money, at this estimate."""
    strength: float | None
    """Below 10, standard errors and intervals are not to be trusted: see `weak`."""
    overid: Agreement
    overid_by_source: Mapping[str, Agreement]
    """Does each source agree with the others?"""
    status: str
    """Of the search: converged, or why not."""
    advice: tuple[str, ...] = ()
    weak: tuple[Interval, ...] | None = None
    """Set for the target that keeps its level under weak identification; None where it was not computed."""

    @property
    def width(self) -> float | None:
        """Of the anytime interval."""
        low, high = self.anytime
        return None if low is None or high is None else high - low


@dataclass(frozen=True, slots=True)
class Round:
    """An order and what came of it."""

    order: Order
    received: Mapping[str, int]
    settled: float
    """Money for what came."""
    outcome: Literal["open", "filled", "closed"]
    ended: str | None = None
    note: str = ""
    """Why it was closed, if it was."""


@dataclass(frozen=True, slots=True)
class Amendment:
    """A change of the terms: for each term what it was and what it is now."""

    time: str
    author: str
    changes: Mapping[str, tuple[Any, Any]]
    """By term, such as "budget" or "cost of survey"."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """Where a campaign stands now, without a new estimate."""

    name: str
    state: State
    reason: str
    """Why it is over or stopped; otherwise what to do next."""
    round: int
    """Of the open order, or of the last one."""
    order: Order | None
    money: Money
    sources: tuple[SourceStatus, ...]
    target: str
    target_width: float | None
    level: float
    """Of the intervals."""
    look: Look | None
    """The last recorded estimate: that of the last `ask`."""
    events: int
    updated: str


@dataclass(frozen=True, slots=True)
class CampaignRecord:
    """Everything that a report shows, and all that it needs."""

    name: str
    made: str
    """When this record was made."""
    created: str
    author: str
    state: State
    reason: str
    target: str
    study: Mapping[str, Any]
    """In plain values, as of now: `spec.plain.study_from_plain` reads it."""
    policy: Mapping[str, Any]
    """In plain values: `policies.policy_from_plain` reads it."""
    target_width: float | None
    level: float
    money: Money
    sources: tuple[SourceStatus, ...]
    rounds: tuple[Round, ...]
    looks: tuple[Look, ...]
    """One after each round in which the data could be estimated from; the last is `current`."""
    current: Look | None
    """Of all rows so far; None before the first rows, or while they cannot be estimated from."""
    batches: tuple[Batch, ...]
    amendments: tuple[Amendment, ...]
    versions: Mapping[str, str]
    """Of the software, by package."""
    reproduce: tuple[str, ...]
    """Command lines that lead from the store to this record again."""
    advice: tuple[str, ...] = ()
    """What a careful reader should know; those of `current`, and of the campaign as a whole."""


def plain(record: Any) -> Any:
    """A record as dicts, lists, texts, numbers and None, ready for JSON."""
    if is_dataclass(record) and not isinstance(record, type):
        return {part.name: plain(getattr(record, part.name)) for part in fields(record)}
    if isinstance(record, Mapping):
        return {str(key): plain(value) for key, value in record.items()}
    if isinstance(record, tuple | list):
        return [plain(item) for item in record]
    return record
