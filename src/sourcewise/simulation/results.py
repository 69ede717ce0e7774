"""What a simulation found: every run, and a summary by policy and budget."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from sourcewise.errors import SimulationError
from sourcewise.numerics.linalg import Array
from sourcewise.simulation.play import Outcome
from sourcewise.simulation.summary import Cell, cell_of, paired_ratio
from sourcewise.spec.study import Study
from sourcewise.spreadsheet import to_csv

if TYPE_CHECKING:
    import pyarrow

    from sourcewise.plots.theme import Chart

ORACLE = "oracle"

Kind = Literal["regret", "trimmed", "mixes", "coverage", "tails"]

CEILING = 100.0
"""Per cent of regret beyond which a curve leaves the figure (and is named below its title)."""


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
        found = []
        for name, outcome in self.outcomes.items():
            errors = self.errors(name)
            for k, budget in enumerate(outcome.budgets.tolist()):
                oracle = self.errors(ORACLE)[self._place(ORACLE, budget)] if ORACLE in self.outcomes else None
                found.append(cell_of(name, outcome, k, errors[k], oracle, self.truth, self.sources))
        return tuple(found)

    def cell(self, policy: str, budget: float) -> Cell:
        self._place(policy, budget)  # refuses what was not played
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
        try:
            return self.to_arrow().to_pandas()
        except ImportError:
            raise SimulationError(
                "to_frame() needs pandas: pip install 'sourcewise[pandas]'; or take to_arrow(), or save(...) a file"
            ) from None

    def figure(
        self, kind: Kind = "regret", *, policies: Sequence[str] | None = None, title: str = "", ceiling: float = CEILING
    ) -> Chart:
        """A chart that `sourcewise.plots.save` writes: "regret", "trimmed", "mixes", "coverage" or "tails" by budget.

        policies: which, in this order; all of them by default. ceiling: where the axis of regrets ends, in per cent.
        """
        from sourcewise.simulation.figures import draw

        names = list(self.outcomes) if policies is None else list(policies)
        for name in names:
            self._outcome(name)
        return draw(self, kind, names, title, ceiling)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the summary as .csv, .parquet or .json."""
        target = Path(path)
        rows = [cell.to_dict() for cell in self.cells]
        try:
            self._write(target, rows)
        except OSError as error:
            raise SimulationError(f"{str(target)!r} cannot be written: {error.strerror or error}") from None

    def _write(self, target: Path, rows: list[dict[str, Any]]) -> None:
        if target.suffix == ".csv":
            target.write_text(to_csv(list(rows[0]), (list(row.values()) for row in rows)), encoding="utf-8", newline="")
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


def _strict(row: Mapping[str, Any]) -> dict[str, Any]:
    """JSON knows neither NaN nor infinity."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
