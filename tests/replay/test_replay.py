"""Replays: policies on rows already collected, judged by the estimate from all of them."""

from __future__ import annotations

import csv
import io
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sourcewise as sw
from sourcewise.cli.app import app
from sourcewise.errors import DataError, SimulationError
from sourcewise.replay import BEST, OWN

STUDY = sw.Study(
    ["z*(x - a*z)", "z*(y - a*beta*z)"], "beta", {"registry": sw.Source("z x", 1.0), "survey": sw.Source("z y", 3.0)}
)


def history(rows: int = 1500, seed: int = 1) -> dict[str, dict[str, np.ndarray[Any, Any]]]:
    random = np.random.default_rng(seed)
    z, u, left, right = random.standard_normal((4, 2 * rows))
    x = 0.8 * z + u + left
    y = 0.5 * x + u + right
    return {"registry": {"z": z[:rows], "x": x[:rows]}, "survey": {"z": z[rows:], "y": y[rows:]}}


def played(budget: float = 900.0, runs: int = 300, **options: Any) -> sw.Replay:
    file = sw.StudyFile(STUDY, policy=sw.ETG(0.25), budget=budget)
    return sw.replay(file, history(), runs=runs, **options)


def test_all_rows_leave_no_error_whatever_the_policy() -> None:
    """The budget that buys everything: the estimate from all rows, by every policy and in every order."""
    found = played(6000.0, 20)
    for each in found.played:
        assert each.error < 1e-12
        assert each.rows == {"registry": 1500, "survey": 1500}
        assert (each.spent, each.used) == (6000.0, 1.0)
    assert any("More than half" in note for note in found.notes)


def test_errors_are_those_of_drawing_without_replacement() -> None:
    """The variance of a part's estimate about the whole's is the difference of their variances."""
    found = played(900.0, 1000)
    whole = found.fit.target.stderr
    for each in found.played:
        expected = math.sqrt(each.stderr**2 - whole**2)
        # the interval of the error, and as much again for standard errors that are first-order
        slack = each.error_high - each.error_low
        assert abs(each.error - expected) < slack
        assert each.coverage > 0.93
        assert each.not_identified == 0
    assert not any("More than half" in note for note in found.notes)
    assert f"{found.fit.target.value:.4g}" in found.notes[0]


def test_the_first_policy_is_the_one_that_others_are_compared_with() -> None:
    found = played(runs=100)
    first, *others = found.played
    assert (first.policy, first.more, first.more_se) == (OWN, 0.0, 0.0)
    assert [each.policy for each in others] == ["equal", "etc 0.2", "etg 0.1", BEST]
    assert others[0].more == pytest.approx(others[0].error ** 2 / first.error**2 - 1)
    own = sw.replay(STUDY, history(), {"a": sw.Fixed(), "b": sw.ETC(0.3)}, [300.0, 600.0], runs=50)
    assert [(each.policy, each.budget) for each in own.played] == [
        (name, budget) for budget in (300.0, 600.0) for name in "ab"
    ]


def test_a_seed_gives_the_same_numbers_and_more_workers_too() -> None:
    first, again, other = played(runs=40, seed=3), played(runs=40, seed=3, workers=2), played(runs=40, seed=4)
    assert first.to_dict() == again.to_dict()
    assert first.to_dict() != other.to_dict()


def test_a_capacity_below_the_history_is_kept() -> None:
    tight = STUDY.with_sources({"registry": sw.Source("z x", 1.0, 100), "survey": sw.Source("z y", 3.0)})
    found = sw.replay(tight, history(), budgets=[1000.0], runs=20)
    assert all(each.rows["registry"] <= 100 for each in found.played)


def test_what_it_says_is_plain(tmp_path: Path) -> None:
    found = played(runs=50, budgets=[300.0, 900.0])
    plain = json.loads(json.dumps(found.to_dict(), allow_nan=False))
    assert plain["runs"] == 50
    assert plain["history"] == {"registry": 1500, "survey": 1500}
    lines = list(csv.DictReader(io.StringIO(found.to_csv())))
    assert [float(line["error"]) for line in lines] == [each["error"] for each in plain["policies"]]
    from sourcewise.plots import save

    for budget in (None, 300.0):
        assert save(found.figure(budget), tmp_path / "figure.svg").stat().st_size > 1000
    with pytest.raises(SimulationError, match="has no budget 5"):
        found.figure(5.0)
    hostile = sw.replay(STUDY, history(), {"=1+1": sw.Fixed()}, [300.0], runs=10)
    assert "\n'=1+1,300" in hostile.to_csv()


def test_missing_values_and_other_tables() -> None:
    data = history(200)
    data["survey"]["y"][3] = np.nan
    with pytest.raises(DataError, match="1 of 200 rows have missing values"):
        sw.replay(STUDY, data, budgets=[100.0], runs=5)
    found = sw.replay(STUDY, data, budgets=[100.0], runs=5, missing="drop")
    assert found.history == {"registry": 200, "survey": 199}


def test_what_cannot_be_replayed_is_refused() -> None:
    with pytest.raises(SimulationError, match="a budget of 10,000 is more than all rows of the history cost, 6,000"):
        played(10_000.0)
    with pytest.raises(SimulationError, match="needs a budget"):
        sw.replay(STUDY, history())
    with pytest.raises(SimulationError, match="no history of source 'survey'"):
        sw.replay(STUDY, {"registry": history()["registry"]}, budgets=[10.0])
    with pytest.raises(SimulationError, match="given for 'census'"):
        sw.replay(STUDY, {"census": history()["registry"]}, budgets=[10.0])
    with pytest.raises(SimulationError, match="runs must be a whole number"):
        played(runs=0)


def test_the_command(tmp_path: Path) -> None:
    for name, columns in history(400).items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    (tmp_path / "study.toml").write_text(
        'target = "beta"\nmoments = ["z*(x - a*z)", "z*(y - a*beta*z)"]\nbudget = 400\n'
        '[sources.registry]\nobserves = "z x"\ndata = {path = "registry.parquet"}\n'
        '[sources.survey]\nobserves = "z y"\ncost = 3.0\n'
    )
    rows = f"survey={tmp_path / 'survey.parquet'}"
    call = ["replay", str(tmp_path / "study.toml"), "--runs", "20", "--history", rows]
    shown = CliRunner().invoke(app, [*call, "--csv", str(tmp_path / "t.csv"), "--figure", str(tmp_path / "f.png")])
    assert shown.exit_code == 0, shown.output
    assert "Replay of 20 runs on 400 of registry, 400 of survey" in shown.output
    assert "best fixed" in shown.output
    assert (tmp_path / "t.csv").read_text().startswith("policy,budget,spent,error,")
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")
    plain = json.loads(CliRunner().invoke(app, [*call, "--json"]).stdout)
    assert plain["policies"][0]["policy"] == OWN
    late = CliRunner().invoke(app, [*call, "--figure", str(tmp_path / "f.txt")])
    assert "a chart is saved as" in str(late.exception)
