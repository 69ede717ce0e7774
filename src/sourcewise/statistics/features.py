"""Rows to data terms: atoms, centred, and their products, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

import numpy as np

from sourcewise.errors import DataError
from sourcewise.moments.compiled import CompiledSource
from sourcewise.moments.expand import Monomial
from sourcewise.numerics.linalg import Array
from sourcewise.statistics.frames import BLOCK_ROWS


class Features:
    """Builds the terms φ(x − s) of one source in a buffer that serves block after block."""

    __slots__ = ("_buffer", "_count", "_height", "_homes", "_plan", "_shift", "_source")

    def __init__(self, source: CompiledSource, centre: Mapping[str, float]) -> None:
        self._source = source
        order = atom_order(source)
        self._shift = [centre[atom] for atom in order]
        self._count = len(source.terms)
        self._height, self._homes, self._plan = _layout(source.terms, order)
        self._buffer = np.empty(0)

    def __call__(self, columns: Array) -> Array:
        """Terms (K, n) of columns (variables, n); overwritten by the next call."""
        values = atom_values(self._source, columns)
        rows = self._take(self._height, columns.shape[1])
        rows[0] = 1.0
        for home, value, shift in zip(self._homes, values, self._shift, strict=True):
            np.subtract(value, shift, out=rows[home])
        for k, first, second, more in self._plan:
            np.multiply(rows[first], rows[second], out=rows[k])
            for factor in more:
                rows[k] *= rows[factor]
        return rows[: self._count]

    def _take(self, count: int, rows: int) -> Array:
        """A C-contiguous (count, rows) piece of the buffer: BLAS is slow on anything else."""
        if self._buffer.size < count * rows:
            self._buffer = np.empty(count * min(max(rows, 1), BLOCK_ROWS))
        return self._buffer[: count * rows].reshape(count, rows)


Step = tuple[int, int, int, tuple[int, ...]]
"""Row of a term, two rows that it is the product of, and further rows where no such two exist."""


@lru_cache(maxsize=128)  # small batches come by the thousand
def _layout(terms: tuple[Monomial, ...], order: tuple[str, ...]) -> tuple[int, tuple[int, ...], tuple[Step, ...]]:
    """Rows of the buffer, the row of every atom, and how to make every product from rows before it."""
    place = {monomial: k for k, monomial in enumerate(terms)}
    for atom in order:  # an atom that is no term itself is kept behind the terms
        place.setdefault(((atom, 1),), len(place))
    homes = tuple(place[(atom, 1),] for atom in order)
    products = [term for term in terms if sum(power for _, power in term) > 1]  # by degree
    return len(place), homes, tuple((place[term], *_factors(term, place)) for term in products)


def _factors(term: Monomial, place: Mapping[Monomial, int]) -> tuple[int, int, tuple[int, ...]]:
    for atom, exponent in term:
        rest = tuple((a, e - (a == atom)) for a, e in term if (a, e) != (atom, 1))
        if rest in place and exponent >= 1:
            return place[rest], place[(atom, 1),], ()
    first, second, *more = (place[(atom, 1),] for atom, exponent in term for _ in range(exponent))
    return first, second, tuple(more)


def atom_order(source: CompiledSource) -> tuple[str, ...]:
    """The atoms in the order of `atom_values`: that of the columns, where every atom is one."""
    return source.variables if set(source.atoms) == set(source.variables) else tuple(source.atoms)


def atom_values(source: CompiledSource, columns: Array) -> Array:
    """Atoms (atoms, n) of columns (variables, n) by `atom_order`; refuses rows at which one is not finite."""
    if atom_order(source) == source.variables:
        return columns
    values = np.empty((len(source.atoms), columns.shape[1]))
    for k, value in enumerate(source.atom_program(list(columns))):
        values[k] = value
    if not np.isfinite(values).all():
        atom = list(source.atoms)[int(np.argmin(np.isfinite(values).all(axis=1)))]
        raise not_finite(source, atom)
    return values


def not_finite(source: CompiledSource, atom: str) -> DataError:
    return DataError(
        f"source {source.name!r}: {atom} is not a finite number in some rows; "
        f"correct or leave out the rows in which it cannot be computed"
    )


def choose_centre(source: CompiledSource, columns: Array) -> dict[str, float]:
    """A centre for each atom from the first rows: their mean, in steps of a power of two near the spread.

    Short binary fractions make `x − s` exact for data of few digits, and look the same in any language.
    """
    values = atom_values(source, columns)
    found = zip(*(part(axis=1).tolist() for part in (values.mean, values.std, values.min, values.max)), strict=True)
    centre = {atom: round_centre(*parts) for atom, parts in zip(atom_order(source), found, strict=True)}
    return {atom: centre[atom] for atom in source.atoms}


def round_centre(mean: float, spread: float, low: float, high: float) -> float:
    """The mean, in steps of a power of two near the spread."""
    if low == high or spread == 0:  # the mean of equal numbers need not be that number, and would leave noise
        return low
    step = 2.0 ** np.floor(np.log2(spread))
    return float(np.round(mean / step) * step) + 0.0
