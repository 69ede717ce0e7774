"""The problem of `design.solve` for thousands of replications at once, batch last.

With u = M(x)⁻∇f the problem has a dual without inverses: u, a price λ of money and rents v of capacities such that
no source is worth more than it costs,

    maximise 2∇fᵀu − uᵀM₀u − λ·money − vᵀcaps   subject to   ‖B_i u‖² ≤ λ + v_i,  v ≥ 0

and the money given to source i is the multiplier of its constraint. Everything here is at most quadratic, so the
steps of a primal–dual interior-point method with a corrector are nearly exact: seven or eight do for most problems,
corners and singular information included, where multiplicative updates crawl and where Newton steps on
the variance itself, which is rational in x, overshoot.

Every problem is first brought to coordinates in which a reference mix has information I, ∇f has length 1 and the
money that is free to move is 1; the optimum then lies between 1/S and 1, whatever the units.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sourcewise.errors import AllocationError
from sourcewise.numerics.linalg import Array, cholesky, orthogonalize, solve_lower, solve_upper, squared

Flags = NDArray[np.bool_]

DEPENDENT = 1e-9
"""Parameters with less new information than this fraction of their own are combinations of others."""

OUTSIDE = 1e-7
"""∇f may have this fraction of its length outside the range of the information."""

REMAINDER = 1e-9
"""The same for a mix, in the coordinates of the reference mix: there it costs about this fraction of the variance."""

CONVERGED = 1e-11
"""Complementarity, and a tenth of the residuals, relative to an optimum between 1/S and 1."""

NEGLIGIBLE = 1e-5
"""A share below this is set to zero when the source would also have to be cheaper by more than the share."""

PASSES = (8, 60)
"""Steps for all problems, then for the few that need more: those are collected, so that nobody waits for them."""

CACHE = 2**15
"""Numbers in the largest array of a chunk: what stays in the second-level cache with its companions."""


@dataclass(frozen=True, slots=True)
class Designs:
    """`money` (S, B) with exact zeros where nothing should go; `value` (B,) the variance there, infinite when no feasible
    money identifies the target (`money` is then a feasible mix and `gap` NaN); `gap` (B,): no feasible mix has a
    variance below value·(1 − gap)."""

    money: Array
    value: Array
    gap: Array


@dataclass(frozen=True, slots=True)
class _Limits:
    """Money (S, B): `fixed` cannot move, `start` is a feasible mix of the rest with sum `free` (B,), `room` its caps."""

    fixed: Array
    start: Array
    room: Array
    free: Array

    def take(self, chosen: NDArray[np.int64]) -> _Limits:
        return _Limits(*(part[..., chosen] for part in (self.fixed, self.start, self.room, self.free)))


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
    money, value, gap = limits.fixed + limits.start, np.full(batch, np.inf), np.full(batch, np.nan)
    scale = np.abs(gradient).max(axis=0, initial=0.0)
    pending = np.flatnonzero(np.isfinite(roots).all(axis=(0, 1, 2)) & np.isfinite(scale))
    value[pending[scale[pending] == 0]], gap[pending[scale[pending] == 0]] = 0.0, 0.0
    pending = pending[scale[pending] > 0]
    chunk = max(32, CACHE // (size * dimension**2))
    for steps in PASSES:
        unfinished = []
        for chosen in _chunks(pending, chunk):
            frame = _frame(roots[..., chosen], gradient[:, chosen] / scale[chosen], limits.take(chosen))
            if not frame.seen.any():
                continue
            found, done = _follow(frame, steps)
            mix, variance, distance = _finish(frame, found)
            at = chosen[frame.seen]
            money[:, at] = limits.fixed[:, at] + mix
            value[at], gap[at] = variance * scale[at] ** 2, distance
            unfinished.append(at[~done])
        pending = np.concatenate(unfinished) if unfinished else pending[:0]
    return Designs(money, value, gap)


def _chunks(pending: NDArray[np.int64], chunk: int) -> Iterator[NDArray[np.int64]]:
    for first in range(0, len(pending), chunk):
        yield pending[first : first + chunk]


def _limits(size: int, batch: int, total: Array | float, lower: Array | None, upper: Array | None) -> _Limits:
    shape = (size, batch)
    low = np.broadcast_to(0.0 if lower is None else lower, shape)
    room = np.broadcast_to(np.inf if upper is None else upper, shape) - low
    money = np.broadcast_to(np.asarray(total, dtype=float), (batch,))
    free = money - low.sum(axis=0)
    slack = 1e-9 * np.abs(money)
    _refuse(~(free >= -slack), money, low.sum(axis=0), "the lower limits exceed the money", "lower them")
    _refuse(~(room >= -slack).all(axis=0), money, room.min(axis=0), "an upper limit is below its lower limit", "raise it")
    free, room = np.maximum(free, 0.0), np.maximum(room, 0.0)
    capacity = room.sum(axis=0)
    _refuse(~(capacity >= free - slack), free, capacity, "the upper limits leave money that nothing can take", "raise them")
    full = capacity <= free * (1 + 1e-12)
    forced = np.where(full, room * np.divide(free, capacity, out=np.ones(batch), where=full & (capacity > 0)), 0.0)
    free = np.where(full, 0.0, free)
    room = np.where(room >= free, np.inf, np.where(room > 1e-14 * free, room, 0.0))
    within = np.minimum(room, free)
    share = np.divide(free, within.sum(axis=0), out=np.zeros(batch), where=free > 0)
    return _Limits(low + np.where(np.isfinite(forced), forced, 0.0), within * share, room, free)


def _refuse(wrong: Flags, one: Array, other: Array, rule: str, way: str) -> None:
    if wrong.any():
        b = int(np.flatnonzero(wrong)[0])
        raise AllocationError(f"problem {b}: {rule} ({one[b]:.10g} against {other[b]:.10g}); {way} or change the total")


@dataclass(frozen=True, slots=True)
class _Frame:
    """The problems of a chunk that identify the target, with money as multiples t (S, B) of the reference mix."""

    seen: Flags
    """(chunk,): which problems these are."""
    basis: Array
    """Root of the information of the whole reference mix, (D, S, R, B): its rows along D are orthonormal."""
    moving: Array
    """The part of each source's reference money that can move, as a fraction (S, B)."""
    blocks: Array
    """Information of each source's reference money that can move, (S, D, D, B)."""
    base: Array
    """Information of money that cannot move, (D, D, B); the identity in directions that nobody sees."""
    target: Array
    """(D, B), of length 1."""
    length: Array
    """(B,): the user's variance is its square times the variance here."""
    start: Array
    price: Array
    """Money of a unit of t: Σ price = 1, 0 where nothing can move (S, B)."""
    caps: Array

    def information(self, t: Array) -> Array:
        return np.asarray(self.base + np.einsum("sb,sijb->ijb", t, self.blocks))


def _frame(roots: Array, gradient: Array, limits: _Limits) -> _Frame:
    size, tall, dimension, batch = roots.shape
    reference = limits.fixed + limits.start
    weighted = (roots * np.sqrt(reference)[:, None, None]).transpose(2, 0, 1, 3)
    rows = np.ascontiguousarray(weighted).reshape(dimension, size * tall, batch)
    triangle = orthogonalize(rows, DEPENDENT)
    target = np.einsum("ijb,jb->ib", triangle.inverse, gradient)
    seen = _inside(rows, triangle.basis, target, gradient, triangle.lengths)
    length = np.sqrt(squared(target))
    seen &= length > 0
    basis = triangle.basis.reshape(dimension, size, tall, batch)[..., seen]
    start, free, reference = limits.start[:, seen], limits.free[seen], reference[:, seen]
    moving = np.divide(start, reference, out=np.zeros_like(start), where=reference > 0)
    blocks = np.einsum("isrb,jsrb->sijb", basis, basis)
    base = np.einsum("sb,sijb->ijb", 1.0 - moving, blocks)
    base += np.where(triangle.kept[:, seen], 0.0, np.eye(dimension)[..., None])
    blocks *= moving[:, None, None]
    price = np.divide(start, free, out=np.zeros_like(start), where=start > 0)
    caps = np.divide(limits.room[:, seen], start, out=np.full_like(start, np.inf), where=start > 0)
    unit = target[:, seen] / length[seen]
    return _Frame(seen, basis, moving, blocks, base, unit, length[seen], start, price, caps)


def _inside(rows: Array, basis: Array, target: Array, gradient: Array, lengths: Array) -> Flags:
    """Whether ∇f is what the rows make of `target`, judged after every parameter is scaled to a row of length 1."""
    outside = gradient - np.einsum("dkb,kb->db", rows, np.einsum("dkb,db->kb", basis, target))
    unseen = lengths == 0
    scale = 1.0 / np.where(unseen, 1.0, lengths)
    left = squared(np.where(unseen, 0.0, outside * scale))
    whole = squared(np.where(unseen, 0.0, gradient * scale))
    return np.asarray((left <= OUTSIDE**2 * whole) & ~(unseen & (gradient != 0)).any(axis=0))


@dataclass(slots=True)
class _Point:
    """Where the search stands; all (S, B) but λ (B,) and u (D, B). `slack` is caps − t, `idle` λ·price + v − ‖B u‖²."""

    t: Array
    slack: Array
    idle: Array
    rent: Array
    level: Array
    u: Array


def _begin(frame: _Frame) -> _Point:
    """A few multiplicative updates, exact when sources inform about different parameters; then prices to match."""
    t = np.ones_like(frame.price)
    free = frame.price > 0
    plain = np.isinf(frame.caps).all(axis=0) & (frame.moving == 1.0).all(axis=0)
    for update in range(4):
        factor = cholesky(frame.information(t))
        u = solve_upper(factor, solve_lower(factor, frame.target))
        worth = np.einsum("isb,ib->sb", np.einsum("sijb,jb->isb", frame.blocks, u), u)
        if update == 3 or not plain.any():
            break
        rate = np.divide(worth, frame.price, out=np.zeros_like(t), where=free)
        new = t * np.sqrt(np.maximum(rate, 1e-6 * rate.max(axis=0)))
        t = np.where(plain, new / np.where(plain, np.einsum("sb,sb->b", frame.price, new), 1.0), t)
    rate = np.divide(worth, frame.price, out=np.zeros_like(t), where=free)
    capped = free & np.isfinite(frame.caps)
    mean = np.einsum("sb,sb->b", worth, t)
    level = np.where(capped.any(axis=0), mean, 1.05 * rate.max(axis=0))
    margin = level * frame.price - worth
    some = 0.1 / np.maximum(free.sum(axis=0) + capped.sum(axis=0), 1)
    idle = np.where(free, np.maximum(margin, 0.0) + np.where(capped, some, 0.0), 0.0)
    ...
