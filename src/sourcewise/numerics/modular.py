"""Exact ranks: matrices over the integers modulo a prime.

A polynomial that is not zero is zero at a random point with a probability below its degree over the prime. So a rank
found here is the rank at almost every point, with an error of less than one in a million; no tolerance is involved.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

PRIME = 2**31 - 1
"""Products of two remainders fit 64 bits."""

Residues = NDArray[np.int64]


def residue(value: Fraction | float | int) -> int:
    """The number, as exactly as it is held, modulo the prime."""
    exact = Fraction(value)
    return exact.numerator * pow(exact.denominator, -1, PRIME) % PRIME


@dataclass(frozen=True, slots=True)
class Echelon:
    """A row space by its reduced basis: column `pivots[k]` is 1 in row k and 0 in every other row."""

    rows: Residues
    pivots: tuple[int, ...]

    def reduce(self, vectors: Residues) -> Residues:
        """What is left of vectors (.., D) outside the row space."""
        left = vectors.copy()
        for row, pivot in zip(self.rows, self.pivots, strict=True):
            left = (left - left[..., pivot, None] * row) % PRIME
        return left

    def holds(self, vector: Residues) -> bool:
        return not self.reduce(vector).any()

    def determined(self) -> tuple[int, ...]:
        """Coordinates whose unit vector lies in the row space."""
        lone = (self.rows != 0).sum(axis=1) == 1
        return tuple(pivot for pivot, alone in zip(self.pivots, lone, strict=True) if alone)


def echelon(tables: Iterable[Residues], columns: int) -> Echelon:
    """The row space of all tables together."""
    given = [np.asarray(table, dtype=np.int64).reshape(-1, columns) % PRIME for table in tables]
    work = np.concatenate([np.zeros((0, columns), dtype=np.int64), *given])
    pivots: list[int] = []
    for column in range(columns):
        rank = len(pivots)
        below = np.flatnonzero(work[rank:, column])
        if not below.size:
            continue
        chosen = rank + int(below[0])
        work[[rank, chosen]] = work[[chosen, rank]]
        work[rank] = work[rank] * pow(int(work[rank, column]), -1, PRIME) % PRIME
        others = np.flatnonzero(work[:, column])
        others = others[others != rank]
        work[others] = (work[others] - work[others, column, None] * work[rank]) % PRIME
        pivots.append(column)
    return Echelon(work[: len(pivots)], tuple(pivots))
