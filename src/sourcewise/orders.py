"""One campaign's next order: what a policy asks for now, in whole rows, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

import numpy as np

from sourcewise.allocation.allocate import Allocation, allocate
from sourcewise.allocation.firstround import check_first_round
from sourcewise.allocation.market import Market, limits, market_of, positive, whole_numbers
from sourcewise.allocation.objective import Objective, objective_of
from sourcewise.allocation.projection import nearest_by_budget
from sourcewise.allocation.reach import least_variance
from sourcewise.errors import AllocationError
from sourcewise.numerics.linalg import Array
from sourcewise.policies import ETG, Fixed, Policy, Position, Round, desired_rows, whole_round
from sourcewise.records import Order
from sourcewise.results import Fit
from sourcewise.spec.study import Study


@dataclass(frozen=True, slots=True)
class _Aim:
    kappa: Array
    reason: str
    best: Allocation | None = None


def next_order(
    study: Study,
    policy: Policy,
    *,
    budget: float,
    rows: Mapping[str, int],
    fit: Fit | None = None,
    spent: float | None = None,
    last_target: Mapping[str, float] | None = None,
    most_rows: Mapping[str, int] | None = None,
) -> Order | None:
    """The next order of a campaign, or None when the money that is left buys no row.

    rows: what has been collected, by source; spent: what it cost, if not the study's prices.
    fit: the estimate from these rows; a policy needs it once it has explored. If it is missing or failed, the order
        follows `last_target`, the ratio that an earlier order aimed at, or else asks equally, and says so.
    most_rows: rows in all that a source may give, where that is less than its capacity: those it gave, to ask no more.
    """
    if not isinstance(policy, Policy):
        raise AllocationError(f"a policy is Fixed(...), ETG(...) or ETC(...), not {policy!r}")
    position = _position(study, budget, rows, spent, most_rows)
    if not position.left[0] >= position.cheapest[0] * (1 - 1e-9):
        return None
    step = policy.next_round(position)
    aim = _aim(study, policy, position, step, fit, last_target, most_rows)
    objective = None if aim.best is None or fit is None else objective_of(study, fit, None)
    wanted = _wanted(study, policy, position, step, aim, objective)
    unknown = _unknown(study, position, aim)
    if unknown.any():
        explored = desired_rows(policy, position, step, (unknown / unknown.sum())[:, None])[:, 0]
        wanted += unknown.mean() * (explored - wanted)
    asked = whole_round(policy, position, step, wanted[:, None])[:, 0]
    if not asked.any():
        return None
    named = dict(zip(study.sources, map(int, asked), strict=True))
    if not any(rows.values()):
        check_first_round(study, named)
    target = dict(zip(study.sources, aim.kappa.tolist(), strict=True))
    reason = _reason(study, aim, position, asked, objective)
    return Order(named, float(position.costs @ asked), target, bool(step.explores[0]), reason)


def _position(
    study: Study, budget: float, rows: Mapping[str, int], spent: float | None, most_rows: Mapping[str, int] | None
) -> Position:
    money = positive("a budget", budget)
    market = market_of(study, None, {}, {}, {})
    had = whole_numbers(market.by_source(rows, "rows"), "rows")
    if spent is not None and (isinstance(spent, bool) or not isinstance(spent, Real) or not 0 <= spent < math.inf):
        raise AllocationError(f"the money spent must be a finite number, 0 or more, not {spent!r}")
    paid = float(market.costs @ had) if spent is None else float(spent)
    return Position(had[:, None], np.array([paid]), np.array([money]), market.costs, limits(study, most_rows or {}))


def _aim(
    study: Study,
    policy: Policy,
    position: Position,
    step: Round,
    fit: Fit | None,
    last_target: Mapping[str, float] | None,
    most_rows: Mapping[str, int] | None,
) -> _Aim:
    """The ratio of rows to head for. A failed estimate never stops a campaign."""
    useful = np.array([float(bool(study.moments_of(name))) for name in study.sources])
    equal = useful / useful.sum()
    if isinstance(policy, Fixed):
        return _Aim(policy.kappa(study), "The policy keeps a fixed ratio of rows.")
    if step.explores[0]:
        first = policy.exploring(study)
        if (first == equal).all():
            every = "every source" if (position.room >= 1).all() else "every source that has rows to give"
            return _Aim(equal, f"Exploring: equally many rows of {every}, until the best mix can be estimated.")
        return _Aim(first, "Exploring in the mix that the policy begins with, until the best one can be estimated.")
    trouble = "there is no estimate yet"
    if fit is not None:
        best = _allocated(study, fit, position, most_rows) if fit.converged and fit.target.identified else None
        if best is not None and math.isfinite(best.variance):
            return _Aim(np.array(list(best.kappa.values())), "", best)
        trouble = "the target is not identified so far" if fit.converged else f"the last estimate failed: {fit.status}"
    if last_target is not None:
        last = market_of(study, None, {}, {}, {}).by_source(last_target, "last_target")
        if not (np.isfinite(last).all() and (last >= 0).all() and last.any()):
            raise AllocationError(f"last_target must hold shares of 0 or more, not all 0, not {dict(last_target)!r}")
        return _Aim(last / last.sum(), f"The best mix is unknown ({trouble}), so the last one aimed at is kept.")
    return _Aim(equal, f"The best mix is unknown ({trouble}), so every source gets equally many rows.")


def _allocated(study: Study, fit: Fit, position: Position, most_rows: Mapping[str, int] | None) -> Allocation | None:
    """The best mix of all the money; where a source can run out, the best of those that exist."""
    budget = float(position.budget[0]) if np.isfinite(position.capacity).any() else None
    try:
        return allocate(study, fit, budget=budget, most_rows=most_rows)
    except AllocationError:
        if set(fit.study.sources) <= set(study.sources) and fit.study.moments == study.moments:
            return None  # a freak of the estimate, such as an infinite slope
        raise


def _wanted(
    study: Study, policy: Policy, position: Position, step: Round, aim: _Aim, objective: Objective | None
) -> Array:
    """New rows (S,), not yet whole."""
    nearest = desired_rows(policy, position, step, aim.kappa[:, None])[:, 0]
    if not isinstance(policy, ETG) or policy.aim == "nearest" or objective is None or not nearest.any():
        return nearest
    market = _market(study, position)
    if policy.per == "rows" and nearest.sum() >= min(step.rows[0], position.room.sum()) * (1 - 1e-9):
        wanted = least_variance(objective, market, nearest, by_rows=True)
        if position.costs @ wanted <= step.money[0] * (1 + 1e-9):
            return wanted
        nearest = nearest_by_budget(aim.kappa[:, None], position.rows, position.costs, step.money, position.room)[:, 0]
    return least_variance(objective, market, nearest, by_rows=False)


def _unknown(study: Study, position: Position, aim: _Aim) -> Array:
    """1 for sources (S,) whose worth nobody knows, such as one that joined late: no estimate would ever ask them."""
    named = () if aim.best is None else aim.best.must_explore
    return np.array([float(name in named) for name in study.sources]) * (position.room[:, 0] >= 1.0)


def _market(study: Study, position: Position) -> Market:
    """The rows bought so far as if they were all the money, and what there is to buy."""
    had, costs = position.rows[:, 0], position.costs
    limit = np.maximum(position.capacity, had) * costs
    return Market(tuple(study.sources), costs, float(had @ costs), had * costs, limit, had)


def _reason(study: Study, aim: _Aim, position: Position, asked: Array, objective: Objective | None) -> str:
    names = tuple(study.sources)
    had = position.rows[:, 0]
    parts = [aim.reason] if aim.reason else [f"Estimated best mix of rows: {_mix(names, aim.kappa)}."]
    if had.any():
        parts.append(f"So far: {_mix(names, had / had.sum())}.")
    after = had + asked
    parts.append(f"After this round: {_mix(names, after / after.sum())}.")
    if aim.best is not None and objective is not None:
        parts += _worth_now(study, aim.best, position, objective)
    unknown = _unknown(study, position, aim)
    if unknown.any():
        listed = ", ".join(name for name, flag in zip(names, unknown, strict=True) if flag)
        parts.append(
            f"Nothing is known yet of {listed}: no row of it was ever seen, so {100 * unknown.mean():.0f} % of this "
            f"round is spent there."
        )
    return " ".join(parts)


def _worth_now(study: Study, best: Allocation, position: Position, objective: Objective) -> list[str]:
    """What more money buys at each source with the rows that there are, where 1 is what it buys in the best mix."""
    market = _market(study, position)
    if not position.rows.any() or not math.isfinite(objective.variance(market, market.lower)):
        return []
    gain = objective.worth(market, market.lower) * market.total**2 / best.variance
    listed = ", ".join(
        f"{name} {'unknown' if math.isnan(value) else f'{value:.2f}'}"
        for name, value in zip(study.sources, gain, strict=True)
    )
    return [f"With these rows, one more unit of money buys, relative to the best mix: {listed}."]


def _mix(names: tuple[str, ...], shares: Array) -> str:
    return ", ".join(f"{name} {100 * share:.1f} %" for name, share in zip(names, shares, strict=True))
