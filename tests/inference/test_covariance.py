"""Standard errors against a sandwich in NumPy, Windmeijer's published formula, and a simulation."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import sourcewise as sw
from estimation.plain import Array
from estimation.problems import PROBLEMS

each_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)


def values(fit: sw.Fit) -> Array:
    return np.array([estimate.value for estimate in fit.parameters.values()])


@each_problem
def test_model_covariance_trusts_the_weight(problem: Any) -> None:
    """(G'WG)⁻¹/T with the weight of the last step, at the estimate."""
    plain = problem.plain()
    first = plain.solve(problem.truth, plain.identity())
    weights = plain.weights(first)
    fit = sw.fit(problem.study, problem.data, covariance="model")
    tables = plain.tables(values(fit))
    rows = sum(map(len, tables))
    pieces = zip(tables, plain.slopes(values(fit)), weights, strict=True)
    expected = np.linalg.inv(sum(len(t) * g.T @ w @ g for t, g, w in pieces) / rows) / rows
    np.testing.assert_allclose(fit.covariance, expected, rtol=1e-6)


@each_problem
def test_a_target_s_error_is_the_delta_method(problem: Any) -> None:
    names = list(problem.study.parameters)
    first, last = names[0], names[-1]
    study = sw.Study(
        problem.study.moments, f"{first}*exp({last}/2) - 1/{last}", problem.study.sources, problem.study.parameters
    )
    fit = sw.fit(study, problem.data)
    a, b = fit.parameters[first].value, fit.parameters[last].value
    gradient = np.zeros(len(names))
    gradient[0], gradient[-1] = math.exp(b / 2), a * math.exp(b / 2) / 2 + 1 / b**2
    assert fit.target.value == pytest.approx(a * math.exp(b / 2) - 1 / b, rel=1e-12)
    assert fit.target.stderr == pytest.approx(math.sqrt(gradient @ fit.covariance @ gradient), rel=1e-10)


def test_intervals_and_p_values_are_normal() -> None:
    fit = sw.fit(PROBLEMS["linear"].study, PROBLEMS["linear"].data)
    target = fit.target
    for level in (0.5, 0.9, 0.95, 0.999):
        expected = stats.norm.interval(level, target.value, target.stderr)
        assert target.interval(level) == pytest.approx(expected, rel=1e-12)
    assert target.tstat == target.value / target.stderr
    small = fit.parameters["c"]
    assert small.pvalue == pytest.approx(2 * stats.norm.sf(abs(small.value / small.stderr)), rel=1e-10)
    assert fit.overid.pvalue == pytest.approx(stats.chi2.sf(fit.overid.statistic, fit.overid.df), rel=1e-12)


@pytest.mark.parametrize("level", [0, 1, 95, -0.5, math.nan, math.inf, "0.95", None, True])
def test_levels_outside_zero_and_one_are_refused(level: Any) -> None:
    fit = sw.fit(PROBLEMS["linear"].study, PROBLEMS["linear"].data)
    for ask in (fit.target.interval, fit.parameters["b"].interval, fit.weak_interval):
        with pytest.raises(sw.EstimationError, match="between 0 and 1"):
            ask(level)


COUNT = 20
INSTRUMENTS = tuple(f"z{k}" for k in range(COUNT))
MANY = sw.Study([f"{z}*(y - b*x)" for z in INSTRUMENTS], "b", {"s": sw.Source([*INSTRUMENTS, "x", "y"])})


def crowd(random: np.random.Generator, rows: int) -> tuple[Array, Array, Array]:
    """Many instruments of middling strength, and errors whose size depends on one of them."""
    Z = random.normal(size=(rows, COUNT))
    u = random.normal(size=rows)
    x = Z @ np.full(COUNT, 0.3) + u + random.normal(size=rows)
    return Z, x, x + u + (0.5 + np.abs(Z[:, 0])) * random.normal(size=rows)


def windmeijer(Z: Array, X: Array, y: Array) -> tuple[Array, Array]:
    """Windmeijer (2005), equation 3.2, for a linear model with first weight I: estimate and covariance."""
    n, size = X.shape
    S, h = Z.T @ X / n, Z.T @ y / n
    first = np.linalg.solve(S.T @ S, S.T @ h)
    u1 = y - X @ first
    omega = (Z * (u1**2)[:, None]).T @ Z / n
    W = np.linalg.inv(omega)
    bread = np.linalg.inv(S.T @ W @ S)
    second = bread @ S.T @ W @ h
    mean = Z.T @ (y - X @ second) / n
    D = np.empty((size, size))
    for j in range(size):
        change = -2 * (Z * (X[:, j] * u1)[:, None]).T @ Z / n
        D[:, j] = -bread @ S.T @ W @ change @ W @ mean
    inner = np.linalg.inv(S.T @ S)
    V1 = inner @ S.T @ omega @ S @ inner / n
    V2 = bread / n
    return second, V2 + D @ V2 + V2 @ D.T + D @ V1 @ D.T


def test_windmeijer_s_correction_is_the_published_formula() -> None:
    Z, x, y = crowd(np.random.default_rng(3), 120)
    frame = {**dict(zip(INSTRUMENTS, Z.T, strict=True)), "x": x, "y": y}
    expected = windmeijer(Z, x[:, None], y)
    fit = sw.fit(MANY, {"s": frame}, covariance="windmeijer")
    assert fit.target.value == pytest.approx(expected[0][0], rel=1e-9)
    assert fit.covariance == pytest.approx(expected[1], rel=1e-8)
    # with two parameters, in other units
    study = sw.Study([f"{z}*(y - b*x - c*z0)" for z in INSTRUMENTS], "b", {"s": sw.Source([*INSTRUMENTS, "x", "y"])})
    scaled = {**frame, "x": 1e3 * x}
    expected = windmeijer(Z, np.column_stack([1e3 * x, Z[:, 0]]), y)
    fit = sw.fit(study, {"s": scaled}, covariance="windmeijer")
    np.testing.assert_allclose(values(fit), expected[0], rtol=1e-9)
    spread = np.sqrt(np.diag(expected[1]))
    np.testing.assert_allclose(
        fit.covariance / np.outer(spread, spread), expected[1] / np.outer(spread, spread), atol=1e-8
    )


def test_windmeijer_s_correction_works_when_pooled_and_stacked() -> None:
    """Just identified, the weight is idle and there is nothing to correct."""
    study = sw.Study(
        ["z*(x - alpha*z)", "z*(y - alpha*beta*z)"], "beta", {"a": sw.Source("z x"), "b": sw.Source("z y")}
    )
    random = np.random.default_rng(4)
    z = random.normal(size=(2, 90))
    data = {"a": {"z": z[0], "x": z[0] + random.normal(size=90)}, "b": {"z": z[1], "y": z[1] + random.normal(size=90)}}
    for stacking in ("stacked", "pooled"):
        plain, corrected = (
            sw.fit(study, data, stacking=stacking, covariance=kind).target.stderr for kind in ("model", "windmeijer")
        )
        assert corrected == pytest.approx(plain, rel=1e-9)
        over = [
            sw.fit(PROBLEMS["product"].study, PROBLEMS["product"].data, stacking=stacking, covariance=kind)
            for kind in ("robust", "windmeijer")
        ]
        assert over[1].target.stderr != over[0].target.stderr
        assert over[1].target.stderr == pytest.approx(over[0].target.stderr, rel=0.1)  # 600 rows, 5 moments


def test_windmeijer_s_correction_removes_the_bias_of_two_step_errors() -> None:
    """400 samples of 150 rows and 20 moments.

    The spread of 400 estimates is known to 1/√800 = 3.5 %, so a bar of 10 % is nearly three of its standard errors.
    """
    estimates, plain, corrected = [], [], []
    random = np.random.default_rng(5)
    for _ in range(400):
        Z, x, y = crowd(random, 150)
        frame = {"s": {**dict(zip(INSTRUMENTS, Z.T, strict=True)), "x": x, "y": y}}
        robust, full = (sw.fit(MANY, frame, covariance=kind) for kind in ("robust", "windmeijer"))
        estimates.append(full.target.value)
        plain.append(robust.target.stderr)
        corrected.append(full.target.stderr)
    spread = np.std(estimates)
    assert np.mean(plain) / spread < 0.88
    assert np.mean(corrected) / spread == pytest.approx(1.0, abs=0.1)
