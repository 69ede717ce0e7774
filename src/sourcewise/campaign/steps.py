"""What happens next: from what a store holds of a campaign to the next estimate and the next order.

Nothing here reads a clock or a database, so the same stored campaign always gives the same order.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sourcewise.allocation.allocate import allocate, variance
from sourcewise.anytime import tightest_for
from sourcewise.campaign.progress import Progress
from sourcewise.campaign.seen import Seen
from sourcewise.campaign.terms import Terms
from sourcewise.diagnostics import WEAK
from sourcewise.errors import SourcewiseError
from sourcewise.estimation.gmm import RIDGED
from sourcewise.fit import fit
from sourcewise.orders import next_order
from sourcewise.policies import ETG
from sourcewise.records import Agreement, Interval, Look, Order
from sourcewise.results import Fit, OveridTest
from sourcewise.statistics.gram import Statistics


def next_step(seen: Seen, time: str) -> Progress:
    """The progress after the next `ask`: with a new order, or over, and with the estimate that this rests on."""
    terms, before = seen.terms, seen.progress
    found = estimate(seen)
    tightest = before.tightest or (None if found is None else first_tightest(seen, found))
    look = None if found is None else look_at(seen, found, tightest, time)
    now = replace(before, updated=time, tightest=tightest, look=look, looked_at=seen.seq)
    reached = width_reached(terms, look)
    if reached:
        return replace(now, over=reached)
    proposed = _propose(seen, found)
    if proposed is None:
        return replace(now, over=_why_over(seen))
    rows = {name: n for name, n in proposed.rows.items() if n}
    prices = {name: terms.study.sources[name].cost for name in rows}
    centre = {name: dict(kept.centre) for name, kept in seen.data.items() if isinstance(kept, Statistics)}
    order = replace(proposed, rows=rows, round=before.round + 1, prices=prices, centre=centre, time=time)
    return replace(now, round=order.round, order=order, received={}, last_target=dict(order.target))


def estimate(seen: Seen, ridge: float = 0.0) -> Fit | None:
    """None when there is nothing to estimate from; a failed estimate never stops a campaign.

    A policy's ridge is for weights that are computed at an estimate; other weights of a study do without."""
    if not seen.data:
        return None
    ridge = ridge if seen.terms.study.weights in RIDGED else 0.0
    try:
        return fit(seen.terms.study, seen.data, stacking=seen.terms.stacking, ridge=ridge)
    except SourcewiseError:
        return None


def _propose(seen: Seen, found: Fit | None) -> Order | None:
    terms = seen.terms
    if isinstance(terms.policy, ETG) and terms.policy.ridge > 0:
        found = estimate(seen, terms.policy.ridge)
    return next_order(
        terms.study,
        terms.policy,
        budget=terms.budget,
        rows=seen.rows,
        fit=found,
        spent=seen.spent,
        last_target=seen.progress.last_target,
        most_rows={name: seen.rows[name] for name in terms.retired},
    )


def width_reached(terms: Terms, look: Look | None) -> str:
    """Why the campaign is over, if the anytime interval is narrow enough; else an empty text."""
    if look is None or terms.target_width is None or look.status != "converged" or look.width is None:
        return ""
    if look.width > terms.target_width:
        return ""
    return (
        f"precise enough: the {100 * look.level:g} % anytime interval is {look.width:.6g} wide, "
        f"and {terms.target_width:g} was asked for"
    )


def _why_over(seen: Seen) -> str:
    left = seen.terms.budget - seen.spent
    gone = all(
        name in seen.terms.retired or (source.capacity is not None and seen.rows[name] >= source.capacity)
        for name, source in seen.terms.study.sources.items()
    )
    if gone:
        return f"no source has rows left to give; {max(left, 0.0):g} of the budget is left"
    least = min(source.cost for name, source in seen.terms.study.sources.items() if name not in seen.terms.retired)
    if left < least * 1e-6:
        return "the budget is spent"
    kind = "no row" if left < least * (1 - 1e-9) else "no row of a source that is wanted"
    return f"the budget is spent: what is left, {left:g}, buys {kind}"


def first_tightest(seen: Seen, found: Fit) -> float | None:
    """The standard error to tune the anytime intervals to, decided at the first look that has one.

    With a target width it follows from that alone. Else it is the one to expect when the budget is spent, which the
    data enter only through a standard error, and that is a number, not luck, once there are many rows."""
    stderr = found.target.stderr
    if seen.terms.target_width is not None:
        return tightest_for(seen.terms.target_width, seen.terms.level)
    if not (found.converged and found.target.identified and 0 < stderr < math.inf) or seen.spent <= 0:
        return None
    return stderr * math.sqrt(min(seen.spent / seen.terms.budget, 1.0))


def look_at(seen: Seen, found: Fit, tightest: float | None, time: str, *, weak: bool = False) -> Look:
    """The estimate as a record. `weak`: with the set that keeps its level when identification is weak, if it is."""
    target, level = found.target, seen.terms.level
    rows = seen.rows
    total = sum(rows.values())
    anytime: Interval = (None, None)
    if tightest is not None:
        anytime = _interval(target.anytime_interval(level, tightest_at=tightest))
    best_mix, stderr_best = _best(seen, found)
    strength = finite(found.strength)
    tests = {name: _agreement(test) for name, test in found.overid.by_source.items()}
    return Look(
        round=seen.progress.round,
        time=time,
        rows=rows,
        spent=seen.spent,
        value=finite(target.value),
        stderr=finite(target.stderr),
        level=level,
        interval=_interval(target.interval(level)),
        anytime=anytime,
        mix={name: n / total for name, n in rows.items()},
        best_mix=best_mix,
        stderr_equal=_stderr_equal(seen, found),
        stderr_best=stderr_best,
        strength=strength,
        overid=_agreement(found.overid),
        overid_by_source=tests,
        status=found.status,
        advice=found.advice,
        weak=_weak_set(found, level) if weak and (strength or 0.0) < WEAK and target.identified else None,
    )


def _weak_set(found: Fit, level: float) -> tuple[Interval, ...]:
    return tuple(_interval(segment) for segment in found.weak_interval(level).segments)


def _best(seen: Seen, found: Fit) -> tuple[dict[str, float] | None, float | None]:
    """The best mix of the whole budget at this estimate, and what the money spent so far would have bought in it."""
    terms = seen.terms
    retired = {name: seen.rows[name] for name in terms.retired}
    try:
        best = allocate(terms.study, found, budget=terms.budget, most_rows=retired)
    except SourcewiseError:
        return None, None
    return dict(best.kappa), _after(best.variance, seen.spent)


def _stderr_equal(seen: Seen, found: Fit) -> float | None:
    """Of all that could be asked, or gave rows before they were retired: the whole campaign spent equally."""
    terms, rows = seen.terms, seen.rows
    gives = {name: name not in terms.retired or rows[name] > 0 for name in terms.study.sources}
    useful = {name: float(gives[name] and bool(terms.study.moments_of(name))) for name in terms.study.sources}
    try:
        return _after(variance(terms.study, found, useful), seen.spent)
    except SourcewiseError:
        return None


def _after(variance_per_money: float, spent: float) -> float | None:
    return finite(math.sqrt(variance_per_money / spent)) if spent > 0 and variance_per_money > 0 else None


def _agreement(test: OveridTest) -> Agreement:
    return Agreement(finite(test.statistic), test.df, finite(test.pvalue))


def _interval(ends: tuple[float, float]) -> Interval:
    return finite(ends[0]), finite(ends[1])


def finite(value: float) -> float | None:
    """A plain number, or None."""
    return float(value) if np.isfinite(value) else None
