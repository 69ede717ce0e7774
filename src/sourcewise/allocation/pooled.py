"""The paper's objective: moments averaged over all rows. Not convex when a moment has several sources.

A moment's weight in the average is the share of rows that show it, and that of a *pair* of moments the share of rows
that show both. (The published code takes two moments with different masks as never seen together, although a
third source may show both; in IHDP this puts its oracle 11 % off the optimum.)
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from sourcewise.numerics.linalg import Array, information, inverse_root, unexplained

DRAWS = 6
CORNERS = 12
"""Up to this many sources a search starts near each of them alone: valleys of the variance end there."""
NEGLIGIBLE = 1e-5
"""Shares below this are tried at zero: the optimum often lies on the border, where a search only comes close."""


@dataclass(frozen=True, slots=True)
class PooledProblem:
    """Minimise the variance of the target over money x (S,), Σ x = total, lower ≤ x ≤ upper."""

    masks: Array
    """(S, M): 1 where the source computes the moment."""
    omega: Array
    """Variance (M, M) of one row's moments; entries that no source ever shows together are not read."""
    slope: Array
    """Mean derivative (M, D) of one row's moments."""
    gradient: Array
    """∇f (D,)."""
    costs: Array
    total: float
    lower: Array
    upper: Array


def variance(problem: PooledProblem, rows: Array) -> tuple[float, Array]:
    """Variance of the target after these rows (S,), and its derivative by rows; infinite when not identified.

    For a source without rows the derivative is one-sided: moments that only it computes count as well."""
    shown = problem.masks.T @ rows
    held = shown > 0
    if not held.any():
        return np.inf, np.zeros_like(rows)
    slope = shown[held, None] * problem.slope[held]
    pairs = (problem.masks.T * rows) @ problem.masks
    root = inverse_root((pairs * problem.omega)[np.ix_(held, held)])
    known = information(root @ slope)
    if not known.identifies(problem.gradient):
        return np.inf, np.zeros_like(rows)
    tilt = known.inverse @ problem.gradient
    pull = np.zeros(len(shown))
    pull[held] = root.T @ (root @ slope @ tilt)
    masked = problem.masks * pull
    change = np.einsum("ij,jk,ik->i", masked, problem.omega, masked) - 2.0 * masked @ (problem.slope @ tilt)
    for i in np.flatnonzero(rows <= 0):
        new = np.flatnonzero((problem.masks[i] > 0) & ~held)
        if len(new):
            whiten = inverse_root(problem.omega[np.ix_(new, new)])
            lack = problem.slope[new] @ tilt - problem.omega[new] @ masked[i]
            change[i] -= float(np.sum(unexplained(whiten @ problem.slope[new] @ known.silent.T, whiten @ lack) ** 2))
    return float(problem.gradient @ tilt), change


def minimize_pooled(problem: PooledProblem, starts: list[Array], seed: int = 0) -> tuple[Array, float]:
    """Money (S,) and variance of the best local optimum met from `starts`, an even spread, corners and random mixes."""
    best, lowest = _feasible(problem, np.ones_like(problem.costs)), np.inf
    for start in _starts(problem, starts, seed):
        money, value = _descend(problem, start)
        if value < lowest * (1.0 - 1e-12):
            best, lowest = money, value
    return best, lowest


def _starts(problem: PooledProblem, starts: list[Array], seed: int) -> Iterator[Array]:
    even = np.ones_like(problem.costs) / len(problem.costs)
    yield from (_feasible(problem, 0.98 * start / start.sum() + 0.02 * even) for start in starts)
    yield _feasible(problem, even)
    if 1 < len(even) <= CORNERS:
        yield from (_feasible(problem, 0.98 * corner + 0.02 * even) for corner in np.eye(len(even)))
    random = np.random.Generator(np.random.SFC64(seed))
    for _ in range(DRAWS if len(even) > 1 else 0):
        yield _feasible(problem, random.dirichlet(np.ones_like(even)))


def _feasible(problem: PooledProblem, shares: Array) -> Array:
    """Money within bounds that follows these shares: what a bound cuts off goes to the others."""
    money = problem.lower.copy()
    for _ in range(2 * len(shares)):
        left = problem.total - money.sum()
        room = problem.upper - money > 1e-15 * problem.total
        if left <= 1e-15 * problem.total or not room.any():
            break
        wanted = np.where(room, np.maximum(shares, 1e-12), 0.0)
        money = np.minimum(problem.upper, money + left * wanted / wanted.sum())
    return money


def _descend(problem: PooledProblem, start: Array) -> tuple[Array, float]:
    """A local optimum from `start`; shares that vanish are set to zero and the rest is searched again."""
    open_sources = np.ones(len(start), dtype=bool)
    money, value = _search(problem, start, open_sources)
    while True:
        small = open_sources & (money - problem.lower < NEGLIGIBLE * problem.total) & (problem.lower <= 0)
        if not small.any() or small.sum() == open_sources.sum():
            return money, value
        open_sources = open_sources & ~small
        pruned, again = _search(problem, np.where(open_sources, money, 0.0), open_sources)
        if not again <= value * (1.0 + 1e-12):
            return money, value
        money, value = pruned, again


def _search(problem: PooledProblem, start: Array, free: np.ndarray) -> tuple[Array, float]:
    from scipy.optimize import Bounds, LinearConstraint, minimize

    total, costs = problem.total, problem.costs
    reference = variance(problem, start / costs)[0]
    if not np.isfinite(reference):
        return start, np.inf

    def objective(shares: Array) -> tuple[float, Array]:
        value, change = variance(problem, np.maximum(shares, 0.0) * total / costs)
        return value / reference, change * total / costs / reference

    upper = np.where(free, np.minimum(problem.upper / total, 1.0), 0.0)
    found = minimize(
        objective,
        start / start.sum(),
        jac=True,
        method="SLSQP",
        bounds=Bounds(problem.lower / total, np.maximum(upper, problem.lower / total)),
        constraints=LinearConstraint(np.ones((1, len(start))), 1.0, 1.0),
        options={"maxiter": 500, "ftol": 1e-15},
    )
    money = _feasible_near(problem, np.maximum(found.x, 0.0) * total)
    value = variance(problem, money / costs)[0]
    return (money, value) if value <= reference else (start, reference)


def _feasible_near(problem: PooledProblem, money: Array) -> Array:
    """Money put right where the search left it a rounding error outside its bounds."""
    clipped = np.clip(money, problem.lower, problem.upper)
    return np.asarray(clipped + (problem.total - clipped.sum()) * clipped / clipped.sum())
