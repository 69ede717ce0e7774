"""The variance of the target as a function of money: stacked (convex, certified) or pooled (the paper's)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import get_args

import numpy as np

from sourcewise.allocation import pooled
from sourcewise.allocation.design import Problem, solve
from sourcewise.allocation.design import variance as stacked_variance
from sourcewise.allocation.information import Information, information, population
from sourcewise.allocation.market import Market
from sourcewise.errors import AllocationError
from sourcewise.estimation.blocks import Stacking
from sourcewise.numerics import linalg
from sourcewise.numerics.linalg import Array
from sourcewise.results import Fit
from sourcewise.spec.study import Study


@dataclass(frozen=True, slots=True)
class StackedObjective:
    """Every source keeps its own copy of each moment: information adds up."""

    roots: tuple[Array, ...]
    """A_i (R_i, D), one row's information of each source; no rows where nothing is known."""
    gradient: Array
    must_explore: tuple[str, ...]

    def problem(self, market: Market) -> Problem:
        per_money = tuple(root / math.sqrt(cost) for root, cost in zip(self.roots, market.costs, strict=True))
        return Problem(per_money, self.gradient, market.total, market.lower, market.upper)

    def minimize(self, market: Market) -> tuple[Array, float, float]:
        """Money, variance and certified gap."""
        found = solve(self.problem(market))
        return found.money, found.value, found.gap

    def variance(self, market: Market, money: Array) -> float:
        return stacked_variance(self.problem(market).roots, self.gradient, money)

    def worth(self, market: Market, money: Array) -> Array:
        """What one more unit of money at each source takes off the variance; NaN where that is not known.

        A source with parameters of its own must pay for them before it bears on the target."""
        roots = self.problem(market).roots
        weighed = [math.sqrt(x) * root for x, root in zip(money, roots, strict=True)]
        known = linalg.information(np.concatenate(weighed))
        direction = known.inverse @ self.gradient
        own = [linalg.unexplained(linalg.seen_in(known, root), root @ direction) for root in roots]
        return _unknown(market, self.must_explore, np.array([float(part @ part) for part in own]))


@dataclass(frozen=True, slots=True)
class PooledObjective:
    """Moments averaged over all rows, as in the paper."""

    masks: Array
    omega: Array
    slope: Array
    gradient: Array
    start: StackedObjective
    must_explore: tuple[str, ...]

    def problem(self, market: Market) -> pooled.PooledProblem:
        return pooled.PooledProblem(
            self.masks,
            self.omega,
            self.slope,
            self.gradient,
            market.costs,
            market.total,
            market.lower,
            np.minimum(market.upper, market.total),
        )

    def minimize(self, market: Market) -> tuple[Array, float, float]:
        """Money and variance of a local optimum; the stacked optimum is one of the starts."""
        first, value, _ = self.start.minimize(market)
        money, lowest = pooled.minimize_pooled(self.problem(market), [first] if math.isfinite(value) else [])
        return money, lowest, math.nan

    def variance(self, market: Market, money: Array) -> float:
        return pooled.variance(self.problem(market), money / market.costs)[0]

    def worth(self, market: Market, money: Array) -> Array:
        """What one more unit of money at each source takes off the variance; NaN where that is not known."""
        gain = -pooled.variance(self.problem(market), money / market.costs)[1] / market.costs
        return _unknown(market, self.must_explore, gain)


Objective = StackedObjective | PooledObjective


def objective_of(study: Study, fit: Fit, stacking: Stacking | None) -> Objective:
    """The objective at the estimate in `fit`."""
    if stacking is not None and stacking not in get_args(Stacking):
        raise AllocationError(f"stacking must be one of {', '.join(map(repr, get_args(Stacking)))}, not {stacking!r}")
    if not isinstance(study, Study) or not isinstance(fit, Fit):
        raise AllocationError("an allocation needs a Study(...) and the Fit(...) of some of its sources")
    if fit.study.moments != study.moments or set(fit.study.sources) - set(study.sources):
        raise AllocationError("the fit is of another study: its moments or sources are not those of the study given")
    positions = {name: study.moments_of(name) for name in study.sources}
    theta, gradient = fit.estimates.theta, fit.inference.gradient[:, 0]
    known = information(fit.blocks, theta, positions)
    stacked = StackedObjective(_roots(known, len(gradient)), gradient, known.must_explore)
    if (stacking or fit.blocks.stacking) == "stacked":
        return stacked
    everyone = population(fit.blocks, theta)
    masks = np.array([[float(j in places) for j in range(len(study.moments))] for places in positions.values()])
    masks[[name in known.must_explore for name in positions]] = 0.0
    return PooledObjective(masks, everyone.omega[..., 0], everyone.slope[..., 0], gradient, stacked, known.must_explore)


def _unknown(market: Market, must_explore: tuple[str, ...], gain: Array) -> Array:
    return np.array([math.nan if name in must_explore else x for name, x in zip(market.names, gain, strict=True)])


def _roots(known: Information, dimension: int) -> tuple[Array, ...]:
    nothing = np.zeros((0, dimension))
    return tuple(nothing if root is None else root[..., 0] for root in known.roots.values())
