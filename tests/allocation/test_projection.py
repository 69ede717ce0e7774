"""Nearest points of feasible regions.

A point x of a convex set is the nearest to t exactly when (t − x)·(y − x) ≤ 0 for every y of the set; it is checked at
random y, many of them near vertices. Ratios are of order 1: 1e-9 is a hundred times what the search leaves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sourcewise.allocation.projection import nearest_by_budget, nearest_by_rows, simplex
from sourcewise.errors import AllocationError
from sourcewise.numerics.linalg import Array

SEEDS = st.integers(0, 10**6)


def ratio(counts: Array, rows: Array) -> Array:
    return np.asarray((counts + rows) / (counts + rows).sum(axis=0))


def campaign(seed: int, capped: bool) -> tuple[Array, Array, Array, Array, Array, np.random.Generator]:
    """Targets, counts, costs, budgets and capacities of 40 campaigns; targets at corners, no rows yet, huge counts."""
    generator = np.random.default_rng(seed)
    size, batch = int(generator.integers(2, 7)), 40
    target = generator.dirichlet(np.ones(size), batch).T
    target[:, ::7] = np.eye(size)[generator.integers(size, size=6)].T
    counts = np.floor(generator.integers(0, 200, (size, batch)) * 10 ** generator.uniform(0, 3, batch))
    counts[:, ::11] = 0
    costs = 10 ** generator.uniform(-1, 1, size)
    budget = 10 ** generator.uniform(0, 3, batch)
    caps = np.full((size, batch), np.inf)
    if capped:
        caps = np.where(generator.random((size, batch)) < 0.5, np.inf, generator.uniform(1, 150, (size, batch)))
    return target, counts, costs, budget, caps, generator


def spend(generator: np.random.Generator, prices: Array, money: Array, caps: Array) -> Array:
    """Random rows (S, B) that spend all the money."""
    rows = np.minimum(generator.dirichlet(np.full(len(prices), 0.3), len(money)).T * money / prices, caps)
    for i in generator.permutation(len(prices)):
        left = np.maximum(money - (rows * prices).sum(axis=0), 0.0)
        rows[i] = np.minimum(rows[i] + left / prices[i], caps[i])
    return np.asarray(rows)


@settings(deadline=None, max_examples=30)
@given(SEEDS, st.booleans())
def test_simplex(seed: int, capped: bool) -> None:
    generator = np.random.default_rng(seed)
    size = int(generator.integers(1, 9))
    points = generator.normal(size=(size, 30)) * 10 ** generator.uniform(-2, 2)
    total = 10 ** generator.uniform(-1, 1, 30)
    caps = total * generator.uniform(0.3, 1, (size, 30)) if capped else np.full((size, 30), np.inf)
    total = np.minimum(total, caps.sum(axis=0))
    nearest = simplex(points, total, caps)
    scale = 1 + np.abs(points).max()
    assert nearest.sum(axis=0) == pytest.approx(total, rel=1e-12, abs=1e-12 * scale)
    assert ((nearest >= 0) & (nearest <= caps)).all()
    assert simplex(nearest, total, caps) == pytest.approx(nearest, abs=1e-12 * scale)
    for _ in range(20):
        other = spend(generator, np.ones((size, 1)), total, caps)
        assert (((points - nearest) * (other - nearest)).sum(axis=0) <= 1e-10 * scale**2).all()


def test_simplex_is_exact_at_corners() -> None:
    assert simplex(np.array([[0.5, 2.0, 0.0], [0.2, -1.0, 3.0], [0.3, 0.4, 0.0]])).T.tolist() == [
        [0.5, 0.2, 0.3],
        [1.0, 0.0, 0.0],
        [0.0, 1.0, 0.0],
    ]
    caps = np.array([[0.25], [0.5], [1.0]])
    assert simplex(np.array([[5.0], [1.0], [0.0]]), 1.0, caps).ravel().tolist() == [0.25, 0.5, 0.25]


@settings(deadline=None, max_examples=30)
@given(SEEDS, st.booleans())
def test_known_number_of_rows(seed: int, capped: bool) -> None:
    target, counts, _, batch, caps, generator = campaign(seed, capped)
    rows = nearest_by_rows(target, counts, batch, caps)
    new = np.minimum(batch, caps.sum(axis=0))
    assert rows.sum(axis=0) == pytest.approx(new, rel=1e-9)
    reached = ratio(counts, rows)
    assert ratio(counts, nearest_by_rows(reached, counts, batch, caps)) == pytest.approx(reached, abs=1e-9)
    for _ in range(20):
        other = ratio(counts, spend(generator, np.ones((len(counts), 1)), new, caps))
        assert (((target - reached) * (other - reached)).sum(axis=0) <= 1e-9).all()


@settings(deadline=None, max_examples=40)
@given(SEEDS, st.booleans())
def test_known_money(seed: int, capped: bool) -> None:
    target, counts, costs, budget, caps, generator = campaign(seed, capped)
    rows = nearest_by_budget(target, counts, costs, budget, caps)
    prices = costs[:, None]
    money = np.minimum(budget, (caps * prices).sum(axis=0))
    assert (rows * prices).sum(axis=0) == pytest.approx(money, rel=1e-7)
    assert ((rows >= 0) & (rows <= caps)).all()
    reached = ratio(counts, rows)
    assert ratio(counts, nearest_by_budget(reached, counts, costs, budget, caps)) == pytest.approx(reached, abs=1e-9)
    for _ in range(20):
        other = ratio(counts, spend(generator, prices, money, caps))
        assert (((target - reached) * (other - reached)).sum(axis=0) <= 1e-9).all()


def test_a_target_that_can_be_reached_is_reached() -> None:
    """The paper's region for explore-then-commit with costs: half of the money is spent equally, half is to come."""
    counts, costs = np.array([[20.0], [20.0]]), np.array([1.8, 1.0])
    target = np.array([[0.4], [0.6]])
    rows = nearest_by_budget(target, counts, costs, 56.0)
    assert ratio(counts, rows) == pytest.approx(target, abs=1e-14)
    assert costs @ rows == pytest.approx([56.0])


def test_the_region_of_a_budget_ends_exactly_at_its_corners() -> None:
    counts, costs = np.array([[90.0], [10.0]]), np.array([2.0, 1.0])
    assert nearest_by_budget(np.array([[0.0], [1.0]]), counts, costs, 30.0).ravel().tolist() == [0.0, 30.0]
    assert nearest_by_budget(np.array([[1.0], [0.0]]), counts, costs, 30.0).ravel().tolist() == [15.0, 0.0]


def test_no_money_and_too_few_rows() -> None:
    target, counts = np.array([[0.5], [0.5]]), np.array([[3.0], [5.0]])
    assert nearest_by_budget(target, counts, np.array([1.0, 2.0]), 0.0).tolist() == [[0.0], [0.0]]
    caps = np.array([[4.0], [1.0]])
    assert nearest_by_budget(target, counts, np.array([1.0, 2.0]), 100.0, caps).tolist() == caps.tolist()
    assert nearest_by_rows(target, counts, 100.0, caps).tolist() == caps.tolist()


def test_a_cost_of_zero_is_refused() -> None:
    with pytest.raises(AllocationError, match="costs must be positive"):
        nearest_by_budget(np.ones((2, 1)) / 2, np.ones((2, 1)), np.array([1.0, 0.0]), 5.0)
