"""Confidence sets that survive weak identification: invert the objective instead of trusting a slope.

A value τ of the target belongs to the set when the best fit under f(θ) = τ is not rejected:
T · min Q(θ) ≤ χ² quantile, Q the continuously updated objective (Stock and Wright's S-set; with one instrument,
Anderson and Rubin's). The set can be bounded, unbounded, a union, or empty, and says which.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import numpy as np

from sourcewise.estimation.blocks import Blocks
from sourcewise.estimation.gmm import UpdatedMoments
from sourcewise.inference import target_and_gradient
from sourcewise.moments.compiled import CompiledStudy, Integers
from sourcewise.numerics.least_squares import Problem, minimize
from sourcewise.numerics.linalg import Array, squared

GRID = 161
"""Values of the target that are tried first, dense near the estimate and reaching FAR standard errors out."""

FAR = 1e4
STEPS = 30
FIRMNESS = 1e4
"""The constraint f(θ) = τ is a residual with this weight per standard error: τ is met to 10⁻⁸ of one."""


@dataclass(frozen=True, slots=True)
class ConfidenceSet:
    """A union of closed intervals; an end may be infinite. Prints as a person would write it."""

    level: float
    segments: tuple[tuple[float, float], ...]

    @property
    def bounded(self) -> bool:
        return all(math.isfinite(end) for segment in self.segments for end in segment)

    @property
    def empty(self) -> bool:
        return not self.segments

    def __contains__(self, value: float) -> bool:
        return any(low <= value <= high for low, high in self.segments)

    def __str__(self) -> str:
        if self.empty:
            return "empty"
        return " ∪ ".join(
            f"{'[' if math.isfinite(low) else '('}{low:.6g}, {high:.6g}{']' if math.isfinite(high) else ')'}"
            for low, high in self.segments
        )


@dataclass(frozen=True, slots=True)
class _Profile:
    """Moments with updated weights and one more residual that holds the target at given values (B,)."""

    compiled: CompiledStudy
    moments: UpdatedMoments
    values: Array
    firmness: float

    def residual(self, theta: Array) -> tuple[Array, Array]:
        residual, slopes = self.moments.residual(theta)
        target, gradient = target_and_gradient(self.compiled, theta)
        held = self.firmness * (target - self.values)
        return np.vstack([residual, held[None]]), np.concatenate([slopes, self.firmness * gradient[None]])

    def take(self, which: Integers) -> Self:
        return type(self)(self.compiled, self.moments.take(which), self.values[which], self.firmness)


def confidence_set(
    compiled: CompiledStudy,
    blocks: Blocks,
    theta: Array,
    direction: Array,
    stderr: float,
    level: float,
    degrees: int,
) -> ConfidenceSet:
    """The set for one problem at θ̂ (D, 1); `direction` (D,) is how θ̂ moves when the target moves by one."""
    from scipy.special import chdtri

    threshold = float(chdtri(degrees, 1.0 - level))
    centre = float(target_and_gradient(compiled, theta)[0][0])
    unit = stderr if math.isfinite(stderr) and stderr > 0 else max(abs(centre), 1.0)

    moments = UpdatedMoments(blocks)
    fixed = compiled.target_parameter  # a parameter is held exactly, any other target by a stiff residual

    def criterion(values: Array, starts: Array) -> tuple[Array, Array]:
        noise = np.full(len(values), math.sqrt(degrees / float(blocks.rows[0])))
        lower, upper = (
            np.repeat(bound[:, None], len(values), axis=1) for bound in (compiled.lower, compiled.upper)
        )
        if fixed is None:
            problem: Problem = _Profile(compiled, moments, values, FIRMNESS / unit)
        else:
            problem = moments
            lower[fixed] = upper[fixed] = values
        search = minimize(problem, starts, lower=lower, upper=upper, noise=noise, max_iterations=STEPS)
        reached = target_and_gradient(compiled, search.theta)[0]
        height = float(blocks.rows[0]) * squared(moments.residual(search.theta)[0])
        missed = ~(np.abs(reached - values) <= 1e-3 * unit)
        return np.where(missed | ~np.isfinite(height), np.inf, height), search.theta

    angle = math.atan(FAR)
    values = centre + unit * np.tan(np.linspace(-angle, angle, GRID))
    heights, ends = criterion(values, theta + direction[:, None] * (values - centre))
    for order in (slice(None), slice(None, None, -1)):  # from the left, then from the right
        heights, ends = _from_neighbours(criterion, values[order], heights[order], ends[:, order], direction)
        heights, ends = heights[order], ends[:, order]
    return ConfidenceSet(level, _segments(criterion, values, heights, ends, threshold))


Criterion = Callable[[Array, Array], tuple[Array, Array]]


def _from_neighbours(
    criterion: Criterion, values: Array, heights: Array, ends: Array, direction: Array
) -> tuple[Array, Array]:
    """Try again from where the search for the value before ended: a lower minimum spreads along the line."""
    starts = ends.copy()
    starts[:, 1:] = ends[:, :-1] + direction[:, None] * np.diff(values)
    again, other = criterion(values, starts)
    wins = again < heights
    return np.where(wins, again, heights), np.where(wins, other, ends)


def _segments(
    criterion: Criterion, values: Array, heights: Array, ends: Array, threshold: float
) -> tuple[tuple[float, float], ...]:
    inside = heights <= threshold
    if not inside.any():
        return ()
    flips = np.flatnonzero(inside[1:] != inside[:-1])
    borders = _refine(criterion, values, heights, ends, flips, threshold).tolist()
    points = ([-math.inf] if inside[0] else []) + borders + ([math.inf] if inside[-1] else [])
    return tuple(zip(points[::2], points[1::2], strict=True))


def _refine(
    criterion: Criterion, values: Array, heights: Array, ends: Array, flips: Integers, threshold: float
) -> Array:
    """Where the criterion crosses the threshold between grid points k and k + 1: the Illinois rule, all at once."""
    low, high = values[flips].copy(), values[flips + 1].copy()
    below, above = heights[flips] - threshold, heights[flips + 1] - threshold
    starts = np.where(below <= 0, ends[:, flips], ends[:, flips + 1])
    point = 0.5 * (low + high)
    for _ in range(100 if flips.size else 0):
        straight = low - below * (high - low) / (above - below)
        safe = np.isfinite(straight) & (straight > low) & (straight < high)
        last, point = point, np.where(safe, straight, 0.5 * (low + high))
        height, starts = criterion(point, starts)
        height -= threshold
        left = (height <= 0) == (below <= 0)
        # halving the value at the end that stays makes the chord move on: superlinear and never stuck
        above = np.where(left, 0.5 * above, height)
        below = np.where(left, height, 0.5 * below)
        low, high = np.where(left, point, low), np.where(left, high, point)
        if np.all(np.abs(point - last) <= 1e-10 * np.abs(point) + 1e-300) or not np.any(height):
            break
    return np.asarray(point)
