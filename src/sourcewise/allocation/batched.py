"""The problem of `design.solve` for thousands of replications at once, batch last.

`interior` finds the optimum up to its own tolerance; here limits become a feasible start, money that tends to
zero (or to a cap) becomes exactly that, and every answer is judged from scratch: the variance at the money that is
returned, by a rank-revealing factorisation, against a bound that holds whatever the search did.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sourcewise.allocation.interior import BOLD, CAREFUL, Flags, Frame, Point, follow, frame
from sourcewise.errors import AllocationError
from sourcewise.numerics.linalg import Array, cholesky, orthogonalize, solve_lower, squared

REMAINDER = 1e-9
"""What a mix may leave unexplained of ∇f, where the reference mix has information I: there it costs about this
fraction of the variance."""

PIVOT = 1e-4
"""Above this, a factor of the information itself is exact enough; below, its root is factorised."""

NEGLIGIBLE = 1e-5
"""A share below this is set to zero when the source would also have to be cheaper by more than the share."""

CACHE = 2**18
"""Numbers in the largest array of a chunk: fewer cost calls, many more would leave the cache."""


@dataclass(frozen=True, slots=True)
class Designs:
    """The best designs and what is certain about them."""

    money: Array
    """(S, B), with exact zeros where nothing should go; a feasible mix where none identifies the target."""
    value: Array
    """The variance at `money` (B,), infinite when no feasible money identifies the target."""
    gap: Array
    """(B,): no feasible mix has a variance below value·(1 − gap). 0 where the value is infinite."""


@dataclass(frozen=True, slots=True)
class _Limits:
    """Money (S, B): `fixed` cannot move, `start` is a feasible mix of the rest, `room` what each may get of it."""

    fixed: Array
    start: Array
    room: Array


def solve_batch(
    roots: Array,
    gradient: Array,
    total: Array | float = 1.0,
    lower: Array | None = None,
    upper: Array | None = None,
) -> Designs:
    """Minimise ∇fᵀ[Σ_i x_i B_iᵀB_i]⁻∇f over lower ≤ x ≤ upper, Σ x = total, in each of B problems.

    roots (S, R, D, B): B_i, rows of zeros pad; gradient (D, B); total (B,) or a number; lower, upper (S, B) or (S, 1).
    A problem with a number that is not finite in its roots or gradient counts as one that identifies nothing.
    """
    size, _, dimension, batch = roots.shape
    limits = _limits(size, batch, total, lower, upper)
    money, value, gap = limits.fixed + limits.start, np.full(batch, np.inf), np.zeros(batch)
    scale = np.abs(gradient).max(axis=0, initial=0.0)
    value[scale == 0] = 0.0
    pending = np.flatnonzero(np.isfinite(roots).all(axis=(0, 1, 2)) & np.isfinite(scale) & (scale > 0))
    chunk = max(64, CACHE // (size * dimension**2))
    for pace in (BOLD, CAREFUL):  # the few left over are collected, so that no chunk waits for them
        unfinished = [pending[:0]]
        for first in range(0, len(pending), chunk):
            at = pending[first : first + chunk]
            # `take` keeps the batch contiguous where indexing would make it the outer axis, which costs half the speed
            fixed, start, room = (np.take(part, at, axis=-1) for part in (limits.fixed, limits.start, limits.room))
            problem = frame(np.take(roots, at, axis=-1), np.take(gradient, at, axis=-1) / scale[at], fixed, start, room)
            at = at[problem.seen]
            point, done = follow(problem, pace)
            t, variance, gap[at] = _judge(problem, point)
            money[:, at] = fixed[:, problem.seen] + t * start[:, problem.seen]
            value[at] = variance * (scale[at] * problem.length) ** 2
            unfinished.append(at[~done])
        pending = np.concatenate(unfinished)
    return Designs(money, value, gap)


def _limits(size: int, batch: int, total: Array | float, lower: Array | None, upper: Array | None) -> _Limits:
    low = np.broadcast_to(0.0 if lower is None else lower, (size, batch))
    room = np.broadcast_to(np.inf if upper is None else upper, (size, batch)) - low
    money = np.broadcast_to(np.asarray(total, dtype=float), (batch,))
    free = money - low.sum(axis=0)
    slack = 1e-9 * np.abs(money)
    _refuse(free < -slack, "the lower limits exceed the money", low.sum(axis=0), money)
    _refuse((room < -slack).any(axis=0), "an upper limit is below its lower limit", room.min(axis=0), 0 * money)
    free, room = np.maximum(free, 0.0), np.maximum(room, 0.0)
    most = room.sum(axis=0)
    _refuse(most < free - slack, "the upper limits leave money that no source can take", most, free)
    within = np.minimum(room, free)
    start = within * np.divide(free, within.sum(axis=0), out=np.zeros(batch), where=free > 0)
    stuck = most <= free * (1 + 1e-12)
    fixed = low + np.where(stuck, start, 0.0)
    start = np.where(stuck | (start <= 1e-14 * free), 0.0, start)
    return _Limits(fixed, start, np.where(room >= free, np.inf, room))


def _refuse(wrong: Flags, rule: str, one: Array, other: Array) -> None:
    if wrong.any():
        b = int(np.flatnonzero(wrong)[0])
        figures = f"{one[b]:.10g} against {other[b]:.10g} in problem {b}"
        raise AllocationError(f"{rule}: {figures}; change the limits or the total")


def _judge(problem: Frame, point: Point) -> tuple[Array, Array, Array]:
    """Money (S, B) as multiples of the reference mix, the variance there, and how far below it the optimum may be."""
    raw, snapped = point.t, _snap(problem, point)
    value = _variance(problem, snapped)
    rough = _variance(problem, raw)
    worse = ~(value <= rough * (1 + 1e-9))
    value = np.where(worse, rough, value)
    gap = np.maximum(1.0 - _bound(problem, point.u) / value, 0.0)
    return np.where(worse, raw, snapped), value, gap


def _snap(problem: Frame, point: Point) -> Array:
    """Money that the search drives to zero or to a cap put exactly there, and what is left shared by the others."""
    capped = (problem.price > 0) & np.isfinite(problem.caps)
    share, spare, weight = point.t * problem.price, point.slack * problem.price, point.level * problem.price
    none = (problem.price > 0) & (share < NEGLIGIBLE) & (share * weight < point.idle)
    full = capped & ~none & (spare < NEGLIGIBLE) & (spare * weight < point.rent)
    settled = np.where(full, problem.caps, 0.0)
    rest = np.where(none | full, 0.0, point.t)
    left = 1.0 - np.einsum("sb,sb->b", settled, problem.price)
    others = np.einsum("sb,sb->b", rest, problem.price)
    factor = np.divide(left, others, out=np.ones_like(left), where=others > 0)
    sound = (np.abs(factor - 1.0) < 1e-3) & (np.abs(factor * others - left) < 1e-12)
    return np.where(sound, np.minimum(settled + rest * factor, problem.caps), point.t)


def _variance(problem: Frame, t: Array) -> Array:
    """gᵀM(t)⁻g (B,), infinite where g is outside the range of M(t)."""
    factor = cholesky(problem.information(t))
    value = squared(solve_lower(factor, problem.target))
    doubtful = np.flatnonzero(np.einsum("iib->ib", factor).min(axis=0, initial=np.inf) < PIVOT)
    if len(doubtful):
        basis, moving, target, mix = (
            np.take(part, doubtful, axis=-1) for part in (problem.basis, problem.moving, problem.target, t)
        )
        rows = basis * np.sqrt(1.0 - moving + moving * mix)[:, None]
        rows = rows.reshape(len(target), -1, len(doubtful))
        triangle = orthogonalize(rows)
        parts = np.einsum("ijb,jb->ib", triangle.inverse, target)
        outside = target - np.einsum("dkb,kb->db", rows, np.einsum("dkb,db->kb", triangle.basis, parts))
        value[doubtful] = np.where(squared(outside) <= REMAINDER**2, squared(parts), np.inf)
    return value


def _bound(problem: Frame, u: Array) -> Array:
    """A lower bound of the optimum (B,), whatever u is: value(y) ≥ (gᵀu)² / uᵀM(y)u by Cauchy–Schwarz, and uᵀM(y)u is
    linear in y, so that its maximum over all feasible money is found by filling the best source first."""
    free = problem.price > 0
    worth = np.einsum("isb,ib->sb", problem.pull(u), u)
    rate = np.divide(worth, problem.price, out=np.zeros_like(worth), where=free)
    order = np.argsort(-rate, axis=0)
    room = np.minimum(np.take_along_axis(np.where(free, problem.caps, 0.0) * problem.price, order, axis=0), 1.0)
    taken = np.diff(np.minimum(np.cumsum(room, axis=0), 1.0), axis=0, prepend=0.0)
    most = np.einsum("sb,sb->b", taken, np.take_along_axis(rate, order, axis=0))
    most += np.einsum("ijb,ib,jb->b", problem.base, u, u)
    reach = np.einsum("db,db->b", problem.target, u) ** 2
    return np.asarray(np.divide(reach, most, out=np.zeros_like(reach), where=most > 0))
