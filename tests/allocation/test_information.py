"""What a source is worth that was never queried: predicted where every pair of its moments has been seen, else not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import sourcewise as sw
from allocation import worlds
from sourcewise.allocation.information import information, population

MOMENTS = ["z*(x - alpha*z)", "z*(y - alpha*beta*z)"]


def iv(**sources: sw.Source) -> worlds.Population:
    base = worlds.instrument()
    return worlds.Population(sw.Study(MOMENTS, "beta", sources), base.columns, base.mass)


def partial_fit(world: worlds.Population, rows: dict[str, int], stacking: Any) -> sw.Fit:
    return sw.fit(world.study, {name: world._mirror(name, n) for name, n in rows.items()}, stacking=stacking)


def mixes(study: sw.Study) -> list[dict[str, float]]:
    random = np.random.default_rng(8)
    spreads = random.dirichlet(np.ones(len(study.sources)), 8)
    return [dict(zip(study.sources, map(float, spread), strict=True)) for spread in spreads]


PREDICTED: list[tuple[str, worlds.Population, dict[str, int]]] = [
    ("a part of a source", iv(registry=sw.Source("z x"), both=sw.Source("z x y", 2.0)), {"both": 900}),
    (
        "a twin of a source",
        iv(registry=sw.Source("z x"), survey=sw.Source("z y"), again=sw.Source("y z", 0.3)),
        {"registry": 500, "survey": 80},
    ),
    ("IHDP without the first source", worlds.ihdp(), {"second": 700, "both": 300}),
    ("IHDP from one source", worlds.ihdp(), {"both": 300}),
]


@pytest.mark.parametrize("stacking", ["stacked", "pooled"])
@pytest.mark.parametrize(("world", "rows"), [case[1:] for case in PREDICTED], ids=[case[0] for case in PREDICTED])
def test_a_predicted_source_is_worth_what_its_own_data_would_say(
    world: worlds.Population, rows: dict[str, int], stacking: Any
) -> None:
    """Both fits see the exact population, so they know the same; only the second has rows of every source."""
    study = world.study
    partial, full = partial_fit(world, rows, stacking), world.fit(stacking)
    for kappa in mixes(study):
        known = sw.variance(study, full, kappa)
        assert sw.variance(study, partial, kappa) == pytest.approx(known, rel=1e-9)
    predicted, told = sw.allocate(study, partial), sw.allocate(study, full)
    assert predicted.must_explore == ()
    assert predicted.variance == pytest.approx(told.variance, rel=1e-9)
    assert not any(math.isnan(worth) for worth in predicted.worth.values())


@pytest.mark.parametrize("stacking", ["stacked", "pooled"])
def test_a_pair_that_nobody_has_seen_must_be_explored(stacking: Any) -> None:
    world = iv(registry=sw.Source("z x"), survey=sw.Source("z y"), both=sw.Source("z x y"))
    fit = partial_fit(world, {"registry": 500, "survey": 500}, stacking)
    best = sw.allocate(world.study, fit)
    assert best.must_explore == ("both",)
    assert best.shares["both"] == 0.0
    assert math.isnan(best.worth["both"])
    assert best.kappa["registry"] == pytest.approx((math.sqrt(3) - 1) / 2, abs=1e-6)
    assert sw.variance(world.study, fit, {"both": 1.0}) == math.inf


@pytest.mark.parametrize("stacking", ["stacked", "pooled"])
def test_a_moment_that_nobody_has_seen_must_be_explored(stacking: Any) -> None:
    world = iv(registry=sw.Source("z x"), survey=sw.Source("z y"))
    best = sw.allocate(world.study, partial_fit(world, {"registry": 500}, stacking))
    assert best.must_explore == ("survey",)
    assert best.variance == math.inf


@pytest.mark.parametrize("stacking", ["stacked", "pooled"])
def test_a_source_without_moments_is_worth_nothing_and_no_riddle(stacking: Any) -> None:
    world = iv(registry=sw.Source("z x"), survey=sw.Source("z y"), useless=sw.Source("q"))
    fit = partial_fit(world, {"registry": 500, "survey": 500}, stacking)
    best = sw.allocate(world.study, fit)
    assert best.must_explore == ()
    assert best.worth["useless"] == 0.0
    assert best.shares["useless"] == 0.0


def test_pairs_are_averaged_over_all_rows_that_show_them() -> None:
    """Against plain averages over the rows themselves."""
    random = np.random.default_rng(2)
    sources = {"a": sw.Source("z x"), "b": sw.Source("z x y"), "c": sw.Source("z y"), "d": sw.Source("z x y", 2.0)}
    study = sw.Study(MOMENTS, "beta", sources)
    data: dict[str, dict[str, Any]] = {}
    for name, n in (("a", 40), ("b", 70), ("c", 30)):
        z, x, y = random.normal(size=(3, n)) + np.array([[0.0], [0.5], [0.2]])
        data[name] = {v: column for v, column in (("z", z), ("x", x + z), ("y", y + z)) if v in sources[name].observes}
    fit = sw.fit(study, data)
    alpha, beta = (fit.parameters[name].value for name in ("alpha", "beta"))
    known = population(fit.blocks, fit.estimates.theta)
    first = np.concatenate([data[s]["z"] * (data[s]["x"] - alpha * data[s]["z"]) for s in ("a", "b")])
    second = np.concatenate([data[s]["z"] * (data[s]["y"] - alpha * beta * data[s]["z"]) for s in ("b", "c")])
    cross = np.mean(first[40:] * second[:70])
    expected = np.array([[np.mean(first**2), cross], [cross, np.mean(second**2)]])
    np.testing.assert_allclose(known.omega[..., 0], expected, rtol=1e-10)
    squares = {s: data[s]["z"] ** 2 for s in data}
    left = np.mean(np.concatenate([squares["a"], squares["b"]]))
    right = np.mean(np.concatenate([squares["b"], squares["c"]]))
    names = list(fit.compiled.parameters)
    slope = np.zeros((2, 2))
    slope[0, names.index("alpha")] = -left
    slope[1] = [-right * {"alpha": beta, "beta": alpha}[name] for name in names]
    np.testing.assert_allclose(known.slope[..., 0], slope, rtol=1e-10)
    root = information(fit.blocks, fit.estimates.theta, {"d": (0, 1)}).roots["d"]
    assert root is not None
    mine, yours = first[40:], second[:70]
    together = cross / np.sqrt(np.mean(mine**2) * np.mean(yours**2))
    expected[0, 1] = expected[1, 0] = together * np.sqrt(expected[0, 0] * expected[1, 1])
    want = slope.T @ np.linalg.inv(expected) @ slope
    np.testing.assert_allclose(root[..., 0].T @ root[..., 0], want, rtol=1e-9, atol=1e-12)


def worth_of_a_newcomer(seed: int) -> float:
    """Variance per row of a new source, predicted from 46 rows that show what it shows and thousands that show half."""
    moments = ["x - x0 - first*z", "z*(x - x0 - first*z)", "y - y0 - first*effect*z", "z*(y - y0 - first*effect*z)"]
    sources = {"registry": sw.Source("z x"), "survey": sw.Source("z y"), "interview": sw.Source("z x y")}
    study = sw.Study(moments, "effect", {**sources, "clinic": sw.Source("z x y")})
    random, data = np.random.default_rng(seed), {}
    for (name, source), n in zip(sources.items(), (7000, 4000, 46), strict=True):
        z, hidden, noise = random.standard_normal((3, n))
        x = 2 + z + hidden + noise
        people = {"z": z, "x": x, "y": 1 + x + hidden + random.standard_normal(n)}
        data[name] = {variable: people[variable] for variable in source.observes}
    fit = sw.fit(study, data)
    assert sw.allocate(study, fit).must_explore == ()
    return sw.variance(study, fit, {"clinic": 1.0})


def test_few_rows_that_show_everything_predict_without_bias() -> None:
    """The truth is 2: y − x has variance 2, and x moves one to one with z, whose variance is 1. Products averaged
    over other rows in each entry are mostly no variance; cut to its positive part, it said 3 to 6."""
    found = [worth_of_a_newcomer(seed) for seed in range(20)]
    assert np.median(found) == pytest.approx(2.0, rel=0.15)
    assert 1.0 < min(found) <= max(found) < 4.0
