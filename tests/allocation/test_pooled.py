"""The pooled objective: its derivative, its local optima and its limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from sourcewise.allocation.pooled import PooledProblem, _descend, minimize_pooled, variance

Array = NDArray[np.float64]


def random_problem(seed: int) -> PooledProblem:
    """Random sources over correlated moments; the first computes all, so that the target is identified."""
    random = np.random.default_rng(seed)
    size, dimension, sources = int(random.integers(3, 7)), int(random.integers(1, 4)), int(random.integers(2, 6))
    masks = (random.random((sources, size)) < 0.6).astype(float)
    masks[0] = 1.0
    half = random.normal(size=(size, size + 2))
    costs = 10.0 ** random.uniform(-1, 1, sources)
    return PooledProblem(
        masks,
        half @ half.T / size,
        random.normal(size=(size, dimension)),
        random.normal(size=dimension),
        costs,
        1.0,
        np.zeros(sources),
        np.ones(sources),
    )


def formula(problem: PooledProblem, rows: Array) -> float:
    """∇fᵀ[G*ᵀ Ω*⁻¹ G*]⁻¹∇f as the method writes it."""
    shown = problem.masks.T @ rows
    slope = shown[:, None] * problem.slope
    omega = (problem.masks.T @ np.diag(rows) @ problem.masks) * problem.omega
    return float(problem.gradient @ np.linalg.solve(slope.T @ np.linalg.solve(omega, slope), problem.gradient))


@pytest.mark.parametrize("seed", range(40))
def test_value_and_derivative(seed: int) -> None:
    problem = random_problem(seed)
    rows = np.random.default_rng(100 + seed).uniform(0.2, 2.0, len(problem.costs))
    value, slope = variance(problem, rows)
    assert value == pytest.approx(formula(problem, rows), rel=1e-9)
    step = 1e-5
    for i, direction in enumerate(np.eye(len(rows))):
        numeric = (formula(problem, rows + step * direction) - formula(problem, rows - step * direction)) / (2 * step)
        assert slope[i] == pytest.approx(numeric, rel=1e-5, abs=1e-6 * value)


@pytest.mark.parametrize("seed", range(40))
def test_derivative_where_some_sources_have_no_rows(seed: int) -> None:
    """One-sided, also where the rows bring moments that no other source shows."""
    problem = random_problem(seed)
    random = np.random.default_rng(200 + seed)
    dimension = problem.slope.shape[1]
    masks = problem.masks.copy()
    masks[0, dimension:] = 0.0  # just identified: most moments are shown by sources without rows alone
    problem = replace(problem, masks=masks)
    rows = np.where(random.random(len(masks)) < 0.5, 0.0, random.uniform(0.3, 1.5, len(masks)))
    rows[0] = 1.0
    value, slope = variance(problem, rows)
    assert np.isfinite(value)
    step = 1e-6 * float(np.min(1.0 / (1.0 + np.abs(slope / value))))
    for i, direction in enumerate(np.eye(len(rows))):
        once, twice = (variance(problem, rows + k * step * direction)[0] for k in (1, 2))
        numeric = (4 * (once - value) - (twice - value)) / (2 * step)
        assert slope[i] == pytest.approx(numeric, rel=1e-3, abs=1e-3 * value)


def two_valleys(cost: float, correlation: float) -> PooledProblem:
    """A cheap source shows one moment; a dear one shows two that are strongly correlated, with opposite slopes.

    The dear source lives on the correlation, which rows of the cheap one dilute: either alone beats a mixture.
    """
    omega = np.array([[1.0, correlation], [correlation, 1.0]])
    slope = np.array([[1.0], [-1.0]])
    return PooledProblem(
        np.array([[1.0, 0.0], [1.0, 1.0]]),
        omega,
        slope,
        np.ones(1),
        np.array([1.0, cost]),
        1.0,
        np.zeros(2),
        np.ones(2),
    )


@pytest.mark.parametrize(("cost", "correlation"), [(41.0, 0.95), (50.0, 0.95), (30.0, 0.99), (10.0, 0.95)])
def test_the_better_of_two_local_optima_is_found(cost: float, correlation: float) -> None:
    """From any start, although an even spread always leads to the cheap source, good or bad."""
    problem = two_valleys(cost, correlation)
    shares = np.linspace(0.0, 1.0, 2001)
    values = np.array([variance(problem, np.array([1 - s, s]) / problem.costs)[0] for s in shares])
    inner = np.flatnonzero((values[1:-1] > values[:-2]) & (values[1:-1] > values[2:]))
    assert len(inner) == 1, "a hill between two valleys"
    for end, value in ((0.99, values[-1]), (0.5, values[0]), (0.01, values[0])):
        assert _descend(problem, np.array([1 - end, end]))[1] == pytest.approx(value, rel=1e-6), "one start is stuck"
    for starts in ([], [np.array([1.0, 0.0])], [np.array([0.0, 1.0])]):
        money, value = minimize_pooled(problem, starts)
        assert value == pytest.approx(values.min(), rel=1e-7)
        assert money == pytest.approx([1 - shares[values.argmin()], shares[values.argmin()]], abs=1e-6)


@pytest.mark.parametrize("seed", range(12))
def test_limits_are_kept_and_nothing_random_is_better(seed: int) -> None:
    problem = random_problem(seed)
    random = np.random.default_rng(300 + seed)
    size = len(problem.costs)
    total = 50.0
    lower = random.dirichlet(np.ones(size)) * 0.3 * total * (random.random(size) < 0.5)
    upper = np.maximum(random.uniform(0.5, 1.0, size) * total, lower)
    problem = replace(problem, total=total, lower=lower, upper=upper)
    money, value = minimize_pooled(problem, [])
    assert money.sum() == pytest.approx(total, rel=1e-12)
    assert (money >= lower * (1 - 1e-9)).all()
    assert (money <= upper * (1 + 1e-9)).all()
    assert value == pytest.approx(variance(problem, money / problem.costs)[0], rel=1e-12)
    for spread in random.dirichlet(np.ones(size), 300):
        other = lower + spread * (total - lower.sum())
        if (other <= upper).all():
            assert variance(problem, other / problem.costs)[0] >= value * (1 - 1e-7)


def test_moments_that_a_third_source_shows_together_count_as_seen_together() -> None:
    """The published code takes two moments with different masks as never seen together."""
    masks = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    omega = np.array([[1.0, 0.6], [0.6, 2.0]])
    problem = PooledProblem(masks, omega, np.ones((2, 1)), np.ones(1), np.ones(3), 1.0, np.zeros(3), np.ones(3))
    rows = np.array([0.2, 0.3, 0.5])
    mixed = np.array([[0.7 * 1.0, 0.5 * 0.6], [0.5 * 0.6, 0.8 * 2.0]])
    slope = np.array([0.7, 0.8])
    assert variance(problem, rows)[0] == pytest.approx(1 / (slope @ np.linalg.solve(mixed, slope)), rel=1e-12)
