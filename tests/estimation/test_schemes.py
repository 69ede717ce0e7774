"""Every weight and both ways of stacking against the plain implementation.

SciPy's search with numerical slopes ends within about 1e-9 of a minimum; standard errors take slopes from central
differences, good to 1e-8.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import sourcewise as sw
from estimation.plain import Array
from estimation.problems import PROBLEMS, Problem

ESTIMATE, STDERR = 3e-8, 1e-6

each_problem = pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
each_stacking = pytest.mark.parametrize("stacking", ["stacked", "pooled"])


def values(fit: sw.Fit) -> Array:
    return np.array([estimate.value for estimate in fit.parameters.values()])


def agrees(fit: sw.Fit, theta: Array, covariance: Array) -> None:
    assert fit.converged
    np.testing.assert_allclose(values(fit), theta, rtol=ESTIMATE)
    spread = np.sqrt(np.diag(covariance))
    np.testing.assert_allclose(
        fit.covariance / np.outer(spread, spread), covariance / np.outer(spread, spread), atol=STDERR
    )


def fitted(problem: Problem, **options: Any) -> sw.Fit:
    return sw.fit(problem.study, problem.data, **options)


@each_problem
@each_stacking
@pytest.mark.parametrize("centred", [False, True])
def test_two_steps(problem: Problem, stacking: Any, centred: bool) -> None:
    plain = problem.plain(pooled=stacking == "pooled", centred=centred)
    first = plain.solve(problem.truth, plain.identity())
    weights = plain.weights(first)
    theta = plain.solve(first, weights)
    fit = fitted(problem, stacking=stacking, centred=centred)
    agrees(fit, theta, plain.sandwich(theta, weights))
    assert fit.overid.statistic == pytest.approx(plain.statistic(theta, weights), rel=1e-6)
    assert fit.overid.df == sum(map(len, plain.identity())) - len(theta)


@each_problem
@each_stacking
def test_identity(problem: Problem, stacking: Any) -> None:
    plain = problem.plain(pooled=stacking == "pooled")
    theta = plain.solve(problem.truth, plain.identity())
    fit = fitted(problem, stacking=stacking, weights="identity")
    agrees(fit, theta, plain.sandwich(theta, plain.identity()))
    assert fit.objective == pytest.approx(np.sum(plain.residual(theta, plain.identity()) ** 2), rel=1e-6)


@each_problem
@each_stacking
def test_iterated(problem: Problem, stacking: Any) -> None:
    plain = problem.plain(pooled=stacking == "pooled")
    theta = plain.iterated(problem.truth)
    fit = fitted(problem, stacking=stacking, weights="iterated")
    agrees(fit, theta, plain.sandwich(theta, plain.weights(theta)))


@each_problem
@each_stacking
def test_continuously_updated(problem: Problem, stacking: Any) -> None:
    plain = problem.plain(pooled=stacking == "pooled")
    theta = plain.updated(problem.truth)
    fit = fitted(problem, stacking=stacking, weights="cue")
    agrees(fit, theta, plain.sandwich(theta, plain.weights(theta)))
    assert fit.overid.statistic == pytest.approx(plain.statistic(theta, plain.weights(theta)), rel=1e-6)


@each_problem
@each_stacking
def test_fixed(problem: Problem, stacking: Any) -> None:
    """Any symmetric positive definite matrix, a different one for each block."""
    plain = problem.plain(pooled=stacking == "pooled")
    random = np.random.default_rng(6)
    weights = [root @ root.T for root in (random.normal(size=(len(eye), 9)) for eye in plain.identity())]
    theta = plain.solve(problem.truth, weights)
    names = list(problem.data)
    given: Any = dict(zip(names, weights, strict=True)) if stacking == "stacked" else weights[0].tolist()
    agrees(fitted(problem, stacking=stacking, weights=given), theta, plain.sandwich(theta, weights))


@each_problem
@each_stacking
@pytest.mark.parametrize("ridge", [0.01, 10.0])
def test_ridge(problem: Problem, stacking: Any, ridge: float) -> None:
    plain = problem.plain(pooled=stacking == "pooled")
    first = plain.solve(problem.truth, plain.identity())
    weights = plain.weights(first, ridge)
    theta = plain.solve(first, weights)
    fit = fitted(problem, stacking=stacking, ridge=ridge)
    agrees(fit, theta, plain.sandwich(theta, weights))
    assert fit.settings["ridge"] == ridge


@each_problem
def test_a_first_weight_changes_the_second_step(problem: Problem) -> None:
    plain = problem.plain()
    random = np.random.default_rng(7)
    weights = [root @ root.T for root in (random.normal(size=(len(eye), 9)) for eye in plain.identity())]
    first = plain.solve(problem.truth, weights)
    theta = plain.solve(first, plain.weights(first))
    fit = fitted(problem, first_weight=dict(zip(problem.data, weights, strict=True)))
    agrees(fit, theta, plain.sandwich(theta, plain.weights(first)))


def test_stacked_and_pooled_are_different_estimators() -> None:
    """Otherwise the comparisons above would say less than they seem to."""
    stacked, pooled = (fitted(PROBLEMS["linear"], stacking=stacking) for stacking in ("stacked", "pooled"))
    assert abs(stacked.target.value - pooled.target.value) > 1e-4
    assert stacked.overid.df == 3
    assert pooled.overid.df == 1


def test_homoskedastic_errors_give_two_stage_least_squares() -> None:
    """Ω = σ² Z'Z/n: the two-step estimate from any first weight of that shape is 2SLS."""
    rows = PROBLEMS["linear"].data["full"]
    residual = "(y - c - b*x)"
    study = sw.Study([f"z*{residual}", f"w*{residual}", residual], "b", {"s": sw.Source("z w x y")})
    fit = sw.fit(study, {"s": rows}, errors="homoskedastic")
    one = np.ones(len(rows["x"]))
    Z, X = np.column_stack([rows["z"], rows["w"], one]), np.column_stack([one, rows["x"]])
    projected = Z @ np.linalg.solve(Z.T @ Z, Z.T @ X)
    expected = np.linalg.solve(projected.T @ X, projected.T @ rows["y"])
    np.testing.assert_allclose(values(fit), expected, rtol=1e-10)
