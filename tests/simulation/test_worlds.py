"""Worlds: what they deal has the law that they declare, their populations are exact, and bad ones are refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import sourcewise as sw
from simulation.problems import IV, IV_STUDY, MEANS_STUDY
from sourcewise.errors import SimulationError
from sourcewise.experiments import EXPERIMENTS
from sourcewise.simulation.worlds import World, population_of, target_truth

ROWS = 400_000


def world_of(name: str) -> World:
    return EXPERIMENTS[name]().world


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_rows_have_the_moments_of_the_population(name: str) -> None:
    """Means of all products of degree two, within five standard errors of a sample of 400,000."""
    world = world_of(name)
    drawn = world.deal(np.random.default_rng(3), ROWS)
    points, mass = population_of(world)
    assert mass.sum() == pytest.approx(1.0, abs=1e-12)
    for one in points:
        for other in points:
            sample = np.asarray(drawn[one]) * drawn[other]
            exact = float(mass @ (np.asarray(points[one]) * points[other]))
            assert abs(sample.mean() - exact) < 5 * sample.std() / math.sqrt(ROWS) + 1e-12, (one, other)


def test_a_linear_world_is_its_equations() -> None:
    world = sw.LinearWorld({"y": {"x": 2.0}, "x": {"z": -1.0}}, 1.0, {"y": 0.0, "z": 4.0}, {"y": 3.0})
    assert world.order == ("z", "x", "y")  # causes first, whatever the order they were written in
    rows = world.deal(np.random.default_rng(0), 100_000)
    assert rows["y"] == pytest.approx(3.0 + 2.0 * rows["x"], abs=1e-12)
    assert rows["z"].var() == pytest.approx(4.0, rel=0.03)
    assert (rows["x"] + rows["z"]).var() == pytest.approx(1.0, rel=0.03)


def test_a_lottery_has_the_published_shares() -> None:
    """P(Z = 1) = 25/73, P(X = 1 | Z) = .2831 and .1468, Var Y = 1 (paper, appendix)."""
    world = world_of("draft-lottery")
    points, mass = population_of(world)
    z, x, y = (points[name] for name in "zxy")
    assert mass @ z == pytest.approx(25 / 73)
    assert (mass @ (x * z)) / (mass @ z) == pytest.approx(0.2831, abs=5e-5)
    assert (mass @ (x * (1 - z))) / (mass @ (1 - z)) == pytest.approx(0.1468, abs=5e-5)
    assert mass @ (y - mass @ y) ** 2 == pytest.approx(1.0, abs=2e-4)


def test_the_table_of_infants_is_the_published_one() -> None:
    """747 infants, 139 treated; both covariates as the paper has them."""
    world = world_of("ihdp")
    assert isinstance(world, sw.TableWorld)
    treated, weight = (np.asarray(world.table[name]) for name in ("x", "w1"))
    assert (len(treated), treated.sum()) == (747, 139)
    assert weight.mean() == pytest.approx(0.0, abs=1e-12)
    assert weight.std() == pytest.approx(1.0)
    assert set(np.asarray(world.table["w2"]).tolist()) == {0.0, 1.0}


def test_the_truth_may_be_every_parameter_or_the_target_alone() -> None:
    assert target_truth(IV, IV_STUDY) == 1.0
    assert target_truth(sw.LinearWorld({}, {"a": 5, "b": 7}), MEANS_STUDY) == 2.0
    assert target_truth(sw.LinearWorld({}, 2.0), MEANS_STUDY) == 2.0
    with pytest.raises(SimulationError, match="lacks the parameter b"):
        target_truth(sw.LinearWorld({}, {"a": 5}), MEANS_STUDY)


def draws(columns: Callable[[np.random.Generator, int], Any]) -> World:
    return sw.FunctionWorld(columns, 2.0)


UNSEEDED = np.random.default_rng(0)

HOSTILE: dict[str, tuple[World, str]] = {
    "a variable is missing": (draws(lambda r, n: {"x": r.normal(size=n)}), "observes 'y', which the world does not"),
    "a row too few": (draws(lambda r, n: dict.fromkeys("xy", r.normal(size=n - 1))), r"shape \(4095,\) where 4096"),
    "a matrix": (draws(lambda r, n: dict.fromkeys("xy", r.normal(size=(n, 2)))), r"shape \(4096, 2\)"),
    "a number for all": (draws(lambda r, n: dict.fromkeys("xy", 0.0)), r"shape \(\)"),
    "text": (draws(lambda r, n: dict.fromkeys("xy", ["a"] * n)), "something else than numbers"),
    "NaN": (draws(lambda r, n: dict.fromkeys("xy", np.full(n, np.nan))), "not a finite number"),
    "infinity": (draws(lambda r, n: dict.fromkeys("xy", np.full(n, np.inf))), "not a finite number"),
    "no columns": (draws(lambda r, n: r.normal(size=(2, n))), "deals a dict of columns, not ndarray"),
    "another generator": (draws(lambda r, n: dict.fromkeys("xy", UNSEEDED.normal(size=n))), "from equal generators"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_a_world_deals_is_checked(name: str) -> None:
    world, message = HOSTILE[name]
    with pytest.raises(SimulationError, match=message):
        sw.simulate(world, MEANS_STUDY, {"oracle": sw.Fixed()}, [100], runs=2)


def test_a_world_that_is_none_and_moments_that_do_not_hold_are_refused() -> None:
    with pytest.raises(SimulationError, match="a world needs `truth` and `deal"):
        sw.simulate({"x": 1}, MEANS_STUDY, {"equal": sw.Fixed()}, [100])  # type: ignore[arg-type]
    unidentified = sw.Study(["x - a", "y - b + c"], "c", {"left": sw.Source("x"), "right": sw.Source("y")})
    with pytest.raises(SimulationError, match="does not determine the target 'c'"):
        sw.simulate(sw.LinearWorld({}, 0.0, {"x": 1, "y": 1}), unidentified, {"equal": sw.Fixed()}, [100])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: sw.LinearWorld({"x": {"y": 1.0}, "y": {"x": 1.0}}, 0.0), "form a circle"),
        (lambda: sw.LinearWorld({}, 0.0, {"x": -1.0}), "finite variance, 0 or more"),
        (lambda: sw.LinearWorld({}, 0.0, {"x": math.nan}), "finite variance, 0 or more"),
        (lambda: sw.TableWorld({"x": np.zeros(3), "w": np.zeros(4)}, {}, 0.0), "of one length"),
        (lambda: sw.TableWorld({}, {}, 0.0), "of one length"),
    ],
)
def test_a_world_that_contradicts_itself_is_refused(make: Callable[[], World], message: str) -> None:
    with pytest.raises(SimulationError, match=message):
        make()


def test_any_object_with_a_truth_and_a_deal_is_a_world() -> None:
    class Coins:
        truth = 0.0

        def deal(self, random: np.random.Generator, rows: int) -> Mapping[str, Any]:
            return {name: 2.0 * random.integers(0, 2, rows) - 1.0 for name in "xy"}

    found = sw.simulate(Coins(), MEANS_STUDY, {"equal": sw.Fixed()}, [300], runs=400, seed=1)
    cell = found.cell("equal", 300)
    assert abs(cell.mse - 6.0) < 4 * cell.mse_se  # variance 1 each, 100 rows each of the money of 300: 300·(2/100)
