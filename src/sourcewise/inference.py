"""From estimates to standard errors and tests, for a batch of problems at once (sections 4 and 8 of the method).

Variances are kept as roots: X (D, K, B) with X Xᵀ = Var(√T θ̂), the influence of every data direction on θ̂. A
root cannot lose positive definiteness, and two of them add like the errors that they stand for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from sourcewise.estimation.blocks import Blocks
from sourcewise.estimation.gmm import Estimates
from sourcewise.estimation.weights import Weight, efficient_weight
from sourcewise.moments.compiled import CompiledStudy
from sourcewise.numerics.linalg import Array, information, matmul, orthogonalize, squared

Covariance = Literal["robust", "windmeijer", "model"]


@dataclass(frozen=True, slots=True)
class Inference:
    """What B estimates θ̂ are worth. Standard errors are NaN where the data do not identify what they belong to."""

    target: Array
    gradient: Array
    stderr: Array
    covariance: Array
    identified: NDArray[np.bool_]
    parameters_identified: NDArray[np.bool_]
    statistic: Array
    degrees: NDArray[np.int64]
    sensitivity: Sensitivity


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How θ̂ answers to the weighted moments U ḡ: θ̂ − θ ≈ −response · U ḡ."""

    slopes: Array
    """U ∂ḡ/∂θ (R, D, B)."""
    response: Array
    """(AᵀA)⁻Aᵀ (D, R, B) for A = slopes."""
    identified: NDArray[np.bool_]
    """Parameters (D, B) that the data determine."""
    target_identified: NDArray[np.bool_]
    rank: NDArray[np.int64]


def infer(
    compiled: CompiledStudy,
    blocks: Blocks,
    estimates: Estimates,
    covariance: Covariance,
    first_weight: Weight | None,
    efficient: bool,
) -> Inference:
    """`efficient` says that the weight inverts Ω; `first_weight` is the first step's (for Windmeijer's correction)."""
    theta = estimates.theta
    target, gradient = target_and_gradient(compiled, theta)
    sensitivity = sensitivity_of(blocks, estimates.weight, theta, gradient)
    root = _root(blocks, estimates, sensitivity, covariance, first_weight)
    rows = blocks.rows
    with np.errstate(invalid="ignore"):
        variance = np.einsum("dkb,ekb->bde", root, root) / rows[:, None, None]
        spread = np.sqrt(squared(np.einsum("db,dkb->kb", gradient, root)) / rows)
    hidden = ~sensitivity.identified.T
    variance[hidden[:, :, None] | hidden[:, None, :]] = np.nan
    if efficient or blocks.weighing or covariance == "model":  # θ̂ minimises this very objective
        degrees = np.asarray(_held(estimates.weight) - sensitivity.rank, dtype=np.int64)
        statistic = rows * estimates.objective
        if blocks.weighing and covariance != "model":
            statistic = statistic / _inflation(blocks, estimates, sensitivity, degrees)
        if efficient or blocks.weighing:
            statistic = np.where(degrees > 0, statistic, 0.0)
    else:
        statistic, degrees = overidentification(blocks, efficient_weight(blocks, theta), theta)
    return Inference(
        target,
        gradient,
        np.where(sensitivity.target_identified & np.isfinite(target), spread, np.nan),
        variance,
        sensitivity.target_identified,
        sensitivity.identified,
        statistic,
        degrees,
        sensitivity,
    )


def target_and_gradient(compiled: CompiledStudy, theta: Array) -> tuple[Array, Array]:
    """f(θ) (B,) and ∇f (D, B)."""
    value, *gradient = (np.broadcast_to(part, theta.shape[1:]) for part in compiled.target(list(theta)))
    return np.array(value), np.stack(gradient)


def sensitivity_of(blocks: Blocks, weight: Weight, theta: Array, gradient: Array) -> Sensitivity:
    slopes = weight.apply([slope for _, slope in blocks.means_and_slopes(theta)])
    columns = np.ascontiguousarray(slopes.swapaxes(0, 1))
    triangle = orthogonalize(columns)
    response = matmul(triangle.inverse.swapaxes(0, 1), triangle.basis)
    identified = triangle.kept.copy()
    whole = np.array(identified.all(axis=0))
    rank = triangle.rank.copy()
    # One problem can afford singular values in doubt; in a batch only those need them that lost a direction.
    certain = whole & ((triangle.pivots.prod(axis=0) > 1e-4) | (theta.shape[1] > 1))
    for b in np.flatnonzero(~certain & np.isfinite(slopes).all(axis=(0, 1))):
        known = information(slopes[..., b])
        response[..., b] = known.inverse @ slopes[..., b].T
        identified[:, b] = [known.identifies(axis) for axis in np.eye(len(columns))]
        whole[b] = known.identifies(gradient[:, b])
        rank[b] = known.rank
    return Sensitivity(slopes, response, identified, whole, rank)


def overidentification(
    blocks: Blocks, weight: Weight, theta: Array, without: int | None = None
) -> tuple[Array, NDArray[np.int64]]:
    """J (B,) and its degrees of freedom, by one efficient step from θ̂ if that is not the minimum; optionally
    `without` one block."""
    parts = blocks.means_and_slopes(theta)
    chosen = [k for k in range(len(parts)) if k != without]
    kept = Weight([weight.roots[k] for k in chosen])
    residual = kept.apply([parts[k][0] for k in chosen])
    columns = np.ascontiguousarray(kept.apply([parts[k][1] for k in chosen]).swapaxes(0, 1))
    triangle = orthogonalize(columns)
    explained = np.einsum("drb,rb->db", triangle.basis, residual)
    degrees = np.asarray(_held(kept) - triangle.rank, dtype=np.int64)
    statistic = blocks.rows * np.maximum(squared(residual) - squared(explained), 0.0)
    return np.where(degrees > 0, statistic, 0.0), degrees


def _inflation(blocks: Blocks, estimates: Estimates, sensitivity: Sensitivity, degrees: NDArray[np.int64]) -> Array:
    """Mean (B,) of rows · ‖U ḡ(θ̂)‖² per degree of freedom when the weight inverts another variance than the moments
    have: what Satorra and Bentler (1994) divide a chi-square by."""
    slopes = np.ascontiguousarray(sensitivity.slopes.swapaxes(0, 1))
    basis, total, start = orthogonalize(slopes).basis, np.zeros(len(degrees)), 0
    for root, rows, mass in zip(estimates.weight.roots, blocks.factors(estimates.theta), blocks.masses, strict=True):
        white = matmul(root, rows) / np.sqrt(mass)
        explained = matmul(basis[:, start : start + len(white)], white)
        total += np.einsum("rkb,rkb->b", white, white) - np.einsum("dkb,dkb->b", explained, explained)
        start += len(white)
    return total / np.maximum(degrees, 1)


def _held(weight: Weight) -> NDArray[np.int64]:
    """Moments (B,) that a weight uses: what it dropped is a zero row of its root."""
    return np.asarray(sum(np.any(root != 0, axis=1).sum(axis=0) for root in weight.roots))


def _means(blocks: Blocks, theta: Array) -> list[Array]:
    return [mean for mean, _ in blocks.means_and_slopes(theta)]


def _root(
    blocks: Blocks,
    estimates: Estimates,
    sensitivity: Sensitivity,
    covariance: Covariance,
    first_weight: Weight | None,
) -> Array:
    if covariance == "model":
        return sensitivity.response
    if covariance == "robust" or first_weight is None:
        return _influence(blocks, estimates.weight, sensitivity, blocks.factors(estimates.theta))
    return _windmeijer(blocks, estimates, sensitivity, first_weight)


def _influence(blocks: Blocks, weight: Weight, sensitivity: Sensitivity, factors: list[Array]) -> Array:
    """X = response · U A / √mass (D, K, B), blocks side by side."""
    columns, start = [], 0
    for root, rows, mass in zip(weight.roots, factors, blocks.masses, strict=True):
        white = matmul(root, rows) / np.sqrt(mass)
        response = sensitivity.response[:, start : start + white.shape[0]]
        columns.append(matmul(response, white))
        start += white.shape[0]
    return np.concatenate(columns, axis=1)


def _windmeijer(blocks: Blocks, estimates: Estimates, second: Sensitivity, first_weight: Weight) -> Array:
    """The error of θ̂ through the estimate θ̂₁ in its weight: X₂ + (∂θ̂/∂θ̂₁) X₁ (Windmeijer 2005, any moments)."""
    theta, earlier = estimates.theta, estimates.first
    factors = blocks.factors_and_slopes(earlier)
    rows = [a for a, _ in factors]
    shifts = []
    for (a, da), root, mass, mean in zip(
        factors, estimates.weight.roots, blocks.masses, _means(blocks, theta), strict=True
    ):
        pull = matmul(root.swapaxes(0, 1), matmul(root, mean)) / mass
        along = np.einsum("mkb,mb->kb", a, pull)
        against = np.einsum("dmkb,mb->dkb", da, pull)
        change = np.einsum("dmkb,kb->mdb", da, along) + np.einsum("mkb,dkb->mdb", a, against)
        shifts.append(change)
    drift = matmul(second.response, estimates.weight.apply(shifts))
    gradient = np.zeros_like(theta)
    first = sensitivity_of(blocks, first_weight, earlier, gradient)
    before = _influence(blocks, first_weight, first, rows)
    after = _influence(blocks, estimates.weight, second, rows)
    return np.asarray(after + matmul(drift, before))
