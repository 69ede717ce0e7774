"""Whole rows: every promise of `whole_rows`, in exact arithmetic, over random costs, capacities, budgets and lots."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sourcewise.allocation.rounding import whole_rows
from sourcewise.errors import AllocationError

COST = st.one_of(st.sampled_from([0.1, 0.2, 0.3, 1.0, 1.8, 3.5]), st.floats(0.001, 1000.0))


@st.composite
def orders(draw: st.DrawFn) -> tuple[list[float], list[float], float, list[float], list[int], list[int]]:
    size = draw(st.integers(1, 6))

    def each(kind: st.SearchStrategy[float]) -> list[float]:
        return draw(st.lists(kind, min_size=size, max_size=size))

    costs, wanted = each(COST), each(st.floats(0, 300))
    budget = draw(st.one_of(st.floats(0, 1e5), st.sampled_from([0.3, 1.0, 100.0])))
    if draw(st.booleans()):
        budget = float(np.dot(costs, wanted))
    capacities = each(st.one_of(st.just(np.inf), st.floats(0, 200)))
    lots = [int(lot) for lot in each(st.one_of(st.just(1), st.integers(1, 50)))]
    bought = [int(rows) for rows in each(st.integers(0, 3))]
    if np.dot(bought, costs) > budget:
        bought = [0] * size
    return wanted, costs, budget, capacities, bought, lots


@settings(deadline=None, max_examples=400)
@given(orders())
def test_promises(order: tuple[list[float], list[float], float, list[float], list[int], list[int]]) -> None:
    wanted, costs, budget, capacities, bought, lots = order
    rows = whole_rows(wanted, costs, budget, capacities, bought, lots)
    new = rows - bought
    assert (new >= 0).all()
    assert (new % lots == 0).all()
    spent = sum((Fraction(cost) * int(count) for cost, count in zip(costs, rows, strict=True)), Fraction(0))
    money = Fraction(budget)
    assert spent <= money * (1 + Fraction(1, 10**9))
    more_exists = [rows[i] + lot <= capacities[i] for i, lot in enumerate(lots)]
    short = np.maximum(np.minimum(wanted, capacities) - bought, 0.0)  # less than 1e-9 of a lot of it is not wanted
    share = min(1.0, budget / max(float(np.dot(short, costs)), 1e-300))
    idle = not any(want > 0 and more for want, more in zip(short, more_exists, strict=True))
    for i, lot in enumerate(lots):
        assert new[i] == 0 or rows[i] <= capacities[i]
        bought_if_there = more_exists[i] and (short[i] * share > 1e-6 * lot or idle)
        assert not bought_if_there or spent + lot * Fraction(costs[i]) > money


def test_a_source_that_is_not_wanted_gets_no_stray_rows() -> None:
    assert whole_rows([0.0, 228.6], [1.0, 3.5], 800.0).tolist() == [0, 228]
    assert whole_rows([432.8, 0.0, 104.8], [1.0, 3.0, 3.5], 800.0).tolist()[1] == 0
    assert whole_rows([0.0, 228.6], [1.0, 3.5], 800.0, [np.inf, 100]).tolist() == [450, 100]  # nothing else is left


@settings(deadline=None, max_examples=200)
@given(orders())
def test_keeps_within_a_lot_of_what_is_wanted_and_affordable(
    order: tuple[list[float], list[float], float, list[float], list[int], list[int]],
) -> None:
    """Nobody gets a whole lot more than wanted while another that could still be bought gets a whole lot less."""
    wanted, costs, _, capacities, _, lots = order
    aim = np.minimum(wanted, capacities)
    rows = whole_rows(aim, costs, float(np.dot(costs, aim)), capacities, None, lots)
    assert (rows >= np.floor(aim * (1 - 1e-12) / lots) * lots).all()


def test_largest_remainder_first_then_the_order_of_the_sources() -> None:
    assert whole_rows([3.2, 4.7, 2.1], [1, 1, 1], 10).tolist() == [3, 5, 2]
    assert whole_rows([2.5, 2.5, 2.5, 2.5], [1, 1, 1, 1], 10).tolist() == [3, 3, 2, 2]


def test_money_that_cannot_buy_what_is_short_buys_the_next() -> None:
    assert whole_rows([1.9, 1.1], [10.0, 1.0], 20.1).tolist() == [1, 10]
    assert whole_rows([1.9, 1.1], [10.0, 1.0], 20.1, [np.inf, 4]).tolist() == [1, 4]


def test_costs_that_are_not_exact_in_binary() -> None:
    """0.1 × 3 is a hair more than 0.3, and 0.3 / 0.1 a hair less than 3."""
    assert whole_rows([3.0], [0.1], 0.3).tolist() == [3]
    assert whole_rows([0.3 / 0.1], [0.1], 0.3).tolist() == [3]
    assert whole_rows([10.0, 10.0], [0.1, 0.2], 3.0).tolist() == [10, 10]
    assert whole_rows([3.0], [0.1], 0.3 * (1 - 1e-8)).tolist() == [2]


def test_rows_already_bought_count_in_all() -> None:
    assert whole_rows([6.0, 4.0], [1.0, 2.0], 14.0, None, [1, 1]).tolist() == [6, 4]
    assert whole_rows([1.0, 9.0], [1.0, 1.0], 10.0, None, [4, 0]).tolist() == [4, 6]
    with pytest.raises(AllocationError, match=r"already bought cost 8, more than the budget of 5"):
        whole_rows([1.0, 1.0], [1.0, 1.0], 5.0, None, [4, 4])


def test_a_batch_is_the_same_as_one_by_one() -> None:
    generator = np.random.default_rng(0)
    costs = np.array([0.3, 1.7, 4.1])
    wanted, budget = generator.uniform(0, 50, (3, 500)), generator.uniform(0, 300, 500)
    caps = np.where(generator.random((3, 500)) < 0.5, np.inf, generator.integers(0, 40, (3, 500)))
    together = whole_rows(wanted, costs, budget, caps)
    alone = [whole_rows(wanted[:, b], costs, float(budget[b]), caps[:, b]) for b in range(500)]
    assert together.tolist() == np.array(alone).T.tolist()


def test_a_large_budget_and_a_tiny_cost_take_no_time() -> None:
    assert whole_rows([1.0, 1.0], [1000.0, 1e-6], 1e6, [3, np.inf]).tolist() == [3, 997_000_000_000]


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (([np.nan], [1.0], 5.0), "wanted rows"),
        (([1.0], [0.0], 5.0), "costs must be positive"),
        (([1.0], [1.0], -5.0), "a budget"),
        (([1.0], [1.0], 5.0, [-1.0]), "capacities"),
        (([1.0], [1.0], 5.0, None, [0.5]), "already bought"),
        (([1.0], [1.0], 5.0, None, None, [0]), "lots"),
        (([1.0], [1e-12], 1e9), "2\\^53"),
    ],
)
def test_wrong_calls_are_refused(arguments: tuple[list[float], ...], rule: str) -> None:
    with pytest.raises(AllocationError, match=rule):
        whole_rows(*arguments)
