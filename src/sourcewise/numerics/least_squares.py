"""Levenberg–Marquardt for a batch of nonlinear least-squares problems with bounds.

State is passed, not hidden: a `Problem` gives residuals and Jacobians at any point and can be narrowed to the
problems that are still open. A parameter that the residuals do not determine costs nothing: its steps are
damped, so they have minimum norm, and the search goes on in the other directions.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from sourcewise.numerics.linalg import Array, descent, inner_products, squared
from sourcewise.numerics.steps import damped_step, undamped

Bools = NDArray[np.bool_]
Integers = NDArray[np.int64]

FINE = 1e-9
"""Converged: a full step would change the residual by less than this, in units of its sampling noise."""

COARSE = 1e-5
"""The same for a search that rounding errors keep from going on."""

FLAT = 1e-11
"""Relative decreases of the objective below this drown in rounding errors."""

MAX_DAMPING = 1e12

SLOW = 0.03
"""Gauss–Newton that shrinks the remaining step by less than this, near the end, is helped by the curvature."""

AHEAD = 0.1
"""How far along a step its curvature is looked at."""

BENT = 0.75
"""A correction longer than this share of the step is beyond what second derivatives can say."""


class Problem(Protocol):
    """Residuals of `batch` problems."""

    def residual(self, theta: Array) -> tuple[Array, Array]:
        """r (R, B) and J (R, D, B) at theta (D, B)."""

    def take(self, which: Integers) -> Self:
        """The problems at these positions."""


@runtime_checkable
class Curved(Problem, Protocol):
    """A problem that knows its second derivatives."""

    def curvature(self, theta: Array, residual: Array) -> Array:
        """Σ r ∇²r (D, D, B)."""


@dataclass(frozen=True, slots=True)
class Search:
    """Where each search ended: theta (D, B), objective ‖r‖² (B,), and why."""

    theta: Array
    objective: Array
    converged: Bools
    finite: Bools
    iterations: Integers

    def take(self, which: Integers) -> Search:
        """The searches at these positions."""
        return Search(*(np.take(getattr(self, part.name), which, axis=-1) for part in fields(self)))

    def put(self, which: Integers, other: Search) -> Search:
        """`other` in place of the searches at these positions."""
        changed = [getattr(self, part.name).copy() for part in fields(self)]
        for mine, part in zip(changed, fields(self), strict=True):
            mine[..., which] = getattr(other, part.name)
        return Search(*changed)


@dataclass(slots=True)
class _State:
    """The problems that are still open."""

    which: Integers
    theta: Array
    residual: Array
    jacobian: Array
    objective: Array
    damping: Array
    scale: Array
    noise: Array
    low: Array
    high: Array
    size: Array
    """The undamped step that was last seen, in what it changes of the residual."""


def minimize(
    problem: Problem,
    start: Array,
    *,
    lower: Array,
    upper: Array,
    noise: Array,
    max_iterations: int = 100,
    near: bool = False,
) -> Search:
    """Minimise ‖r(θ)‖² from start (D, B) within lower ≤ θ ≤ upper, each (D,) or (D, B).

    `noise` (B,) is the size of r's sampling error, in which convergence is judged. `near` says that the start is
    itself an estimate, so that a long step is to be trusted more than the slope of the objective.
    """
    low, high = (np.broadcast_to(bound.T, start.shape[::-1]).T for bound in (lower, upper))
    state = _open(problem, np.clip(start, low, high), noise, low, high)
    out = Search(
        state.theta.copy(),
        state.objective.copy(),
        np.zeros(len(noise), dtype=bool),
        np.isfinite(state.objective),
        np.zeros(len(noise), dtype=np.int64),
    )
    current = problem
    state, current = _narrow(state, current, out.finite)
    for _ in range(max_iterations):
        if not state.which.size:
            break
        step, size = _step(state)
        fine = size <= FINE * state.noise
        if fine.any():  # where it is: the step would move nothing that can be seen
            out.converged[state.which[fine]] = True
            if fine.all():
                break
            (state, current), step, size = _narrow(state, current, ~fine), step[:, ~fine], size[~fine]
        out.iterations[state.which] += 1
        slow = (size > SLOW * state.size) & (size < state.noise)
        if slow.any():
            _curved_steps(current, state, step, np.flatnonzero(slow))
        _bend(current, state, step)
        shrinking, state.size = size <= 0.5 * state.size, size
        trial = np.clip(state.theta + step, state.low, state.high)
        residual, jacobian = current.residual(trial)
        objective = squared(residual)
        if near:
            _round_the_bend(current, state, trial, residual, jacobian, objective)
        done, finished = _advance(state, trial, residual, jacobian, objective, shrinking)
        out.theta[:, state.which] = state.theta
        out.objective[state.which] = state.objective
        out.converged[state.which] = done
        if finished.all():
            break
        state, current = _narrow(state, current, ~finished)
    return out


def _open(problem: Problem, theta: Array, noise: Array, low: Array, high: Array) -> _State:
    residual, jacobian = problem.residual(theta)
    batch = theta.shape[1]
    objective, damping, scale = squared(residual), np.zeros(batch), np.zeros_like(theta)
    size = np.full(batch, np.inf)
    return _State(np.arange(batch), theta, residual, jacobian, objective, damping, scale, noise, low, high, size)


def _narrow(state: _State, problem: Problem, keep: Bools) -> tuple[_State, Problem]:
    if keep.all():
        return state, problem
    arrays = (np.compress(keep, getattr(state, part.name), axis=-1) for part in fields(_State))
    return _State(*arrays), problem.take(np.flatnonzero(keep))


def _step(state: _State) -> tuple[Array, Array]:
    """The (damped) Gauss–Newton step (D, B) and the size of the undamped change of the residual (B,)."""
    columns = state.jacobian.swapaxes(0, 1)
    pinned = _pinned(state, columns)
    if pinned.any():
        columns = columns * ~pinned[:, None]
    step, size, lengths, loose = undamped(columns, state.residual, pinned)
    state.scale = np.maximum(state.scale, lengths)
    damping = np.maximum(state.damping, np.where(loose, 1e-8, 0.0))
    damped = np.flatnonzero(damping > 0)
    if damped.size:
        chosen = (np.take(part, damped, axis=-1) for part in (columns, state.residual, damping, state.scale))
        step[:, damped] = damped_step(*chosen)
    return step, size


def _pinned(state: _State, columns: Array) -> Bools:
    """Parameters (D, B) at a bound that the objective would push them through."""
    at_low, at_high = state.theta <= state.low, state.theta >= state.high
    if not (at_low.any() or at_high.any()):
        return at_low
    gradient = np.einsum("drb,rb->db", columns, state.residual)
    outward = (at_low & (gradient > 0)) | (at_high & (gradient < 0))
    return np.asarray(outward | (at_low & at_high))


def _bend(problem: Problem, state: _State, step: Array) -> None:
    """Add to steps that were refused or damped what keeps them in a curved valley: geodesic acceleration.

    Along θ + tδ the residual leaves its tangent by r″t²/2, seen here by one look ahead; the correction of −r″/2 in
    the same damped least squares takes that back (Transtrum and Sethna, 2012)."""
    damped = np.flatnonzero(state.damping > 0)
    if not damped.size:
        return
    theta, residual, jacobian, delta = (
        np.take(part, damped, axis=-1) for part in (state.theta, state.residual, state.jacobian, step)
    )
    scale = np.where(state.scale[:, damped] > 0, state.scale[:, damped], 1.0)
    ahead = problem.take(damped).residual(theta + AHEAD * delta)[0]
    bent = ((ahead - residual) / AHEAD - np.einsum("rdb,db->rb", jacobian, delta)) / AHEAD
    free = (delta != 0)[:, None]  # what a bound holds stays where it is
    second = damped_step(jacobian.swapaxes(0, 1) * free, bent, state.damping[damped], scale)
    good = squared(scale * second) <= BENT**2 * squared(scale * delta)
    step[:, damped] += np.where(good, second, 0.0)


def _round_the_bend(
    problem: Problem, state: _State, trial: Array, residual: Array, jacobian: Array, objective: Array
) -> None:
    """Where a step led uphill, see where one more would lead, and go there if that is down after all.

    Products of parameters (d + alpha*beta*z with z far from 0) make a narrow curved valley: the full step lands on
    its slope, the next one on its floor, while damped steps creep along it for ever.
    """
    lost = np.flatnonzero(objective > state.objective)
    if not lost.size:
        return
    some, low, high = problem.take(lost), state.low[:, lost], state.high[:, lost]
    ahead = _open(some, trial[:, lost], state.noise[lost], low, high)
    there = np.clip(ahead.theta + _step(ahead)[0], low, high)
    further, slopes = some.residual(there)
    height = squared(further)
    good = height < state.objective[lost]
    which = lost[good]
    trial[:, which], objective[which] = there[:, good], height[good]
    residual[:, which], jacobian[..., which] = further[:, good], slopes[..., good]


def _curved_steps(problem: Problem, state: _State, step: Array, slow: Integers) -> None:
    """Replace slow problems' steps by Newton's.

    Moments that contradict each other leave residuals that do not vanish, and Gauss–Newton, which ignores their
    curvature, then only creeps.
    """
    theta, residual, jacobian = state.theta, state.residual, state.jacobian
    some = problem
    if slow.size < len(state.which):
        theta, residual, jacobian = (np.take(part, slow, axis=-1) for part in (theta, residual, jacobian))
        some = problem.take(slow)
    scale = np.where(state.scale[:, slow] > 0, state.scale[:, slow], 1.0)
    if isinstance(some, Curved):
        bend = some.curvature(theta, residual)
    else:
        bend = _difference(some, theta, residual, jacobian, 1e-4 * state.noise[slow] / scale)
    hessian = (inner_products(jacobian.swapaxes(0, 1)) + bend) / (scale[:, None] * scale)
    gradient = np.einsum("rdb,rb->db", jacobian, residual) / scale
    pinned = (theta <= state.low[:, slow]) | (theta >= state.high[:, slow])
    usable = np.flatnonzero(np.isfinite(hessian).all(axis=(0, 1)) & ~pinned.any(axis=0))
    chosen = (np.take(part, usable, axis=-1) for part in (hessian, gradient, state.damping[slow]))
    newton, sound = descent(*chosen)
    step[:, slow[usable[sound]]] = newton[:, sound] / scale[:, usable[sound]]


def _difference(problem: Problem, theta: Array, residual: Array, jacobian: Array, length: Array) -> Array:
    """Σ r ∇²r (D, D, B) from differences of exact slopes."""
    found = []
    for d in range(len(theta)):
        moved = theta.copy()
        moved[d] += length[d] + 1e-9 * np.abs(theta[d])
        change = problem.residual(moved)[1] - jacobian
        found.append(np.einsum("reb,rb->eb", change, residual) / (moved[d] - theta[d]))
    both = np.stack(found)
    return np.asarray(0.5 * (both + both.swapaxes(0, 1)))


def _advance(
    state: _State, trial: Array, residual: Array, jacobian: Array, objective: Array, shrinking: Bools
) -> tuple[Bools, Bools]:
    """Accept or damp; returns which problems converged and which need no further step."""
    # A perfect fit has no noise, but the terms that cancel in its residual leave rounding errors: after a step as
    # small as these there is nothing left to do.
    rounding = 4 * np.finfo(float).eps * np.einsum("db,db->b", state.scale, np.abs(state.theta))
    size, fine = state.size, state.size <= rounding
    # A step that would lower the objective by less than its rounding errors is judged by whether steps still shrink.
    flat = size**2 <= FLAT * state.objective
    with np.errstate(invalid="ignore"):
        better = objective < state.objective  # not <=: at the limit of rounding, steps of nothing would never end
        harmless = (fine | (flat & shrinking)) & (objective <= state.objective * (1 + 1e-9))
    accept = better | harmless
    refused = np.flatnonzero(~accept)  # few: only these are copied back
    for name, new in (("theta", trial), ("residual", residual), ("jacobian", jacobian), ("objective", objective)):
        if refused.size:
            new[..., refused] = getattr(state, name)[..., refused]
        setattr(state, name, new)
    relaxed = np.where(state.damping > 1e-8, 0.1 * state.damping, 0.0)
    state.damping = np.where(accept, relaxed, np.maximum(10.0 * state.damping, 1e-3))
    stuck = state.damping > MAX_DAMPING
    flat &= ~accept
    converged = fine | flat | (stuck & (size <= COARSE * state.noise))
    return converged, fine | flat | stuck
