"""Confidence sets that survive weak identification: invert the objective instead of trusting a slope.

A value τ of the target belongs to the set when the best fit under f(θ) = τ is not rejected:
T · min Q(θ) ≤ χ² quantile, Q the continuously updated objective (Stock and Wright's S-set; with one instrument,
Anderson and Rubin's). The set can be bounded, unbounded, a union, or empty, and says which.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sourcewise.estimation.blocks import Blocks
from sourcewise.estimation.gmm import UpdatedMoments, WeightedMoments
from sourcewise.estimation.weights import efficient_weight
from sourcewise.inference import Inference, target_and_gradient
from sourcewise.moments.compiled import CompiledStudy, Integers
from sourcewise.numerics.least_squares import Problem, minimize
from sourcewise.numerics.linalg import Array, information, squared

GRID = 101
"""Values of the target that are tried first, dense near the estimate and reaching FAR standard errors out."""

FAR = 1e4
STEPS = 30
BISECTIONS = 30
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
    """Moments and one more residual that holds the target at given values (B,)."""

    compiled: CompiledStudy
    moments: WeightedMoments | UpdatedMoments
    values: Array
    firmness: Array

    def residual(self, theta: Array) -> tuple[Array, Array]:
        residual, slopes = self.moments.residual(theta)
        target, gradient = target_and_gradient(self.compiled, theta)
        held = self.firmness * (target - self.values)
        return np.vstack([residual, held[None]]), np.concatenate([slopes, self.firmness * gradient[None]])

    def take(self, which: Integers) -> Self:
        return type(self)(self.compiled, self.moments.take(which), self.values[which], self.firmness[which])


@dataclass(frozen=True, slots=True)
class _Criterion:
    """T · min Q(θ) under f(θ) = τ, for many values τ of the target at once."""

    compiled: CompiledStudy
    blocks: Blocks
    unit: float
    """A natural step of the target."""
    noise: float
    threshold: float
    steady: WeightedMoments
    """The moments with the weight at θ̂."""

    def __call__(self, values: Array, starts: Array) -> tuple[Array, Array]:
        """The criterion (B,), infinite where f(θ) = τ was not reached, and where it is attained (D, B).

        Far from its minimum the updated objective is flat, and only a weight that does not move leads back: what
        seems to lie outside the set is searched for a second time.
        """
        heights, ends = self.near(values, starts)
        doubt = np.flatnonzero(heights > self.threshold)
        if doubt.size:
            again, other = self.near(values[doubt], self._search(self.steady, values[doubt], starts[:, doubt]))
            wins = again < heights[doubt]
            heights[doubt[wins]], ends[:, doubt[wins]] = again[wins], other[:, wins]
        return heights, ends

    def near(self, values: Array, starts: Array) -> tuple[Array, Array]:
        """The same from starts that are good already."""
        moments = UpdatedMoments(self.blocks)
        ends = self._search(moments, values, starts)
        reached = target_and_gradient(self.compiled, ends)[0]
        heights = float(self.blocks.rows[0]) * squared(moments.residual(ends)[0])
        missed = ~(np.abs(reached - values) <= 1e-3 * self.unit)
        held = self.compiled.target_parameter
        if held is not None:
            missed |= (values < self.compiled.lower[held]) | (values > self.compiled.upper[held])
        return np.where(missed | ~np.isfinite(heights), np.inf, heights), ends

    def _search(self, moments: WeightedMoments | UpdatedMoments, values: Array, starts: Array) -> Array:
        """θ (D, B) from these starts: a parameter is held exactly, any other target by a stiff residual."""
        unit = np.full(len(values), self.unit)
        return _held_at(self.compiled, moments, values, unit, starts, np.full(len(values), self.noise))

    def settle(self, starts: Array) -> Array:
        """θ (D, B) with the target left free: the minima of Q itself."""
        bounds, noise = (self.compiled.lower, self.compiled.upper), np.full(starts.shape[1], self.noise)
        return _end(UpdatedMoments(self.blocks), _end(self.steady, starts, *bounds, noise), *bounds, noise)


def _held_at(
    compiled: CompiledStudy,
    moments: WeightedMoments | UpdatedMoments,
    values: Array,
    unit: Array,
    starts: Array,
    noise: Array,
) -> Array:
    """θ (D, B) with the least objective under f(θ) = values: a parameter is held exactly, any other target by a stiff
    residual. `unit` (B,) is a natural step of the target."""
    lower, upper = (np.repeat(bound[:, None], len(values), axis=1) for bound in (compiled.lower, compiled.upper))
    problem: Problem = moments
    if compiled.target_parameter is None:
        problem = _Profile(compiled, moments, values, FIRMNESS / unit)
    else:
        lower[compiled.target_parameter] = upper[compiled.target_parameter] = values
    return _end(problem, starts, lower, upper, noise)


def _end(problem: Problem, starts: Array, lower: Array, upper: Array, noise: Array) -> Array:
    return minimize(problem, starts, lower=lower, upper=upper, noise=noise, max_iterations=STEPS).theta


def criterion_at(compiled: CompiledStudy, blocks: Blocks, theta: Array, inference: Inference, value: float) -> Array:
    """T · min Q (B,) under f(θ) = value for B problems at their estimates θ̂ (D, B): what `confidence_set` compares
    with the quantile, at one value of the target."""
    values, rows = np.full(theta.shape[1], value), blocks.rows
    stderr = inference.stderr
    unit = np.where(np.isfinite(stderr) & (stderr > 0), stderr, np.maximum(np.abs(values), 1.0))
    noise = np.sqrt((inference.degrees + 1.0) / rows)
    moments, steady = UpdatedMoments(blocks), WeightedMoments(blocks, efficient_weight(blocks, theta))
    lowest = np.full(len(values), np.inf)
    for start in (theta, _held_at(compiled, steady, values, unit, theta, noise)):
        end = _held_at(compiled, moments, values, unit, start, noise)
        reached = np.abs(target_and_gradient(compiled, end)[0] - values) <= 1e-3 * unit
        height = np.where(reached, rows * squared(moments.residual(end)[0]), np.inf)
        lowest = np.fmin(lowest, height)
    return lowest


def confidence_set(
    compiled: CompiledStudy, blocks: Blocks, theta: Array, inference: Inference, level: float
) -> ConfidenceSet:
    """The set for one problem at θ̂ (D, 1)."""
    from scipy.special import chdtri

    degrees = int(inference.degrees[0]) + 1
    centre, stderr = float(inference.target[0]), float(inference.stderr[0])
    if not math.isfinite(centre):
        return ConfidenceSet(level, ((-math.inf, math.inf),))
    unit = stderr if math.isfinite(stderr) and stderr > 0 else max(abs(centre), 1.0)
    threshold = float(chdtri(degrees, 1.0 - level))
    noise = math.sqrt(degrees / float(blocks.rows[0]))
    steady = WeightedMoments(blocks, efficient_weight(blocks, theta))
    criterion = _Criterion(compiled, blocks, unit, noise, threshold, steady)
    direction = _direction(inference)
    reach = math.asinh(FAR)
    values = centre + unit * np.sinh(np.linspace(-reach, reach, GRID))
    heights, ends = criterion(values, theta + direction[:, None] * (values - centre))
    _spread(criterion, values, heights, ends)
    line = _with_minima(criterion, values, heights, ends)
    line = _with_maxima(criterion, *line, direction)
    return ConfidenceSet(level, _segments(criterion, *line))


def _direction(inference: Inference) -> Array:
    """How θ (D,) moves when the target moves by one: at the least cost to the moments, at none where they allow it."""
    gradient, sensitivity = inference.gradient[:, 0], inference.sensitivity
    if not np.isfinite(sensitivity.slopes).all():
        return np.zeros_like(gradient)
    if inference.identified[0]:
        response = sensitivity.response[..., 0]
        tilt = response @ (response.T @ gradient)
    else:
        known = information(sensitivity.slopes[..., 0])
        scaled = gradient * known.scale
        tilt = known.scale * (scaled - known.directions.T @ (known.directions @ scaled))
    change = float(gradient @ tilt)
    return np.asarray(tilt / change) if change > 0 and np.isfinite(tilt).all() else np.zeros_like(tilt)


def _spread(criterion: _Criterion, values: Array, heights: Array, ends: Array) -> None:
    """Try points outside the set from their neighbours inside, in place, until none of them joins."""
    tried = np.zeros((2, len(values)), dtype=bool)
    while True:
        inside = heights <= criterion.threshold
        right, left = np.zeros_like(tried)
        right[1:], left[:-1] = inside[:-1], inside[1:]
        fresh = np.stack([right, left]) & ~inside & ~tried
        if not fresh.any():
            return
        tried |= fresh
        side, points = np.nonzero(fresh)
        again, other = criterion(values[points], ends[:, points - 1 + 2 * side])
        for k, height, end in zip(points, again, other.T, strict=True):
            if height < heights[k]:
                heights[k], ends[:, k] = height, end


def _with_minima(criterion: _Criterion, values: Array, heights: Array, ends: Array) -> tuple[Array, Array, Array]:
    """Add the minima of Q that the grid only shows as dips: an island of the set can be narrower than a step."""
    threshold = criterion.threshold
    dips = (heights[1:-1] <= heights[:-2]) & (heights[1:-1] <= heights[2:]) & (heights[1:-1] > threshold)
    starts = ends[:, 1 + np.flatnonzero(dips & np.isfinite(heights[1:-1]))]
    if not starts.size:
        return values, heights, ends
    found = criterion.settle(starts)
    places = target_and_gradient(criterion.compiled, found)[0]
    again, found = criterion(places, found)
    inside = np.isfinite(places) & (again <= threshold)
    values = np.concatenate([values, places[inside]])
    order = np.argsort(values)
    heights = np.concatenate([heights, again[inside]])
    return values[order], heights[order], np.hstack([ends, found[:, inside]])[:, order]


def _with_maxima(
    criterion: _Criterion, values: Array, heights: Array, ends: Array, direction: Array
) -> tuple[Array, Array, Array]:
    """Add points of excluded stretches that lie between two neighbours inside the set: with a weak instrument the
    standard error, and so the grid, can be far wider than what the data exclude.

    The criterion then rises at the left neighbour and falls at the right one; the top is found by bisection.
    """

    def climbs(points: Array, starts: Array, gap: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
        """Height, where it is attained, and whether it is higher a little way into the gap."""
        height, found = criterion(points, starts)
        little = 1e-4 * gap
        return height, found, criterion(points + little, found + direction[:, None] * little)[0] > height

    gaps, threshold = np.diff(values), criterion.threshold
    some = np.flatnonzero((heights[:-1] <= threshold) & (heights[1:] <= threshold))
    up = climbs(values[some], ends[:, some], gaps[some])[2]
    some = some[up & climbs(values[some + 1], ends[:, some + 1], -gaps[some])[2]]
    if not some.size:
        return values, heights, ends
    low, high, starts = values[some], values[some + 1], ends[:, some]
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        height, found, up = climbs(middle, starts + direction[:, None] * (middle - low), high - low)
        out = height > threshold  # one point of the stretch is enough: its ends are found later
        low, high = np.where(up | out, middle, low), np.where(up, high, middle)
        starts = np.where(up | out, found, starts)
        if (out | (high <= low)).all():
            break
    top, found = criterion(low, starts)
    kept = top > threshold
    values = np.concatenate([values, low[kept]])
    order = np.argsort(values)
    heights = np.concatenate([heights, top[kept]])
    return values[order], heights[order], np.hstack([ends, found[:, kept]])[:, order]


def _segments(criterion: _Criterion, values: Array, heights: Array, ends: Array) -> tuple[tuple[float, float], ...]:
    inside = heights <= criterion.threshold
    if not inside.any():
        return ()
    flips = np.flatnonzero(inside[1:] != inside[:-1])
    borders = _refine(criterion, values, heights, ends, flips).tolist()
    points = ([-math.inf] if inside[0] else []) + borders + ([math.inf] if inside[-1] else [])
    return tuple(zip(points[::2], points[1::2], strict=True))


def _refine(criterion: _Criterion, values: Array, heights: Array, ends: Array, flips: Integers) -> Array:
    """Where the criterion crosses the threshold between grid points k and k + 1: the Illinois rule, all at once."""
    threshold = criterion.threshold
    low, high = values[flips].copy(), values[flips + 1].copy()
    below, above = heights[flips] - threshold, heights[flips + 1] - threshold
    starts = np.where(below <= 0, ends[:, flips], ends[:, flips + 1])
    point = np.full(len(flips), np.nan)
    for _ in range(100 if flips.size else 0):
        straight = low - below * (high - low) / (above - below)
        safe = np.isfinite(straight) & (straight > low) & (straight < high)
        last, point = point, np.where(safe, straight, 0.5 * (low + high))
        height, starts = criterion.near(point, starts)
        height -= threshold
        left = (height <= 0) == (below <= 0)
        # halving the value at the end that stays makes the chord move on: superlinear and never stuck
        above = np.where(left, 0.5 * above, height)
        below = np.where(left, height, 0.5 * below)
        low, high = np.where(left, point, low), np.where(left, high, point)
        if np.all(np.abs(point - last) <= 1e-10 * np.abs(point) + 1e-300) or not np.any(height):
            break
    return np.asarray(point)
