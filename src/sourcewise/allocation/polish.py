"""From the accuracy of an interior-point method to that of the machine, and from tiny shares to exact zeros.

At the optimum M(y)u = g, ‖B_i u‖² equals the price for every source with a free share, and Σ y = 1. Newton's method
on these equations, with the sources at 0 and at their limit held there, converges in a few steps. Steps have minimum
norm: optimal designs are often singular or not unique (duplicate sources), and then u stays near where it was, where
the other cones are satisfied.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sourcewise.allocation.columns import Iterate
from sourcewise.allocation.frame import Frame, feasible
from sourcewise.numerics.linalg import Array

ROUNDS = 20
STEPS = 30
UPDATES = 300
SMALL = 1e-30
"""A price of next to nothing, in a frame where the variance is about 1: it must not be divided by."""

LEAVING = 1e-12
"""A source at a limit leaves it when its worth is off the price by more than this fraction."""

DONE = 1e-14
"""Converged when a step changes nothing beyond this."""

RANK = 1e-13
"""Singular values of the Newton system below this fraction of the largest are zero."""


@dataclass(slots=True)
class _State:
    """`free` holds the positions of the sources strictly between their limits."""

    free: NDArray[np.int64]
    y: Array
    u: Array
    price: float


def polish(frame: Frame, found: Iterate) -> Iterate:
    """Newton's method from `found`, over the sources between their limits; then those that want to leave a limit."""
    state = _start(frame, found)
    for _ in range(ROUNDS):
        for _ in range(STEPS):
            if not len(state.free) or _step(frame, state):
                break
        worth = frame.worth(state.u)
        excess = worth / max(state.price, SMALL) - 1.0
        excess[state.free] = 0.0
        leaving = np.where(state.y > 0, -excess, excess)
        worst = int(np.argmax(leaving))
        if not leaving[worst] > LEAVING:
            break
        state.free = np.append(state.free, worst)
    return Iterate(state.y, state.u, state.price)


def _start(frame: Frame, found: Iterate) -> _State:
    excess = frame.worth(found.u) / max(found.price, SMALL) - 1.0
    # At an interior point share × slack is one small number for all sources: the larger of the two is not zero.
    free = found.y > -excess
    full = free & (frame.caps - found.y < excess)
    y = np.where(full, frame.caps, np.where(free, found.y, 0.0))
    return _State(np.flatnonzero(free & ~full), y, found.u.copy(), found.price)


def repeated(frame: Frame, found: Iterate) -> Iterate:
    """Multiplicative updates y_i ∝ y_i‖B_i u‖ with u = M(y)⁻g, which sort out shares of any size, however small.

    They are for designs that all but fail to identify the target and need shares too small for anything else.
    """
    used = np.flatnonzero(found.y > 0)
    part = replace(frame, roots=frame.roots[used], caps=frame.caps[used])
    y = feasible(part.caps, found.y[used])
    best, kept = np.inf, found
    for _ in range(UPDATES):
        value, u = part.solved(y)
        worth = part.worth(u)
        price = float(y @ worth)
        gap = value - part.bound(u, worth)
        if gap < best:
            full = np.zeros_like(found.y)
            full[used] = y
            best, kept = gap, Iterate(full, u, price)
        if not np.isfinite(value) or price <= 0:
            break
        y = feasible(part.caps, y * np.sqrt(worth / price))
    return kept


def _step(frame: Frame, state: _State) -> bool:
    """One step, cut short where a share meets a limit, which it then keeps; True when there is no more to gain."""
    rank, count = len(frame.gradient), len(state.free)
    roots = frame.roots[state.free]
    image = roots @ state.u
    pull = np.einsum("frk,fr->fk", roots, image)
    stack = frame.stack(state.y)
    system = np.zeros((rank + count + 1, rank + count + 1))
    system[:rank, :rank] = stack.T @ stack
    system[:rank, rank:-1] = pull.T
    system[rank:-1, :rank] = pull
    # The unknown is −price/2, which makes the system symmetric.
    system[rank:-1, -1] = system[-1, rank:-1] = 1.0
    wrong = np.concatenate(
        [
            stack.T @ (stack @ state.u) - frame.gradient,
            0.5 * (np.square(image).sum(axis=1) - state.price),
            [state.y.sum() - 1.0],
        ]
    )
    if not (np.isfinite(system).all() and np.isfinite(wrong).all()):
        return True
    step = -np.linalg.lstsq(system, wrong, rcond=RANK)[0]
    move = step[rank:-1]
    share = state.y[state.free]
    with np.errstate(divide="ignore", invalid="ignore"):
        room = np.where(move < 0, -share / move, np.where(move > 0, (frame.caps[state.free] - share) / move, np.inf))
    length = min(1.0, float(room.min()))
    state.u += length * step[:rank]
    state.price -= 2.0 * length * step[-1]
    state.y[state.free] = np.clip(share + length * move, 0.0, frame.caps[state.free])
    if length < 1.0:
        hit = room <= length
        state.y[state.free[hit]] = np.where(move[hit] < 0, 0.0, frame.caps[state.free[hit]])
        state.free = state.free[~hit]
        return False
    return bool(np.abs(step[:rank]).max() <= DONE * np.abs(state.u).max() and np.abs(move).max() <= DONE)
