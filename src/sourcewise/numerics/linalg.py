"""Linear algebra for one problem or thousands: the only file that factorises a matrix.

Batches run along the last axis, so that every step of an unrolled factorisation is one vectorised operation
over all problems; for the small systems of an estimator this beats a batch of LAPACK calls by far.

Everything works on *factors*: a variance Ω enters as A with Ω = A Aᵀ and is never squared up, which keeps
twice the digits when moments are nearly collinear (an instrument far from its origin makes them so).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DEPENDENT = 1e-10
"""A row counts as a combination of earlier rows when less than this fraction of its length is new."""

DEPENDENT_SQUARED = 1e-13
"""The same for squared lengths, in a Gram matrix: sums of products carry rounding errors of about this size."""


def matmul(left: Array, right: Array) -> Array:
    """Σ_j left[i, j, b] · right[j, ..., b]; either batch axis may have length 1.

    With one matrix for all problems this is a single call of BLAS."""
    if left.shape[-1] == 1 and right.shape[-1] == 1:
        return np.tensordot(left[..., 0], right[..., 0], 1)[..., None]
    if right.shape[-1] == 1:
        return np.moveaxis(np.tensordot(left, right[..., 0], ((1,), (0,))), 1, -1)
    if left.shape[-1] == 1:
        return np.tensordot(left[..., 0], right, 1)
    out = np.empty((left.shape[0], *right.shape[1:]))
    pattern = "jb,j...b->...b"
    for i in range(left.shape[0]):
        np.einsum(pattern, left[i], right, out=out[i])
    return out


@dataclass(frozen=True, slots=True)
class Triangle:
    """A = L Q by rows: `inverse` is L⁻¹ (R, R, B), `basis` is Q (R, K, B).

    Rows that depend on earlier ones are dropped: `kept` (R, B) is False there and L⁻¹ is zero in that row and
    column. `pivots` (R, B) is the new part of each row as a fraction of its length.
    """

    inverse: Array
    basis: Array
    kept: NDArray[np.bool_]
    pivots: Array

    @property
    def rank(self) -> NDArray[np.int64]:
        return np.asarray(self.kept.sum(axis=0))

    @property
    def condition(self) -> Array:
        """Largest over smallest kept pivot: a cheap lower bound of the condition number after scaling."""
        small = np.where(self.kept, self.pivots, np.inf).min(axis=0, initial=np.inf)
        return np.asarray(np.where(np.isfinite(small), 1.0 / small, np.inf))


def orthogonalize(rows: Array, tolerance: float = DEPENDENT) -> Triangle:
    """Modified Gram–Schmidt over rows[r, k, b], dropping what depends on earlier rows."""
    count, _, batch = rows.shape
    work = rows.copy()
    length = np.sqrt(np.einsum("rkb,rkb->rb", rows, rows))
    lower = np.zeros((count, count, batch))
    kept = np.zeros((count, batch), dtype=bool)
    pivots = np.zeros((count, batch))
    for j in range(count):
        new = np.sqrt(np.einsum("kb,kb->b", work[j], work[j]))
        with np.errstate(invalid="ignore"):
            kept[j] = new > tolerance * length[j]
        safe = np.where(kept[j], new, 1.0)
        pivots[j] = np.divide(new, length[j], out=np.zeros(batch), where=length[j] > 0)
        lower[j, j] = safe
        work[j] *= np.where(kept[j], 1.0 / safe, 0.0)
        if j + 1 < count:
            shadow = np.einsum("kb,rkb->rb", work[j], work[j + 1 :])
            lower[j + 1 :, j] = shadow
            work[j + 1 :] -= shadow[:, None] * work[j]
    return Triangle(_invert_lower(lower, kept), work, kept, pivots)


def _invert_lower(lower: Array, kept: NDArray[np.bool_]) -> Array:
    """L⁻¹ with zeros in the rows and columns that were dropped."""
    count, _, batch = lower.shape
    inverse = np.zeros_like(lower)
    for j in range(count):
        scale = np.where(kept[j], 1.0 / lower[j, j], 0.0)
        if j:
            inverse[j, :j] = -scale * np.einsum("lb,lib->ib", lower[j, :j], inverse[:j, :j])
        inverse[j, j] = scale
    return inverse


def gram_factor(gram: Array) -> Array:
    """L (K, K, B), lower triangular, with L Lᵀ = gram (B, K, K); dependent terms get an empty column."""
    work = np.ascontiguousarray(np.moveaxis(gram, 0, -1))
    count = work.shape[0]
    lower = np.zeros_like(work)
    diagonal = np.array([work[j, j] for j in range(count)])
    for j in range(count):
        with np.errstate(invalid="ignore"):
            kept = work[j, j] > DEPENDENT_SQUARED * diagonal[j]
        root = np.sqrt(np.where(kept, work[j, j], 1.0))
        lower[j:, j] = work[j:, j] * np.where(kept, 1.0 / root, 0.0)
        if j + 1 < count:
            column = lower[j + 1 :, j]
            work[j + 1 :, j + 1 :] -= column[:, None] * column[None]
    return lower


def psd_root(matrix: Array) -> Array:
    """U (R, M) with Uᵀ U = matrix, for a symmetric positive semi-definite weight."""
    values, vectors = np.linalg.eigh(0.5 * (matrix + matrix.T))
    kept = values > 1e-14 * max(values[-1], 0.0)
    return np.asarray((vectors[:, kept] * np.sqrt(values[kept])).T)


def squared(vectors: Array) -> Array:
    """Σ_r vectors[r, b]²."""
    return np.asarray(np.einsum("rb,rb->b", vectors, vectors))


@dataclass(frozen=True, slots=True)
class Information:
    """What a Jacobian J (R, D) says about each direction of the parameters.

    `inverse` is (JᵀJ)⁻ (D, D), of minimum norm in the parameters' own scale. A linear function of the parameters
    can be estimated exactly when its gradient lies in the row space of J: `identifies(gradient)`.
    """

    inverse: Array
    scale: Array
    directions: Array
    rank: int

    def identifies(self, gradient: Array) -> bool:
        scaled = gradient * self.scale
        outside = scaled - self.directions.T @ (self.directions @ scaled)
        return bool(np.linalg.norm(outside) <= 1e-6 * np.linalg.norm(scaled))


def information(jacobian: Array) -> Information:
    """Rank decisions for one problem by singular values, after every column is brought to length 1."""
    length = np.linalg.norm(jacobian, axis=0)
    scale = 1.0 / np.where(length > 0, length, 1.0)
    _, values, vectors = np.linalg.svd(jacobian * scale, full_matrices=True)
    padded = np.zeros(jacobian.shape[1])
    padded[: len(values)] = values
    kept = padded > DEPENDENT * padded.max(initial=0.0)
    directions = vectors[kept]
    part = directions / padded[kept, None]
    inverse = scale[:, None] * (part.T @ part) * scale
    return Information(inverse, scale, directions, int(kept.sum()))
