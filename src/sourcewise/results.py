"""What a fit found, frozen, with the questions that a reader asks of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sourcewise import diagnostics, presentation
from sourcewise.advice import advise
from sourcewise.anytime import anytime_margin
from sourcewise.errors import EstimationError
from sourcewise.estimation.blocks import Blocks
from sourcewise.estimation.gmm import Estimates, Status
from sourcewise.estimation.weights import Weight, efficient_weight, fixed_weight
from sourcewise.inference import Inference, sensitivity_of
from sourcewise.moments.compiled import CompiledStudy
from sourcewise.numerics.linalg import Array
from sourcewise.robust import ConfidenceSet, confidence_set
from sourcewise.spec.study import Study
from sourcewise.statistics.gram import Statistics
from sourcewise.statistics.rows import Rows
from sourcewise.summary import to_html, to_text

REASONS = {
    Status.CONVERGED: "converged",
    Status.ITERATIONS: "stopped before it converged",
    Status.CYCLE: "iterated weights went back and forth between two estimates",
    Status.ESCAPED: "ran off: the objective is lowest at infinity",
    Status.NOT_FINITE: "the moments were not finite numbers",
}


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its standard error. Both are NaN-safe: an unidentified quantity has no standard error."""

    name: str
    value: float
    stderr: float
    identified: bool = True

    @property
    def tstat(self) -> float:
        return self.value / self.stderr if self.stderr > 0 else math.nan

    @property
    def pvalue(self) -> float:
        """Two-sided, of the hypothesis that the quantity is zero."""
        return math.erfc(abs(self.tstat) / math.sqrt(2.0))

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Normal interval; the whole line where the data do not identify the quantity."""
        if not math.isfinite(self.stderr):
            return (-math.inf, math.inf)
        margin = normal_quantile(level) * self.stderr
        return (self.value - margin, self.value + margin)

    def anytime_interval(self, level: float = 0.95, *, tightest_at: float) -> tuple[float, float]:
        """Interval that holds at all looks at growing data together, so that one may stop because of it.

        `tightest_at`: the standard error for which it is to be tightest, fixed before the first look."""
        margin = anytime_margin(self.stderr, tightest_at, level)
        return (self.value - margin, self.value + margin) if math.isfinite(margin) else (-math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class OveridTest:
    """Do the moments agree with each other? `by_source` asks of each source whether it agrees with the rest."""

    statistic: float
    df: int
    by_source: Mapping[str, OveridTest]

    @property
    def pvalue(self) -> float:
        """NaN where there is nothing to test."""
        from scipy.special import chdtrc

        return float(chdtrc(self.df, self.statistic)) if self.df > 0 else math.nan


@dataclass(frozen=True)
class Fit:
    """An estimate of the target with everything needed to judge it. Made by `sourcewise.fit`."""

    study: Study
    statistics: Mapping[str, Statistics | Rows]
    settings: Mapping[str, Any]
    compiled: CompiledStudy
    blocks: Blocks
    estimates: Estimates
    inference: Inference
    efficient: bool

    @property
    def target(self) -> Estimate:
        found = self.inference
        identified = bool(found.identified[0])
        return Estimate(self.study.target, float(found.target[0]), float(found.stderr[0]), identified)

    @cached_property
    def parameters(self) -> Mapping[str, Estimate]:
        """Every parameter by name, in the order of the covariance."""
        spread = np.sqrt(np.diag(self.covariance))
        identified = self.inference.parameters_identified[:, 0]
        values = zip(self.compiled.parameters, self.estimates.theta[:, 0], spread, identified, strict=True)
        return {name: Estimate(name, float(v), float(s), bool(known)) for name, v, s, known in values}

    @property
    def covariance(self) -> Array:
        """Of the parameters (D, D); NaN for those that the data do not identify."""
        return np.asarray(self.inference.covariance[0])

    @property
    def rows(self) -> dict[str, int]:
        """Rows used of each source."""
        return {name: kept.n for name, kept in self.statistics.items()}

    @property
    def cost(self) -> float:
        """What these rows cost at the study's prices."""
        return sum(self.study.sources[name].cost * n for name, n in self.rows.items())

    @property
    def converged(self) -> bool:
        return bool(self.estimates.converged[0])

    @property
    def status(self) -> str:
        """Converged, or why not."""
        return REASONS[Status(int(self.estimates.status[0]))]

    @property
    def iterations(self) -> int:
        return int(self.estimates.iterations[0])

    @property
    def objective(self) -> float:
        """Q at the estimate, under the last weight."""
        return float(self.estimates.objective[0])

    @cached_property
    def overid(self) -> OveridTest:
        """The J test, overall and by source (stacked only)."""
        found = self.inference
        with np.errstate(all="ignore"):
            parts = diagnostics.by_source(self.blocks, self._efficient_weight, self.estimates.theta)
        tests = {name: OveridTest(value, df, {}) for name, (value, df) in parts.items()}
        return OveridTest(float(found.statistic[0]), int(found.degrees[0]), tests)

    @property
    def at_bounds(self) -> dict[str, float]:
        """Parameters whose estimates are at a bound, and which."""
        compiled, theta = self.compiled, self.estimates.theta[:, 0]
        bounds = np.where(theta <= compiled.lower, compiled.lower, compiled.upper)
        return {
            name: float(bound)
            for name, value, bound in zip(compiled.parameters, theta, bounds, strict=True)
            if value == bound
        }

    @property
    def identified_without_weights(self) -> bool:
        """Would the target be identified if no moment were left out of the weight?"""
        theta, gradient = self.estimates.theta, self.inference.gradient
        with np.errstate(all="ignore"):
            plain = sensitivity_of(self.blocks, fixed_weight(self.blocks, None), theta, gradient)
        return bool(plain.target_identified[0])

    @cached_property
    def dropped_directions(self) -> dict[str, int]:
        """Moments of each block that are combinations of the others, so that the weight leaves them out."""
        triangles = self._inverted.triangles or []
        named = zip(self.blocks.names, self.blocks.sizes, triangles, strict=True)
        return {name: size - int(triangle.rank[0]) for name, size, triangle in named}

    @cached_property
    def condition(self) -> float:
        """How far the moments are from being combinations of each other (worst block; 1 is best)."""
        return max(float(triangle.condition[0]) for triangle in self._inverted.triangles or [])

    @cached_property
    def strength(self) -> float:
        """How firmly the data hold the target; below 10 its standard error is not to be trusted."""
        sensitivity, theta = self.inference.sensitivity, self.estimates.theta
        weight = self.estimates.weight
        with np.errstate(all="ignore"):
            return diagnostics.strength(self.compiled, self.blocks, weight, sensitivity, theta, self.target.stderr)

    def weak_interval(self, level: float = 0.95) -> ConfidenceSet:
        """A confidence set for the target that holds its level under weak identification."""
        normal_quantile(level)  # refuses a level outside (0, 1)
        with np.errstate(all="ignore"):
            return confidence_set(self.compiled, self.blocks, self.estimates.theta, self.inference, level)

    @property
    def _inverted(self) -> Weight:
        """The weight that inverts a variance: this fit's own, or the efficient one where it has none."""
        return self.estimates.weight if self.blocks.weighing else self._efficient_weight

    @cached_property
    def _efficient_weight(self) -> Weight:
        if self.efficient:
            return self.estimates.weight
        with np.errstate(all="ignore"):
            return efficient_weight(self.blocks, self.estimates.theta)

    @property
    def advice(self) -> tuple[str, ...]:
        """What a careful reader should know or do, most important first; empty when there is nothing to say."""
        return advise(self)

    def summary(self) -> str:
        """The result as a table to print."""
        return to_text(presentation.tables(self), self.advice)

    def _repr_html_(self) -> str:
        return to_html(presentation.tables(self), self.advice)

    def __repr__(self) -> str:
        low, high = self.target.interval()
        return f"Fit({self.target.name} = {self.target.value:.6g}, 95% [{low:.6g}, {high:.6g}], {self.status})"

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON; NaN and infinities become None."""
        return presentation.plain(self)


def normal_quantile(level: float) -> float:
    """z with P(|N(0, 1)| ≤ z) = level."""
    from scipy.special import ndtri

    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise EstimationError(f"an interval's level must lie between 0 and 1, such as 0.95, not {level!r}")
    return float(ndtri(0.5 + 0.5 * level))
