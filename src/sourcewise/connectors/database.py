"""Tables in a database: told apart by key columns, put into the order of a hash that the database computes.

Random order is that of MD5(seed, key), so it is the same in every engine, process and version. Nobody sorts the table:
a *survey* counts the rows by the first digits of the hash; with it, the hash at any rank is found among a few thousand
rows, and the rows between two hashes are read or summed as they lie.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol

import numpy as np

from sourcewise.connectors.base import Delivery, Table
from sourcewise.connectors.dialect import Dialect, quoted
from sourcewise.connectors.order import Sampling
from sourcewise.errors import ConnectorError
from sourcewise.moments.compiled import CompiledSource
from sourcewise.numerics.linalg import Array
from sourcewise.spec.study import Study
from sourcewise.statistics.cells import Chunk, check_names
from sourcewise.statistics.frames import Missing, Stream
from sourcewise.statistics.summarize import Summary

DIGITS = 3
"""Hexadecimal digits by which a survey counts: 4096 groups."""


class Session(Protocol):
    """One connection that sees one state of the database."""

    def answer(self, statement: str) -> list[tuple[Any, ...]]:
        """All rows of a small result."""

    def stream(self, statement: str) -> Iterator[Chunk]:
        """The rows of a result whose columns are all float64, a piece at a time."""

    def kinds(self, relation: str) -> list[tuple[str, str]]:
        """Names and types of all columns of a table."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Rows by the first digits of their hash."""

    size: int
    groups: Sequence[str]
    ends: Sequence[int]
    """The number of rows up to the end of each group."""
    mark: str


class Database(Table):
    """The base of databases: a subclass opens sessions and says what tells its rows apart."""

    dialect: Dialect
    kind: str

    def __init__(self, sampling: Sampling, relation: str) -> None:
        super().__init__(sampling)
        self.relation = relation
        self._open: Snapshot | None = None
        self._known: dict[tuple[str, int], str] = {}

    @abstractmethod
    def session(self) -> AbstractContextManager[Session]:
        """A new connection."""

    @abstractmethod
    def key(self, session: Session) -> tuple[str, ...]:
        """The columns that tell rows apart, where the user named none."""

    def content(self, session: Session, kinds: Mapping[str, str]) -> str:
        """What the fingerprint shall notice beside the keys and how many there are."""
        return ""

    def selected(self, snapshot: Snapshot, columns: Sequence[str], where: str) -> object:
        """The rows of a table expression as anything that `measure` reads."""
        return Selected(snapshot, where)

    @contextmanager
    def snapshot(self) -> Iterator[Snapshot]:
        """One state of the database for everything that is asked within."""
        if self._open is not None:
            yield self._open
            return
        with ExitStack() as stack:
            self._open = Snapshot(self, stack.enter_context(self.session()))
            try:
                yield self._open
            finally:
                self._open = None

    def columns(self) -> tuple[str, ...]:
        with self.snapshot() as snapshot:
            return tuple(name for name, _ in snapshot.columns)

    def size(self) -> int | None:
        """Not counted where nothing else needs a pass over the table: in arrival order under a declared version."""
        if self.sampling.order == "arrival" and self.sampling.version is not None:
            return None
        with self.snapshot() as snapshot:
            return snapshot.survey().size

    def fingerprint(self) -> str:
        """Of the keys of all rows: what they are and how many; a value changed in place changes no rank."""
        with self.snapshot() as snapshot:
            return f"{self.kind}:{snapshot.survey().mark}"

    def sample(self, columns: Sequence[str], start: int, rows: int | None) -> object:
        with self.snapshot() as snapshot:
            snapshot.check(columns)
            if rows is None and start == 0:
                return self.selected(snapshot, columns, self.relation)
            if self.sampling.order == "arrival":
                return self.selected(snapshot, columns, snapshot.in_key_order(start, rows))
            size = snapshot.survey().size
            stop = size if rows is None else min(start + rows, size)
            return self.selected(snapshot, columns, self._between(snapshot, start, stop))

    def take(self, start: int, rows: int, columns: Sequence[str]) -> dict[str, Array]:
        with self.snapshot():
            return super().take(start, rows, columns)

    def deliver(
        self,
        study: Study,
        source: str,
        start: int,
        rows: int,
        centre: Mapping[str, float] | None = None,
        fingerprint: str | None = None,
    ) -> Delivery:
        with self.snapshot():
            return super().deliver(study, source, start, rows, centre, fingerprint)

    def chunks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        with self.snapshot():
            yield from super().chunks(columns)

    def measure(
        self, source: CompiledSource, centre: Mapping[str, float] | None, missing: Missing, *, empty: bool = False
    ) -> Summary:
        with self.snapshot():
            return super().measure(source, centre, missing, empty=empty)

    # -- ranks --------------------------------------------------------------------------------------------------------

    def _between(self, snapshot: Snapshot, start: int, stop: int) -> str:
        """A table expression for the rows of these ranks."""
        if stop <= start:
            return f"(SELECT * FROM {self.relation} AS r WHERE 1 = 0)"
        digest, size = snapshot.digest(), snapshot.survey().size
        limits = [f"{digest} > '{self._hash_at(snapshot, start)}'"] if start > 0 else []
        limits += [f"{digest} <= '{self._hash_at(snapshot, stop)}'"] if stop < size else []
        return f"(SELECT * FROM {self.relation} AS r WHERE {' AND '.join(limits) or '1 = 1'})"

    def _hash_at(self, snapshot: Snapshot, count: int) -> str:
        """The hash up to which there are `count` rows; looked up once for each state of the table."""
        survey = snapshot.survey()
        place = (survey.mark, count)
        if place not in self._known:
            self._known[place] = snapshot.hash_at(survey, count)
        return self._known[place]


class Snapshot:
    """What is known of one state of a table, found out when it is first needed."""

    def __init__(self, table: Database, session: Session) -> None:
        self.table = table
        self.session = session
        self.columns = session.kinds(table.relation)
        self._survey: Survey | None = None
        self._key: tuple[str, ...] | None = None

    def check(self, columns: Sequence[str]) -> None:
        check_names([name for name, _ in self.columns], columns)
        self.reals(columns)

    def reals(self, columns: Sequence[str]) -> list[str]:
        """Each of these columns as float64, in SQL."""
        kinds = dict(self.columns)
        check_names([name for name, _ in self.columns], columns)
        return [self.table.dialect.real(name, kinds[name]) for name in columns]

    def key(self) -> tuple[str, ...]:
        if self._key is None:
            self._key = self.table.sampling.key or self.table.key(self.session)
            check_names(tuple(self.kinds()), self._key)
        return self._key

    def kinds(self) -> dict[str, str]:
        return {ROWID: "BIGINT", **dict(self.columns)}

    def digest(self) -> str:
        return self.table.dialect.digest(self.table.sampling.seed, self.key(), self.kinds())

    def survey(self) -> Survey:
        """Counts of hashes by their first digits, and the sum of the next ones: one pass over the keys of the table."""
        if self._survey is None:
            dialect, relation = self.table.dialect, self.table.relation
            number = dialect.number_of_hex.format(f"substr(h, {DIGITS + 1}, 7)")
            hashes = f"(SELECT {self.digest()} AS h FROM {relation} AS r{dialect.fence}) AS k"
            found = self.session.answer(
                f"SELECT left(h, {DIGITS}) AS g, count(*), sum({number}) FROM {hashes} GROUP BY g ORDER BY g"
            )
            self._survey = self._surveyed(found)
        return self._survey

    def _surveyed(self, found: Sequence[tuple[Any, ...]]) -> Survey:
        if any(group is None for group, _, _ in found):
            raise ConnectorError(
                f"the key ({', '.join(self.key())}) is empty in some rows, so it cannot tell them apart"
            )
        ends = np.cumsum([count for _, count, _ in found], dtype=np.int64).tolist()
        size = ends[-1] if ends else 0
        total = sum(int(part) for _, _, part in found)
        facts = (self.key(), ends, total, self.table.content(self.session, self.kinds()))
        mark = blake2b(repr(facts).encode(errors="surrogateescape"), digest_size=12).hexdigest()
        return Survey(size, [group for group, _, _ in found], ends, mark)

    def hash_at(self, survey: Survey, count: int) -> str:
        """The count-th smallest hash, from the rows of its group."""
        place = int(np.searchsorted(survey.ends, count))
        group, before = survey.groups[place], survey.ends[place - 1] if place else 0
        last = group + "f" * (32 - DIGITS)
        digest = self.digest()
        hashes = f"(SELECT {digest} AS h FROM {self.table.relation} AS r{self.table.dialect.fence}) AS k"
        found = self.session.answer(f"SELECT h FROM {hashes} WHERE h >= '{group}' AND h <= '{last}' ORDER BY h")
        if len({value for (value,) in found}) < len(found):
            raise not_unique(self.key())
        return str(found[count - before - 1][0])

    def in_key_order(self, start: int, rows: int | None) -> str:
        """A table expression for the rows of these ranks in the order of the key."""
        key, relation = self.key(), self.table.relation
        limit = f"LIMIT {'ALL' if rows is None else rows} OFFSET {start}"
        if key == (ROWID,):  # DuckDB keeps the rows of a table in the order in which they came
            return f"(SELECT * FROM {relation} AS r {limit})"
        order = self.table.dialect.ordered(key, self.kinds())
        if rows:
            names = ", ".join(map(quoted, key))
            edge = f"SELECT {names} FROM {relation} AS r ORDER BY {order} LIMIT 2 OFFSET {start + rows - 1}"
            found = self.session.answer(edge)
            if len(found) == 2 and found[0] == found[1]:
                raise not_unique(key)
        return f"(SELECT * FROM {relation} AS r ORDER BY {order} {limit})"


ROWID = "rowid"
"""What DuckDB calls the number of a row of a table."""


def not_unique(key: Sequence[str]) -> ConnectorError:
    return ConnectorError(
        f"the key ({', '.join(key)}) is the same in several rows, so it cannot tell them apart; name more columns, "
        f"or others"
    )


@dataclass(frozen=True, slots=True)
class Selected(Stream):
    """The rows of a table expression, read here."""

    snapshot: Snapshot
    rows: str

    def chunks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        chosen = [f"{real} AS v{k}" for k, real in enumerate(self.snapshot.reals(columns))]
        return self.snapshot.session.stream(f"SELECT {', '.join(chosen)} FROM {self.rows} AS p")
