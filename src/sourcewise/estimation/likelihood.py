"""Normal maximum likelihood by Fisher scoring: one Gauss–Newton step of the moments under the weight that the last
estimate implies, shortened until the likelihood rises.

Minimising fully under each weight can go round in circles (on Holzinger and Swineford's data it does); a likelihood
that rises with every step cannot.
"""

from __future__ import annotations

import numpy as np

from sourcewise.estimation.blocks import Blocks
from sourcewise.estimation.weights import efficient_weight
from sourcewise.numerics.least_squares import Search
from sourcewise.numerics.linalg import Array, matmul, orthogonalize, squared

FINE = 1e-9
"""Converged: a step would move the whitened moments by less than this share of their noise."""

HALVINGS = 40

ROUNDING = 1e-13
"""Differences of the objective, which is of order one per row, that drown in rounding errors."""


def discrepancy(blocks: Blocks, theta: Array) -> Array:
    """Twice the loss of log-likelihood per row (B,): rows times this is the likelihood ratio statistic."""
    parts = zip(blocks.masses, blocks.evidence.values(), strict=True)
    return np.asarray(sum(mass * part.discrepancy(theta) for mass, part in parts))


def maximize(blocks: Blocks, start: Array, lower: Array, upper: Array, max_iterations: int) -> Search:
    """The maximum of the likelihood nearest uphill from start (D, B)."""
    theta, height = start.copy(), discrepancy(blocks, start)
    converged, iterations = np.zeros((2, theta.shape[1]), dtype=np.int64)
    open_ones = np.flatnonzero(np.isfinite(height))
    for _ in range(max_iterations):
        if not open_ones.size:
            break
        some, here = blocks.take(open_ones), theta[:, open_ones]
        step, size, noise = _step(some, here, lower[:, None], upper[:, None])
        settled = size <= FINE * noise
        converged[open_ones[settled]] = True
        iterations[open_ones] += 1
        reached, level = _climb(some, here, height[open_ones], step, lower[:, None], upper[:, None])
        stuck = ~settled & (reached == here).all(axis=0)
        theta[:, open_ones], height[open_ones] = reached, level
        open_ones = open_ones[~settled & ~stuck]
    return Search(theta, height, converged.astype(bool), np.isfinite(height), iterations)


def _step(blocks: Blocks, theta: Array, lower: Array, upper: Array) -> tuple[Array, Array, Array]:
    """The scoring step (D, B), what it moves of the whitened moments (B,), and their noise (B,)."""
    weight = efficient_weight(blocks.weighed, theta)
    residual = weight.apply([mean for mean, _ in blocks.means_and_slopes(theta)])
    slopes = weight.apply([part.implied_slope(theta) for part in blocks.evidence.values()])
    down = -np.einsum("rdb,rb->db", slopes, residual)
    held = ((theta <= lower) & (down < 0)) | ((theta >= upper) & (down > 0))
    slopes = np.where(held, 0.0, slopes)
    triangle = orthogonalize(np.ascontiguousarray(slopes.swapaxes(0, 1)))
    explained = np.einsum("drb,rb->db", triangle.basis, residual)
    step = -matmul(triangle.inverse.swapaxes(0, 1), explained)
    ranks = sum(part.rank for part in weight.triangles or [])
    return step, np.sqrt(squared(explained)), np.sqrt(ranks / blocks.rows)


def _climb(blocks: Blocks, theta: Array, height: Array, step: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """As much of each step, in halves, as does not lower the likelihood: where it ends, and the height there."""
    reached, level = theta.copy(), height.copy()
    waiting, share = np.arange(theta.shape[1], dtype=np.int64), 1.0
    for _ in range(HALVINGS):
        trial = np.clip(theta[:, waiting] + share * step[:, waiting], lower, upper)
        found = discrepancy(blocks.take(waiting), trial)
        better = found <= height[waiting] + ROUNDING
        reached[:, waiting[better]], level[waiting[better]] = trial[:, better], found[better]
        waiting, share = waiting[~better], 0.5 * share
        if not waiting.size:
            break
    return reached, level
