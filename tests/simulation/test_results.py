"""What is made of the runs: every number of the summary against its definition, and every way to write it down."""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

import sourcewise as sw
from simulation.problems import IV, IV_STUDY
from sourcewise import plots
from sourcewise.errors import SimulationError
from sourcewise.policies import Policy
from sourcewise.simulation.play import Outcome
from sourcewise.simulation.results import Simulation
from sourcewise.simulation.summary import paired_ratio, trimmed_mean, trimmed_ratio


@pytest.fixture(scope="module")
def found() -> Simulation:
    policies: dict[str, Policy] = {"equal": sw.Fixed(), "etg": sw.ETG(0.2)}
    return sw.simulate(IV, IV_STUDY, policies, [100, 300], runs=300, seed=9, weak=True)


def test_a_cell_is_what_it_says(found: Simulation) -> None:
    cell, outcome = found.cell("etg", 300), found.outcomes["etg"]
    errors = 300 * (outcome.estimate[1] - 1.0) ** 2
    best = 300 * (found.outcomes["oracle"].estimate[1] - 1.0) ** 2
    assert cell.runs == found.runs == 300
    assert cell.mse == pytest.approx(errors.mean())
    assert cell.mse_se == pytest.approx(errors.std(ddof=1) / math.sqrt(300))
    assert cell.regret == pytest.approx(100 * (errors.mean() / best.mean() - 1))
    assert cell.regret_low < cell.regret < cell.regret_high
    assert (cell.median, cell.p99) == (np.sort(errors)[149], np.sort(errors)[296])
    assert cell.trimmed == pytest.approx(np.sort(errors)[:297].mean())
    near = np.abs(outcome.estimate[1] - 1.0) <= 1.959963984540054 * outcome.stderr[1]
    assert cell.coverage == near.mean()
    assert cell.width == pytest.approx(2 * 1.959963984540054 * outcome.stderr[1].mean() * math.sqrt(300))
    shares = outcome.rows[0, 1] / outcome.rows[:, 1].sum(axis=0)
    assert cell.kappa["treatment"] == pytest.approx(shares.mean())
    assert cell.kappa_sd["treatment"] == pytest.approx(shares.std(ddof=1))
    assert (cell.rounds, cell.spent) == (5.0, 1.0)
    assert 0.9 < cell.weak_coverage < 1
    assert found.cell("oracle", 300).regret == 0.0
    assert found.budgets == (100, 300)


def test_regret_has_the_spread_of_paired_runs() -> None:
    """Against 2,000 draws of pairs with replacement; a bootstrap of so many knows a spread to 1.6 %."""
    random = np.random.default_rng(1)
    shared, own = random.exponential(size=(2, 4000))
    one, two = 3 * shared + own, 2 * shared + random.exponential(size=4000)
    for ratio in (paired_ratio, trimmed_ratio):
        again = [ratio(one[k], two[k])[0] for k in random.integers(0, 4000, size=(2000, 4000))]
        value, error = ratio(one, two)
        assert np.mean(again) == pytest.approx(value, abs=0.2 * error)
        assert np.std(again) == pytest.approx(error, rel=0.08)


def test_trimmed_means_do_not_mind_what_a_mean_cannot_bear() -> None:
    errors = np.arange(1.0, 1001.0)
    mean, _ = trimmed_mean(errors)
    errors[[5, 999]] = [6.0, math.inf]
    assert trimmed_mean(errors)[0] == mean == np.arange(1, 991).mean()


def test_no_run_is_dropped() -> None:
    """A run without an estimate makes the mean unknown; it is not quietly left out, and quantiles count it as worst."""
    estimate = np.array([[1.0, math.nan, 1.2, 0.9]])
    runs = np.ones((1, 4))
    outcome = Outcome(
        np.array([10.0]), estimate, np.array([[0.1, math.nan, 0.2, 0.2]]), estimate == 1.0,
        np.ones((2, 1, 4), dtype=np.int64), 10 * runs, runs.astype(np.int64), (runs * [0, 2, 0, 0]).astype(np.int64),
        np.full((1, 4), math.nan),
    )  # fmt: skip
    cell = Simulation(("a", "b"), 1.0, {"it": outcome}).cell("it", 10)
    assert math.isnan(cell.mse)
    assert math.isnan(cell.regret)
    assert cell.p99 == pytest.approx(0.4)
    assert cell.width == math.inf
    assert (cell.not_converged, cell.not_identified, cell.astray) == (3, 1, 1)
    assert cell.coverage == 1.0  # an interval of a target that is not identified is the whole line


def test_the_summary_as_a_frame_and_as_files(found: Simulation, tmp_path: Path) -> None:
    frame = found.to_frame()
    assert len(frame) == 6
    assert frame.loc[(frame.policy == "etg") & (frame.budget == 300), "mse"].item() == found.cell("etg", 300).mse
    for suffix in ("csv", "parquet", "json"):
        found.save(tmp_path / f"summary.{suffix}")
    with (tmp_path / "summary.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == list(frame.columns)
    assert [float(row["mse"]) for row in rows] == [cell.mse for cell in found.cells]
    assert pyarrow.parquet.read_table(tmp_path / "summary.parquet").to_pylist()[3]["p99"] == found.cells[3].p99
    plain = json.loads((tmp_path / "summary.json").read_text(), parse_constant=pytest.fail)
    assert [row["kappa_treatment"] for row in plain] == [cell.kappa["treatment"] for cell in found.cells]
    with pytest.raises(SimulationError, match=r"saved as \.csv, \.parquet or \.json"):
        found.save(tmp_path / "summary.xlsx")
    with pytest.raises(SimulationError, match="cannot be written"):
        found.save(tmp_path / "nowhere" / "summary.csv")


@pytest.mark.parametrize("kind", ["regret", "trimmed", "mixes", "coverage", "tails"])
def test_figures_come_from_the_results(found: Simulation, kind: str, tmp_path: Path) -> None:
    chart = found.figure(kind, policies=["etg", "equal"], title="A title")  # type: ignore[arg-type]
    text = plots.save(chart, tmp_path / "chart.svg").read_text()
    assert "A title" in text
    assert "equal" in text


def test_questions_that_have_no_answer(found: Simulation) -> None:
    with pytest.raises(SimulationError, match="no policy 'etc'; the policies are oracle, equal, etg"):
        found.compare("etc", "etg", 300)
    with pytest.raises(SimulationError, match="not played at a budget of 200, but at"):
        found.cell("etg", 200)
    with pytest.raises(SimulationError, match="no policy 'etc'"):
        found.figure(policies=["etc"])
    with pytest.raises(SimulationError, match="a figure is one of 'regret', 'trimmed'"):
        found.figure("pie")  # type: ignore[arg-type]
    alone = Simulation(found.sources, found.truth, {"etg": found.outcomes["etg"]})
    with pytest.raises(SimulationError, match="beside the oracle's"):
        alone.figure("mixes")
