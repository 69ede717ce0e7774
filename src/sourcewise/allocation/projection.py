"""Feasible regions of the next batch, and the point of a region nearest to a target ratio (the paper's projections).

After counts n (T rows in all), rows Δ ≥ 0 lead to the ratio κ = (n + Δ)/(T + ΣΔ). With b rows to come the region is a
simplex. With money b to come it is {κ : cᵀΔ = b}, which the paper writes in a way that looks curved. It is not: Δ → κ
is a linear-fractional map with a positive denominator, and such a map takes a polytope to a polytope, here the one
with the vertices (n + b/c_i e_i)/(T + b/c_i). So the nearest point is unique, the problem is a convex quadratic
program, and no search over the number of new rows can do better.

Arrays are (S, B), batch last; a target or counts of shape (S, 1) serve all problems.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sourcewise.allocation.quadratic import minimize
from sourcewise.errors import AllocationError
from sourcewise.numerics.linalg import Array

REACHED = 1e-12
"""A target is inside the region when no source would have to return more than this fraction of all rows."""


def simplex(points: Array, total: ArrayLike = 1.0, caps: ArrayLike = np.inf) -> Array:
    """The nearest x (S, B) with Σ x = total (B,) and 0 ≤ x ≤ caps; x = caps where they leave room for no more."""
    points = np.asarray(points, dtype=float)
    within = np.minimum(np.asarray(caps, dtype=float), np.asarray(total, dtype=float)) + np.zeros_like(points)
    return np.clip(points - _level(points, np.asarray(total, dtype=float), within), 0.0, within)


def _level(points: Array, total: Array, caps: Array) -> Array:
    """τ (B,) with Σ clip(points − τ, 0, caps) = total for finite caps, exactly: the sum is linear between the sorted
    places where a coordinate leaves zero (points) or reaches its cap (points − caps)."""
    places = np.concatenate([points, points - caps])
    order = np.argsort(-places, axis=0, kind="stable")
    places = np.take_along_axis(places, order, axis=0)
    growth = np.cumsum(np.where(order < len(points), 1.0, -1.0), axis=0)
    sums = np.cumsum(growth[:-1] * (places[:-1] - places[1:]), axis=0)
    enough = sums >= total
    k = np.argmax(enough, axis=0)[None]
    known = np.take_along_axis(sums, k, axis=0) - total
    rate = np.maximum(np.take_along_axis(growth, k, axis=0), 1.0)
    rough = np.where(enough.any(axis=0), (np.take_along_axis(places, k + 1, axis=0) + known / rate)[0], places[-1])
    between = (points > rough) & (points - caps < rough)
    number = between.sum(axis=0)
    # The sums above carry the rounding errors of all earlier places; one clean sum over the free coordinates has none.
    clean = np.where(between, points, 0.0).sum(axis=0) + np.where(points - caps >= rough, caps, 0.0).sum(axis=0) - total
    return np.asarray(np.where(number > 0, clean / np.maximum(number, 1), rough))


def nearest_by_rows(target: Array, counts: Array, batch: ArrayLike, caps: ArrayLike = np.inf) -> Array:
    """Rows to buy (S, B), not whole: Σ = batch (B,), or all there are where `caps` leave fewer.

    (counts + rows)/(T + batch) is the nearest feasible ratio to `target`, whose columns add up to 1."""
    limit = np.asarray(caps, dtype=float) + np.zeros_like(counts)
    new = np.minimum(np.asarray(batch, dtype=float), limit.sum(axis=0))
    return simplex(target * (counts.sum(axis=0) + new) - counts, new, limit)


def nearest_by_budget(target: Array, counts: Array, costs: Array, budget: ArrayLike, caps: ArrayLike = np.inf) -> Array:
    """Rows to buy (S, B), not whole, that cost `budget` (B,) in all, or all there are where `caps` leave less to buy.

    costs: (S,). (counts + rows)/(T + Σ rows) is the nearest feasible ratio to `target`."""
    price = np.asarray(costs, dtype=float)[:, None]
    if not (np.isfinite(price) & (price > 0)).all():
        raise AllocationError("costs must be positive, finite numbers")
    shape = np.broadcast_shapes(target.shape, counts.shape, (1, np.size(budget)), np.shape(caps) or (1, 1))
    aim, have, limit = (np.broadcast_to(np.asarray(part, dtype=float), shape) for part in (target, counts, caps))
    within = (limit * price).sum(axis=0)
    money = np.minimum(np.asarray(budget, dtype=float), within)
    everything = (have * price).sum(axis=0) + money
    rows = aim * (everything / (aim * price).sum(axis=0)) - have
    slack = REACHED * (have.sum(axis=0) + money / price.min())
    inside = ((rows >= -slack) & (rows <= limit + slack)).all(axis=0)
    full = within <= money * (1 + REACHED)
    rows = np.where(money > 0, np.where(full & np.isfinite(limit), limit, np.clip(rows, 0.0, limit)), 0.0)
    outside = np.flatnonzero(~inside & ~full & (money > 0))
    if len(outside):
        aim, have, limit = (np.take(part, outside, axis=-1) for part in (aim, have, limit))
        found = _nearest_mix(aim, have, limit * price / money[outside], money[outside] / price)
        rows[:, outside] = np.minimum(found, limit)
    return rows


def _nearest_mix(target: Array, counts: Array, caps: Array, alone: Array) -> Array:
    """Rows w·alone (S, B) with the ratio nearest to `target`, over shares of money 0 ≤ w ≤ caps, Σ w = 1.

    `alone` are the rows that all the money buys at one source. In weights λ_i ∝ w_i·(T + alone_i), Σ λ = 1, the ratio
    is the mean of the vertices (counts + alone_i e_i)/(T + alone_i). They are taken about counts/T, because a small
    batch moves the ratio by little."""
    size = len(target)
    total = counts.sum(axis=0)
    centre = counts / np.where(total > 0, total, 1.0)
    pull = alone / (total + alone)
    vertices = pull * (np.eye(size)[..., None] - centre[:, None])
    offset = np.where(total > 0, centre, 0.0) - target
    usable = caps > 0
    room = np.where(usable, np.minimum(caps, 1.0), 0.0)
    start = room / room.sum(axis=0) * (total + alone)
    start /= start.sum(axis=0)
    height = total + alone
    height = height.min(axis=0) / height
    limited = usable & (caps < 1.0)
    hessian = np.einsum("kib,kjb->ijb", vertices, vertices)
    linear = np.einsum("kib,kb->ib", vertices, offset)
    scale = np.abs(linear).max(axis=0) + np.einsum("iib->ib", hessian).max(axis=0)
    limits = np.where(limited, caps, 0.0)[:, None] * height - np.eye(size)[..., None] * height
    weights = minimize(hessian / scale, linear / scale, limits, start, limited)
    share = weights * height
    return np.asarray(share / share.sum(axis=0) * alone)
