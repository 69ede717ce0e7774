"""A fit for readers and for machines: the tables of its summary, and plain numbers and texts."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from sourcewise.summary import Table

if TYPE_CHECKING:
    from sourcewise.results import Estimate, Fit, OveridTest


def plain(fit: Fit) -> dict[str, Any]:
    """Plain numbers and texts, ready for JSON; NaN and infinities become None."""
    target = fit.target
    return {
        "target": {"expression": target.name, **_plain(target)},
        "parameters": {name: _plain(estimate) for name, estimate in fit.parameters.items()},
        "covariance": [[_finite(value) for value in row] for row in fit.covariance.tolist()],
        "overid": {
            **_plain_test(fit.overid),
            "by_source": {name: _plain_test(test) for name, test in fit.overid.by_source.items()},
        },
        "converged": fit.converged,
        "status": fit.status,
        "iterations": fit.iterations,
        "objective": _finite(fit.objective),
        "condition": _finite(fit.condition),
        "strength": _finite(fit.strength),
        "dropped_directions": fit.dropped_directions,
        "rows": fit.rows,
        "cost": fit.cost,
        "settings": dict(fit.settings),
        "advice": list(fit.advice),
    }


def tables(fit: Fit) -> list[Table]:
    """The parts of a summary: facts of the fit, estimates, and sources."""
    return [_facts(fit), _estimates(fit), _sources(fit)]


def _facts(fit: Fit) -> Table:
    test = fit.overid
    statistic = _number(test.statistic) if test.df > 0 else "none (exactly identified)"
    steps = f", {fit.iterations} steps" if fit.iterations else " (linear)"
    return Table(
        "GMM estimate of " + fit.study.target,
        [
            ("Moments:", str(sum(fit.blocks.sizes)), "Rows:", f"{sum(fit.rows.values()):,}"),
            ("Parameters:", str(len(fit.parameters)), "Cost:", f"{fit.cost:,.6g}"),
            ("Stacking:", fit.settings["stacking"], "J statistic:", statistic),
            ("Weights:", fit.settings["weights"], "Degrees of freedom:", str(test.df)),
            ("Covariance:", fit.settings["covariance"], "P-value (J):", _number(test.pvalue)),
            ("Search:", fit.status + steps, "Strength:", _number(fit.strength)),
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
        agreement = ("", "", "") if test is None else (_number(test.statistic), str(test.df), _number(test.pvalue))
        cost = fit.study.sources[name].cost
        rows.append((name, f"{kept.n:,}", str(kept.dropped), f"{cost:g}", f"{cost * kept.n:,.6g}", *agreement))
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
