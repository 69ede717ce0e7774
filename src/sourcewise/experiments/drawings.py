"""The figures of an experiment, from its summary and its runs."""

from __future__ import annotations

import math

from sourcewise import plots
from sourcewise.allocation.allocate import variance
from sourcewise.experiments.base import STACKED, Findings
from sourcewise.plots.theme import Chart
from sourcewise.reporting import Figure
from sourcewise.simulation.figures import mixes
from sourcewise.simulation.oracle import population_fit
from sourcewise.simulation.results import ORACLE, Kind

STEPS = 40
"""Mixes along each side of the triangle."""

ALT = {
    "regret": "Relative regret in per cent by budget, a line a policy, with 95 % intervals.",
    "trimmed": "Relative regret of the mean of the smallest 99 % of the errors by budget, with 95 % intervals.",
    "mixes": "Mean share of rows and its 5th to 95th percentile, beside the best mix.",
    "coverage": "Share of intervals that hold the truth, by budget and policy, with binomial error bars.",
    "tails": "Median and 99th percentile of the scaled squared error by budget.",
}


def drawings(found: Findings) -> dict[str, Figure]:
    paper = list(found.experiment.policies)
    ours = [name for name in found.main.outcomes if STACKED in name]
    return {
        "regret": _draw(found, "regret", [*paper, *found.experiment.mixes], "the paper's policies"),
        "regret-stacked": _draw(found, "regret", ours, "stacked estimates"),
        "regret-trimmed": _draw(found, "trimmed", paper, "without the largest 1 % of the errors"),
        "mixes": _mixes(found),
        "variance": _variance(found),
        "coverage": _draw(found, "coverage", [ORACLE, *paper], "coverage of 95 % intervals"),
        "coverage-stacked": _draw(found, "coverage", ours, "coverage, stacked estimates"),
        "tails": _draw(found, "tails", [ORACLE, *paper], "typical and extreme errors"),
        "tails-stacked": _draw(found, "tails", ours, "typical and extreme errors, stacked"),
    }


def _draw(found: Findings, kind: Kind, names: list[str], what: str) -> Figure:
    title = f"{found.experiment.title}: {what}"
    return Figure(found.main.figure(kind, policies=names, title=title), alt=f"{title}. {ALT[kind]}")


def _mixes(found: Findings) -> Figure:
    """Beside the best mix itself: the oracle's whole rows are only near it."""
    title, best = f"{found.experiment.title}: where the mixes end", found.experiment.best("pooled").kappa
    chart = plots.mix_spread(mixes(found.main, found.experiment.adaptive()), best, title=title)
    return Figure(chart, alt=f"{title}. {ALT['mixes']}")


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
