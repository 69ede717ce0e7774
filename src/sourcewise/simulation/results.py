"""What a simulation found: every run, and a summary by policy and budget. No run is ever dropped."""

from __future__ import annotations

import csv
import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sourcewise.errors import SimulationError
from sourcewise.numerics.linalg import Array
from sourcewise.results import normal_quantile
from sourcewise.simulation.play import Outcome
from sourcewise.spec.study import Study

if TYPE_CHECKING:
    import pyarrow

ORACLE = "oracle"
LEVEL = 0.95


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


@dataclass(frozen=True)
class Simulation:
    """All runs of all policies. `outcomes` holds arrays (budgets, runs) by policy."""

    sources: tuple[str, ...]
    truth: float
    outcomes: Mapping[str, Outcome]

    @property
    def runs(self) -> int:
        return int(next(iter(self.outcomes.values())).estimate.shape[1])

    @property
    def budgets(self) -> tuple[float, ...]:
        return tuple(sorted({float(b) for outcome in self.outcomes.values() for b in outcome.budgets}))

    def errors(self, policy: str) -> Array:
        """Scaled squared errors (budgets, runs)."""
        outcome = self._outcome(policy)
        return np.asarray(outcome.budgets[:, None] * (outcome.estimate - self.truth) ** 2)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """The summary, by policy and budget."""
        return tuple(
            _cell(self, name, k) for name, outcome in self.outcomes.items() for k in range(len(outcome.budgets))
        )

    def cell(self, policy: str, budget: float) -> Cell:
        return next(c for c in self.cells if c.policy == policy and c.budget == budget)

    def compare(self, policy: str, other: str, budget: float) -> tuple[float, float]:
        """(mse − other's mse) / other's mse, and its standard error from paired runs."""
        one, two = (self.errors(name)[self._place(name, budget)] for name in (policy, other))
        return paired_ratio(one, two)

    def to_arrow(self) -> pyarrow.Table:
        """The summary, a row a cell: `.to_pandas()`, or `polars.from_arrow(...)`."""
        import pyarrow

        return pyarrow.Table.from_pylist([cell.to_dict() for cell in self.cells])

    def to_frame(self) -> Any:
        """The summary as a pandas data frame."""
        return self.to_arrow().to_pandas()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the summary as .csv, .parquet or .json."""
        target = Path(path)
        rows = [cell.to_dict() for cell in self.cells]
        if target.suffix == ".csv":
            with target.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)
        elif target.suffix == ".parquet":
            import pyarrow.parquet

            pyarrow.parquet.write_table(self.to_arrow(), target)
        elif target.suffix == ".json":
            target.write_text(json.dumps([_strict(row) for row in rows], indent=1), encoding="utf-8")
        else:
            raise SimulationError(f"a summary is saved as .csv, .parquet or .json, not {target.name!r}")

    def _outcome(self, policy: str) -> Outcome:
        if policy not in self.outcomes:
            raise SimulationError(f"there is no policy {policy!r}; the policies are {', '.join(self.outcomes)}")
        return self.outcomes[policy]

    def _place(self, policy: str, budget: float) -> int:
        budgets = self._outcome(policy).budgets.tolist()
        if budget not in budgets:
            raise SimulationError(f"policy {policy!r} was not played at a budget of {budget:g}, but at {budgets}")
        return int(budgets.index(budget))


def joined(study: Study, truth: float, names: Sequence[str], blocks: Sequence[Sequence[Outcome]]) -> Simulation:
    """Blocks of runs end to end; games of one name (an oracle with a mix for each budget) are one policy."""
    found: dict[str, Outcome] = {}
    for k, name in enumerate(names):
        pieces = [block[k] for block in blocks]
        parts = [np.concatenate([getattr(p, f.name) for p in pieces], axis=-1) for f in fields(Outcome)[1:]]
        outcome = Outcome(pieces[0].budgets, *parts)
        if name in found:
            both = [(getattr(found[name], f.name), getattr(outcome, f.name)) for f in fields(Outcome)]
            outcome = Outcome(*(np.concatenate(pair, axis=1 if pair[0].ndim == 3 else 0) for pair in both))
        found[name] = outcome
    return Simulation(tuple(study.sources), truth, found)


def paired_ratio(one: Array, two: Array) -> tuple[float, float]:
    """mean(one) / mean(two) − 1 and its standard error, where runs are pairs."""
    mean = two.mean()
    ratio = one.mean() / mean
    spread = (one - ratio * two).std(ddof=1) if len(one) > 1 else math.nan
    return float(ratio - 1.0), float(spread / (mean * math.sqrt(len(one))))


def _cell(simulation: Simulation, name: str, k: int) -> Cell:
    outcome = simulation.outcomes[name]
    budget, runs = float(outcome.budgets[k]), simulation.runs
    errors = simulation.errors(name)[k]
    ordered = np.where(np.isnan(errors), np.inf, errors)
    z = normal_quantile(LEVEL)
    regret, error = math.nan, math.nan
    if ORACLE in simulation.outcomes:
        regret, error = simulation.compare(name, ORACLE, budget)
    identified = np.isfinite(outcome.stderr[k])
    held = ~identified | (np.abs(outcome.estimate[k] - simulation.truth) <= z * outcome.stderr[k])
    width = np.where(identified, 2 * z * outcome.stderr[k], np.inf).mean() * math.sqrt(budget)
    level = outcome.weak[k]
    weak = math.nan if np.isnan(level).all() else float((level <= LEVEL).mean())
    total = outcome.rows[:, k].sum(axis=0)
    shares = np.divide(outcome.rows[:, k], total, out=np.zeros(outcome.rows[:, k].shape), where=total > 0)
    spreads = shares.std(axis=1, ddof=1) if runs > 1 else np.full(len(shares), math.nan)
    return Cell(
        name,
        budget,
        runs,
        float(errors.mean()),
        float(errors.std(ddof=1) / math.sqrt(runs)) if runs > 1 else math.nan,
        100 * regret,
        100 * (regret - z * error),
        100 * (regret + z * error),
        float(np.quantile(ordered, 0.5, method="lower")),
        float(np.quantile(ordered, 0.99, method="lower")),
        float(held.mean()),
        float(width),
        weak,
        float(outcome.rounds[k].mean()),
        float(outcome.spent[k].mean() / budget),
        int((~outcome.converged[k]).sum()),
        int((~identified).sum()),
        int((outcome.astray[k] > 0).sum()),
        dict(zip(simulation.sources, shares.mean(axis=1).tolist(), strict=True)),
        dict(zip(simulation.sources, spreads.tolist(), strict=True)),
    )


def _strict(row: Mapping[str, Any]) -> dict[str, Any]:
    """JSON knows neither NaN nor infinity."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
