"""The five experiments in small: 200 runs of another seed against summaries of thousands (see store.py).

Judged by standard errors alone: those of the 200 runs and those of the summary. The limit of 4.5 is passed by chance
once in 150,000 comparisons, of which there are about 700 here. Errors are compared by the mean of the smallest 99 %,
because at small budgets a mean of these estimates has no standard error.
"""

from __future__ import annotations

import json
import math
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sourcewise.experiments import EXPERIMENTS
from sourcewise.policies import Fixed
from sourcewise.simulation.results import Simulation
from sourcewise.simulation.runner import simulate
from sourcewise.simulation.summary import trimmed_mean

RUNS = 200
LIMIT = 4.5
STORED = json.loads(Path(__file__).with_name("summaries.json").read_text(encoding="utf-8"))


@cache
def small(name: str) -> Simulation:
    it = EXPERIMENTS[name]()
    return simulate(it.world, it.study, it.strategies, (min(it.budgets), max(it.budgets)), runs=RUNS, seed=20)


def cells(name: str) -> list[dict[str, Any]]:
    keys, *rows = STORED[name]
    return [dict(zip(keys, row, strict=True)) for row in rows]


def test_every_experiment_and_policy_is_stored() -> None:
    assert set(STORED) == set(EXPERIMENTS)
    for name, make in EXPERIMENTS.items():
        assert {cell["policy"] for cell in cells(name)} == set(make().strategies)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_errors_are_those_of_many_runs(name: str) -> None:
    found = small(name)
    for stored in cells(name):
        errors = found.errors(stored["policy"])[found.budgets.index(stored["budget"])]
        mean, pulls = trimmed_mean(errors)
        noise = pulls.std(ddof=1) * math.sqrt(1 / RUNS + 1 / stored["runs"])
        assert abs(mean - stored["trimmed"]) < LIMIT * noise, stored
        below = (errors < stored["median"]).mean()
        assert abs(below - 0.5) < LIMIT * 0.5 * math.sqrt(1 / RUNS + 1 / stored["runs"]), stored


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_intervals_cover_as_often_as_in_many_runs(name: str) -> None:
    for stored in cells(name):
        noise = math.sqrt(stored["coverage"] * (1 - stored["coverage"]) * (1 / RUNS + 1 / stored["runs"]))
        cell = small(name).cell(stored["policy"], stored["budget"])
        assert abs(cell.coverage - stored["coverage"]) < LIMIT * noise, stored


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_mixes_end_where_they_do_in_many_runs(name: str) -> None:
    """Within standard errors, and within a part in a thousand where whole rows are all that varies."""
    for stored in cells(name):
        cell = small(name).cell(stored["policy"], stored["budget"])
        for source, share in cell.kappa.items():
            noise = stored[f"kappa_sd_{source}"] * math.sqrt(1 / RUNS + 1 / stored["runs"])
            assert abs(share - stored[f"kappa_{source}"]) <= LIMIT * noise + 1e-3, stored


def test_the_comparison_can_fail() -> None:
    """An oracle of two instruments at equal shares, 60 % above the best, is seen in 200 runs."""
    it = EXPERIMENTS["two-ivs"]()
    wrong = simulate(it.world, it.study, {"oracle": Fixed("equal")}, [1300], runs=RUNS)
    stored = next(cell for cell in cells("two-ivs") if (cell["policy"], cell["budget"]) == ("oracle", 1300))
    mean, pulls = trimmed_mean(wrong.errors("oracle")[0])
    assert mean - stored["trimmed"] > LIMIT * pulls.std(ddof=1) * np.sqrt(1 / RUNS + 1 / stored["runs"])
