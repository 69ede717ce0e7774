"""Carry an experiment out, and write down what came of it: data, figures and a page that judges the claims."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path

from sourcewise.experiments.base import Experiment, Findings
from sourcewise.experiments.drawings import drawings
from sourcewise.plots.save import save
from sourcewise.reporting import ExperimentPage, Table, experiment_document, write
from sourcewise.simulation.results import ORACLE, Simulation
from sourcewise.simulation.runner import simulate
from sourcewise.simulation.summary import Cell

Announce = Callable[[str, int, int], None]
"""Told what is being simulated, and how many runs of how many are done."""

WEAK_POLICY = 1
"""Beside the oracle, one policy (the last) shows what adaptive collection does to the interval."""


@dataclass(frozen=True, slots=True)
class Means:
    """How to compute: runs, seed, and where."""

    runs: int = 12_000
    seed: int = 1
    workers: int = 1
    executor: Executor | None = None
    keep: Path | None = None
    """A folder for finished runs, so that an interrupted experiment goes on where it stopped."""


def carry_out(experiment: Experiment, means: Means, announce: Announce | None = None) -> Findings:
    """Every policy at every budget, and what is looked at on the side."""
    strategies = experiment.strategies

    def part(what: str, names: list[str], budgets: tuple[float, ...], weak: bool) -> Simulation:
        return simulate(
            experiment.world,
            experiment.study,
            {name: strategies[name] for name in names},
            budgets,
            runs=means.runs,
            seed=means.seed,
            weak=weak,
            workers=means.workers,
            executor=means.executor,
            save=None if means.keep is None else means.keep / what,
            progress=None if announce is None else lambda done, total: announce(what, done, total),
        )

    main = part("figure", list(strategies), experiment.budgets, False)
    large = weak = None
    if experiment.large_budget is not None:
        large = part("large-budget", [ORACLE, *experiment.mixes], (experiment.large_budget,), False)
    if experiment.weak_budgets:
        last = [name + " stacked" for name in experiment.adaptive()[-WEAK_POLICY:]]
        weak = part("weak-identification", [ORACLE, *last], experiment.weak_budgets, True)
    return Findings(experiment, main, large, weak)


def write_findings(found: Findings, out: Path, how: str = "") -> Path:
    """Data, figures (PNG, SVG, PDF, HTML) and the page; returns the page's path."""
    figures = out / "figures"
    figures.mkdir(parents=True, exist_ok=True)
    for name, simulation in found.tables():
        stem = name.replace(" ", "-")
        for suffix in ("csv", "parquet", "json"):
            simulation.save(out / f"{stem}.{suffix}")
    drawn = drawings(found)
    for name, figure in drawn.items():
        for suffix in ("png", "svg", "pdf", "html"):
            save(figure.chart, figures / f"{name}.{suffix}")
    experiment = found.experiment
    page = ExperimentPage(
        f"{experiment.title}: the paper's figure {experiment.figure}",
        _intro(found),
        found.verdicts,
        list(drawn.values()),
        [_table(name, simulation) for name, simulation in found.tables()],
        _settings(found),
        experiment.notes,
        how,
    )
    return write(experiment_document(page), out / "report.html")


def _intro(found: Findings) -> str:
    weighed = " and weigh them by shrunk variances" if found.experiment.weights == "shrunk" else ""
    return (
        f"{found.main.runs:,} runs of every policy at every budget. All policies and budgets of a run read the same "
        f"rows, and no run is left out. Policies without a further word estimate as the paper does, from moments "
        f"pooled over all rows; those called “stacked” keep the moments of the sources apart{weighed}. Regret is "
        f"measured against an oracle that keeps to the best mix for pooled estimates at the true parameters."
    )


def _settings(found: Findings) -> list[tuple[str, str]]:
    experiment = found.experiment
    rows = [
        (
            "Sources",
            ", ".join(f"{n} ({', '.join(s.observes)}) at {s.cost:g}" for n, s in experiment.study.sources.items()),
        )
    ]
    for stacking in ("pooled", "stacked"):
        best = experiment.best(stacking)
        mix = ", ".join(f"{name} {share:.4f}" for name, share in best.kappa.items())
        rows.append((f"Best mix of rows, {stacking}", f"{mix}; variance × cost {best.variance:.6g}"))
    rows += [
        (f"Mix of “{name}”", ", ".join(f"{k} {v:g}" for k, v in mix.items())) for name, mix in experiment.mixes.items()
    ]
    return rows


COLUMNS: dict[str, Callable[[Cell], str | int | float | None]] = {
    "Policy": lambda cell: cell.policy,
    "Budget": lambda cell: cell.budget,
    "B × MSE": lambda cell: cell.mse,
    "± (s.e.)": lambda cell: cell.mse_se,
    "Regret %": lambda cell: round(cell.regret, 1),
    "from": lambda cell: round(cell.regret_low, 1),
    "to": lambda cell: round(cell.regret_high, 1),
    "Median": lambda cell: cell.median,
    "99th percentile": lambda cell: cell.p99,
    "Trimmed regret %": lambda cell: round(cell.trimmed_regret, 1),
    "Coverage %": lambda cell: round(100 * cell.coverage, 1),
    "Weak coverage %": lambda cell: round(100 * cell.weak_coverage, 1),
    "Width × √B": lambda cell: cell.width,
    "Rounds": lambda cell: round(cell.rounds, 1),
    "Not converged": lambda cell: cell.not_converged,
    "Not identified": lambda cell: cell.not_identified,
    "Astray": lambda cell: cell.astray,
}


def _table(name: str, simulation: Simulation) -> Table:
    columns = dict(COLUMNS)
    if all(cell.weak_coverage != cell.weak_coverage for cell in simulation.cells):
        del columns["Weak coverage %"]
    for source in simulation.sources:
        columns[f"κ {source}"] = lambda cell, source=source: round(cell.kappa[source], 3)  # type: ignore[misc]
    rows = [[show(cell) for show in columns.values()] for cell in simulation.cells]
    note = (
        "Regret with its 95 % interval from paired runs. Trimmed: of the mean of the smallest 99 % of the errors. "
        "Astray: runs in which some round had no estimate to follow. Runs that did not converge count with the "
        "estimate on which they ended."
    )
    return Table(f"By policy and budget: {name}", rows, list(columns), note)
