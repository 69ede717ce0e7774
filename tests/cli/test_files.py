"""Study files at the command line: recipes, checks, plans and runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.conftest import Run, write_rows
from sourcewise.studyfile.recipes import RECIPES


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_runs_to_the_end(recipe: str, run: Run) -> None:
    assert run("new", recipe).code == 0
    found = run("check", "study.toml", "--json").json
    assert found["identified_by"]
    assert found["first_order"]["cost"] <= found["budget"]
    planned = run("plan", "study.toml", "--json").json
    assert planned["budget"] == found["budget"]
    record = run("run", "study.toml", "--report", "report.html", "--json").json
    assert record["state"] == "over"
    assert record["money"]["spent"] <= found["budget"] + 1e-9
    look, truth = record["current"], planned["assumed"]
    # Wide enough that a correct program fails once in a million campaigns, as narrow as that allows.
    assert abs(look["value"] - truth) < 5 * look["stderr"]
    # A campaign explores before it knows the best mix, so it ends above the plan, by a third at most in these worlds.
    assert 0.8 < look["stderr"] / planned["stderr"] < 1.35
    assert "<html" in Path("report.html").read_text(encoding="utf-8")


def test_recipes_are_listed_and_never_overwritten(run: Run) -> None:
    assert run("new", "--json").json == RECIPES
    assert all(name in run("new").out for name in RECIPES)
    Path("study.toml").write_text("mine", encoding="utf-8")
    assert run("new", "iv").code == 2
    assert Path("study.toml").read_text(encoding="utf-8") == "mine"
    assert run("new", "iv", "--force").code == 0


def test_the_schema_is_printed(run: Run) -> None:
    assert run("check", "--schema").json["title"] == "Sourcewise study file"


def test_a_check_draws_the_graph(run: Run) -> None:
    run("new", "causal-graph")
    assert run("check", "study.toml", "--figure", "graph.svg").code == 0
    picture = Path("graph.svg").read_text(encoding="utf-8")
    assert all(f">{name}<" in picture for name in ("w", "x", "m", "y", "clinic", "register"))


def test_a_check_of_what_is_not_identified_shows_the_moments_all_the_same(run: Run) -> None:
    run("new", "causal-graph")
    path = Path("study.toml")
    path.write_text(
        path.read_text(encoding="utf-8")
        .replace('["x", "y", "w"]', '["x", "w"]')
        .replace('["x", "y", "m"]', '["x", "m"]'),
        encoding="utf-8",
    )
    shown, plain = run("check", "study.toml"), run("check", "study.toml", "--json")
    for answer in (shown, plain):
        assert answer.code == 2
        assert "is not identified" in answer.err
        assert "It would be if these were seen together" in answer.err
    assert "(w - mean_w)*(x - mean_x) - var_w*w_to_x" in shown.out
    assert "identified" not in shown.out
    assert plain.json["identification"]["identified"] is False
    assert plain.json["first_order"] is None


def test_a_plan_from_a_pilot_and_to_a_standard_error(run: Run) -> None:
    run("new", "two-sample-iv")
    pilot = [part for s in ("registry", "survey") for part in ("--pilot", f"{s}={write_rows(s, 200)}")]
    found = run("plan", "study.toml", *pilot, "--stderr", "0.05", "--figure", "plan.svg", "--json").json
    assert found["stderr"] == pytest.approx(0.05)
    assert found["budget_needed"] == pytest.approx(found["budget"])
    assert "<svg" in Path("plan.svg").read_text(encoding="utf-8")
    assert "by the pilot" in run("plan", "study.toml", *pilot).out


def test_a_plan_gives_the_closed_form(run: Run) -> None:
    """Two-sample IV with slope 1: residual variances 2 and 6, prices 1 and 3, so V = (√2 + √18)² = 32 a unit."""
    run("new", "two-sample-iv")
    found = run("plan", "study.toml", "--budget", "5000", "--json").json
    assert found["stderr"] == pytest.approx((32 / 5000) ** 0.5, rel=1e-9)


def test_a_run_goes_on_where_it_stopped(run: Run) -> None:
    run("new", "two-sample-iv")
    whole = run("run", "study.toml", "--store", "whole.db", "--json").json
    run("run", "study.toml", "--store", "parts.db", "--rounds", "3")
    parts = run("run", "study.toml", "--store", "parts.db", "--json").json
    assert parts["current"]["value"] == whole["current"]["value"]
    assert [r["order"]["rows"] for r in parts["rounds"]] == [r["order"]["rows"] for r in whole["rounds"]]


def test_a_run_ends_with_a_report_unless_none_is_wanted(run: Run) -> None:
    run("new", "proxy-labels")
    assert run("run", "study.toml", "--rounds", "1", "--no-report").out.count("Report") == 0
    assert not Path("report.html").exists()
    assert run("run", "study.toml", "--rounds", "1").out.endswith("Report: report.html\n")
    assert Path("report.html").is_file()


def test_a_run_says_which_terms_of_the_file_it_does_not_follow(run: Run) -> None:
    run("new", "iv")
    path, options = Path("study.toml"), ("--rounds", "1", "--no-report")
    assert run("run", path, *options).err == ""
    path.write_text(path.read_text().replace("budget = 20000", "budget = 30000").replace("cost = 40.0", "cost = 20"))
    said = " ".join(run("run", path, *options).err.split())
    assert "keeps its budget, 20,000; the file says 30,000" in said
    assert "keeps its price of interview, 40; the file says 20" in said
    assert run("amend", "--budget", "30000", "--cost", "interview=20").code == 0
    assert run("run", path, *options).err == ""


def test_a_run_needs_the_table_of_a_source_that_joined_later(run: Run) -> None:
    run("new", "iv")
    path, options = Path("study.toml"), ("--rounds", "1", "--no-report")
    run("run", path, *options)
    run("amend", "--add", "clinic=z x y", "--cost", "clinic=2")
    refused = run("run", path, *options)
    assert refused.code == 2
    assert "'clinic' joined" in refused.err
    text = '[sources.clinic]\nobserves = ["z", "x", "y"]\ncost = 2\ndata = {kind = "world"}\n\n[world]'
    path.write_text(path.read_text().replace("[world]", text, 1))
    asked = run("run", path, *options, "--json").json["rounds"][-1]["order"]["rows"]
    assert asked["clinic"] > 500  # as good as an interview for a twentieth of its price


def test_a_run_prints_a_line_a_round_when_piped(run: Run) -> None:
    run("new", "proxy-labels")
    lines = run("run", "study.toml").out.splitlines()
    assert [line.split()[0] for line in lines[2:12]] == [str(k) for k in range(1, 11)]
    assert max(map(len, lines)) <= 80


def test_a_run_names_the_level_of_its_file(run: Run) -> None:
    run("new", "proxy-labels")
    path = Path("study.toml")
    path.write_text("level = 0.9\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    said = run("run", path, "--rounds", "2", "--no-report").out
    assert "90 % at any time" in said
    assert "95 %" not in said


def test_the_example_can_be_run_again(run: Run) -> None:
    first = run("example", "here", "--json").json
    again = run("example", "here", "--json").json
    assert len(first["sources"]) == 3
    assert again["batches"] == first["batches"]
    assert json.loads(json.dumps(first)) == first
    assert Path("here/report.html").is_file()
