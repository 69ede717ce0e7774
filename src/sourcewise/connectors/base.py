"""What a table must offer to answer orders by itself. A new connector is one small class: four methods.

    columns      the names of its columns
    size         how many rows it has
    fingerprint  a short text that changes when the table does
    sample       some of its rows, by their rank in the order of use, as anything that `summarize` reads

`sourcewise.testing.ConnectorSuite` has the tests that it must pass.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, runtime_checkable

import numpy as np

from sourcewise.connectors.order import Sampling
from sourcewise.errors import ConnectorError
from sourcewise.moments.compiled import CompiledSource, compile_source
from sourcewise.numerics.linalg import Array
from sourcewise.spec.study import Study
from sourcewise.statistics.cells import Chunk, check_names
from sourcewise.statistics.frames import Missing, naming, raw_blocks
from sourcewise.statistics.gram import Statistics
from sourcewise.statistics.rows import Rows
from sourcewise.statistics.summarize import Summable, Summary, measure

_KEY = re.compile(r"ranks (\d+)-(\d+) of (\S+)")


@dataclass(frozen=True, slots=True)
class Delivery:
    """The answer to an order: what is kept of the rows of ranks start, …, stop − 1 in the order of use.

    `statistics` is None when no row among them was usable. `exhausted`: the table has no further rows, so it may
    have given fewer than were asked for. `note` says where rows had to leave the place where they live.
    """

    source: str
    statistics: Statistics | Rows | None
    start: int
    stop: int
    exhausted: bool
    fingerprint: str
    note: str = ""

    @property
    def key(self) -> str:
        """A key for `Campaign.tell` that says which rows these are; `Delivery.read_key` restores it."""
        return f"ranks {self.start}-{self.stop} of {self.fingerprint}"

    @staticmethod
    def read_key(key: str) -> tuple[int, int, str] | None:
        """Start, stop and fingerprint; None if the batch was not delivered by a connector."""
        found = _KEY.fullmatch(key)
        return (int(found[1]), int(found[2]), found[3]) if found else None


@runtime_checkable
class Connector(Protocol):
    """A table that answers orders by itself."""

    def columns(self) -> tuple[str, ...]:
        """The names of all columns."""

    def size(self) -> int | None:
        """How many rows there are; None where that cannot be known."""

    def fingerprint(self) -> str:
        """A short text without blanks. It stays the same as long as the ranks of the rows do."""

    def take(self, start: int, rows: int, columns: Sequence[str]) -> Mapping[str, Array]:
        """The rows of ranks start, …, start + rows − 1, NaN where a value is missing; fewer when the table runs out.

        Which rows they are is fixed; in which order they come is not.
        """

    def deliver(
        self,
        study: Study,
        source: str,
        start: int,
        rows: int,
        centre: Mapping[str, float] | None = None,
        fingerprint: str | None = None,
    ) -> Delivery:
        """The same rows as statistics about `centre`, computed where the rows live if that is possible.

        A table whose fingerprint is not the given one is an error: its ranks may mean other rows than they did.
        """

    def close(self) -> None:
        """Let go of whatever is held open."""

    def __enter__(self) -> Self:
        """Itself; `close` is called in the end."""

    def __exit__(self, *_: object) -> None:
        """Close it."""


class Table(Summable):
    """The base of all connectors: from four methods to the whole protocol."""

    def __init__(self, sampling: Sampling) -> None:
        self.sampling = sampling

    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """The names of all columns."""

    @abstractmethod
    def size(self) -> int | None:
        """How many rows there are."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A short text without blanks that changes when the ranks of the rows may have."""

    @abstractmethod
    def sample(self, columns: Sequence[str], start: int, rows: int | None) -> object:
        """The rows of these ranks as anything that `measure` reads; all rows from `start` on where `rows` is None."""

    def close(self) -> None:
        """Let go of whatever is held open."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def version(self) -> str:
        """What the ranks depend on: the fingerprint, or what the user declared in its place; the order and its seed."""
        declared, sampling = self.sampling.version, self.sampling
        mark = self.fingerprint() if declared is None else "".join(declared.split())
        return f"{mark}:arrival" if sampling.order == "arrival" else f"{mark}:{sampling.seed}"

    def take(self, start: int, rows: int, columns: Sequence[str]) -> dict[str, Array]:
        checked_ranks(start, rows)
        check_names(self.columns(), columns)
        blocks = list(raw_blocks(self.sample(columns, start, rows), columns))
        table = np.hstack(blocks) if blocks else np.empty((len(columns), 0))
        return dict(zip(columns, table, strict=True))

    def deliver(
        self,
        study: Study,
        source: str,
        start: int,
        rows: int,
        centre: Mapping[str, float] | None = None,
        fingerprint: str | None = None,
    ) -> Delivery:
        checked_ranks(start, rows)
        now = self.version()
        check_version(source, fingerprint, now)
        compiled = compile_source(study, source)
        with naming(source):
            check_names(self.columns(), compiled.variables)
        sample = self.sample(compiled.variables, start, rows)
        found = measure(compiled, sample, centre, self.sampling.missing, empty=True)
        size, stop = self.size(), start + found.seen
        exhausted = found.seen < rows or (size is not None and stop >= size)
        return Delivery(source, found.kept, start, stop, exhausted, now, found.note)

    def chunks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        return (list(block) for block in raw_blocks(self.sample(columns, 0, None), columns))

    def measure(
        self, source: CompiledSource, centre: Mapping[str, float] | None, missing: Missing, *, empty: bool = False
    ) -> Summary:
        return measure(source, self.sample(source.variables, 0, None), centre, missing, empty=empty)


def checked_ranks(start: int, rows: int) -> None:
    for name, value in (("start", start), ("rows", rows)):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
            raise ConnectorError(f"{name} must be a whole number of rows, 0 or more, not {value!r}")


def check_version(source: str, expected: str | None, now: str) -> None:
    if expected is not None and expected != now:
        mark = expected.rpartition(":")[0]
        raise ConnectorError(
            f"the table of source {source!r}, or its order or seed, has changed since rows were taken from it (from "
            f"{expected} to {now}), so the next rows could be ones already used. Restore it; or, if all are what they "
            f"were, declare so with version = {mark!r}"
        )
