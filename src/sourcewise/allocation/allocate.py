"""`allocate` and `variance`: which mix of sources gives the target the smallest variance per unit of money."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from sourcewise.allocation.integer import Terms, solve_integer
from sourcewise.allocation.market import Market, market_of, positive
from sourcewise.allocation.objective import Objective, PooledObjective, StackedObjective, objective_of
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
    """V(θ̂, κ)·(κᵀc): after spending B the standard error is √(variance / B). Infinite when no mix identifies f.

    With opening charges they are part of what is spent, so this is more than `sw.variance` of the same mix."""
    gap: float
    """Certified relative distance of `variance` to the best possible; NaN for a local optimum."""
    local: bool
    """The pooled objective is not convex: the best of several local optima, without a certificate."""
    worth: Mapping[str, float]
    """What one more unit of money buys at each source, where 1 is what it buys in a mix that nothing constrains.
    NaN for those in `must_explore`."""
    must_explore: tuple[str, ...]
    """Sources whose worth cannot be predicted: some pair of their moments was never seen together."""
    note: str = ""
    """What else there is to know about how it was found."""

    def stderr(self, budget: float) -> float:
        """Of the target after spending `budget` in this mix."""
        return math.sqrt(self.variance / positive("a budget", budget))

    def budget_for(self, stderr: float) -> float:
        """The money that this mix needs for a standard error."""
        return self.variance / positive("a standard error", stderr) ** 2


def allocate(
    study: Study,
    fit: Fit,
    *,
    budget: float | None = None,
    spent: Mapping[str, int] | None = None,
    least_rows: Mapping[str, int] | None = None,
    least_share: Mapping[str, float] | None = None,
    most_rows: Mapping[str, int] | None = None,
    lots: Mapping[str, int] | None = None,
    opening: Mapping[str, float] | None = None,
    stacking: Stacking | None = None,
) -> Allocation:
    """The mix of sources that makes the target most precise for its price, at the estimate in `fit`.

    budget: all the money there is, what has been spent included. Without one the answer is the best mix for any budget,
        and capacities, rows already bought, least and most rows, lots and opening charges cannot be taken into account.
    spent: rows already bought, by source; they cannot be sold back.
    least_rows, least_share: rows, or share of the money, that a source must get at least.
    most_rows: rows that a source may get at most, where that is less than its capacity.
    lots: rows of a source come in multiples of this number.
    opening: charge for the first row of a source from which none was bought yet; it buys no information.
    stacking: the objective; by default that of the fit. "pooled" is the paper's and has only local optima.
    """
    market = market_of(study, budget, spent or {}, least_rows or {}, least_share or {}, most_rows)
    objective = objective_of(study, fit, stacking)
    if lots or opening:
        if budget is None or not isinstance(objective, StackedObjective):
            raise AllocationError("lots and opening charges need a budget and the stacked objective")
        terms = Terms(market.lots(lots or {}), market.charges(opening or {}))
        found = solve_integer(objective.problem(market), terms)
        gap = max(0.0, 1.0 - found.bound / found.value) if 0 < found.value < math.inf else 0.0
        note = f"{found.nodes} nodes of the search tree"
        if not found.searched:
            note += "; over the most promising sources only, because there are too many for all"
        if not found.money.any():
            raise AllocationError(f"on these terms a budget of {budget:g} buys no mix that identifies the target")
        return _allocation(objective, market, found.money, found.value, gap, note, found.charges)
    money, value, gap = objective.minimize(market)
    return _allocation(objective, market, money, value, gap, "")


def variance(study: Study, fit: Fit, kappa: Mapping[str, float], *, stacking: Stacking | None = None) -> float:
    """V(θ̂, κ)·(κᵀc) of a mix of rows, in the unit of `Allocation.variance`; infinite when it does not identify f."""
    market = market_of(study, None, {}, {}, {})
    shares = market.by_source(kappa, "kappa")
    if not (np.isfinite(shares).all() and (shares >= 0).all() and shares.any()):
        raise AllocationError(f"kappa must hold shares of 0 or more that are not all 0, not {dict(kappa)!r}")
    money = shares / shares.max() * market.costs
    return objective_of(study, fit, stacking).variance(market, money / money.sum())


def _allocation(
    objective: Objective,
    market: Market,
    money: Array,
    value: float,
    gap: float,
    note: str,
    charges: float = 0.0,
) -> Allocation:
    total = float(money.sum())
    rows = money / market.costs
    worth = objective.worth(market, money) * total / value if 0 < value < math.inf else np.zeros_like(money)
    local = isinstance(objective, PooledObjective)

    def named(values: Array) -> dict[str, float]:
        return dict(zip(market.names, values.tolist(), strict=True))

    return Allocation(
        named(money / total),
        named(rows / rows.sum()),
        value * (total + charges),
        math.nan if local else gap,
        local,
        named(worth),
        objective.must_explore,
        note,
    )
