"""Gauss–Newton steps of many small least-squares problems at once, damped or not, whatever the rank of J."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sourcewise.numerics.linalg import (
    Array,
    cholesky,
    inner_products,
    matmul,
    orthogonalize,
    solve_lower,
    solve_upper,
    squared,
)

Bools = NDArray[np.bool_]

MANY = 256
"""From so many problems on, the products JᵀJ of those that are well determined are worth factorising."""

FIRM = 1e-3
"""Well determined: this fraction of each slope's square, or more, is new. Steps from JᵀJ keep twelve digits then."""


def undamped(columns: Array, residual: Array, pinned: Bools) -> tuple[Array, Array, Array, Bools]:
    """argmin ‖Jδ + r‖ (D, B), the change ‖Jδ‖ (B,), lengths of J's columns (D, B), and where δ is not unique (B,)."""
    if columns.shape[-1] < MANY:
        return _by_rank(columns, residual, pinned)
    products = inner_products(columns)
    index = np.arange(len(columns))
    lengths = np.sqrt(products[index, index])
    unit = np.where(lengths > 0, lengths, 1.0)
    products /= unit[:, None] * unit
    products[index, index] = 1.0
    factor = cholesky(products)
    shadow = solve_lower(factor, np.einsum("drb,rb->db", columns, residual) / unit)
    step, size = -solve_upper(factor, shadow) / unit, np.sqrt(squared(shadow))
    loose = np.zeros(len(size), dtype=bool)
    firm = (factor[index, index].min(axis=0) ** 2 > FIRM) & ((lengths > 0) | pinned).all(axis=0)
    rest = np.flatnonzero(~firm)
    if rest.size:
        few = _by_rank(np.take(columns, rest, axis=-1), residual[:, rest], pinned[:, rest])
        step[:, rest], size[rest], lengths[:, rest], loose[rest] = few
    return step, size, lengths, loose


def _by_rank(columns: Array, residual: Array, pinned: Bools) -> tuple[Array, Array, Array, Bools]:
    """The same without squaring J up, whatever its rank."""
    triangle = orthogonalize(columns)
    shadow = np.einsum("drb,rb->db", triangle.basis, residual)
    step = -matmul(triangle.inverse.swapaxes(0, 1), shadow)
    return step, np.sqrt(squared(shadow)), triangle.lengths, np.asarray((~triangle.kept & ~pinned).any(axis=0))


def damped_step(columns: Array, residual: Array, damping: Array, scale: Array) -> Array:
    """argmin ‖Jδ + r‖² + λ‖Sδ‖², as one least-squares problem with D more rows."""
    dimension, count, batch = columns.shape
    tall = np.zeros((dimension, count + dimension, batch))
    tall[:, :count] = columns
    weights = np.sqrt(damping) * np.where(scale > 0, scale, 1.0)
    tall[np.arange(dimension), count + np.arange(dimension)] = weights
    triangle = orthogonalize(tall)
    shadow = np.einsum("drb,rb->db", triangle.basis[:, :count], residual)
    return -matmul(triangle.inverse.swapaxes(0, 1), shadow)
