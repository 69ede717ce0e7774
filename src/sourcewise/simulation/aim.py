"""The best mixes at many estimates at once, and where the next round of each should go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sourcewise.allocation.batched import solve_batch
from sourcewise.allocation.information import information, population
from sourcewise.allocation.pooled_batch import PooledBatch, minimize_batch
from sourcewise.errors import SimulationError
from sourcewise.estimation.blocks import Blocks
from sourcewise.estimation.gmm import Estimates
from sourcewise.inference import sensitivity_of, target_and_gradient
from sourcewise.moments.compiled import CompiledStudy
from sourcewise.numerics.linalg import Array
from sourcewise.policies import ETG, Position


@dataclass(frozen=True, slots=True)
class Setting:
    """What all replications share: the moments that each source computes, prices and capacities (S,)."""

    compiled: CompiledStudy
    positions: Mapping[str, tuple[int, ...]]
    costs: Array
    capacity: Array

    @property
    def limited(self) -> bool:
        return bool(np.isfinite(self.capacity).any())

    @property
    def masks(self) -> Array:
        """(S, M): 1 where the source computes the moment."""
        moments = range(self.compiled.count)
        return np.array([[float(j in places) for j in moments] for places in self.positions.values()])


@dataclass(frozen=True, slots=True)
class Aims:
    """Estimated best mixes (S, B) of rows, where there is one, and the objective that they minimise."""

    kappa: Array
    sound: NDArray[np.bool_]
    objective: _Stacked | PooledBatch


@dataclass(frozen=True, slots=True)
class _Stacked:
    """Information that one unit of money buys, as roots (S, R, D, B), and ∇f (D, B)."""

    roots: Array
    gradient: Array


def best_mix(setting: Setting, blocks: Blocks, found: Estimates, place: Position) -> Aims:
    theta = found.theta
    gradient = target_and_gradient(setting.compiled, theta)[1]
    known = sensitivity_of(blocks, found.weight, theta, gradient)
    # The best mix of all the money; where a source can run out, the best of those that exist.
    most = float(setting.capacity @ setting.costs)
    total = np.minimum(place.budget, most) if setting.limited else np.ones_like(place.budget)
    stacked = _Stacked(_per_money(setting, blocks, theta), gradient)
    designs = solve_batch(stacked.roots, gradient, total, upper=(setting.capacity * setting.costs)[:, None])
    money, value = designs.money, designs.value
    objective: _Stacked | PooledBatch = stacked
    if blocks.stacking == "pooled":
        if setting.limited:
            raise SimulationError("simulations of pooled estimates need sources without a capacity")
        everyone = population(blocks, theta)
        objective = PooledBatch(
            setting.masks, everyone.omega, everyone.slope, gradient, setting.costs, total, np.zeros_like(money)
        )
        even = np.full_like(money, 1.0 / len(money))
        money, value = minimize_batch(objective, [0.98 * money / total + 0.02 * even, even])
    rows = money / setting.costs[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        kappa = rows / rows.sum(axis=0)
    sound = found.converged & known.target_identified & np.isfinite(value) & np.isfinite(kappa).all(axis=0)
    return Aims(kappa, sound, objective)


REACHED = 1e-9
"""Shares of rows this near to the best mix are the best mix."""


def least_variance(setting: Setting, policy: ETG, place: Position, aims: Aims, nearest: Array) -> Array:
    """New rows (S, B) of the price of `nearest` that leave the smallest variance."""
    if policy.per == "rows" and (setting.costs != setting.costs[0]).any():
        raise SimulationError('aim="variance" with rounds counted in rows is simulated for equal prices only')
    open_ones = aims.sound & (setting.limited | ~_reached(place.rows + nearest, aims.kappa))
    at = np.flatnonzero(open_ones)
    out = nearest.copy()
    if at.size:
        have, spend = (np.take(part, at, axis=-1) * setting.costs[:, None] for part in (place.rows, nearest))
        money, value = _cheapest(setting, aims.objective, at, have, spend)
        better = np.isfinite(value)
        rows = np.maximum(money / setting.costs[:, None] - place.rows[:, at], 0.0)
        out[:, at[better]] = rows[:, better]
    return out


def _reached(rows: Array, kappa: Array) -> NDArray[np.bool_]:
    """Where these rows have the best mix of all, so that no other can have a smaller variance."""
    return np.asarray((np.abs(rows - kappa * rows.sum(axis=0)) <= REACHED * rows.sum(axis=0)).all(axis=0))


def _cheapest(
    setting: Setting, objective: _Stacked | PooledBatch, at: NDArray[np.int64], have: Array, spend: Array
) -> tuple[Array, Array]:
    """Money (S, ·) in all, of which `have` is spent already, and its variance, for the problems `at`."""
    total = have.sum(axis=0) + spend.sum(axis=0)
    if isinstance(objective, PooledBatch):
        limited = replace(objective.take(at), total=total, lower=have)
        free = spend.sum(axis=0)
        start = np.divide(spend, free, out=np.full_like(spend, 1.0 / len(spend)), where=free > 0)
        return minimize_batch(limited, [start])
    most = np.maximum((setting.capacity * setting.costs)[:, None], have)
    roots, gradient = (np.take(part, at, axis=-1) for part in (objective.roots, objective.gradient))
    designs = solve_batch(roots, gradient, total, have, most)
    return designs.money, designs.value


def _per_money(setting: Setting, blocks: Blocks, theta: Array) -> Array:
    """Roots (S, R, D, B), rows of zeros below the short ones and for sources that cannot be predicted."""
    roots = information(blocks, theta, setting.positions).roots
    height = max((len(root) for root in roots.values() if root is not None), default=1)
    out = np.zeros((len(roots), height, *theta.shape))
    for place, root, cost in zip(out, roots.values(), setting.costs, strict=True):
        if root is not None:
            np.divide(root, np.sqrt(cost), out=place[: len(root)])
    return out
