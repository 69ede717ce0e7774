"""Small convex quadratic programs over the simplex, thousands at once, batch last."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sourcewise.numerics.linalg import Array, cholesky, solve_lower, solve_upper

Flags = NDArray[np.bool_]

CONVERGED = 1e-14
"""Complementarity, where the largest coefficients of the objective are 1."""

RESIDUAL = 1e-11

REACH = 0.99
"""Fraction of the way to the boundary that a step may go."""

FIRST = 0.1
"""Complementarity of every pair at the start."""

CENTRING = 0.03
"""The least that a step keeps of the complementarity."""

STEPS = 60

ZERO = 1e-9
"""A weight below this is set to zero when its multiplier is larger."""


def minimize(hessian: Array, linear: Array, limits: Array, start: Array, limited: Flags) -> Array:
    """x (S, B) that minimises ½xᵀHx + gᵀx over x ≥ 0, Σ x = 1, E x ≥ 0, by Mehrotra's interior-point method.

    hessian (S, S, B) and linear (S, B) of order 1; limits: E (S, S, B), rows not in `limited` (S, B) ignored; start
    (S, B) strictly feasible, but zero where x has to be zero.
    """
    free = start > 0
    rows = limits * limited[:, None] * free
    curve, slope = hessian * (free[:, None] & free), linear * free
    x, level = np.where(free, start, 1.0), np.zeros(start.shape[-1])
    spare = np.where(limited, np.einsum("ijb,jb->ib", rows, x), 1.0)
    z, v = FIRST * free / x, FIRST * limited / spare  # a start off centre would never leave tiny limits
    pairs = free.sum(axis=0) + limited.sum(axis=0)
    for _ in range(STEPS):
        wrong = np.einsum("ijb,jb->ib", curve, x) + slope - level * free - z - np.einsum("jib,jb->ib", rows, v)
        gap = np.einsum("sb,sb->b", x, z) + np.einsum("sb,sb->b", spare, v)
        done = (gap <= CONVERGED) & (np.abs(wrong).max(axis=0) <= RESIDUAL)
        if done.all():
            break
        system = _System(curve, rows, x, z, v, spare, free)
        first = system.move(wrong, -x * z, -spare * v)
        length = np.minimum(system.reach(*first), 1.0)
        after = np.einsum("sb,sb->b", x + length * first[0], z + length * first[1])
        after += np.einsum("sb,sb->b", spare + length * first[2], v + length * first[3])
        centre = np.maximum(np.clip((after / gap) ** 3, CENTRING, 1.0) * gap, 0.1 * CONVERGED) / pairs
        bend = length * length  # a corrector for more than the step that is possible leads into cycles
        complement = centre * free - x * z - bend * first[0] * first[1]
        move = system.move(wrong, complement, centre * limited - spare * v - bend * first[2] * first[3])
        length = np.where(done, 0.0, np.minimum(REACH * system.reach(*move), 1.0))
        x, z, spare = x + length * move[0], z + length * move[1], spare + length * move[2]
        v, level = v + length * move[3], level + length * move[4]
    kept = np.where(free & ~((x < ZERO) & (x < z)), x, 0.0)
    return np.asarray(kept / kept.sum(axis=0))


class _System:
    """Newton's equations at one point."""

    __slots__ = ("_factor", "_free", "_one", "_point", "_rows")

    def __init__(self, curve: Array, rows: Array, x: Array, z: Array, v: Array, spare: Array, free: Flags) -> None:
        self._rows, self._point, self._free = rows, (x, z, v, spare), free
        matrix = curve + np.einsum("kib,kjb->ijb", rows * (v / spare)[:, None], rows)
        index = np.arange(len(x))
        matrix[index, index] += np.where(free, z / x, 1.0)
        self._factor = cholesky(matrix)
        self._one = self._solve(free.astype(np.float64))

    def _solve(self, right: Array) -> Array:
        return solve_upper(self._factor, solve_lower(self._factor, right))

    def move(self, wrong: Array, complement: Array, rental: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Steps of x, z, spare, v and the level."""
        x, z, v, spare = self._point
        right = complement / x - wrong + np.einsum("jib,jb->ib", self._rows, rental / spare)
        plain = self._solve(right * self._free)
        level = -plain.sum(axis=0) / self._one.sum(axis=0)
        step = plain + level * self._one
        wider = np.einsum("ijb,jb->ib", self._rows, step)
        return step, (complement - z * step) / x, wider, (rental - v * wider) / spare, level

    def reach(self, x: Array, z: Array, spare: Array, v: Array, level: Array) -> Array:
        """How far to go until one of the four is used up."""
        at, price, rent, room = self._point
        rate = np.maximum(-x / at, -spare / room)
        np.maximum(rate, -z / np.where(price > 0, price, 1.0), out=rate)
        np.maximum(rate, -v / np.where(rent > 0, rent, 1.0), out=rate)
        return np.asarray(1.0 / np.maximum(rate.max(axis=0), 1e-300))
