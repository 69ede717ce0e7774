"""The figures of an experiment, from its summary and its runs."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from sourcewise import plots
from sourcewise.allocation.allocate import variance
from sourcewise.experiments.base import STACKED, Findings
from sourcewise.plots.theme import Chart
from sourcewise.reporting import Figure
from sourcewise.simulation.oracle import population_fit
from sourcewise.simulation.results import ORACLE

STEPS = 40
"""Mixes along each side of the triangle."""

CEILING = 60.0
"""Per cent of regret beyond which a curve leaves the figure (and is named below its title)."""


def drawings(found: Findings) -> dict[str, Figure]:
    title = found.experiment.title
    paper = list(found.experiment.policies)
    ours = [name for name in found.main.outcomes if STACKED in name]
    figures = {
        "regret": _regret(found, [*paper, *found.experiment.mixes], f"{title}: the paper's policies"),
        "regret-stacked": _regret(found, ours, f"{title}: stacked estimates"),
        "mixes": _mixes(found, found.experiment.adaptive(), f"{title}: where the mixes end"),
        "variance": _variance(found),
        "coverage": _coverage(found, [ORACLE, *paper], f"{title}: coverage of 95 % intervals"),
        "coverage-stacked": _coverage(found, ours, f"{title}: coverage, stacked estimates"),
        "tails": _tails(found, [ORACLE, *paper], f"{title}: typical and extreme errors"),
        "tails-stacked": _tails(found, ours, f"{title}: typical and extreme errors, stacked"),
    }
    return figures


def _regret(found: Findings, names: Iterable[str], title: str) -> Figure:
    chosen = set(names)
    rows = [
        {"policy": c.policy, "budget": c.budget, "regret": c.regret, "low": c.regret_low, "high": c.regret_high}
        for c in found.main.cells
        if c.policy in chosen
    ]
    chart = plots.regret_curves(rows, title=title, ceiling=CEILING)
    return Figure(chart, alt=f"{title}. Relative regret in per cent by budget, a line a policy, with 95 % intervals.")


def _mixes(found: Findings, names: Iterable[str], title: str) -> Figure:
    best = found.experiment.best("pooled").kappa
    rows = []
    for name in names:
        outcome = found.main.outcomes[name]
        shares = outcome.rows / np.maximum(outcome.rows.sum(axis=0), 1)
        for k, budget in enumerate(outcome.budgets.tolist()):
            for source, values in zip(found.main.sources, shares[:, k], strict=True):
                low, high = np.quantile(values, (0.05, 0.95)).tolist()
                rows.append(
                    {"policy": name, "budget": budget, "source": source, "share": float(values.mean())}
                    | {"low": low, "high": high}
                )
    chart = plots.mix_spread(rows, best, title=title)
    return Figure(chart, alt=f"{title}. Mean share of rows and its 5th to 95th percentile, beside the best mix.")


def _variance(found: Findings) -> Figure:
    """The paper's objective over all mixes, at the true parameters."""
    experiment, sources = found.experiment, found.main.sources
    known = population_fit(experiment.world, experiment.study, "pooled")
    best = experiment.best("pooled").kappa
    title = f"{experiment.title}: variance of every mix"
    marks = {"equal": dict.fromkeys(sources, 1.0 / len(sources)), **experiment.mixes}
    grid = plots.simplex_grid(2 * STEPS, 2) if len(sources) == 2 else plots.simplex_grid(STEPS)
    heights = [variance(experiment.study, known, dict(zip(sources, mix, strict=True))) for mix in grid]
    if len(sources) == 2:
        rows = [{"share": mix[0], "variance": v} for mix, v in zip(grid, heights, strict=True)]
        named = {name: mix[sources[0]] for name, mix in marks.items()}
        chart: Chart = plots.variance_line(rows, best[sources[0]], source=sources[0], marks=named, title=title)
    else:
        rows = [dict(zip(sources, mix, strict=True)) | {"variance": v} for mix, v in zip(grid, heights, strict=True)]
        placed = {name: [mix[source] for source in sources] for name, mix in marks.items()}
        chart = plots.variance_ternary(rows, sources, [best[s] for s in sources], marks=placed, title=title)
    lowest = min(value for value in heights if math.isfinite(value))
    return Figure(chart, alt=f"{title}, lowest {lowest:.4g} on this grid; the best mix is marked.")


def _coverage(found: Findings, names: Iterable[str], title: str) -> Figure:
    chosen = set(names)
    rows = [
        {"policy": c.policy, "budget": c.budget, "coverage": c.coverage, "runs": c.runs}
        for c in found.main.cells
        if c.policy in chosen
    ]
    return Figure(plots.coverage(rows, title=title), alt=f"{title}, by budget and policy, with binomial error bars.")


def _tails(found: Findings, names: Iterable[str], title: str) -> Figure:
    chosen = set(names)
    rows = [
        {"policy": c.policy, "budget": c.budget, "median": c.median, "p99": c.p99}
        for c in found.main.cells
        if c.policy in chosen
    ]
    return Figure(
        plots.tails(rows, title=title), alt=f"{title}: median and 99th percentile of the scaled squared error."
    )
