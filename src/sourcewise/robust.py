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
from sourcewise.numerics.least_squares import minimize
from sourcewise.numerics.linalg import Array, squared

GRID = 161
"""Values of the target that are tried first, dense near the estimate and reaching FAR standard errors out."""

FAR = 1e4
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

    def criterion(values: Array, starts: Array) -> tuple[Array, Array]:
        copies = blocks.take(np.zeros(len(values), dtype=np.int64))
        profile = _Profile(compiled, UpdatedMoments(copies), values, FIRMNESS / unit)
        noise = np.full(len(values), math.sqrt(degrees / float(blocks.rows[0])))
        search = minimize(profile, starts, lower=compiled.lower, upper=compiled.upper, noise=noise, max_iterations=60)
        residual = profile.moments.residual(search.theta)[0]
        reached = target_and_gradient(compiled, search.theta)[0]
        missed = ~(np.abs(reached - values) <= 1e-3 * unit)
        height = float(blocks.rows[0]) * squared(residual)
        return np.where(missed | ~np.isfinite(height), np.inf, height), search.theta

    angle = math.atan(FAR)
    values = centre + unit * np.tan(np.linspace(-angle, angle, GRID))
    starts = theta + direction[:, None] * (values - centre)
    heights, ends = _with_neighbours(criterion, values, starts)
    return ConfidenceSet(level, _segments(criterion, values, heights, ends, threshold))


Criterion = Callable[[Array, Array], tuple[Array, Array]]


def _with_neighbours(criterion: Criterion, values: Array, starts: Array) -> tuple[Array, Array]:
    """Heights at all values; where a neighbour's end is the better start, use that."""
    heights, ends = criterion(values, starts)
    for shift in (1, -1):
        again, other = criterion(values, np.roll(ends, shift, axis=1))
        wins = again < heights
        heights, ends = np.where(wins, again, heights), np.where(wins, other, ends)
    return heights, ends


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
    """Where the criterion crosses the threshold between grid points k and k + 1, by bisection of all at once."""
    low, high = values[flips].copy(), values[flips + 1].copy()
    low_inside = heights[flips] <= threshold
    starts = np.where(low_inside, ends[:, flips], ends[:, flips + 1])
    for _ in range(60 if flips.size else 0):
        middle = 0.5 * (low + high)
        if np.all(np.abs(high - low) <= 1e-9 * (np.abs(middle) + 1e-9)):
            break
        height, ended = criterion(middle, starts)
        same = (height <= threshold) == low_inside
        low, high = np.where(same, middle, low), np.where(same, high, middle)
        starts = np.where((height <= threshold), ended, starts)
    return np.asarray(0.5 * (low + high))
