"""`replay`: what each policy would have cost and earned on rows that were already collected.

Every replication takes the rows of each source in another random order, and none of them twice. Nobody knows the truth
that the rows came from; the estimate from all of them stands in for it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from sourcewise.allocation.allocate import allocate
from sourcewise.connectors.base import Table
from sourcewise.connectors.connect import connect
from sourcewise.errors import SimulationError, at
from sourcewise.fit import fit
from sourcewise.moments.compiled import compile_source
from sourcewise.policies import ETC, ETG, Fixed, Policy
from sourcewise.results import Fit, normal_quantile
from sourcewise.simulation.history import History
from sourcewise.simulation.oracle import oracle_policy
from sourcewise.simulation.play import Strategy
from sourcewise.simulation.results import Simulation
from sourcewise.simulation.runner import Game, Job, Progress, amounts_of, carry_out, check_call, games_of
from sourcewise.spec.study import Source, Study
from sourcewise.spreadsheet import to_csv
from sourcewise.statistics.frames import Missing, RowReader
from sourcewise.statistics.rows import Rows
from sourcewise.studyfile.file import StudyFile

OWN, BEST = "the study's", "best fixed"
MANY = 0.5
"""A share of a source's rows beyond which a replay tells too little of fresh rows, and says so."""


@dataclass(frozen=True, slots=True)
class Played:
    """One policy at one budget. Errors are distances from the estimate from all rows."""

    policy: str
    budget: float
    spent: float
    """Mean money spent."""
    error: float
    """Root mean square error, and its 95 % interval over replications."""
    error_low: float
    error_high: float
    stderr: float
    """What the campaigns themselves would have reported, root mean square; infinite if some were not identified."""
    coverage: float
    """Share of the reported 95 % intervals that hold the estimate from all rows."""
    not_identified: int
    more: float
    """Money that this policy needs on top for the error of the first policy, as a share, and its standard error."""
    more_se: float
    rows: Mapping[str, float]
    """Mean rows by source."""
    used: float
    """The largest share of a source's history that was used in any replication."""


@dataclass(frozen=True)
class Replay:
    """What a replay found. Made by `sourcewise.replay`."""

    simulation: Simulation
    fit: Fit
    """From all rows."""
    history: Mapping[str, int]
    """Rows of each source."""

    @cached_property
    def played(self) -> tuple[Played, ...]:
        """By budget, and by policy in the order in which they were given."""
        names = list(self.simulation.outcomes)
        return tuple(self._played(name, budget) for budget in self.simulation.budgets for name in names)

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be known to read the numbers."""
        value, stderr = self.fit.target.value, self.fit.target.stderr
        found = [
            f"The truth is not known: errors are distances from the estimate from all rows, {value:.4g}, which has a "
            f"standard error of {stderr:.2g} of its own."
        ]
        crowded = sorted({each.policy for each in self.played if each.used > MANY})
        if crowded:
            found.append(
                f"More than half of some source's rows were used by {', '.join(crowded)}: what is left to chance "
                f"shrinks, so their errors are smaller than with fresh rows. The standard errors are not affected."
            )
        lost = [f"{each.not_identified} by {each.policy}" for each in self.played if each.not_identified]
        if lost:
            found.append(f"Replications that did not identify the target count in full: {', '.join(lost)}.")
        return tuple(found)

    def figure(self, budget: float | None = None) -> Any:
        """Error by policy, with 95 % intervals, at one budget (the largest by default), as an Altair chart."""
        from sourcewise.plots.plans import policy_outcomes

        money = max(self.simulation.budgets) if budget is None else float(budget)
        chosen = [each for each in self.played if each.budget == money]
        if not chosen:
            raise SimulationError(f"the replay has no budget {money:g}; it has {self.simulation.budgets}")
        columns = {
            "policy": [each.policy for each in chosen],
            "value": [each.error for each in chosen],
            "low": [each.error_low for each in chosen],
            "high": [each.error_high for each in chosen],
        }
        title = f"Policies on rows already collected: budget {money:,.10g}"
        return policy_outcomes(columns, measure=f"Error of {self.fit.target.name}", title=title)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for JSON; infinities and NaN become None."""
        return {
            "target": self.fit.target.name,
            "estimate_from_all_rows": _plain(self.fit.target.value),
            "stderr_from_all_rows": _plain(self.fit.target.stderr),
            "history": dict(self.history),
            "runs": self.simulation.runs,
            "policies": [
                {key: _plain(getattr(each, key)) for key in Played.__slots__ if key != "rows"}
                | {"rows": {name: _plain(value) for name, value in each.rows.items()}}
                for each in self.played
            ],
            "notes": list(self.notes),
        }

    def to_csv(self) -> str:
        """A line a policy and budget. A name that a spreadsheet would take for a formula is quoted."""
        keys = [key for key in Played.__slots__ if key != "rows"]
        header = [*keys, *(f"rows_{name}" for name in self.history)]
        rows = ([*(getattr(each, key) for key in keys), *each.rows.values()] for each in self.played)
        return to_csv(header, rows)

    def _played(self, name: str, budget: float) -> Played:
        outcome = self.simulation.outcomes[name]
        k = int(np.flatnonzero(outcome.budgets == budget)[0])
        cell = self.simulation.cell(name, budget)
        z = normal_quantile(0.95)
        low, error, high = (math.sqrt(max(cell.mse + side * z * cell.mse_se, 0.0) / budget) for side in (-1, 0, 1))
        first = next(iter(self.simulation.outcomes))
        more, more_se = (0.0, 0.0) if name == first else self.simulation.compare(name, first, budget)
        stderr = outcome.stderr[k]
        rows = dict(zip(self.simulation.sources, outcome.rows[:, k].mean(axis=1).tolist(), strict=True))
        most = dict(zip(self.simulation.sources, outcome.rows[:, k].max(axis=1).tolist(), strict=True))
        return Played(
            name,
            budget,
            float(outcome.spent[k].mean()),
            error,
            low,
            high,
            float(np.sqrt((stderr**2).mean())) if np.isfinite(stderr).all() else math.inf,
            cell.coverage,
            cell.not_identified,
            more,
            more_se,
            {source: rows.get(source, 0.0) for source in self.history},
            max((most.get(source, 0) / count for source, count in self.history.items()), default=0.0),
        )


def replay(
    study: Study | StudyFile | str | Path,
    history: Mapping[str, object] | None = None,
    policies: Mapping[str, Policy | Strategy] | None = None,
    budgets: Sequence[float] | None = None,
    *,
    runs: int = 1000,
    seed: int = 0,
    missing: Missing = "error",
    workers: int = 1,
    executor: Executor | None = None,
    progress: Progress | None = None,
) -> Replay:
    """What each policy would have cost and earned on rows that were already collected.

    history: by source, anything that `summarize` reads; where it says nothing, the data of the study file.
    policies: by name; the others are compared with the first. By default the study's own, equal rows, explore then
    commit, explore then greedy, and the best fixed mix, which is known only in hindsight.
    budgets: by default that of the study file. All rows of the history have to cost at least as much.
    runs: replications, each with the rows of every source in another order. missing: as in `fit`.
    """
    file = study if isinstance(study, StudyFile) else _file(study)
    check_call(file.study, runs, seed, workers)
    tables = _tables(file, history or {}, missing)
    known = fit(file.study, {name: dict(zip(t.variables, t.columns, strict=True)) for name, t in tables.items()})
    if not known.target.identified:
        raise SimulationError(f"all rows together do not identify the target {file.study.target!r} ({known.status})")
    capped = _capped(file.study, tables)
    amounts = _amounts(file, capped, budgets)
    games = _games(file, capped, known, policies, amounts)
    job = Job(History(tables, known.target.value), capped, games, int(seed), False)
    found = carry_out(job, int(runs), workers=workers, executor=executor, progress=progress)
    return Replay(found, known, {name: table.n for name, table in tables.items()})


def _file(study: object) -> StudyFile:
    if isinstance(study, Study):
        return StudyFile(study)
    if isinstance(study, str | Path):
        return StudyFile.read(study)
    raise SimulationError(f"replay needs a Study(...), a StudyFile or its path, not {type(study).__name__}")


def _tables(file: StudyFile, history: Mapping[str, object], missing: Missing) -> dict[str, Rows]:
    """The rows of each source that computes a moment."""
    unknown = [name for name in history if name not in file.study.sources]
    if unknown:
        known = ", ".join(file.study.sources)
        raise SimulationError(f"a history is given for {unknown[0]!r}; the study's sources are {known}")
    found = {}
    for name in file.study.sources:
        if not file.study.moments_of(name):
            continue
        data = history.get(name)
        if data is None and file.data.get(name, {"kind": "world"}).get("kind") == "world":
            with at("sources", name):
                raise SimulationError(f"there is no history of source {name!r}: give its rows in history")
        if data is None:
            with at("sources", name, "data"):
                table = connect(dict(file.data[name]), base=file.origin.folder)
                assert isinstance(table, Table)
                with table:
                    found[name] = _rows(file.study, name, table, missing)
        else:
            found[name] = _rows(file.study, name, data, missing)
    return found


def _rows(study: Study, name: str, data: object, missing: Missing) -> Rows:
    variables = compile_source(study, name).variables
    reader = RowReader(data, variables, source=name, missing=missing)
    return Rows(name, variables, np.hstack(list(reader)), reader.dropped)


def _capped(study: Study, tables: Mapping[str, Rows]) -> Study:
    """The study with sources that have no more rows than their history."""
    sources = {}
    for name, source in study.sources.items():
        most = tables[name].n if name in tables else source.capacity
        capacity = most if source.capacity is None or most is None else min(most, source.capacity)
        sources[name] = Source(source.observes, source.cost, capacity)
    return study.with_sources(sources)


def _amounts(file: StudyFile, capped: Study, budgets: Sequence[float] | None) -> tuple[float, ...]:
    if budgets is None:
        if file.budget is None:
            raise SimulationError("a replay needs a budget: give budgets, or say budget = … in the study file")
        budgets = (file.budget,)
    amounts = tuple(sorted(amounts_of(budgets)))
    useful = [source for name, source in capped.sources.items() if capped.moments_of(name)]
    worth = sum(source.cost * (source.capacity or 0) for source in useful)
    if amounts[-1] > worth:
        raise SimulationError(
            f"a budget of {amounts[-1]:,.10g} is more than all rows of the history cost, {worth:,.10g}: every policy "
            f"would buy all of them. Replay a smaller budget; half of what the history cost leaves policies a choice"
        )
    return amounts


def _games(
    file: StudyFile,
    capped: Study,
    known: Fit,
    policies: Mapping[str, Policy | Strategy] | None,
    budgets: tuple[float, ...],
) -> tuple[Game, ...]:
    if policies is not None:
        return tuple(games_of(policies, budgets))
    chosen: dict[str, Policy | Strategy] = {OWN: file.policy}
    rivals: dict[str, Policy] = {"equal": Fixed(), "etc 0.2": ETC(0.2), "etg 0.1": ETG(0.1)}
    for name, policy in rivals.items():
        if policy != file.policy:
            chosen[name] = policy
    # the best mix depends on the budget, as sources run out
    best = [oracle_policy(allocate(capped, known, budget=budget)) for budget in budgets]
    oracles = [Game(BEST, Strategy(mix), (budget,)) for mix, budget in zip(best, budgets, strict=True)]
    return (*games_of(chosen, budgets), *oracles)


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
