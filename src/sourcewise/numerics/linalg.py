"""Linear algebra for one problem or thousands: the only file that factorises a matrix.

Batches run along the last axis, so that every step of an unrolled factorisation is one vectorised operation
over all problems; for the small systems of an estimator this beats a batch of LAPACK calls by far.

Everything works on *factors*: a variance Ω enters as A with Ω = A Aᵀ and is never squared up, which keeps
twice the digits when moments are nearly collinear (an instrument far from its origin makes them so).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]

DEPENDENT = 1e-10
"""A row counts as a combination of earlier rows when less than this fraction of its length is new."""

DEPENDENT_SQUARED = 1e-13
"""The same for squared lengths, in a Gram matrix: sums of products carry rounding errors of about this size."""

ROUNDING = 1e-12
"""Products this small beside their factors are rounding errors."""

FIRM = 1e-6
"""A matrix is positive definite beyond doubt when all its pivots are larger fractions of its diagonal."""

SMALL = 10_000
"""Numbers of a matrix that is worth remembering."""


def matmul(left: Array, right: Array) -> Array:
    """Σ_j left[i, j, b] · right[j, ..., b]; either batch axis may have length 1.

    With one matrix for all problems this is a single call of BLAS."""
    if left.shape[-1] == 1 and right.shape[-1] == 1:
        product = left[..., 0] @ right.reshape(len(right), -1)  # tensordot would cost ten times as much
        return product.reshape(len(left), *right.shape[1:])
    if right.shape[-1] == 1:
        return np.moveaxis(np.tensordot(left, right[..., 0], ((1,), (0,))), 1, -1)
    if left.shape[-1] == 1:
        return np.tensordot(left[..., 0], right, 1)
    out = np.zeros((left.shape[0], *right.shape[1:]))
    for i, row in enumerate(left):
        places = np.flatnonzero(row.any(axis=-1))
        if places.size:  # a triangular root is half zeros, the identity nearly all
            run = slice(places[0], places[-1] + 1)
            np.einsum("jb,j...b->...b", left[i, run], right[run], out=out[i])
    return out


@dataclass(frozen=True, slots=True)
class Triangle:
    """A = L Q by rows: `inverse` is L⁻¹ (R, R, B), `basis` is Q (R, K, B).

    Rows that depend on earlier ones are dropped: `kept` (R, B) is False there and L⁻¹ is zero in that row and
    column. `pivots` (R, B) is the new part of each row as a fraction of its length in `lengths`.
    """

    inverse: Array
    basis: Array
    kept: NDArray[np.bool_]
    pivots: Array
    lengths: Array

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
    count, width, batch = rows.shape
    if batch == 1 and 0 < count <= width and rows.size <= SMALL:
        found = _orthogonalize_one(rows.tobytes(), count, tolerance)
        if found is not None:
            return found
    work = rows.copy()
    length = np.sqrt(np.einsum("rkb,rkb->rb", work, work))
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
    return Triangle(_invert_lower(lower, kept), work, kept, pivots, length)


@lru_cache(maxsize=16)  # in a fit the same matrix returns: linear moments have one slope, whatever θ is
def _orthogonalize_one(numbers: bytes, count: int, tolerance: float) -> Triangle | None:
    """The same for the numbers of one matrix by one call of LAPACK, or None where a row depends on others."""
    rows = np.frombuffer(numbers).reshape(count, -1)
    if not np.isfinite(rows).all():
        return None
    basis, upper = np.linalg.qr(rows.T)
    diagonal = upper.diagonal()
    lengths = np.sqrt((rows * rows).sum(axis=1))
    with np.errstate(invalid="ignore"):
        pivots = np.abs(diagonal) / lengths
    if not (pivots > tolerance).all():
        return None
    signs = np.sign(diagonal)  # Gram–Schmidt's diagonal is positive
    inverse = np.linalg.inv((signs[:, None] * upper).T)
    kept = np.ones(len(rows), dtype=bool)
    parts = inverse, (basis * signs).T, kept, pivots, lengths
    for part in parts:
        part.setflags(write=False)
    return Triangle(*(part[..., None] for part in parts))


def _invert_lower(lower: Array, kept: NDArray[np.bool_]) -> Array:
    """L⁻¹ with zeros in the rows and columns that were dropped."""
    count = len(lower)
    inverse = np.zeros_like(lower)
    for j in range(count):
        scale = np.where(kept[j], 1.0 / lower[j, j], 0.0)
        if j:
            inverse[j, :j] = -scale * np.einsum("lb,lib->ib", lower[j, :j], inverse[:j, :j])
        inverse[j, j] = scale
    return inverse


def gram_factor(gram: Array) -> Array:
    """L (K, K, B), lower triangular, with L Lᵀ = gram (B, K, K); dependent terms get an empty column."""
    if len(gram) == 1 and (factor := _cholesky(gram[0])) is not None:
        return factor[..., None]
    work = np.ascontiguousarray(np.moveaxis(gram, 0, -1))
    lower = np.zeros_like(work)
    for j in range(len(work)):
        column = work[j:, j]
        if j:
            column = column - np.einsum("ikb,kb->ib", lower[j:, :j], lower[j, :j])
        with np.errstate(invalid="ignore"):
            kept = column[0] > DEPENDENT_SQUARED * work[j, j]
        root = np.sqrt(np.where(kept, column[0], 1.0))
        np.multiply(column, np.where(kept, 1.0 / root, 0.0), out=lower[j:, j])
    return lower


def _cholesky(gram: Array) -> Array | None:
    """The same for one matrix by one call of LAPACK, or None where a term depends on others."""
    try:
        factor = np.asarray(np.linalg.cholesky(gram), dtype=np.float64)
    except np.linalg.LinAlgError:
        return None
    independent = factor.diagonal() ** 2 > DEPENDENT_SQUARED * gram.diagonal()
    return factor if independent.all() else None


def is_gram(matrix: Array) -> bool:
    """Whether a symmetric matrix (K, K) of finite numbers is A Aᵀ for some A, up to the rounding of long sums."""
    diagonal = matrix.diagonal()
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    with np.errstate(over="ignore"):
        scaled = matrix / scale[:, None] / scale
    if (diagonal < 0).any() or matrix[diagonal == 0].any() or not (np.abs(scaled) <= 1 + 1e-8).all():
        return False
    try:
        np.linalg.cholesky(scaled + 1e-8 * np.eye(len(matrix)))
    except np.linalg.LinAlgError:
        return False
    return True


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
    silent: Array
    """Combinations of parameters (D - rank, D) of which J says nothing."""

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
    return Information(inverse, scale, directions, int(kept.sum()), vectors[~kept] * scale)


def seen_in(silent: Information, root: Array) -> Array:
    """What `root` (R, D) says of the directions that `silent` knows nothing of, (R, N); rounding errors are zeros."""
    product = root @ silent.silent.T
    noise = ROUNDING * np.linalg.norm(root * silent.scale)
    return np.asarray(np.where(np.abs(product) <= noise, 0.0, product))


def unexplained(columns: Array, values: Array) -> Array:
    """What is left of `values` (R,) after least squares on `columns` (R, N)."""
    if not columns.size:
        return values
    return np.asarray(values - columns @ (information(columns).inverse @ (columns.T @ values)))


def inverse_root(omega: Array, tolerance: float = DEPENDENT) -> Array:
    """U (R, M) with UᵀU = Ω⁻¹ on the range of one Ω (M, M), judged after its diagonal is brought to 1.

    For variances that are only known entry by entry; where a factor of Ω is known, `orthogonalize` is more exact.
    """
    diagonal = np.sqrt(np.maximum(np.diag(omega), 0.0))
    scale = 1.0 / np.where(diagonal > 0, diagonal, 1.0)
    values, vectors = np.linalg.eigh(scale[:, None] * omega * scale)
    kept = values > tolerance * max(values[-1], 0.0)
    return np.asarray((vectors[:, kept] / np.sqrt(values[kept])).T * scale)


def cholesky(matrix: Array, tolerance: float | None = None) -> Array:
    """L (K, K, B), lower triangular, with L Lᵀ = matrix (K, K, B), which must be positive definite.

    Unlike `gram_factor` it judges no rank: a pivot lost to rounding errors is replaced by the smallest that is not.
    With a `tolerance`, a row of which less than this fraction of its diagonal is new gets an infinite pivot: it drops
    out of whatever is solved with L.
    """
    lower = np.zeros_like(matrix)
    for j in range(len(matrix)):
        column = matrix[j:, j]
        if j:
            column = column - np.einsum("ikb,kb->ib", lower[j:, :j], lower[j, :j])
        if tolerance is None:
            root = np.sqrt(np.maximum(column[0], 1e-16 * np.abs(matrix[j, j]) + 1e-100))
        else:
            kept = column[0] > tolerance * matrix[j, j]
            root = np.where(kept, np.sqrt(np.where(kept, column[0], 1.0)), np.inf)
        lower[j, j] = root
        np.divide(column[1:], root, out=lower[j + 1 :, j])
    return lower


def inner_products(rows: Array) -> Array:
    """Σ_k rows[i, k, b] · rows[j, k, b] for j ≤ i (R, R, B); zeros above the diagonal, which Cholesky does not read."""
    products = np.zeros((len(rows), len(rows), rows.shape[-1]))
    for j in range(len(rows)):
        np.einsum("kb,ikb->ib", rows[j], rows[j:], out=products[j:, j])
    return products


def solve_lower(lower: Array, right: Array) -> Array:
    """L⁻¹ right, for right (K, B) or (K, N, B)."""
    out = np.empty_like(right)
    for j in range(len(lower)):
        rest = right[j]
        if j:
            rest = rest - np.einsum("kb,k...b->...b", lower[j, :j], out[:j])
        np.divide(rest, lower[j, j], out=out[j])
    return out


def solve_upper(lower: Array, right: Array) -> Array:
    """L⁻ᵀ right, for right (K, B) or (K, N, B)."""
    out = np.empty_like(right)
    for j in reversed(range(len(lower))):
        rest = right[j] - np.einsum("kb,k...b->...b", lower[j + 1 :, j], out[j + 1 :])
        np.divide(rest, lower[j, j], out=out[j])
    return out


def descent(hessian: Array, gradient: Array, damping: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Newton's step −(H + λI)⁻¹g (D, B) and where there is one; H (D, D, B) has a diagonal of about 1.

    Where the objective bends down, as far down as it would lead up if it were bent up: never towards a saddle.
    """
    index = np.arange(len(hessian))
    matrix = hessian.copy()
    matrix[index, index] += damping
    factor = cholesky(matrix)
    pivots = factor[index, index] ** 2 / np.maximum(np.abs(matrix[index, index]), 1e-300)
    step = -solve_upper(factor, solve_lower(factor, gradient))
    doubtful = np.flatnonzero(~(pivots.min(axis=0) > FIRM))
    sound = np.ones(len(damping), dtype=bool)
    if doubtful.size:
        values, vectors = np.linalg.eigh(np.moveaxis(hessian[..., doubtful], -1, 0))
        values = np.abs(values) + damping[doubtful, None]
        along = np.einsum("bde,db->be", vectors, gradient[:, doubtful]) / values
        step[:, doubtful] = -np.einsum("bde,be->db", vectors, along)
        sound[doubtful] = values.min(axis=1) > DEPENDENT * values.max(axis=1)
    return step, sound
