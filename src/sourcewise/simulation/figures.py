"""The figures of a simulation, from its summary and its runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from sourcewise import plots
from sourcewise.errors import SimulationError
from sourcewise.simulation.results import ORACLE, Kind, Simulation
from sourcewise.simulation.summary import Cell

if TYPE_CHECKING:
    from sourcewise.plots.theme import Chart

TITLES: Mapping[Kind, str] = {
    "regret": "Relative regret by budget",
    "trimmed": "Relative regret without the largest 1 % of the errors",
    "mixes": "Where the mixes end",
    "coverage": "Coverage of 95 % intervals",
    "tails": "Typical and extreme errors",
}


def draw(found: Simulation, kind: Kind, names: Sequence[str], title: str, ceiling: float) -> Chart:
    if kind not in get_args(Kind):
        raise SimulationError(f"a figure is one of {', '.join(map(repr, get_args(Kind)))}, not {kind!r}")
    head = title or TITLES[kind]
    if kind == "mixes":
        return plots.mix_spread(mixes(found, names), _best(found), title=head)
    cells = [cell for name in names for cell in found.cells if cell.policy == name]
    if kind in ("regret", "trimmed"):
        measure = "Mean squared error" if kind == "regret" else "Mean of the smallest 99 % of the squared errors"
        rows = [_regret(cell, kind) for cell in cells]
        return plots.regret_curves(rows, title=head, ceiling=ceiling, measure=measure)
    rows = [cell.to_dict() for cell in cells]
    return plots.coverage(rows, title=head) if kind == "coverage" else plots.tails(rows, title=head)


def _regret(cell: Cell, kind: Kind) -> dict[str, Any]:
    values = (cell.regret, cell.regret_low, cell.regret_high)
    if kind == "trimmed":
        values = (cell.trimmed_regret, cell.trimmed_low, cell.trimmed_high)
    ends = dict(zip(("regret", "low", "high"), values, strict=True))
    return {"policy": cell.policy, "budget": cell.budget} | ends


def _best(found: Simulation) -> Mapping[str, float]:
    """The mix that the oracle kept to, at the largest budget."""
    if ORACLE not in found.outcomes:
        raise SimulationError('a figure of mixes shows them beside the oracle\'s; play a policy named "oracle" along')
    return max((cell for cell in found.cells if cell.policy == ORACLE), key=lambda cell: cell.budget).kappa


def mixes(found: Simulation, names: Sequence[str]) -> list[dict[str, Any]]:
    """Mean share of each source in the rows, and its 5th and 95th percentile over the runs."""
    rows: list[dict[str, Any]] = []
    for name in names:
        outcome = found.outcomes[name]
        shares = outcome.rows / np.maximum(outcome.rows.sum(axis=0), 1)
        for k, budget in enumerate(outcome.budgets.tolist()):
            for source, values in zip(found.sources, shares[:, k], strict=True):
                low, high = np.quantile(values, (0.05, 0.95)).tolist()
                place = {"policy": name, "budget": budget, "source": source}
                rows.append(place | {"share": float(values.mean()), "low": low, "high": high})
    return rows
