"""Rows to data terms: atoms, centred, and their products, a block of rows at a time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from sourcewise.errors import DataError
from sourcewise.moments.compiled import CompiledSource
from sourcewise.moments.expand import Monomial
from sourcewise.numerics.linalg import Array
from sourcewise.statistics.frames import BLOCK_ROWS


class Features:
    """Builds the terms φ(x − s) of one source in a buffer that serves block after block."""

    __slots__ = ("_buffer", "_plan", "_shift", "_source")

    def __init__(self, source: CompiledSource, centre: Mapping[str, float]) -> None:
        self._source = source
        self._shift = np.array([centre[atom] for atom in source.atoms])[:, None]
        self._plan = _plan(source)
        self._buffer = np.empty(0)

    def __call__(self, columns: Array) -> Array:
        """Terms (K, n) of columns (variables, n); overwritten by the next call."""
        atoms = atom_values(self._source, columns) - self._shift
        terms = self._take(len(self._source.terms), columns.shape[1])
        terms[0] = 1.0
        for k, (first, second, more) in enumerate(self._plan, start=1):
            left = atoms[second] if first is None else terms[first]
            if first is None:
                terms[k] = left
            else:
                np.multiply(left, atoms[second], out=terms[k])
            for atom in more:
                terms[k] *= atoms[atom]
        return terms

    def _take(self, count: int, rows: int) -> Array:
        """A C-contiguous (count, rows) piece of the buffer: BLAS is slow on anything else."""
        if self._buffer.size < count * rows:
            self._buffer = np.empty(count * min(max(rows, 1), BLOCK_ROWS))
        return self._buffer[: count * rows].reshape(count, rows)


Step = tuple[int | None, int, tuple[int, ...]]
"""An earlier term (None for the constant), the atom to multiply it by, and further atoms where no such term exists."""


def _plan(source: CompiledSource) -> list[Step]:
    """How to make every term but the constant from a term before it; terms come by degree."""
    atom_index = {atom: k for k, atom in enumerate(source.atoms)}
    place = {monomial: k for k, monomial in enumerate(source.terms)}
    return [_step(monomial, atom_index, place) for monomial in source.terms[1:]]


def _step(monomial: Monomial, atom_index: Mapping[str, int], place: Mapping[Monomial, int]) -> Step:
    for atom, exponent in monomial:
        rest = tuple((a, e - (a == atom)) for a, e in monomial if (a, e) != (atom, 1))
        if not rest:
            return None, atom_index[atom], ()
        if rest in place and exponent >= 1:
            return place[rest], atom_index[atom], ()
    first, *more = (atom_index[atom] for atom, exponent in monomial for _ in range(exponent))
    return None, first, tuple(more)


def atom_values(source: CompiledSource, columns: Array) -> Array:
    """Atoms (atoms, n) of columns (variables, n); refuses rows at which one is not a finite number."""
    if tuple(source.atoms) == source.variables:
        return columns
    values = np.empty((len(source.atoms), columns.shape[1]))
    for k, value in enumerate(source.atom_program(list(columns))):
        values[k] = value
    if not np.isfinite(values).all():
        atom = list(source.atoms)[int(np.argmin(np.isfinite(values).all(axis=1)))]
        raise DataError(
            f"source {source.name!r}: {atom} is not a finite number in some rows; "
            f"correct or leave out the rows in which it cannot be computed"
        )
    return values


def choose_centre(source: CompiledSource, columns: Array) -> dict[str, float]:
    """A centre for each atom from the first rows: their mean, in steps of a power of two near the spread.

    Short binary fractions make `x − s` exact for data of few digits, and look the same in any language.
    """
    values = atom_values(source, columns)
    centre = {}
    for atom, mean, spread in zip(source.atoms, values.mean(axis=1), values.std(axis=1), strict=True):
        step = 2.0 ** np.floor(np.log2(spread)) if spread > 0 else 0.0
        centre[atom] = float(np.round(mean / step) * step if step > 0 else mean) + 0.0
    return centre
