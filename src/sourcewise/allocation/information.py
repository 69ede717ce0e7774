"""What one row of each source is worth, at the current estimate.

A source that has data speaks for itself. One that was never queried is predicted from the others: rows of every
source come from one population, so entry (j, k) of the moments' variance is known as soon as *some* source with
data computes both. A source with a pair that nobody has seen cannot be predicted: it must be explored.

How the moments go together is then read, as correlations, in the rows that show all of them, and how large each is in
all rows that show it. Averages that come from different rows in each entry, as of fifty interviews beside thousands of
rows of either half, are often no variance at all. Where no source shows all, such pairs are all there is; if they
contradict each other, the source must be explored too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sourcewise.estimation.blocks import Blocks
from sourcewise.numerics.linalg import Array, matmul, orthogonalize, psd_root

Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Population:
    """Variance and slope of one row's moments, from all rows that show them, for B problems.

    `omega` (M, M, B) and `slope` (M, D, B) hold zeros where `seen` (M, M) is False.
    """

    omega: Array
    slope: Array
    seen: Bools


@dataclass(frozen=True, slots=True)
class Information:
    """Roots A_i (R_i, D, B) with A_iᵀA_i the information of one row, by source; None where it cannot be predicted."""

    roots: Mapping[str, Array | None]

    @property
    def must_explore(self) -> tuple[str, ...]:
        return tuple(name for name, root in self.roots.items() if root is None)


def population(blocks: Blocks, theta: Array) -> Population:
    """Average the variance and the slope of each pair of moments over all rows in which both are seen."""
    blocks = blocks.weighed
    size, (dimension, batch) = blocks.moments, theta.shape
    omega, slope = np.zeros((size, size, batch)), np.zeros((size, dimension, batch))
    pairs, singles = np.zeros((size, size, batch)), np.zeros((size, batch))
    for part in blocks.evidence.values():
        places = np.array(part.positions)
        rows = part.factor(theta, blocks.errors)
        grid = np.ix_(places, places)
        omega[grid] += part.rows * np.einsum("jkb,lkb->jlb", rows, rows)
        slope[places] += part.rows * part.mean_and_slope(theta)[1]
        pairs[grid] += part.rows
        singles[places] += part.rows
    seen = np.array((pairs > 0).all(axis=-1))
    omega = np.divide(omega, pairs, out=np.zeros_like(omega), where=pairs > 0)
    slope = np.divide(slope, singles[:, None], out=np.zeros_like(slope), where=singles[:, None] > 0)
    return Population(omega, slope, seen)


def information(blocks: Blocks, theta: Array, sources: Mapping[str, tuple[int, ...]]) -> Information:
    """Of every source in `sources` (name to the positions of its moments), at theta (D, B)."""
    blocks = blocks.weighed
    known = population(blocks, theta) if set(sources) - set(blocks.evidence) else None
    roots: dict[str, Array | None] = {}
    for name, positions in sources.items():
        part = blocks.evidence.get(name)
        if part is not None:
            inverse = orthogonalize(part.factor(theta, blocks.errors)).inverse
            roots[name] = matmul(inverse, part.mean_and_slope(theta)[1])
        else:
            assert known is not None
            roots[name] = _predicted(blocks, theta, known, np.array(positions, dtype=np.int64))
    return Information(roots)


IMPOSSIBLE = 1e-9
"""An eigenvalue of a variance that is further below 0, as a fraction of the largest, is no rounding error."""


def _predicted(blocks: Blocks, theta: Array, known: Population, places: NDArray[np.int64]) -> Array | None:
    """Zeros for problems whose pairs contradict each other; None if all do, or a pair was never seen."""
    if not len(places):
        return np.zeros((0, *known.slope.shape[1:]))
    grid = np.ix_(places, places)
    if not known.seen[grid].all():
        return None
    omega = known.omega[grid]
    joint = _together(blocks, theta, places)
    if joint is not None:
        size = np.divide(_diagonal(omega), _diagonal(joint), out=np.zeros_like(omega[0]), where=_diagonal(joint) > 0)
        omega = np.sqrt(size[:, None] * size) * joint
    values = np.linalg.eigvalsh(np.moveaxis(omega, -1, 0))
    possible = values[:, 0] >= -IMPOSSIBLE * values[:, -1]
    if not possible.any():
        return None
    factors = [psd_root(omega[..., b]).T for b in range(omega.shape[-1])]
    width = max(factor.shape[1] for factor in factors)
    padded = [np.pad(factor, ((0, 0), (0, width - factor.shape[1]))) for factor in factors]
    root = matmul(orthogonalize(np.stack(padded, axis=-1)).inverse, known.slope[places])
    return np.asarray(np.where(possible, root, 0.0))


def _together(blocks: Blocks, theta: Array, places: NDArray[np.int64]) -> Array | None:
    """Sum of products (m, m, B) of these moments over the rows that show all of them; None if none does."""
    total: Array | None = None
    for part in blocks.evidence.values():
        if set(places) <= set(part.positions):
            rows = part.factor(theta, blocks.errors)[[part.positions.index(place) for place in places]]
            products = part.rows * np.einsum("jkb,lkb->jlb", rows, rows)
            total = products if total is None else total + products
    return total


def _diagonal(matrices: Array) -> Array:
    return np.asarray(np.einsum("jjb->jb", matrices))
