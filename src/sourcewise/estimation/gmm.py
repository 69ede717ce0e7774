"""The generalised method of moments for one problem or a batch: θ (D, B) from blocks of moments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray

from sourcewise.errors import EstimationError
from sourcewise.estimation.blocks import Blocks
from sourcewise.estimation.likelihood import maximize
from sourcewise.estimation.starts import starting_points
from sourcewise.estimation.weights import Weight, WeightMatrix, efficient_weight, fixed_weight, noise, scaled_weight
from sourcewise.moments.base import Variance
from sourcewise.moments.compiled import CompiledStudy, Integers
from sourcewise.numerics.least_squares import Problem, Search, minimize
from sourcewise.numerics.linalg import Array, matmul, orthogonalize, squared
from sourcewise.spec.study import Study

Scheme = Literal["two-step", "identity", "iterated", "cue", "normal", "shrunk", "ml", "fixed"]

EFFICIENT = ("two-step", "iterated", "cue")
"""Their weight inverts the moments' variance, so that J is the objective itself."""

RIDGED = ("two-step", "iterated")
"""Their weight is computed at an estimate, with a ridge if one is asked for."""

MODELLED: Mapping[str, Variance] = {"normal": "normal", "shrunk": "shrunk", "ml": "implied"}
"""Schemes whose weight inverts another variance than the one that standard errors are computed from."""

MAX_REWEIGHTINGS = 500
SETTLED = 1e-8
"""Iterated weights: a round that moves the whitened moments by less than this share of their noise is the last."""

ELSEWHERE = 8
"""Further starts for a search that did not converge from the only one there is."""

BRIEF = 30
"""Iterations of each: a start that leads somewhere shows it soon, and the others only go the same endless way again."""

REACHES = (1.0, 3.0, 10.0, 30.0)
"""How many standard errors away from the two-step estimate the search for the CUE starts, besides from there."""

SAME_HEIGHT = 1e-12
"""Objectives that differ by less than this share of the squared noise are equal."""

SAME_PLACE = 1e8
"""Estimates differ when the moments at them do by more than a hundredth of the noise: squared, over SAME_HEIGHT."""


ESCAPE = 1e5
"""Standard errors between a continuously updated and a two-step estimate beyond which the former is no estimate."""


class Status(IntEnum):
    """How a search ended."""

    CONVERGED = 0
    ITERATIONS = 1
    CYCLE = 2
    NOT_FINITE = 3
    ESCAPED = 4


@dataclass(frozen=True, slots=True)
class Settings:
    """What to do with the moments; see `sourcewise.fit` for the meaning of each."""

    scheme: Scheme = "two-step"
    ridge: float = 0.0
    first_weight: WeightMatrix | None = None
    max_iterations: int = 100
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Estimates:
    """Where B searches ended. `first` is the estimate that the last weight was computed at (θ̂ itself if fixed)."""

    theta: Array
    first: Array
    objective: Array
    weight: Weight
    status: Integers
    iterations: Integers
    minima: Integers
    """Distinct local minima met, where several starts were tried."""

    @property
    def converged(self) -> NDArray[np.bool_]:
        return np.asarray(self.status == Status.CONVERGED)


@dataclass(frozen=True, slots=True)
class WeightedMoments:
    """U ḡ(θ) with a weight that does not move."""

    blocks: Blocks
    weight: Weight

    def residual(self, theta: Array) -> tuple[Array, Array]:
        parts = self.blocks.means_and_slopes(theta)
        return self.weight.apply([g for g, _ in parts]), self.weight.apply([dg for _, dg in parts])

    def curvature(self, theta: Array, residual: Array) -> Array:
        return self.blocks.curvature(theta, self.weight.pull(residual))

    def take(self, which: Integers) -> Self:
        return type(self)(self.blocks.take(which), self.weight.take(which))


@dataclass(frozen=True, slots=True)
class UpdatedMoments:
    """Ω(θ)^(−1/2) ḡ(θ), the weight moving with θ; its Jacobian gives the exact gradient of the CUE objective."""

    blocks: Blocks

    def residual(self, theta: Array) -> tuple[Array, Array]:
        means = self.blocks.means_and_slopes(theta)
        inverses = [orthogonalize(rows).inverse for rows in self.blocks.factors(theta)]
        whites = [matmul(inverse, g) for inverse, (g, _) in zip(inverses, means, strict=True)]
        pulls = [matmul(inverse.swapaxes(0, 1), w) for inverse, w in zip(inverses, whites, strict=True)]
        # G_d − E[G_d gᵀ] Ω⁻¹ ḡ: the part of the slope that is unrelated to the moments themselves
        slopes = [dg - shared for (_, dg), shared in zip(means, self.blocks.crosses(theta, pulls), strict=True)]
        roots = [np.sqrt(mass) for mass in self.blocks.masses]
        residual = np.concatenate([root * white for root, white in zip(roots, whites, strict=True)])
        jacobian = [root * matmul(inv, d) for root, inv, d in zip(roots, inverses, slopes, strict=True)]
        return residual, np.concatenate(jacobian)

    def take(self, which: Integers) -> Self:
        return type(self)(self.blocks.take(which))


def estimate(study: Study, compiled: CompiledStudy, blocks: Blocks, settings: Settings, given: Array) -> Estimates:
    """Estimates from starting values `given` (D, B), NaN where there is none."""
    starts = starting_points(study, compiled, blocks, given, settings.seed)
    first = _first_step(compiled, blocks, _first_weight(study, blocks, starts[0], settings), starts, settings)
    if settings.scheme in ("identity", "fixed"):
        return first
    if settings.scheme == "ml":
        return _likeliest(compiled, blocks, first, settings)
    found = _reweighted(compiled, blocks, first, settings)
    if settings.scheme == "iterated":
        return _iterate(compiled, blocks, found, settings)
    if settings.scheme == "cue":
        return _updated(compiled, blocks, [found.theta, first.theta], found, settings)
    return replace(found, status=np.where(first.converged, found.status, first.status))


def _first_weight(study: Study, blocks: Blocks, start: Array, settings: Settings) -> Weight:
    """The identity, unless a model of the variance has a weight to offer that does not depend on units. Of a graph's
    moments, which have the units of variances, each has its own scale at least."""
    if blocks.weighing is None or settings.first_weight is not None:
        if study.model is not None and settings.first_weight is None and settings.scheme in EFFICIENT:
            return scaled_weight(blocks, start)
        return fixed_weight(blocks, settings.first_weight)
    return efficient_weight(replace(blocks, weighing="normal").weighed, start)


def _search(
    compiled: CompiledStudy, problem: Problem, start: Array, unit: Array, settings: Settings, near: bool = False
) -> Search:
    return minimize(
        problem,
        start,
        lower=compiled.lower,
        upper=compiled.upper,
        noise=unit,
        max_iterations=settings.max_iterations,
        near=near,
    )


def _first_step(
    compiled: CompiledStudy, blocks: Blocks, weight: Weight, starts: Sequence[Array], settings: Settings
) -> Estimates:
    ends = [_settled(compiled, blocks, weight, start, settings) for start in starts]
    search, minima = _best(blocks, weight, ends)
    lost = np.flatnonzero(~search.converged)
    if lost.size and len(starts) == 1 and settings.max_iterations > 1:
        # Searches from elsewhere stand side by side, so that a few lost problems do not cost many short calls.
        tries = np.tile(lost, ELSEWHERE)
        start = _elsewhere(search.theta[:, lost], settings.seed)
        brief = replace(settings, max_iterations=min(settings.max_iterations, BRIEF))
        found = _settled(compiled, blocks.take(tries), weight.take(tries), start, brief)
        ends = [search.take(lost), *(found.take(k) for k in np.arange(len(tries)).reshape(ELSEWHERE, -1))]
        best, minima[lost] = _best(blocks.take(lost), weight.take(lost), ends)
        search = search.put(lost, best)
    return Estimates(search.theta, search.theta, search.objective, weight, _status(search), search.iterations, minima)


def _settled(compiled: CompiledStudy, blocks: Blocks, weight: Weight, start: Array, settings: Settings) -> Search:
    unit = noise(blocks, weight, start)
    found = _search(compiled, WeightedMoments(blocks, weight), start, unit, settings)
    open_ones = np.flatnonzero(found.iterations > 1)
    while open_ones.size and settings.max_iterations > 1:
        # Far from the solution moments can vary without measure, and "converged" then means little.
        some, narrow = blocks.take(open_ones), weight.take(open_ones)
        before, unit[open_ones] = unit[open_ones], noise(some, narrow, found.theta[:, open_ones])
        open_ones = open_ones[unit[open_ones] < 0.1 * before]
        if not open_ones.size:
            break
        problem = WeightedMoments(blocks, weight).take(open_ones)
        again = _search(compiled, problem, found.theta[:, open_ones], unit[open_ones], settings)
        again = replace(again, iterations=found.iterations[open_ones] + again.iterations)
        found = found.put(open_ones, again)
    return found


def _best(blocks: Blocks, weight: Weight, ends: Sequence[Search]) -> tuple[Search, Integers]:
    """The best of several searches, problem by problem, and how many different minima they met."""
    best = ends[0]
    if len(ends) == 1:
        return best, np.where(best.converged, 1, 0)
    floor = np.zeros(len(best.objective))
    for other in ends[1:]:
        at_best = noise(blocks, weight, best.theta)
        floor = np.where(np.isfinite(at_best), SAME_HEIGHT * at_best**2, floor)
        best = _better(best, other, floor)
    return best, _minima(blocks, weight, best, ends, floor)


def _better(best: Search, other: Search, floor: Array) -> Search:
    lower = (other.objective < best.objective) & _uneven(best, other, floor)
    wins = (other.converged & ~best.converged) | ((other.converged == best.converged) & lower)
    wins |= ~best.finite & other.finite
    fields = (
        np.where(wins, getattr(other, name), getattr(best, name))
        for name in ("theta", "objective", "converged", "finite", "iterations")
    )
    return Search(*fields)


def _uneven(one: Search, other: Search, floor: Array) -> NDArray[np.bool_]:
    with np.errstate(invalid="ignore"):
        gap = np.abs(one.objective - other.objective)
        return np.asarray(gap > 1e-6 * (np.abs(one.objective) + np.abs(other.objective)) + floor)


def _minima(blocks: Blocks, weight: Weight, best: Search, ends: Sequence[Search], floor: Array) -> Integers:
    """Ends that differ in height, or (x = b² has two equal minima) in place, where every parameter is determined."""
    slopes = weight.apply([slope for _, slope in blocks.means_and_slopes(best.theta)])
    determined = orthogonalize(np.ascontiguousarray(slopes.swapaxes(0, 1))).kept.all(axis=0)
    places = [np.einsum("rdb,db->rb", slopes, end.theta) for end in ends]
    count = np.zeros(len(floor), dtype=np.int64)
    for k, end in enumerate(ends):
        new = end.converged.copy()
        for j in range(k):
            distant = determined & (squared(places[k] - places[j]) > SAME_PLACE * floor)
            new &= ~ends[j].converged | distant | _uneven(end, ends[j], floor)
        count += new
    return count


def _elsewhere(theta: Array, seed: int) -> Array:
    """Starts (D, ELSEWHERE · B) around the places (D, B) where searches got lost."""
    random = np.random.Generator(np.random.SFC64(seed))
    centre = np.where(np.isfinite(theta), theta, 0.0)
    spread = 1.0 + np.abs(centre)
    return np.concatenate([centre + spread * random.normal(size=(len(centre), 1)) for _ in range(ELSEWHERE)], axis=1)


def _status(search: Search) -> Integers:
    status = np.where(search.converged, Status.CONVERGED, Status.ITERATIONS)
    return np.asarray(np.where(search.finite, status, Status.NOT_FINITE))


def _reweighted(compiled: CompiledStudy, blocks: Blocks, last: Estimates, settings: Settings) -> Estimates:
    """One more step with the efficient weight at the last estimate."""
    weight = efficient_weight(blocks.weighed, last.theta, settings.ridge)
    ranks = sum(triangle.rank for triangle in weight.triangles or [])
    # U Ω Uᵀ is the identity, but for the ridge
    unit = noise(blocks, weight, last.theta) if settings.ridge else np.sqrt(ranks / blocks.rows)
    search = _search(compiled, WeightedMoments(blocks, weight), last.theta, unit, settings, near=True)
    status = np.where(search.converged, _status(search), Status.ITERATIONS)
    status = np.where(search.finite & np.isfinite(last.theta).all(axis=0), status, Status.NOT_FINITE)
    return Estimates(
        search.theta,
        last.theta,
        search.objective,
        weight,
        status,
        last.iterations + search.iterations,
        last.minima,
    )


def _likeliest(compiled: CompiledStudy, blocks: Blocks, first: Estimates, settings: Settings) -> Estimates:
    """Maximum likelihood, from the estimate under normal theory at the sample's own means and covariances."""
    if blocks.stacking != "stacked":
        raise EstimationError("weights='ml' is the likelihood of sources side by side; it needs stacking='stacked'")
    found = _reweighted(compiled, replace(blocks, weighing="normal"), first, settings)
    search = maximize(blocks, found.theta, compiled.lower, compiled.upper, settings.max_iterations)
    weight = efficient_weight(blocks.weighed, search.theta)
    iterations = found.iterations + search.iterations
    status = np.where(search.converged, Status.CONVERGED, Status.ITERATIONS)
    return Estimates(search.theta, search.theta, search.objective, weight, status, iterations, first.minima)


def _iterate(compiled: CompiledStudy, blocks: Blocks, found: Estimates, settings: Settings) -> Estimates:
    """Reweight until nothing moves. A cycle of two is recognised, and is not convergence."""
    before, settled = found.first, np.zeros(found.theta.shape[1], dtype=bool)
    cycle = settled.copy()
    for _ in range(MAX_REWEIGHTINGS):
        unit = noise(blocks, found.weight, found.theta)
        # Back where it was two rounds ago, but not where it was one round ago. A search that swings slowly into its
        # fixed point is also nearer to the former, but not by orders of magnitude.
        moved, returned = (_distance(blocks, found.weight, found.theta, last) for last in (found.first, before))
        settled = moved <= SETTLED * unit
        cycle = ~settled & (returned <= SETTLED * unit) & (returned <= 1e-3 * moved)
        if (settled | cycle | (found.status == Status.NOT_FINITE)).all():
            break
        before, found = found.first, _reweighted(compiled, blocks, found, settings)
    status = np.where(settled, found.status, np.where(cycle, Status.CYCLE, Status.ITERATIONS))
    status = np.where(found.status == Status.NOT_FINITE, found.status, status)
    return Estimates(found.theta, found.first, found.objective, found.weight, status, found.iterations, found.minima)


def _distance(blocks: Blocks, weight: Weight, theta: Array, other: Array) -> Array:
    """How far two estimates are apart in what the weighted moments see."""
    slopes = weight.apply([slope for _, slope in blocks.means_and_slopes(theta)])
    return np.asarray(np.sqrt(squared(np.einsum("rdb,db->rb", slopes, theta - other))))


def _stderrs(slopes: Array, rows: Array) -> Array:
    """√diag((GᵀWG)⁻ / T) (D, B): each parameter's own scale; zero where it is not determined."""
    inverse = orthogonalize(np.ascontiguousarray(slopes.swapaxes(0, 1))).inverse
    spread = np.sqrt(np.einsum("ijb,ijb->jb", inverse, inverse) / rows)
    return np.where(np.isfinite(spread), spread, 0.0)


def _updated(
    compiled: CompiledStudy, blocks: Blocks, starts: list[Array], found: Estimates, settings: Settings
) -> Estimates:
    """Continuously updated weight, from several starts: its objective can have more than one minimum."""
    random = np.random.Generator(np.random.SFC64(settings.seed))
    slopes = found.weight.apply([slope for _, slope in blocks.means_and_slopes(found.theta)])
    spread = _stderrs(slopes, blocks.rows)
    for reach in REACHES:  # a lower minimum can lie far out, where the moments hardly vary
        step = reach * spread * random.normal(size=spread.shape)
        starts = [*starts, starts[0] + step, starts[0] - step]
    unit = noise(blocks, found.weight, found.theta)
    ends = [_search(compiled, UpdatedMoments(blocks), start, unit, settings) for start in starts]
    search, minima = _best(blocks, found.weight, ends)
    weight = efficient_weight(blocks, search.theta)
    # With weak moments the objective can be lowest where θ is infinite: it flattens out and looks like a minimum.
    escaped = ((spread > 0) & (np.abs(search.theta - found.theta) > ESCAPE * spread)).any(axis=0)
    status = np.where(search.converged & escaped, Status.ESCAPED, _status(search))
    return Estimates(
        search.theta,
        search.theta,
        search.objective,
        weight,
        status,
        found.iterations + search.iterations,
        minima,
    )
