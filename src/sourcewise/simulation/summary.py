"""A simulation in numbers, one `Cell` for each policy and budget. No run is ever left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from sourcewise.numerics.linalg import Array
from sourcewise.results import normal_quantile
from sourcewise.simulation.play import Outcome

LEVEL = 0.95

KEPT = 0.99
"""Share of the runs, those with the smallest errors, that the trimmed means are of."""


@dataclass(frozen=True, slots=True)
class Cell:
    """One policy at one budget. Errors are scaled: budget × squared error of the target."""

    policy: str
    budget: float
    runs: int
    mse: float
    mse_se: float
    """Standard error of `mse`."""
    regret: float
    """(mse − oracle's mse) / oracle's mse, in per cent; NaN without an oracle."""
    regret_low: float
    regret_high: float
    """Its 95 % interval, from paired runs."""
    median: float
    p99: float
    """Median and 99th percentile of the scaled squared error: a mean can be a matter of a few runs."""
    trimmed: float
    """Mean of the smallest 99 % of the scaled squared errors: all but the tail that p99 begins."""
    trimmed_regret: float
    """Regret of that mean, and its 95 % interval: what can be told where a few runs decide `mse`."""
    trimmed_low: float
    trimmed_high: float
    coverage: float
    """Share of 95 % intervals that hold the truth; an interval of a target that is not identified is the whole line."""
    width: float
    """Mean width of the intervals times √budget."""
    weak_coverage: float
    """Coverage of the interval that stays valid under weak identification; NaN where it was not asked for."""
    rounds: float
    """Mean number of rounds."""
    spent: float
    """Mean share of the budget that was spent."""
    not_converged: int
    not_identified: int
    astray: int
    """Runs in which some round had no estimate to follow."""
    kappa: Mapping[str, float]
    """Mean share of each source in the rows, and its standard deviation over runs."""
    kappa_sd: Mapping[str, float]

    def to_dict(self) -> dict[str, Any]:
        """Flat, one entry a number."""
        plain = {part.name: getattr(self, part.name) for part in fields(self)[:-2]}
        shares = {f"kappa_{name}": value for name, value in self.kappa.items()}
        return plain | shares | {f"kappa_sd_{name}": value for name, value in self.kappa_sd.items()}


def paired_ratio(one: Array, two: Array) -> tuple[float, float]:
    """mean(one) / mean(two) − 1 and its standard error, where runs are pairs."""
    with np.errstate(all="ignore"):  # an infinite error makes the mean infinite, and what follows from it unknown
        mean = two.mean()
        ratio = one.mean() / mean
        spread = (one - ratio * two).std(ddof=1) if len(one) > 1 else math.nan
        return float(ratio - 1.0), float(spread / (mean * math.sqrt(len(one))))


def trimmed_mean(errors: Array) -> tuple[float, Array]:
    """Mean of the smallest 99 % of the errors (runs,), and how much each run pulls at it: pulls have mean 0, and
    the mean's sampling variance is theirs divided by the runs."""
    kept = max(1, math.floor(KEPT * len(errors)))
    ordered = np.sort(np.where(np.isnan(errors), np.inf, errors))
    mean = float(ordered[:kept].mean())
    capped = np.minimum(np.where(np.isnan(errors), np.inf, errors), ordered[kept - 1])
    return mean, (capped - capped.mean()) * (len(errors) / kept)


def trimmed_ratio(one: Array, two: Array) -> tuple[float, float]:
    """The ratio of the trimmed means less 1, and its standard error, where runs are pairs."""
    with np.errstate(all="ignore"):
        (mean, pull), (base, base_pull) = trimmed_mean(one), trimmed_mean(two)
        ratio = float(np.divide(mean, base))
        spread = (pull - ratio * base_pull).std(ddof=1) if len(one) > 1 else math.nan
        return ratio - 1.0, float(np.divide(spread, base * math.sqrt(len(one))))


def cell_of(
    name: str, outcome: Outcome, k: int, errors: Array, oracle: Array | None, truth: float, sources: Sequence[str]
) -> Cell:
    """The summary of one policy at its k-th budget; `errors` and the `oracle`'s are scaled and squared (runs,)."""
    budget, runs = float(outcome.budgets[k]), len(errors)
    ordered = np.where(np.isnan(errors), np.inf, errors)
    identified = np.isfinite(outcome.stderr[k])
    half = normal_quantile(LEVEL) * outcome.stderr[k]
    held = ~identified | (np.abs(outcome.estimate[k] - truth) <= half)
    level = outcome.weak[k]
    total = outcome.rows[:, k].sum(axis=0)
    shares = np.divide(outcome.rows[:, k], total, out=np.zeros(outcome.rows[:, k].shape), where=total > 0)
    spreads = shares.std(axis=1, ddof=1) if runs > 1 else np.full(len(shares), math.nan)
    return Cell(
        name,
        budget,
        runs,
        float(errors.mean()),
        _stderr(errors),
        *_interval(None if oracle is None else paired_ratio(errors, oracle)),
        float(np.quantile(ordered, 0.5, method="lower")),
        float(np.quantile(ordered, 0.99, method="lower")),
        trimmed_mean(errors)[0],
        *_interval(None if oracle is None else trimmed_ratio(errors, oracle)),
        float(held.mean()),
        float(np.where(identified, 2 * half, np.inf).mean() * math.sqrt(budget)),
        math.nan if np.isnan(level).all() else float((level <= LEVEL).mean()),
        float(outcome.rounds[k].mean()),
        float(outcome.spent[k].mean() / budget),
        int((~outcome.converged[k]).sum()),
        int((~identified).sum()),
        int((outcome.astray[k] > 0).sum()),
        dict(zip(sources, shares.mean(axis=1).tolist(), strict=True)),
        dict(zip(sources, spreads.tolist(), strict=True)),
    )


def _stderr(errors: Array) -> float:
    with np.errstate(invalid="ignore"):
        return float(errors.std(ddof=1) / math.sqrt(len(errors))) if len(errors) > 1 else math.nan


def _interval(found: tuple[float, float] | None) -> tuple[float, float, float]:
    """A ratio with its standard error as per cent, with the ends of its 95 % interval."""
    if found is None:
        return math.nan, math.nan, math.nan
    ratio, error = 100 * found[0], 100 * normal_quantile(LEVEL) * found[1]
    return ratio, ratio - error, ratio + error
