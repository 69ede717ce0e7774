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
            f"The objective has several local minima (the search met {minima}); the lowest is reported. "
            f"Give starting values if you know where the parameters lie."
        )


def _identification(fit: Fit) -> Iterator[str]:
    if not fit.target.identified:
        yield (
            f"The target {fit.study.target!r} is not identified by these data: other values fit equally well. "
            f"Add a source or a moment that bears on it."
        )
    lost = [name for name, estimate in fit.parameters.items() if not estimate.identified]
    if lost and fit.target.identified:
        yield f"Not identified, and reported without a standard error: {', '.join(lost)}. The target does not need them."
    if math.isfinite(fit.strength) and fit.strength < WEAK and fit.target.identified:
        yield (
            f"Identification looks weak (strength {fit.strength:.2g}, below {WEAK:g}): the estimate can be biased and "
            f"its standard error misleading. Use fit.weak_interval(), which keeps its level."
        )


def _agreement(fit: Fit) -> Iterator[str]:
    test = fit.overid
    if test.df > 0 and test.pvalue < SUSPICIOUS:
        worst = min(
            ((one.pvalue, name) for name, one in test.by_source.items() if one.df > 0), default=(1.0, "")
        )
        blame = (
            f" The disagreement is largest with source {worst[1]!r} (p = {worst[0]:.2g})." if worst[1] else ""
        )
        yield f"The moments contradict each other (J test, p = {test.pvalue:.2g}); one of them may not hold.{blame}"


def _data(fit: Fit) -> Iterator[str]:
    for name, lost in fit.dropped_directions.items():
        if lost:
            yield (
                f"{lost} of the moments of {name} depend on the others in these data and were left out of the weight; "
                f"the estimate is unaffected."
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
