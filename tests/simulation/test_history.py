"""Rows that were collected once, dealt again: in random order, none twice, the same ones for every policy."""

from __future__ import annotations

import numpy as np
import pytest

import sourcewise as sw
from sourcewise.errors import SimulationError
from sourcewise.fit import fit
from sourcewise.simulation.history import SHARE, WHOLE, History, shuffled
from sourcewise.simulation.runner import Job, carry_out, games_of
from sourcewise.simulation.streams import GROUP, PIECE, Stream, plan_source
from sourcewise.spec.study import Study


@pytest.mark.parametrize("size", [1, 7, 1000, WHOLE, WHOLE + 1, 300_000])
def test_an_order_uses_no_row_twice_and_a_shorter_one_is_its_beginning(size: int) -> None:
    seed = (3, 1, 4)
    whole = shuffled(size, size, seed)
    assert (np.sort(whole) == np.arange(size)).all()
    for count in {1, size // 100, size // SHARE, size // SHARE + 1, size - 1} - {0}:
        assert (shuffled(size, count, seed) == whole[:count]).all()
    if size > 7:
        assert (shuffled(size, size, (3, 1, 5)) != whole).any()


@pytest.mark.parametrize("size", [4, WHOLE + 3])
def test_every_row_is_as_likely_at_every_place(size: int) -> None:
    """The places 0, size/4 and the last of 2,000 orders: means of uniform numbers, within five standard errors."""
    places = [0, size // SHARE, size - 1]
    found = np.array([shuffled(size, size, (0, 0, r))[places] for r in range(2000 if size == 4 else 200)])
    error = size / np.sqrt(12 * len(found))
    assert (np.abs(found.mean(axis=0) - (size - 1) / 2) < 5 * error).all()


def study(**capacity: int) -> Study:
    sources = {
        "left": sw.Source("x", cost=1.0, capacity=capacity.get("left")),
        "right": sw.Source("y", cost=2.0, capacity=capacity.get("right")),
    }
    return sw.Study(["x - a", "y - b"], "b - a", sources)


def history(left: int = 150, right: int = 90) -> History:
    random = np.random.default_rng(5)
    data = {"left": {"x": random.normal(3, 1, left)}, "right": {"y": random.normal(1, 2, right)}}
    tables = {name: sw.Rows(name, tuple(columns), np.stack(list(columns.values()))) for name, columns in data.items()}
    return History(tables, fit(study(), data).target.value)


def test_all_rows_give_the_estimate_from_all_rows_in_every_replication() -> None:
    world, limited = history(), study(left=150, right=90)
    games = tuple(games_of({"equal": sw.Fixed(), "etg": sw.ETG(0.25)}, (10_000.0,)))
    found = carry_out(Job(world, limited, games, 0, False), 70)
    for outcome in found.outcomes.values():
        assert (outcome.rows[:, 0] == [[150], [90]]).all()
        # sums of the same numbers in another order
        assert np.abs(outcome.estimate - world.truth).max() < 1e-13
        assert (outcome.spent == 330).all()


def test_a_stream_is_the_table_in_another_order() -> None:
    world = history()
    plan = plan_source(world, study(), "left")
    stream = Stream(world, study(), plan, 0, GROUP, 3, 150)
    for r in range(3):
        counts = np.array([1, 16, 149, 150])
        mean = stream.evidence(counts, np.full(4, r)).mean_and_slope(np.zeros((2, 4)))[0][0]
        order = shuffled(150, 150, (0, 0, GROUP + r))
        expected = np.cumsum(world.tables["left"].columns[0][order])[counts - 1] / counts
        assert mean == pytest.approx(expected, rel=1e-12)


def test_more_replications_and_larger_budgets_leave_the_others_as_they_were() -> None:
    world, limited = history(), study(left=150, right=90)

    def played(runs: int, *budgets: float) -> list[float]:
        job = Job(world, limited, tuple(games_of({"etg": sw.ETG(0.25)}, budgets)), 1, False)
        return [float(value) for value in carry_out(job, runs).outcomes["etg"].estimate[0]]

    few = played(5, 60.0)
    assert played(GROUP + 3, 60.0, 2.0 * PIECE)[:5] == few


def test_a_source_without_a_history_and_rows_that_are_not_there_are_refused() -> None:
    world = history()
    other = sw.Study(["x - a", "y - b"], "b - a", {"left": sw.Source("x"), "there": sw.Source("y")})
    with pytest.raises(SimulationError, match="no history of source 'there'"):
        plan_source(world, other, "there")
    with pytest.raises(SimulationError, match="whose history has 150"):
        Stream(world, study(), plan_source(world, study(), "left"), 0, 0, 1, 151)
