"""Sentences about a fit: what went wrong or looks doubtful, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sourcewise.diagnostics import WEAK
from sourcewise.estimation.gmm import Status

if TYPE_CHECKING:
    from sourcewise.results import Fit

SUSPICIOUS = 0.01
"""p-value of an over-identification test below which it is mentioned."""

ROWS_PER_MOMENT = 5

NOTHING = 1e-13
"""A standard error below this share of its estimate is rounding error."""


def advise(fit: Fit) -> tuple[str, ...]:
    """Most important first; empty when there is nothing to say."""
    return (*_search(fit), *_identification(fit), *_agreement(fit), *_data(fit))


def _search(fit: Fit) -> Iterator[str]:
    match Status(int(fit.estimates.status[0])):
        case Status.ITERATIONS:
            yield (
                f"The search stopped after {fit.iterations} steps before it converged; do not use the estimate as it "
                f"is. Give starting values, Parameter(start=...), or bounds, or raise max_iterations."
            )
        case Status.CYCLE:
            yield (
                "Iterating the weights went back and forth between two estimates and will not settle; "
                "use weights='two-step' or weights='cue'."
            )
        case Status.ESCAPED:
            yield (
                "The continuously updated objective is lowest at infinity, as it can be when moments are weak; do not "
                "use the estimate. Use weights='two-step' with fit.weak_interval(), or give bounds."
            )
        case Status.NOT_FINITE:
            yield (
                "The moments are not finite numbers at or near the starting values; give starting values or bounds "
                "at which every formula can be computed."
            )
        case _:
            pass
    minima = int(fit.estimates.minima[0])
    if minima > 1:
        yield (
            f"The objective has several local minima (the search met {minima}); the lowest is reported, and others may "
            f"be as low. Give starting values or bounds if you know where the parameters lie."
        )


def _identification(fit: Fit) -> Iterator[str]:
    target = fit.target
    if not math.isfinite(target.value):
        yield (
            f"The target {target.name!r} is not a finite number at the estimate; bounds on the parameters can keep "
            f"the search where it can be computed."
        )
    elif not target.identified and fit.identified_without_weights:
        yield (
            f"No standard error for {target.name!r}: the moments that hold it do not vary in these data (a perfect "
            f"fit, or fewer rows than moments). Collect more rows."
        )
    elif not target.identified:
        yield (
            f"The target {target.name!r} is not identified by these data: other values fit equally well. "
            f"Add a source or a moment that bears on it."
        )
    elif target.stderr <= NOTHING * abs(target.value):
        yield (
            "The standard error is zero: the moments hold in every row (a perfect fit), or the target has no slope at "
            "the estimate. Do not trust it; look at the parameters, which may have run off to where formulas are flat."
        )
    lost = [name for name, estimate in fit.parameters.items() if not estimate.identified]
    if lost and target.identified:
        yield (
            f"Not identified, and reported without a standard error: {', '.join(lost)}. The target does not need them."
        )
    for name, bound in fit.at_bounds.items():
        yield (
            f"Parameter {name!r} ended at its bound {bound:g}, where standard errors and the J test do not hold; "
            f"widen the bound if the data should decide."
        )
    if math.isfinite(fit.strength) and fit.strength < WEAK and target.identified:
        yield (
            f"Identification looks weak (strength {fit.strength:.2g}, below {WEAK:g}): the estimate can be biased and "
            f"its standard error misleading. Use fit.weak_interval(), which keeps its level."
        )


def _agreement(fit: Fit) -> Iterator[str]:
    test = fit.overid
    if test.df > 0 and test.pvalue < SUSPICIOUS:
        worst = min(((one.pvalue, name) for name, one in test.by_source.items() if one.df > 0), default=(1.0, ""))
        blame = f" The disagreement is largest with source {worst[1]!r} (p = {worst[0]:.2g})." if worst[1] else ""
        yield f"The moments contradict each other (J test, p = {test.pvalue:.2g}); one of them may not hold.{blame}"


def _data(fit: Fit) -> Iterator[str]:
    for name, lost in fit.dropped_directions.items():
        rows = fit.rows.get(name, sum(fit.rows.values()))
        effect = (
            "the estimate is unaffected" if rows > 2 * lost else "there are too few rows to estimate their variance"
        )
        if lost:
            yield (
                f"{lost} of the moments of {name} depend on the others in these data and were left out of the weight; "
                f"{effect}."
            )
    for name, kept in fit.statistics.items():
        moments = len(fit.study.moments_of(name))
        if kept.n < ROWS_PER_MOMENT * moments:
            yield (
                f"Source {name!r} has {kept.n} rows for {moments} moments; standard errors need more "
                f"(at least {ROWS_PER_MOMENT * moments})."
            )
        if kept.dropped:
            yield f"{kept.dropped} rows of source {name!r} had missing values and were left out."
