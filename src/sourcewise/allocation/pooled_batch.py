"""The paper's objective for thousands of replications at once: Newton's method on the simplex, batch last.

With n_i rows of source i, moments shown p = mᵀn, variance Ω(n) = Σ n_i (m_i m_iᵀ)∘Ω and slope A(n) = diag(p) G, the
variance of the target is the value of a saddle problem that is linear in n,

    F(n) = min_q max_t  qᵀΩ(n)q − 2 tᵀ(A(n)ᵀq − ∇f),

so that its first and second derivatives follow from the solution (q, t) without any further factorisation.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
from numpy.typing import NDArray

from sourcewise.numerics.linalg import Array, cholesky, solve_lower, solve_upper, squared

FLOOR = 1e-7
"""A share that is to vanish stops here first; then it is tried at exactly nothing."""

DEPENDENT = 1e-10
"""Fraction of a variance below which a moment is a combination of others (entries of Ω come from different rows)."""

BLIND = 1e-12
"""The same for parameters: less information than this on one of them, and the mix identifies nothing."""

DONE = 1e-10
"""A step that would lower the variance by less than this fraction is the last."""

STEPS = 60


@dataclass(frozen=True, slots=True)
class PooledBatch:
    """Minimise the target's variance over money x (S, B), Σ x = total, x ≥ lower, in each of B problems."""

    masks: Array
    """(S, M): 1 where the source computes the moment."""
    omega: Array
    """(M, M, B) of one row; pairs that no source shows together are not read."""
    slope: Array
    """(M, D, B) of one row."""
    gradient: Array
    """∇f (D, B)."""
    costs: Array
    total: Array
    lower: Array

    def take(self, which: NDArray[np.int64]) -> PooledBatch:
        narrowed = {name: np.take(getattr(self, name), which, axis=-1) for name in _BY_PROBLEM}
        return replace(self, **narrowed)


_BY_PROBLEM = ("omega", "slope", "gradient", "total", "lower")


@dataclass(slots=True)
class _Point:
    """Shares y (S, B) of the money that is free to move, the variance there and its derivatives by shares."""

    share: Array
    value: Array
    first: Array
    second: Array


@dataclass(slots=True)
class _Search:
    which: NDArray[np.int64]
    point: _Point
    damping: Array


def minimize_batch(problem: PooledBatch, starts: list[Array]) -> tuple[Array, Array]:
    """Money (S, B) and variance (B,) of the best local optimum met from `starts` (S, B), shares of the free money."""
    best, lowest = problem.lower + starts[0] * _free(problem), np.full(problem.gradient.shape[-1], np.inf)
    for start in starts:
        money, value = _descend(problem, start)
        better = value < lowest * (1.0 - 1e-12)
        best, lowest = np.where(better, money, best), np.where(better, value, lowest)
    return best, lowest


def variance_batch(problem: PooledBatch, money: Array) -> Array:
    """The target's variance (B,) after spending money (S, B); infinite where it does not identify every parameter."""
    return _derive(problem, money, curved=False)[0]


def _free(problem: PooledBatch) -> Array:
    return np.asarray(problem.total - problem.lower.sum(axis=0))


def _descend(problem: PooledBatch, start: Array) -> tuple[Array, Array]:
    share = np.maximum(start, FLOOR)
    point = _evaluate(problem, share / share.sum(axis=0))
    end, value = point.share.copy(), point.value.copy()
    alive = np.flatnonzero(np.isfinite(point.value))
    search = _narrow(_Search(np.arange(len(value)), point, np.zeros(len(value))), alive)
    current = problem.take(alive)
    for _ in range(STEPS):
        if not search.which.size:
            break
        step, gain = _newton(search)
        trial = _evaluate(current, _move(search.point.share, step))
        lower = trial.value < search.point.value
        done = (gain <= DONE * search.point.value) | (search.damping > 1e8)
        search.damping = np.where(lower, 0.1 * search.damping * (search.damping > 1e-6), 0.0) + np.where(
            lower, 0.0, np.maximum(10.0 * search.damping, 1e-3)
        )
        for part in fields(_Point):
            old, new = getattr(search.point, part.name), getattr(trial, part.name)
            setattr(search.point, part.name, np.where(lower, new, old))
        end[:, search.which], value[search.which] = search.point.share, search.point.value
        open_ones = np.flatnonzero(~done)
        if len(open_ones) < len(done):
            search, current = _narrow(search, open_ones), current.take(open_ones)
    return _without_crumbs(problem, end, value)


def _narrow(search: _Search, which: NDArray[np.int64]) -> _Search:
    parts = (np.take(getattr(search.point, part.name), which, axis=-1) for part in fields(_Point))
    return _Search(search.which[which], _Point(*parts), search.damping[which])


def _newton(search: _Search) -> tuple[Array, Array]:
    """A step (S, B) with Σ = 0 that keeps pinned shares where they are, and the decrease that it promises (B,)."""
    point = search.point
    value = point.value
    # The variance is homogeneous: where all shares are free and optimal, every derivative is −value.
    pinned = (point.share <= FLOOR * (1 + 1e-9)) & (point.first > -value)
    size = len(point.share)
    free = ~pinned
    matrix = point.second * (free[:, None] & free)
    # On the plane Σ = 0 this changes nothing, and it makes the matrix positive wherever the variance is convex there.
    heavy = np.einsum("iib->b", matrix) + value
    matrix = matrix + heavy * (free[:, None] & free)
    index = np.arange(size)
    matrix[index, index] += np.where(free, search.damping * heavy, heavy)
    factor = cholesky(matrix)
    lost = np.einsum("iib->ib", factor).min(axis=0) <= 1e-7 * np.sqrt(heavy)
    slope = np.where(free, point.first, 0.0)
    plain = -solve_upper(factor, solve_lower(factor, slope))
    even = solve_upper(factor, solve_lower(factor, free.astype(np.float64)))
    level = plain.sum(axis=0) / even.sum(axis=0)
    step = np.where(free, plain - level * even, 0.0)
    # Where the variance curves downwards, go down its slope instead.
    weight = np.where(free, point.share, 0.0)
    downhill = -weight * (slope - (weight * slope).sum(axis=0) / weight.sum(axis=0)) / value
    down = (slope * step).sum(axis=0)
    step = np.where(lost | ~(down < 0), downhill / (1.0 + search.damping), step)
    return step, -(slope * step).sum(axis=0)


def _move(share: Array, step: Array) -> Array:
    """As far as the step goes without leaving the simplex; shares that end at the border lie exactly on it."""
    room = share - FLOOR
    ratio = np.divide(room, -step, out=np.full_like(step, np.inf), where=step < 0)
    length = np.minimum(1.0, ratio.min(axis=0))
    moved = share + length * step
    moved = np.where((step < 0) & (ratio <= length * (1 + 1e-12)), FLOOR, np.maximum(moved, FLOOR))
    return np.asarray(moved / moved.sum(axis=0))


def _without_crumbs(problem: PooledBatch, share: Array, value: Array) -> tuple[Array, Array]:
    crumbs = share <= 10 * FLOOR
    bare = np.where(crumbs, 0.0, share)
    bare = bare / bare.sum(axis=0)
    without = variance_batch(problem, problem.lower + bare * _free(problem))
    good = without <= value * (1.0 + 1e-6)
    kept = np.where(good, bare, share)
    return problem.lower + kept * _free(problem), np.where(good, without, value)


def _evaluate(problem: PooledBatch, share: Array) -> _Point:
    free = _free(problem)
    value, first, second = _derive(problem, problem.lower + share * free, curved=True)
    return _Point(share, value, first * free, second * free * free)


def _derive(problem: PooledBatch, money: Array, curved: bool) -> tuple[Array, Array, Array]:
    """F (B,), and if `curved` its derivatives by money (S, B) and (S, S, B)."""
    masks, costs = problem.masks, problem.costs[:, None]
    rows = money / costs
    size, count, batch = len(masks), masks.shape[1], rows.shape[1]
    shown = masks.T @ rows
    together = (masks[:, :, None] * masks[:, None]).reshape(size, -1)
    omega = problem.omega * (together.T @ rows).reshape(count, count, batch)
    root = cholesky(omega, DEPENDENT)
    white = solve_lower(root, problem.slope * shown[:, None])
    inner = np.einsum("mdb,meb->deb", white, white)
    length = np.sqrt(np.einsum("ddb->db", inner))
    scale = np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)
    inner *= scale[:, None] * scale
    triangle = cholesky(inner)
    blind = np.einsum("ddb->db", triangle).min(axis=0) <= np.sqrt(BLIND)
    image = solve_lower(triangle, problem.gradient * scale)
    value = np.where(blind, np.inf, squared(image))
    if not curved:
        return value, rows, omega
    tilt = scale * solve_upper(triangle, image)
    pull = solve_upper(root, np.einsum("mdb,db->mb", white, tilt))
    moved = np.einsum("mdb,db->mb", problem.slope, tilt)
    masked = masks[:, :, None] * pull
    spread = np.stack([np.einsum("jkb,kb->jb", problem.omega, part) for part in masked])
    left = masks[:, :, None] * (moved - spread)
    first = -np.einsum("smb,mb->sb", left + masks[:, :, None] * moved, pull)
    ahead = solve_lower(root, left.swapaxes(0, 1))
    along = np.einsum("mdb,smb->dsb", problem.slope, masked) + np.einsum("mdb,msb->dsb", white, ahead)
    inside = solve_lower(triangle, scale[:, None] * along)
    second = np.einsum("dsb,dtb->stb", inside, inside) - np.einsum("msb,mtb->stb", ahead, ahead)
    return value, first / costs, 2.0 * second / (costs[:, None] * costs)
