"""`allocate` and `variance`: which mix of sources gives the target the smallest variance per unit of money."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from sourcewise.allocation import design, pooled
from sourcewise.allocation.information import information, population
from sourcewise.allocation.integer import Terms, solve_integer
from sourcewise.allocation.rounding import whole_rows
from sourcewise.errors import AllocationError
from sourcewise.estimation.blocks import Stacking
from sourcewise.numerics.linalg import Array
from sourcewise.results import Fit
from sourcewise.spec.study import Study


@dataclass(frozen=True, slots=True)
class Allocation:
    """The best way to spend, at the estimate that it was made from."""

    shares: Mapping[str, float]
    """Of the money."""
    kappa: Mapping[str, float]
    """Of the rows."""
    variance: float
    """V(θ̂, κ)·(κᵀc): after spending B the standard error is √(variance / B). Infinite when no mix identifies f."""
    gap: float
    """Certified relative distance of `variance` to the best possible; NaN for a local optimum."""
    local: bool
    """The pooled objective is not convex: the best of several local optima, without a certificate."""
    worth: Mapping[str, float]
    """What one more unit of money buys at each source, where 1 is what it buys in a mix that nothing constrains."""
    must_explore: tuple[str, ...]
    """Sources whose worth cannot be predicted: some pair of their moments was never seen together."""
    rows: Mapping[str, int] | None = None
    """Whole rows in all, where a budget was given."""
    note: str = ""

    def stderr(self, budget: float) -> float:
        """Of the target after spending `budget` in this mix."""
        return math.sqrt(self.variance / _positive("a budget", budget))

    def budget_for(self, stderr: float) -> float:
        """The money that this mix needs for a standard error."""
        return self.variance / _positive("a standard error", stderr) ** 2


@dataclass(frozen=True, slots=True)
class Market:
    """Prices and limits of all sources in the order of the study, in money."""

    names: tuple[str, ...]
    costs: Array
    total: float
    lower: Array
    upper: Array


def allocate(
    study: Study,
    fit: Fit,
    *,
    budget: float | None = None,
    spent: Mapping[str, int] | None = None,
    least_rows: Mapping[str, int] | None = None,
    least_share: Mapping[str, float] | None = None,
    lots: Mapping[str, int] | None = None,
    opening: Mapping[str, float] | None = None,
    stacking: Stacking | None = None,
) -> Allocation:
    """The mix of sources that makes the target most precise for its price, at the estimate in `fit`.

    budget: all the money there is, what has been spent included. Without one the answer is a mix for any budget, and
        capacities, rows already bought, least rows, lots and opening charges have no meaning.
    spent: rows already bought, by source; they cannot be sold back.
    least_rows, least_share: rows, or share of the money, that a source must get at least.
    lots: rows of a source come in multiples of this number.
    opening: charge for the first row of a source from which none was bought yet; it buys no information.
    stacking: the objective; by default that of the fit. "pooled" is the paper's and has only local optima.
    """
    market = market_of(study, budget, spent or {}, least_rows or {}, least_share or {})
    objective = _objective(study, fit, stacking or fit.blocks.stacking)
    if lots or opening:
        if budget is None or not isinstance(objective, StackedObjective):
            raise AllocationError("lots and opening charges need a budget and the stacked objective")
        return _integer(study, objective, market, lots or {}, opening or {}, spent or {})
    money, value, gap = objective.minimize(market)
    rows = None
    if budget is not None:
        rows = whole_rows(money / market.costs, market.costs, budget, _caps(study), _counts(study, spent or {}))
    return _allocation(objective, market, money, value, gap, rows)
