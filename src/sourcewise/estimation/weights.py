"""Weights as roots: U_b with U_bᵀU_b = mass_b · W_b, so that the objective is ‖U ḡ‖²."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sourcewise.errors import EstimationError
from sourcewise.estimation.blocks import Blocks
from sourcewise.moments.compiled import Integers
from sourcewise.numerics.linalg import Array, Triangle, matmul, orthogonalize, psd_root

WeightMatrix = NDArray[np.floating[Any]] | Sequence[Sequence[float]] | Mapping[str, NDArray[np.floating[Any]]]
"""One M × M matrix, or one a source."""


@dataclass(frozen=True, slots=True)
class Weight:
    """Roots U_b (R_b, M_b, B or 1) of one weight, and the factorised variances that they invert, if any."""

    roots: list[Array]
    triangles: list[Triangle] | None = None

    def take(self, which: Integers) -> Weight:
        # np.take keeps the batch axis innermost in memory; indexing with [..., which] would not
        return Weight([root if root.shape[-1] == 1 else np.take(root, which, axis=-1) for root in self.roots])

    def apply(self, parts: Sequence[Array]) -> Array:
        """U x for x given by block, (M_b, ..., B), stacked to (R, ..., B)."""
        white = [matmul(root, part) for root, part in zip(self.roots, parts, strict=True)]
        return white[0] if len(white) == 1 else np.concatenate(white)

    def pull(self, white: Array) -> list[Array]:
        """Uᵀ x (M_b, B) by block, for x (R, B)."""
        ends = np.cumsum([len(root) for root in self.roots])
        parts = np.split(white, ends[:-1])
        return [matmul(root.swapaxes(0, 1), part) for root, part in zip(self.roots, parts, strict=True)]


def efficient_weight(blocks: Blocks, theta: Array, ridge: float = 0.0) -> Weight:
    """W = [Ω(θ) + λ I]⁻¹ on the range of Ω: what depends on other moments is left out."""
    triangles = []
    for rows in blocks.factors(theta):
        if ridge > 0:
            eye = np.broadcast_to(
                np.sqrt(ridge) * np.eye(rows.shape[0])[..., None], (*rows.shape[:1] * 2, rows.shape[2])
            )
            rows = np.concatenate([rows, eye], axis=1)
        triangles.append(orthogonalize(rows))
    roots = [np.sqrt(mass) * t.inverse for mass, t in zip(blocks.masses, triangles, strict=True)]
    return Weight(roots, triangles)


def fixed_weight(blocks: Blocks, matrix: WeightMatrix | None) -> Weight:
    """The identity (None), or the matrices that the caller gave."""
    bases = _bases(blocks, matrix)
    return Weight([np.sqrt(mass) * base[..., None] for mass, base in zip(blocks.masses, bases, strict=True)])


def scaled_weight(blocks: Blocks, theta: Array) -> Weight:
    """Each moment in units of its own spread at theta (D, B)."""
    roots = []
    for mass, rows in zip(blocks.masses, blocks.factors(theta), strict=True):
        spread = np.sqrt(np.einsum("mkb,mkb->mb", rows, rows))
        scale = np.divide(1.0, spread, out=np.zeros_like(spread), where=spread > 0)
        roots.append(np.sqrt(mass) * np.eye(len(scale))[..., None] * scale)
    return Weight(roots)


def noise(blocks: Blocks, weight: Weight, theta: Array) -> Array:
    """Size (B,) of the sampling error of U ḡ: the unit in which convergence is judged."""
    total = np.zeros(theta.shape[1])
    for root, mass, rows in zip(weight.roots, blocks.masses, blocks.factors(theta), strict=True):
        white = matmul(root, rows)
        total += np.einsum("rkb,rkb->b", white, white) / mass
    return np.asarray(np.sqrt(total / blocks.rows))


def _bases(blocks: Blocks, matrix: WeightMatrix | None) -> list[Array]:
    if matrix is None:
        return [np.eye(size) for size in blocks.sizes]
    if isinstance(matrix, Mapping):
        wrong = set(matrix) ^ set(blocks.names)
        if wrong:
            raise EstimationError(
                f"a weight by source needs one matrix for each of {', '.join(blocks.names)}, not for "
                f"{', '.join(matrix) or 'none'}"
            )
        return [_root_of(matrix[name], size, name) for name, size in zip(blocks.names, blocks.sizes, strict=True)]
    if len(blocks.names) > 1:
        raise EstimationError(
            f"moments are stacked by source, so a weight needs one matrix a source: "
            f"{{{', '.join(repr(name) + ': ...' for name in blocks.names)}}}; or choose stacking='pooled'"
        )
    return [_root_of(matrix, blocks.sizes[0], blocks.names[0])]


def _root_of(matrix: object, size: int, name: str) -> Array:
    try:
        raw = np.asarray(matrix)
        if raw.dtype.kind == "c":  # a warning of NumPy's would be all that is left of the imaginary part
            raise TypeError
        values = raw.astype(np.float64)
    except (TypeError, ValueError):
        raise EstimationError(f"the weight of {name!r} is not a matrix of real numbers") from None
    if values.shape != (size, size):
        raise EstimationError(f"the weight of {name!r} must be {size} × {size}, one row a moment, not {values.shape}")
    largest = np.abs(values).max()
    if not np.isfinite(largest) or not np.allclose(values, values.T, rtol=0, atol=1e-8 * largest):
        raise EstimationError(f"the weight of {name!r} must be symmetric and finite")
    if largest == 0 or np.linalg.eigvalsh(values)[0] < -1e-10 * largest:
        raise EstimationError(f"the weight of {name!r} must be positive semi-definite and not zero")
    return psd_root(values)
