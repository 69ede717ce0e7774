"""The mix of smallest variance per unit of money that one more round can reach (the variance projection)."""

from __future__ import annotations

import numpy as np

from sourcewise.allocation.market import Market
from sourcewise.allocation.objective import Objective
from sourcewise.numerics.linalg import Array

BETTER = 1e-12
"""What must be gained, relative, to leave the nearest point: solvers stop with errors of about this size."""


def least_variance(objective: Objective, market: Market, nearest: Array, by_rows: bool) -> Array:
    """New rows (S,), not whole, as many (`by_rows`) or as dear as `nearest` (S,), with the least V(κ)·(κᵀc).

    `market` holds what was bought and what there is to buy. With dear and cheap sources a fixed number of rows has
    no fixed price, and the variance alone would always take the dear ones.
    """
    had, costs = market.bought, market.costs
    same_price = bool((costs == costs[0]).all())

    def worth(rows: Array) -> float:
        money = (had + rows) * costs
        return objective.variance(market, money) * float(money.sum())

    if by_rows and not same_price:
        found = _among_equal_rows(objective, market, nearest)
    else:
        total = float((had + nearest) @ costs)
        limits = Market(market.names, costs, total, had * costs, np.maximum(market.upper, had * costs), had)
        found = np.maximum(objective.minimize(limits)[0] / costs - had, 0.0)
    return found if worth(found) < worth(nearest) * (1.0 - BETTER) else nearest


def _among_equal_rows(objective: Objective, market: Market, nearest: Array) -> Array:
    """V(κ)·(κᵀc) is convex in shares of the money and these are ratios of linear functions of the rows, so with the
    stacked objective a local optimum is the optimum."""
    from scipy.optimize import Bounds, LinearConstraint, minimize

    had, costs, new = market.bought, market.costs, float(nearest.sum())
    total = float(had.sum()) + new

    def objective_and_slope(shares: Array) -> tuple[float, Array]:
        money = (had + np.maximum(shares, 0.0) * new) * costs / total
        value = objective.variance(market, money)
        if not np.isfinite(value):
            return 1e6, np.zeros_like(shares)
        gain = np.nan_to_num(objective.worth(market, money)) / value
        return float(np.log(value * money.sum())), (1.0 / money.sum() - gain) * costs * new / total

    most = np.minimum((market.upper / costs - had) / new, 1.0)
    even = most / most.sum()
    found = minimize(
        objective_and_slope,
        0.9 * nearest / new + 0.1 * even,
        jac=True,
        method="SLSQP",
        bounds=Bounds(np.zeros_like(most), most),
        constraints=LinearConstraint(np.ones((1, len(most))), 1.0, 1.0),
        options={"maxiter": 300, "ftol": 1e-15},
    )
    shares = np.clip(found.x, 0.0, most)
    return np.asarray(np.minimum(shares / shares.sum(), most) * new)
