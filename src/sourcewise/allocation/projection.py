"""Feasible regions of the next batch, and the point of a region nearest to a target ratio (the paper's projections).

After counts n (T rows in all), rows Δ ≥ 0 lead to the ratio κ = (n + Δ)/(T + ΣΔ). With b rows to come the region is a
simplex. With money b to come it is {κ : cᵀΔ = b}. That is no curved set either: with s = 1/(T + ΣΔ) and y = sΔ it is
κ = s·n + y under the linear constraints Σy + sT = 1, cᵀy = s·b, 0 ≤ y ≤ s·caps. So the squared distance to a target is a
convex function of (s, y), its minimum over y a convex function of s alone, and a search over the number of new rows
ΣΔ = 1/s − T, of which that function is unimodal, cannot end in a local minimum.

Arrays are (S, B), batch last; a target, counts or costs of shape (S, 1) serve all problems.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sourcewise.errors import AllocationError
from sourcewise.numerics.linalg import Array

REACHED = 1e-12
"""A target is inside the region when no source would have to return more than this fraction of all rows."""

STEPS = 100


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
    money = np.minimum(np.asarray(budget, dtype=float), (limit * price).sum(axis=0)) + np.zeros(shape[1])
    everything = (have * price).sum(axis=0) + money
    rows = aim * (everything / (aim * price).sum(axis=0)) - have
    slack = REACHED * (have.sum(axis=0) + money / price.min())
    outside = np.flatnonzero((money > 0) & ~((rows >= -slack) & (rows <= limit + slack)).all(axis=0))
    rows = np.where(money > 0, np.clip(rows, 0.0, limit), 0.0)
    if len(outside):
        order = np.argsort(price[:, 0], kind="stable")
        parts = (np.take(part[order], outside, axis=-1) for part in (aim, have, limit))
        rows[order[:, None], outside] = _search(*parts, money[outside], price[order])
    return rows


def _search(target: Array, counts: Array, caps: Array, money: Array, price: Array) -> Array:
    """Rows at the minimum over their number, by bisection on the sign of the slope, sped up by secants."""
    most, least = _fill(caps, money, price), _fill(caps[::-1], money, price[::-1])[::-1]
    high, low = most.sum(axis=0), least.sum(axis=0)
    above, below = np.full_like(high, np.nan), np.full_like(low, np.nan)
    for step in range(STEPS):
        middle = 0.5 * (low + high)
        if step % 3:
            with np.errstate(invalid="ignore", divide="ignore"):
                chord = (low * above - high * below) / (above - below)
            middle = np.where((chord > low) & (chord < high), chord, middle)
        rows, slope = _at(middle, target, counts, caps, money, price)
        more = slope < 0
        low, below = np.where(more, middle, low), np.where(more, slope, below)
        high, above = np.where(more, high, middle), np.where(more, above, slope)
        if (high - low <= 1e-15 * high).all():
            break
    candidates = np.stack([most, least, rows])
    ratios = (counts + candidates) / (counts + candidates).sum(axis=1, keepdims=True)
    distance = np.square(ratios - target).sum(axis=1)
    distance[2] *= 1 + 1e-14  # an end that is as near is the exact corner
    return np.asarray(np.take_along_axis(candidates, np.argmin(distance, axis=0)[None, None], axis=0)[0])


def _fill(caps: Array, money: Array, price: Array) -> Array:
    """Rows when all money goes to the first source that can still take some."""
    cost = np.diff(np.minimum(np.cumsum(np.minimum(caps * price, money), axis=0), money), axis=0, prepend=0.0)
    return np.asarray(cost / price)


def _at(number: Array, target: Array, counts: Array, caps: Array, money: Array, price: Array) -> tuple[Array, Array]:
    """The best `number` rows (S, B) that cost `money`, and the slope of the squared distance in `number`, up to a factor.

    Rows are clip(w − τ − σ·price): τ makes their number right for any σ, and their cost falls in σ, piecewise linearly,
    so that Newton's method inside a bracket ends after a few steps."""
    size = counts.sum(axis=0)
    wish = target * (size + number) - counts
    sigma, low, high = np.zeros_like(number), np.full_like(number, -np.inf), np.full_like(number, np.inf)
    within = np.minimum(caps, number)
    width = number / max(float(np.ptp(price)), 1e-300)
    for _ in range(STEPS):
        level = _level(wish - sigma * price, number, within)
        rows = np.clip(wish - sigma * price - level, 0.0, within)
        excess = (rows * price).sum(axis=0) - money
        open_ = np.abs(excess) > 1e-14 * money
        if not open_.any():
            break
        low, high = np.where(excess > 0, sigma, low), np.where(excess > 0, high, sigma)
        free = (rows > 0) & (rows < within)
        mean = (price * free).sum(axis=0) / np.maximum(free.sum(axis=0), 1)
        steepness = np.where(free, np.square(price - mean), 0.0).sum(axis=0)
        newton = sigma + np.divide(excess, steepness, out=np.full_like(number, np.nan), where=steepness > 0)
        outer = np.where(excess > 0, sigma + width, sigma - width)
        inner = np.where(np.isfinite(low) & np.isfinite(high), 0.5 * (low + high), outer)
        sigma = np.where(open_, np.where((newton > low) & (newton < high), newton, inner), sigma)
        width = 4.0 * width
    short = rows - wish
    full = np.where(np.isfinite(caps), caps, 0.0) * np.maximum(-(short + level + sigma * price), 0.0)
    slope = (counts * short).sum(axis=0) + level * size - sigma * money - full.sum(axis=0)
    return rows, -slope
