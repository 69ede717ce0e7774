"""What else one fit can say about itself: how firmly the data hold the target, and which source disagrees."""

from __future__ import annotations

import math

import numpy as np

from sourcewise.estimation.blocks import Blocks
from sourcewise.estimation.weights import Weight
from sourcewise.inference import Sensitivity, overidentification, target_and_gradient
from sourcewise.moments.compiled import CompiledStudy
from sourcewise.numerics.linalg import Array

WEAK = 10.0
"""Strength below which a standard error is not to be trusted: the usual bound for a first-stage F."""


def strength(
    compiled: CompiledStudy,
    blocks: Blocks,
    weight: Weight,
    sensitivity: Sensitivity,
    theta: Array,
    stderr: float,
) -> float:
    """How firmly the data hold the target: 1 / variance of log(standard error) through the slopes, per degree of
    freedom. With weak instruments it is close to the robust first-stage F (1/strength exceeds 1/F by a few times
    1/rows, as the instruments are random here); unlike that it is defined for any moments and any target.

    V = ∇fᵀ(GᵀWG)⁻¹∇f, so d log √V = −(pᵀ dG u − uᵀ d∇f)/V with u = (GᵀWG)⁻¹∇f and p = W G u. G moves with the
    data at fixed θ, and with θ̂.
    """
    slopes, response = sensitivity.slopes[..., 0], sensitivity.response[..., 0]
    _, gradient = target_and_gradient(compiled, theta)
    white = response.T @ gradient[:, 0]
    tilt = response @ white
    variance = float(gradient[:, 0] @ tilt)
    if not variance > 0 or not math.isfinite(stderr):
        return math.nan
    bend = _bend(compiled, blocks, weight, theta, white, tilt, _steps(blocks, response, theta))
    total, start = 0.0, 0
    parts = zip(blocks.factors_and_slopes(theta), weight.roots, blocks.masses, strict=True)
    for (rows, drows), root, mass in parts:
        size = root.shape[0]
        pull = root[..., 0].T @ white[start : start + size]
        direct = np.einsum("d,dmk,m->k", tilt, drows[..., 0], pull)
        through = bend @ response[:, start : start + size] @ root[..., 0] @ rows[..., 0]
        total += float(np.sum((direct - through) ** 2)) / float(mass[0])
        start += size
    rows_total = float(blocks.rows[0])
    extra = max(1, slopes.shape[0] - int(sensitivity.rank[0]) + 1)
    return math.inf if total == 0 else variance**2 * rows_total / total / extra


def _steps(blocks: Blocks, response: Array, theta: Array) -> Array:
    """Differences small against each parameter's own error and size."""
    spread = np.linalg.norm(response, axis=1) / math.sqrt(float(blocks.rows[0]))
    return np.asarray(1e-4 * np.maximum(spread, 1e-3 * np.abs(theta[:, 0])) + 1e-12)


def _bend(
    compiled: CompiledStudy,
    blocks: Blocks,
    weight: Weight,
    theta: Array,
    white: Array,
    tilt: Array,
    steps: Array,
) -> Array:
    """∂/∂θ of pᵀ G(θ) u − uᵀ∇f(θ) at fixed p and u (D,), by central differences of exact first derivatives."""

    def height(point: Array) -> float:
        slopes = weight.apply([slope for _, slope in blocks.means_and_slopes(point)])
        return float(white @ slopes[..., 0] @ tilt - tilt @ target_and_gradient(compiled, point)[1][:, 0])

    bend = np.zeros(len(steps))
    for d, step in enumerate(steps):
        shift = np.zeros_like(theta)
        shift[d] = step
        bend[d] = (height(theta + shift) - height(theta - shift)) / (2.0 * step)
    return bend


def by_source(blocks: Blocks, weight: Weight, theta: Array) -> dict[str, tuple[float, int]]:
    """For each source, how much J falls when its moments are left out, and the degrees of freedom it takes along.

    Sources whose moments the others cannot check (no degrees of freedom) have (0, 0).
    """
    if len(blocks.names) < 2:
        return {}
    whole, degrees = overidentification(blocks, weight, theta)
    tests = {}
    for k, name in enumerate(blocks.names):
        rest, left = overidentification(blocks, weight, theta, without=k)
        taken = int(degrees[0] - left[0])
        tests[name] = (max(0.0, float(whole[0] - rest[0])) if taken > 0 else 0.0, taken)
    return tests
