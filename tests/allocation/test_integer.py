"""Lots and opening charges: against every possible division, where there are few enough to try."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from sourcewise.allocation.design import Problem, solve, variance
from sourcewise.allocation.integer import IntegerDesign, Terms, solve_integer
from sourcewise.errors import AllocationError
from sourcewise.numerics.linalg import Array


def draw(seed: int, size: int, dimension: int, total: float, *, limits: bool = False) -> Problem:
    random = np.random.default_rng([seed, 23])
    roots = tuple(random.standard_normal((2, dimension)) * 10 ** random.uniform(-0.5, 0.5) for _ in range(size))
    lower = np.where(random.random(size) < 0.3, 0.5, 0.0) if limits else np.zeros(size)
    upper = np.where(random.random(size) < 0.3, lower + 5, np.inf) if limits else np.full(size, np.inf)
    return Problem(roots, random.standard_normal(dimension), total, lower, upper)


def check(problem: Problem, terms: Terms, found: IntegerDesign) -> None:
    """The terms are kept, the budget too, and the value is what the money is worth."""
    lower = np.zeros(len(found.money)) if problem.lower is None else problem.lower
    lots = terms.lots > 0
    counts = (found.money - lower)[lots] / terms.lots[lots]
    assert counts == pytest.approx(np.round(counts), abs=1e-6)
    assert (found.money >= lower - 1e-12).all()
    assert problem.upper is None or (found.money <= problem.upper * (1 + 1e-12)).all()
    assert found.charges == terms.opening[found.money > 0].sum()
    assert found.money.sum() + found.charges <= problem.total * (1 + 1e-8)
    assert variance(problem.roots, problem.gradient, found.money) == pytest.approx(found.value, rel=1e-9)
    assert found.bound <= found.value


def best_of_all(problem: Problem, terms: Terms) -> float:
    """Tries every division there is."""
    assert problem.lower is not None
    assert problem.upper is not None
    most = np.minimum(problem.upper, problem.total) - problem.lower
    options = [
        low + lot * np.arange(int(room / lot + 1e-9) + 1)
        for low, lot, room in zip(problem.lower, terms.lots, most, strict=True)
    ]
    best = np.inf
    information = np.array([root.T @ root for root in problem.roots])
    for choice in itertools.product(*options):
        money: Array = np.array(choice)
        if money.sum() + terms.opening[money > 0].sum() <= problem.total * (1 + 1e-9):
            matrix = np.tensordot(money, information, 1)
            if np.linalg.cond(matrix) < 1e10:
                best = min(best, float(problem.gradient @ np.linalg.solve(matrix, problem.gradient)))
    return best


@pytest.mark.parametrize("seed", range(30))
def test_is_the_best_of_all_divisions(seed: int) -> None:
    random = np.random.default_rng([seed, 29])
    size = int(random.integers(2, 5))
    problem = draw(seed, size, int(random.integers(2, 4)), 10.0, limits=True)
    # Every other time lots have a common divisor, so that some money cannot be spent.
    lots: Array = np.asarray(random.uniform(0.5, 3, size) if seed % 2 else random.integers(1, 4, size) * 0.75)
    assert problem.lower is not None
    opening = np.where((random.random(size) < 0.6) & (problem.lower == 0), random.uniform(0, 4, size), 0.0)
    terms = Terms(lots, opening)
    found = solve_integer(problem, terms)
    check(problem, terms, found)
    assert found.proven
    assert found.searched
    assert found.value == pytest.approx(best_of_all(problem, terms), rel=1e-6)


@pytest.mark.parametrize("seed", range(10))
def test_charges_on_money_that_need_not_come_in_lots(seed: int) -> None:
    """Against a design for every set of sources that could be open."""
    problem = draw(seed, 6, 4, 100.0)
    terms = Terms(np.zeros(6), np.random.default_rng([seed, 31]).uniform(0, 40, 6))
    best = np.inf
    for opened in itertools.product([False, True], repeat=6):
        mask = np.array(opened)
        left = 100.0 - terms.opening[mask].sum()
        if mask.any() and left > 0:
            roots = tuple(root for root, used in zip(problem.roots, opened, strict=True) if used)
            best = min(best, solve(Problem(roots, problem.gradient, left)).value)
    found = solve_integer(problem, terms)
    check(problem, terms, found)
    assert found.proven
    assert found.value == pytest.approx(best, rel=1e-6)


def test_some_in_lots_and_some_not() -> None:
    problem = draw(3, 5, 4, 50.0)
    terms = Terms(np.array([0.0, 4.0, 0.0, 7.0, 3.0]), np.array([5.0, 0.0, 0.0, 3.0, 9.0]))
    found = solve_integer(problem, terms)
    check(problem, terms, found)
    assert found.proven
    assert solve(problem).value <= found.value


def test_without_terms_it_is_the_design() -> None:
    problem = draw(5, 6, 4, 50.0)
    found = solve_integer(problem, Terms(np.zeros(6), np.zeros(6)))
    assert found.value == pytest.approx(solve(problem).value, rel=1e-9)
    assert found.nodes == 1


@pytest.mark.parametrize("seed", range(3))
def test_twelve_sources_are_solved_exactly(seed: int) -> None:
    problem = draw(seed, 12, 6, 1000.0)
    random = np.random.default_rng([seed, 37])
    terms = Terms(random.uniform(10, 40, 12), random.uniform(0, 60, 12))
    found = solve_integer(problem, terms)
    check(problem, terms, found)
    assert found.searched
    assert found.proven


def test_more_sources_than_that_are_searched_in_part_and_say_so() -> None:
    problem = draw(1, 40, 6, 1000.0)
    terms = Terms(np.full(40, 20.0), np.full(40, 10.0))
    found = solve_integer(problem, terms)
    check(problem, terms, found)
    assert not found.searched
    assert not found.proven
    # Opening costs a percent each: the bound, which pays for nothing it does not use, cannot be far.
    assert 0 < found.gap < 0.2
    assert found.bound >= solve(problem).value


def test_a_node_limit_leaves_an_honest_gap() -> None:
    problem = draw(0, 12, 6, 1000.0)
    random = np.random.default_rng([0, 37])
    terms = Terms(random.uniform(10, 40, 12), random.uniform(0, 60, 12))
    full, cut = solve_integer(problem, terms), solve_integer(problem, terms, node_limit=2)
    check(problem, terms, cut)
    assert not cut.proven
    assert cut.nodes == 2
    assert cut.bound <= full.value <= cut.value


def test_lots_too_large_for_the_budget_identify_nothing() -> None:
    problem = draw(2, 3, 4, 10.0)
    found = solve_integer(problem, Terms(np.full(3, 6.0), np.zeros(3)))
    assert found.value == np.inf
    assert found.money.tolist() == [0.0, 0.0, 0.0]
    assert found.charges == 0.0


@pytest.mark.parametrize(
    ("lots", "opening", "lower", "message"),
    [
        ([1.0], [0.0, 0.0], [0.0, 0.0], "lots must be 2 finite numbers"),
        ([1.0, 1.0], [0.0, -1.0], [0.0, 0.0], "opening charges must be 2 finite numbers"),
        ([1.0, np.nan], [0.0, 0.0], [0.0, 0.0], "lots must be"),
        ([1.0, 1.0], [6.0, 0.0], [5.0, 0.0], "come to 11, but there is only 10"),
    ],
)
def test_wrong_calls_say_what_is_wrong(
    lots: list[float], opening: list[float], lower: list[float], message: str
) -> None:
    problem = Problem((np.eye(2), np.eye(2)), np.ones(2), 10.0, np.array(lower))
    with pytest.raises(AllocationError, match=message):
        solve_integer(problem, Terms(np.array(lots), np.array(opening)))
