"""The best division of money over sources: a c-optimal design with limits, and proof of how good it is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sourcewise.allocation.columns import Iterate, generate
from sourcewise.allocation.frame import Frame, feasible, frame_of, padded, solved, spread
from sourcewise.allocation.polish import polish, repeated
from sourcewise.errors import AllocationError
from sourcewise.numerics.linalg import Array

TINY = 1e-6
"""Shares below this are tried at zero."""

ENOUGH = 1e-9
"""A gap up to which zeros are preferred to tiny shares."""

QUICK, CAREFUL = 1e-7, 1e-11
"""Tolerances of the cone program: what it leaves to do is mostly no matter of its accuracy."""

PROVEN = 1e-7
"""The gap that `Design.exact` promises."""

NOTHING = 1e-12
"""Money that is this fraction of the total is a rounding error."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Minimise ∇fᵀ [Σ_i x_i B_iᵀB_i]⁻ ∇f over money x ≥ 0 with Σ x = total and lower ≤ x ≤ upper."""

    roots: tuple[Array, ...]
    """B_i (R_i, D) = A_i/√c_i, with A_iᵀA_i the information in one row of source i and c_i its price; R_i may be 0."""
    gradient: Array
    """∇f (D,)."""
    total: float = 1.0
    lower: Array | None = None
    """(S,): money already spent, or that must be."""
    upper: Array | None = None
    """(S,): what the rows that exist cost; infinite where there is no limit."""


@dataclass(frozen=True, slots=True)
class Design:
    """A division of money and its certificate."""

    money: Array
    """(S,), exact zeros where nothing should go. Spread equally where no mix identifies the target."""
    value: float
    """The variance at `money`; infinite when no feasible money identifies the target."""
    bound: float
    """No feasible money has a smaller variance: from weak duality at `direction`, whatever solver found it."""
    direction: Array
    """u (D,): one more unit of money at source i lowers the variance by ‖B_i u‖². NaN when not identified."""

    @property
    def identified(self) -> bool:
        return math.isfinite(self.value)

    @property
    def gap(self) -> float:
        """|value − bound|/value: the certified relative distance from the best possible, rounding errors included."""
        return abs(self.value - self.bound) / self.value if self.identified and self.value > 0 else 0.0

    @property
    def exact(self) -> bool:
        return self.gap <= PROVEN


def solve(problem: Problem) -> Design:
    """The optimum, with a gap that is certified and typically below 1e-10."""
    gradient, lower, upper = _checked(problem)
    size, dimension = len(problem.roots), len(gradient)
    reference = spread(problem.total, lower, upper)
    free = max(problem.total - float(lower.sum()), 0.0)
    roots = padded(problem.roots, dimension)
    if not np.isfinite(roots).all():
        raise AllocationError("the information of a source must be finite; this one has NaN or infinite entries")
    if not gradient.any():
        return Design(reference, 0.0, 0.0, np.zeros(dimension))
    room = upper - lower
    caps = np.divide(room, free, out=np.full(size, np.inf), where=(room < free))
    frame = frame_of(roots, gradient, reference, lower, caps, free)
    if frame is None:
        return Design(reference, np.inf, np.inf, np.full(dimension, np.nan))
    if free <= NOTHING * problem.total or float(room.sum()) <= free * (1.0 + NOTHING):
        return _forced(roots, gradient, reference)
    y, u, value, bound = _best(frame)
    money = np.clip(lower + free * y, lower, upper)
    square = frame.scale**2
    # u solves M(x)u = ∇f up to its length, which is fixed by ∇fᵀu = value.
    length = value / float(frame.gradient @ u) * frame.scale
    return Design(money, value * square, bound * square, frame.transform @ u * length)


def _checked(problem: Problem) -> tuple[Array, Array, Array]:
    """∇f and both limits as arrays, after all that can be wrong with them."""
    size, total = len(problem.roots), problem.total
    gradient = np.asarray(problem.gradient, dtype=float)
    if not size:
        raise AllocationError("there is no source to divide money over: give at least one")
    if not (math.isfinite(total) and total > 0):
        raise AllocationError(f"the money to divide must be a finite number above 0, not {total!r}")
    for place, root in enumerate(problem.roots):
        if root.ndim != 2 or root.shape[1] != len(gradient):
            raise AllocationError(
                f"information roots must be matrices with one column per parameter, here {len(gradient)}; "
                f"that of source {place} has the shape {root.shape}"
            )
    lower = np.zeros(size) if problem.lower is None else np.asarray(problem.lower, dtype=float)
    upper = np.full(size, np.inf) if problem.upper is None else np.asarray(problem.upper, dtype=float)
    _check_limits(total, size, lower, upper)
    if not np.isfinite(gradient).all():
        raise AllocationError("the gradient of the target must be finite; this one has NaN or infinite entries")
    return gradient, lower, np.maximum(upper, lower)


def _check_limits(total: float, size: int, lower: Array, upper: Array) -> None:
    if lower.shape != (size,) or upper.shape != (size,):
        raise AllocationError(f"limits need one number per source ({size}), not {lower.shape} and {upper.shape}")
    if not (np.isfinite(lower).all() and (lower >= 0).all()):
        raise AllocationError("the least money of a source must be a finite number of at least 0")
    crossed = np.flatnonzero(~(upper >= lower * (1.0 - NOTHING)))
    if len(crossed):
        i = crossed[0]
        raise AllocationError(
            f"source {i} must get at least {lower[i]:g} but may get at most {upper[i]:g}: change one limit"
        )
    if lower.sum() > total * (1.0 + NOTHING):
        raise AllocationError(
            f"the sources must get at least {lower.sum():g} together, but there is only {total:g}: "
            "lower a limit or raise the budget"
        )
    if upper.sum() < total * (1.0 - NOTHING):
        raise AllocationError(
            f"the sources may get at most {upper.sum():g} together, but {total:g} is to be spent: "
            "raise a limit or lower the budget"
        )


def _forced(roots: Array, gradient: Array, money: Array) -> Design:
    """Where the limits leave no choice."""
    frame = frame_of(roots, gradient, money, money, np.zeros(len(money)), 0.0)
    if frame is None:
        return Design(money, np.inf, np.inf, np.full(len(gradient), np.nan))
    value = frame.scale**2
    return Design(money, value, value, frame.transform @ frame.gradient * frame.scale)


def variance(roots: tuple[Array, ...], gradient: Array, money: Array) -> float:
    """∇fᵀ[Σ_i money_i B_iᵀB_i]⁻∇f, infinite when this money does not identify the target."""
    dimension = len(gradient)
    if not np.any(gradient):
        return 0.0
    stacked = padded(roots, dimension)
    equal = np.full(len(roots), float(np.sum(money)) / len(roots))
    frame = frame_of(stacked, gradient, equal, money, np.zeros(len(roots)), 0.0)
    return np.inf if frame is None else frame.scale**2 * solved(frame.fixed, frame.gradient, frame.noise)[0]


def _best(frame: Frame) -> tuple[Array, Array, float, float]:
    """Shares, direction, value and bound. What takes longer is tried only while the gap is not yet small."""
    tried: list[Iterate] = []
    for tolerance in (QUICK, CAREFUL):
        rough = generate(frame, tolerance)
        fine = polish(frame, rough)
        if (found := _sparse(frame, fine)) is not None:
            return found
        tried += [fine, rough]
    slow = repeated(frame, rough)
    return _pick(frame, [polish(frame, slow), slow, *tried])


def _sparse(frame: Frame, fine: Iterate) -> tuple[Array, Array, float, float] | None:
    """The polished shares, without tiny ones if they are good enough without; None if they are not good at all."""
    bound = frame.bound(fine.u, frame.worth(fine.u))
    for y in (np.where(fine.y > TINY, fine.y, 0.0), fine.y):
        shares = feasible(frame.caps, y)
        value = frame.value(shares)
        if np.isfinite(value) and abs(value - bound) <= ENOUGH * value:
            return shares, fine.u, value, bound
    return None


def _pick(frame: Frame, tried: list[Iterate]) -> tuple[Array, Array, float, float]:
    """The first shares that are good enough, else the best, and the direction with the best bound."""
    bounds = [frame.bound(found.u, frame.worth(found.u)) for found in tried]
    best = int(np.argmax(bounds))
    bound, u = bounds[best], tried[best].u
    candidates = [feasible(frame.caps, found.y) for found in tried]
    values = [frame.value(y) for y in candidates]
    for y, value in zip(candidates, values, strict=True):
        if np.isfinite(value) and value - bound <= ENOUGH * value:
            return y, u, value, bound
    least = int(np.argmin(values))
    return candidates[least], u, values[least], bound
