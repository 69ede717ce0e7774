"""What a fit found, frozen, with the questions that a reader asks of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sourcewise import diagnostics
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
from sourcewise.summary import Table, to_html, to_text

REASONS = {
    Status.CONVERGED: "converged",
    Status.ITERATIONS: "stopped before it converged",
    Status.CYCLE: "iterated weights went back and forth between two estimates",
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
        triangles = self._efficient_weight.triangles or []
        named = zip(self.blocks.names, self.blocks.sizes, triangles, strict=True)
        return {name: size - int(triangle.rank[0]) for name, size, triangle in named}

    @cached_property
    def condition(self) -> float:
        """How far the moments are from being combinations of each other (worst block; 1 is best)."""
        return max(float(triangle.condition[0]) for triangle in self._efficient_weight.triangles or [])

    @cached_property
    def strength(self) -> float:
        """How firmly the data hold the target; below 10 its standard error is not to be trusted (a first-stage F)."""
        sensitivity, theta = self.inference.sensitivity, self.estimates.theta
        weight = self.estimates.weight
        with np.errstate(all="ignore"):
            return diagnostics.strength(
                self.compiled, self.blocks, weight, sensitivity, theta, self.target.stderr
            )

    def weak_interval(self, level: float = 0.95) -> ConfidenceSet:
        """A confidence set for the target that holds its level under weak identification."""
        normal_quantile(level)  # refuses a level outside (0, 1)
        with np.errstate(all="ignore"):
            return confidence_set(self.compiled, self.blocks, self.estimates.theta, self.inference, level)

    @cached_property
    def _efficient_weight(self) -> Weight:
        if self.efficient:
            return self.estimates.weight
        with np.errstate(all="ignore"):
            return efficient_weight(self.blocks, self.estimates.theta)

    @property
    def advice(self) -> tuple[str, ...]:
        """What a careful reader should know or do, most important first; empty when there is nothing to say."""
        from sourcewise.advice import advise  # it reads a Fit, so it is imported late

        return advise(self)

    def summary(self) -> str:
        """The result as a table to print."""
        return to_text(tables(self), self.advice)

    def _repr_html_(self) -> str:
        return to_html(tables(self), self.advice)

    def __repr__(self) -> str:
        low, high = self.target.interval()
        return (
            f"Fit({self.target.name} = {self.target.value:.6g}, 95% [{low:.6g}, {high:.6g}], {self.status})"
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON; NaN and infinities become None."""
        target = self.target
        return {
            "target": {"expression": target.name, **_plain(target)},
            "parameters": {name: _plain(estimate) for name, estimate in self.parameters.items()},
            "covariance": [[_finite(value) for value in row] for row in self.covariance.tolist()],
            "overid": {
                **_plain_test(self.overid),
                "by_source": {name: _plain_test(test) for name, test in self.overid.by_source.items()},
            },
            "converged": self.converged,
            "status": self.status,
            "iterations": self.iterations,
            "objective": _finite(self.objective),
            "condition": _finite(self.condition),
            "strength": _finite(self.strength),
            "dropped_directions": self.dropped_directions,
            "rows": self.rows,
            "cost": self.cost,
            "settings": dict(self.settings),
            "advice": list(self.advice),
        }


def normal_quantile(level: float) -> float:
    """z with P(|N(0, 1)| ≤ z) = level."""
    from scipy.special import ndtri

    if isinstance(level, bool) or not isinstance(level, int | float) or not 0 < level < 1:
        raise EstimationError(f"an interval's level must lie between 0 and 1, such as 0.95, not {level!r}")
    return float(ndtri(0.5 + 0.5 * level))


def tables(fit: Fit) -> list[Table]:
    """The parts of a summary: facts of the fit, estimates, and sources."""
    return [_facts(fit), _estimates(fit), _sources(fit)]


def _facts(fit: Fit) -> Table:
    test = fit.overid
    return Table(
        "GMM estimate of " + fit.study.target,
        [
            ("Moments:", str(sum(fit.blocks.sizes)), "Rows:", f"{sum(fit.rows.values()):,}"),
            ("Parameters:", str(len(fit.parameters)), "Cost:", f"{fit.cost:,.6g}"),
            ("Stacking:", fit.settings["stacking"], "J statistic:", _number(test.statistic)),
            ("Weights:", fit.settings["weights"], "Degrees of freedom:", str(test.df)),
            ("Covariance:", fit.settings["covariance"], "P-value (J):", _number(test.pvalue)),
            ("Search:", f"{fit.status}, {fit.iterations} steps", "Strength:", _number(fit.strength)),
        ],
    )


def _estimates(fit: Fit) -> Table:
    header = ("", "Estimate", "Std. Err.", "T-stat", "P-value", "Lower 95%", "Upper 95%")
    rows = [_estimate_row(estimate) for estimate in fit.parameters.values()]
    if fit.study.target not in fit.parameters:
        rows.append(_estimate_row(fit.target))
    return Table("Parameter estimates", rows, header)


def _estimate_row(estimate: Estimate) -> tuple[str, ...]:
    if not estimate.identified:
        return (estimate.name, "not identified", "", "", "", "", "")
    numbers = (estimate.value, estimate.stderr, estimate.tstat, estimate.pvalue, *estimate.interval())
    return (estimate.name, *map(_number, numbers))


def _sources(fit: Fit) -> Table:
    rows = []
    for name, kept in fit.statistics.items():
        test = fit.overid.by_source.get(name)
        agreement = (
            ("", "", "") if test is None else (_number(test.statistic), str(test.df), _number(test.pvalue))
        )
        cost = fit.study.sources[name].cost
        rows.append(
            (name, f"{kept.n:,}", str(kept.dropped), f"{cost:g}", f"{cost * kept.n:,.6g}", *agreement)
        )
    return Table("Sources", rows, ("", "Rows", "Dropped", "Price", "Cost", "J without", "df", "P-value"))


def _number(value: float) -> str:
    """Five significant digits, in a width that keeps columns straight."""
    if math.isnan(value):
        return ""
    if value != 0 and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.3e}"
    return f"{value:.4f}"


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _plain(estimate: Estimate) -> dict[str, Any]:
    low, high = estimate.interval()
    return {
        "value": _finite(estimate.value),
        "stderr": _finite(estimate.stderr),
        "lower95": _finite(low),
        "upper95": _finite(high),
        "identified": estimate.identified,
    }


def _plain_test(test: OveridTest) -> dict[str, Any]:
    return {"statistic": _finite(test.statistic), "df": test.df, "pvalue": _finite(test.pvalue)}
