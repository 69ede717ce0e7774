"""Rows that were collected once, dealt again: every replication takes them in another random order, none of them twice.

A table that has given all of its rows has no more, so each source needs a capacity of at most its number of rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sourcewise.errors import SimulationError
from sourcewise.numerics.linalg import Array
from sourcewise.statistics.rows import Rows

WHOLE = 2**16
"""A table of up to so many rows is shuffled whole; of a longer one only as much is drawn as is read."""

SHARE = 4
"""Of a longer table at most the first 1/SHARE is drawn row by row, which gets slow when few rows are left."""


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """The rows of each source, and the estimate from all of them, which stands in for the truth."""

    tables: Mapping[str, Rows]
    truth: float

    def pilot(self, source: str, variables: Sequence[str], rows: int) -> Array:
        """Columns (variables, n): up to so many rows from all over the table."""
        table = self._table(source)
        chosen = np.unique(np.linspace(0, table.n - 1, rows).astype(np.int64))
        return table.columns[_places(table, variables)][:, chosen]

    def pieces(
        self, source: str, variables: Sequence[str], seeds: Sequence[Sequence[int]], rows: int, size: int
    ) -> Iterator[Array]:
        """The first `rows` rows for each seed in pieces (variables, size, seeds), filled up with the last row."""
        table = self._table(source)
        if rows > table.n:
            raise SimulationError(f"{rows} rows were asked of source {source!r}, whose history has {table.n}")
        columns = table.columns[_places(table, variables)]
        order = np.stack([shuffled(table.n, rows, seed) for seed in seeds], axis=1)
        order = np.pad(order, ((0, -len(order) % size), (0, 0)), mode="edge")
        for start in range(0, len(order), size):
            yield columns[:, order[start : start + size]]

    def _table(self, source: str) -> Rows:
        if source not in self.tables:
            raise SimulationError(f"there is no history of source {source!r}; there is one of {', '.join(self.tables)}")
        return self.tables[source]


def shuffled(size: int, count: int, seed: Sequence[int]) -> NDArray[np.int64]:
    """The first `count` of `size` row numbers in random order. A smaller count is the beginning of a larger one."""
    random = np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed)))
    if size <= WHOLE:
        return random.permutation(size)[:count]
    first = _distinct(random, size, min(count, size // SHARE))
    if count <= size // SHARE:
        return first
    rest = np.delete(np.arange(size), first)
    again = np.random.Generator(np.random.SFC64(np.random.SeedSequence([*seed, 1])))
    return np.concatenate([first, again.permutation(rest)])[:count]


def _distinct(random: np.random.Generator, size: int, count: int) -> NDArray[np.int64]:
    """Row numbers drawn one after the other, those that came before left out."""
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < count:
        drawn = np.concatenate([drawn, random.integers(size, size=count)])
        drawn = drawn[np.sort(np.unique(drawn, return_index=True)[1])]
    return drawn[:count]


def _places(table: Rows, variables: Sequence[str]) -> list[int]:
    return [table.variables.index(name) for name in variables]
