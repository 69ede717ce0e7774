"""A primal–dual interior-point search for thousands of c-optimal designs at once, batch last.

With u = M(x)⁻∇f the problem has a dual without inverses: u, a price λ of money and rents v of capacities such that
no source is worth more than it costs,

    maximise 2∇fᵀu − uᵀM₀u − λ·money − vᵀcaps   subject to   ‖B_i u‖² ≤ λ + v_i,  v ≥ 0

and the money given to source i is the multiplier of its constraint. Everything here is at most quadratic, so
steps with a second-order corrector are nearly exact: seven or eight do for most problems, corners and singular
information included. Multiplicative updates crawl there, and Newton steps on the variance itself, which is
rational in x, overshoot (both were tried).

Every problem is first brought to coordinates in which a reference mix has information I, ∇f has length 1 and the
money that is free to move is 1; the optimum then lies between 1/S and 1, whatever the units.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sourcewise.numerics.linalg import Array, cholesky, orthogonalize, solve_lower, solve_upper, squared

Flags = NDArray[np.bool_]

DEPENDENT = 1e-9
"""Parameters with less new information than this fraction of their own are combinations of others."""

OUTSIDE = 1e-7
"""∇f may have this fraction of its length outside the range of the information."""

CONVERGED = 1e-11
"""Complementarity relative to the optimum, and residuals in coordinates in which that is between 1/S and 1."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How boldly to search."""

    steps: int
    updates: int
    """Multiplicative updates to begin with. They are exact when sources inform about different parameters, but may
    begin near a boundary that the search then has to leave."""
    reach: float
    """Fraction of the way to the boundary that a step may go."""
    centring: float
    """The least that a step keeps of the complementarity."""


BOLD = Pace(8, 3, 0.995, 0.0)
"""Enough for 99 problems of 100."""

CAREFUL = Pace(60, 0, 0.9, 0.1)
"""17 steps at most in 20,000 random problems, corners and singular information included."""


@dataclass(frozen=True, slots=True)
class Frame:
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
    price: Array
    """Money of a unit of t (S, B): Σ price = 1, and 0 where nothing can move."""
    caps: Array
    """Of t (S, B)."""

    def information(self, t: Array) -> Array:
        return np.asarray(self.base + np.einsum("sb,sijb->ijb", t, self.blocks))

    def pull(self, u: Array) -> Array:
        """Y_i u for every source (D, S, B)."""
        return np.asarray(np.einsum("sijb,jb->isb", self.blocks, u))


@dataclass(slots=True)
class Point:
    """Where a search stands; all (S, B) but `level`, which is λ (B,), and u (D, B).

    `slack` is caps − t and `idle` is λ·price + rent − ‖B u‖². Where nothing can move t = 1 and idle = 0; without a cap
    slack = 1 and rent = 0."""

    t: Array
    slack: Array
    idle: Array
    rent: Array
    level: Array
    u: Array


def frame(roots: Array, gradient: Array, fixed: Array, start: Array, room: Array) -> Frame:
    """roots (S, R, D, B); of money (S, B): `fixed` cannot move, `start` is a mix of what can, `room` its limits."""
    size, tall, dimension, batch = roots.shape
    reference = fixed + start
    weighted = (roots * np.sqrt(reference)[:, None, None]).transpose(2, 0, 1, 3)
    rows = np.ascontiguousarray(weighted).reshape(dimension, size * tall, batch)
    triangle = orthogonalize(rows, DEPENDENT)
    target = np.einsum("ijb,jb->ib", triangle.inverse, gradient)
    length = np.sqrt(squared(target))
    seen = _inside(rows, triangle.basis, target, gradient, triangle.lengths) & (length > 0)
    basis = np.compress(seen, triangle.basis.reshape(dimension, size, tall, batch), axis=-1)
    start, reference, room, target, unseen = (
        np.compress(seen, part, axis=-1) for part in (start, reference, room, target, ~triangle.kept)
    )
    length = length[seen]
    moving = np.divide(start, reference, out=np.ones_like(start), where=reference > 0)
    blocks = np.einsum("isrb,jsrb->sijb", basis, basis)
    base = np.einsum("sb,sijb->ijb", 1.0 - moving, blocks)
    base += np.eye(dimension)[..., None] * unseen
    blocks *= moving[:, None, None]
    total = start.sum(axis=0)
    price = np.divide(start, total, out=np.zeros_like(start), where=start > 0)
    caps = np.divide(room, start, out=np.full_like(start, np.inf), where=start > 0)
    return Frame(seen, basis, moving, blocks, base, target / length, length, price, caps)


def _inside(rows: Array, basis: Array, target: Array, gradient: Array, lengths: Array) -> Flags:
    """Whether ∇f is what the rows make of `target`, judged after every parameter is scaled to a row of length 1."""
    outside = gradient - np.einsum("dkb,kb->db", rows, np.einsum("dkb,db->kb", basis, target))
    unseen = lengths == 0
    scale = np.where(unseen, 0.0, 1.0 / np.where(unseen, 1.0, lengths))
    kept = squared(outside * scale) <= OUTSIDE**2 * squared(gradient * scale)
    return np.asarray(kept & ~(unseen & (gradient != 0)).any(axis=0))


def follow(problem: Frame, pace: Pace) -> tuple[Point, Flags]:
    """Where the search ends, and which problems converged."""
    point = _begin(problem, pace.updates)
    done = np.zeros(len(point.level), dtype=bool)
    for _ in range(pace.steps):
        system = _System(problem, point)
        done |= system.converged
        if done.all():
            return point, done
        system.advance(done, pace)
    return point, done | _System(problem, point).converged


def _begin(problem: Frame, updates: int) -> Point:
    """Multiplicative updates x_i ← x_i·‖B_i u‖ where there are no limits, then prices to match."""
    t, free = np.ones_like(problem.price), problem.price > 0
    capped = free & np.isfinite(problem.caps)
    plain = (problem.moving == 1.0).all(axis=0) & ~capped.any(axis=0)
    for left in range(updates, -1, -1):
        factor = cholesky(problem.information(t))
        u = solve_upper(factor, solve_lower(factor, problem.target))
        worth = np.einsum("isb,ib->sb", problem.pull(u), u)
        rate = np.divide(worth, problem.price, out=np.zeros_like(t), where=free)
        best = rate.max(axis=0)
        if not left or not plain.any():
            break
        new = np.where(free, t * np.sqrt(np.maximum(rate, 1e-6 * best)), 1.0)
        money = np.einsum("sb,sb->b", problem.price, new)
        t = np.where(plain & free, new / np.where(plain, money, 1.0), t)
    limited = capped.any(axis=0)
    best = np.maximum(
        best, 1e-3
    )  # zero where fixed money alone decides: no price at all would leave nothing to divide by
    level = np.where(limited, np.einsum("sb,sb->b", worth, t), 1.05 * best)
    margin = level * problem.price - worth
    idle = np.where(free, np.maximum(margin, 0.0) + np.where(limited, 0.1 / len(t), 0.0), 0.0)
    slack = np.where(capped, problem.caps - t, 1.0)
    return Point(t, slack, idle, np.where(capped, idle - margin, 0.0), level, u)


class _System:
    """The linear equations of one step at a point, which `advance` moves in place."""

    __slots__ = ("_capped", "_factor", "_free", "_gap", "_point", "_problem", "_pull", "_short", "_wrong", "converged")

    def __init__(self, problem: Frame, point: Point) -> None:
        self._problem, self._point = problem, point
        self._free = problem.price > 0
        self._capped = self._free & np.isfinite(problem.caps)
        information = problem.information(point.t)
        self._pull = problem.pull(point.u)
        worth = np.einsum("isb,ib->sb", self._pull, point.u)
        self._short = problem.target - np.einsum("ijb,jb->ib", information, point.u)
        self._wrong = point.idle - point.level * problem.price - point.rent + worth
        self._gap = np.einsum("sb,sb->b", point.t, point.idle) + np.einsum("sb,sb->b", point.slack, point.rent)
        error = np.maximum(np.abs(self._short).max(axis=0), np.abs(self._wrong).max(axis=0))
        value = np.einsum("db,db->b", problem.target, point.u)
        self.converged = (self._gap <= CONVERGED * value) & (error <= CONVERGED)
        self._factor = information

    def advance(self, done: Flags, pace: Pace) -> None:
        """Mehrotra's predictor and corrector; the corrector knows the second-order terms exactly."""
        point, problem = self._point, self._problem
        solver = _Solver(problem, point, cholesky(self._factor), self._pull, self._free)
        first = solver.move(-point.t * point.idle, -point.slack * point.rent, self._short, self._wrong)
        pairs = np.maximum(self._free.sum(axis=0) + self._capped.sum(axis=0), 1)
        length = np.minimum(1.0, self._reach(first))
        after = np.einsum("sb,sb->b", point.t + length * first.t, point.idle + length * first.idle)
        after += np.einsum("sb,sb->b", point.slack + length * first.slack, point.rent + length * first.rent)
        gap = np.maximum(self._gap, 1e-300)
        centre = np.clip((after / gap) ** 3, pace.centring, 1.0) * gap / pairs
        bend = problem.pull(first.u)
        weight = length * length
        move = solver.move(
            self._free * centre - point.t * point.idle - first.t * first.idle,
            self._capped * centre - point.slack * point.rent - first.slack * first.rent,
            self._short - weight * np.einsum("sb,isb->ib", first.t, bend),
            self._wrong + weight * np.einsum("isb,ib->sb", bend, first.u),
        )
        length = np.where(done, 0.0, np.minimum(1.0, pace.reach * self._reach(move)))
        for name in ("t", "slack", "idle", "rent", "level", "u"):
            setattr(point, name, getattr(point, name) + length * getattr(move, name))

    def _reach(self, move: Point) -> Array:
        """How far to go until a money, slack, idle worth or rent is used up."""
        point = self._point
        rate = np.maximum(-move.t / point.t, -move.slack / point.slack)
        np.maximum(rate, -move.idle / np.where(self._free, point.idle, 1.0), out=rate)
        np.maximum(rate, -move.rent / np.where(self._capped, point.rent, 1.0), out=rate)
        return np.asarray(1.0 / np.maximum(rate.max(axis=0), 1e-300))


class _Solver:
    """Newton's equations with the factor of M(t) and of the Schur complement in t."""

    __slots__ = ("_capped", "_factor", "_free", "_point", "_price", "_schur", "_spread", "_wide")

    def __init__(self, problem: Frame, point: Point, factor: Array, pull: Array, free: Flags) -> None:
        self._point, self._factor, self._free, self._price = point, factor, free, problem.price
        self._capped = free & np.isfinite(problem.caps)
        self._wide = solve_lower(factor, pull)
        schur = 2.0 * np.einsum("isb,irb->srb", self._wide, self._wide)
        index = np.arange(len(free))
        schur[index, index] += np.where(free, point.idle / point.t + point.rent / point.slack, 1.0)
        self._schur = cholesky(schur)
        self._spread = solve_upper(self._schur, solve_lower(self._schur, problem.price))

    def move(self, complement: Array, rental: Array, short: Array, wrong: Array) -> Point:
        """The step that makes t·idle and slack·rent change by these (S, B), and the two residuals vanish."""
        point = self._point
        reduced = solve_lower(self._factor, short)
        right = wrong + complement / point.t - rental / point.slack
        right += 2.0 * np.einsum("isb,ib->sb", self._wide, reduced)
        t = solve_upper(self._schur, solve_lower(self._schur, np.where(self._free, right, 0.0)))
        along = np.einsum("sb,sb->b", self._price, self._spread)
        level = np.einsum("sb,sb->b", self._price, t) / np.where(along > 0, along, 1.0)
        t -= level * self._spread
        u = solve_upper(self._factor, reduced - np.einsum("isb,sb->ib", self._wide, t))
        rent = np.where(self._capped, (rental + point.rent * t) / point.slack, 0.0)
        idle = (complement - point.idle * t) / point.t
        return Point(t, np.where(self._capped, -t, 0.0), idle, rent, level, u)
