"""Policies as pure functions: where rounds end, how much the next one takes, and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sourcewise as sw
from sourcewise.policies import Policy, Position, desired_rows

STUDY = sw.Study(
    ["z*(x - alpha*z)", "z*(y - alpha*beta*z)"],
    "beta",
    {"registry": sw.Source("z x"), "survey": sw.Source("z y", 2.0), "both": sw.Source("z x y", 2.5)},
)


def position(rows: Any, budget: Any, costs: Any, capacity: Any = None, spent: Any = None) -> Position:
    had = np.array(rows, dtype=float).reshape(len(costs), -1)
    prices = np.array(costs, dtype=float)
    paid = prices @ had if spent is None else np.atleast_1d(np.array(spent, dtype=float))
    most = np.full(len(prices), np.inf) if capacity is None else np.array(capacity, dtype=float)
    return Position(had, paid, np.broadcast_to(np.array(budget, dtype=float), paid.shape).copy(), prices, most)


def test_marks_of_numbers_lists_and_schedules() -> None:
    assert sw.ETG(0.25).marks(100) == (0.25, 0.5, 0.75, 1.0)
    assert sw.ETG(0.4).marks(100) == (0.4, 0.8, 1.0)
    assert sw.ETG(1).marks(100) == (1.0,)
    assert len(sw.ETG(0.1).marks(100)) == 10, "1/0.1 rounds up to no eleventh round"
    assert sw.ETG([0.3, 0.35, 1]).marks(100) == (0.3, 0.35, 1.0)
    assert sw.ETG(sw.Schedule(2.0, 0.5)).marks(400) == pytest.approx(tuple(np.arange(1, 11) / 10))
    assert sw.ETG(sw.Schedule(2.0, 0.5)).marks(1) == (1.0,)
    assert sw.ETC(0.3).marks(100) == (0.3, 1.0)


@given(st.floats(0.001, 1.0))
@settings(max_examples=80, derandomize=True, deadline=None)
def test_marks_rise_to_exactly_one_in_steps_of_the_batch(batch: float) -> None:
    marks = sw.ETG(batch).marks(100)
    steps = np.diff((0.0, *marks))
    assert marks[-1] == 1.0
    assert (steps > 0).all()
    assert steps[:-1] == pytest.approx(batch, rel=1e-9)
    assert steps[-1] <= batch * (1 + 1e-6)


def test_etc_is_etg_with_two_marks() -> None:
    assert sw.ETC(0.2, aim="variance", ridge=0.5) == sw.ETG((0.2, 1.0), aim="variance", ridge=0.5)
    assert sw.ETC() == sw.ETG([0.2, 1.0])


BAD: list[tuple[Any, dict[str, Any], str]] = [
    *((sw.ETG, {"batch": b}, str(b)) for b in (0, -0.1, 1.5, math.nan, math.inf, True, "0.1", None)),
    *(
        (sw.ETG, {"batch": b}, "")
        for b in ([], [0.5], [0.5, 0.4, 1], [0.0, 1.0], [0.5, 1.5], [math.nan, 1.0], ["a", 1.0])
    ),
    (sw.ETG, {"per": "row"}, "'row'"),
    (sw.ETG, {"aim": "near"}, "'near'"),
    (sw.ETG, {"aim": ["nearest"]}, "nearest"),
    *((sw.ETG, {"ridge": r}, str(r)) for r in (-1, math.nan, math.inf, "x")),
    *((sw.ETC, {"explore": e}, str(e)) for e in (0, 1, -1, math.nan, "x")),
    *((sw.Schedule, {"factor": f, "exponent": 0.5}, str(f)) for f in (0, -1, math.nan, "x")),
    *((sw.Schedule, {"factor": 1, "exponent": e}, str(e)) for e in (0, 1, 2, math.nan, "x")),
    *(
        (sw.Fixed, {"mix": m}, "")
        for m in ("all", None, 3, {}, {"a": 0}, {"a": -1, "b": 2}, {"a": math.nan}, {"a": "x"})
    ),
]


@pytest.mark.parametrize(("kind", "options", "named"), BAD)
def test_bad_options_are_refused_and_the_value_is_named(kind: Any, options: dict[str, Any], named: str) -> None:
    with pytest.raises(sw.AllocationError) as caught:
        kind(**options)
    assert named in str(caught.value)


def test_fixed_mixes() -> None:
    assert sw.Fixed().kappa(STUDY) == pytest.approx([1 / 3] * 3)
    assert sw.Fixed("collect-all").kappa(STUDY) == pytest.approx([0, 0, 1])
    assert sw.Fixed({"survey": 3, "registry": 1}).kappa(STUDY) == pytest.approx([0.25, 0.75, 0])
    with pytest.raises(sw.AllocationError, match="office"):
        sw.Fixed({"office": 1.0}).kappa(STUDY)
    parts = sw.Study(["y - m", "w - k"], "m", {"a": sw.Source("y"), "b": sw.Source("w")})
    with pytest.raises(sw.AllocationError, match="no source observes every variable"):
        sw.Fixed("collect-all").kappa(parts)


def test_numbers_of_numpy_are_numbers() -> None:
    assert sw.ETG(np.float64(0.5)).marks(10) == sw.ETG(0.5).marks(10)
    assert sw.ETG(np.int64(1)).marks(10) == (1.0,)  # type: ignore[arg-type]
    assert sw.ETG(np.array([0.5, 1.0])).marks(10) == (0.5, 1.0)  # type: ignore[arg-type]


POLICIES: list[Policy] = [
    sw.Fixed(),
    sw.Fixed({"registry": 1, "survey": 2}),
    sw.ETC(0.3),
    sw.ETG(0.13),
    sw.ETG([0.2, 0.25, 0.9, 1.0]),
    sw.ETG(0.13, per="rows"),
    sw.ETG([0.2, 0.25, 0.9, 1.0], per="rows"),
]


@pytest.mark.parametrize("policy", POLICIES, ids=str)
def test_many_campaigns_at_once_are_as_one_by_one(policy: Policy) -> None:
    random = np.random.default_rng(4)
    costs, capacity = np.array([0.7, 2.0, 3.1]), np.array([np.inf, 60.0, np.inf])
    rows = np.floor(random.uniform(0, 40, size=(3, 50))) * (random.random((1, 50)) < 0.9)
    budget = random.uniform(1.0, 1.5, 50) * np.maximum(costs @ rows * random.uniform(1.0, 4.0, 50), 20.0)
    spent = costs @ rows * random.choice([1.0, 0.8, 1.1], 50)
    kappa = random.dirichlet(np.ones(3), 50).T
    together = Position(rows, spent, budget, costs, capacity)
    step = policy.next_round(together)
    wanted = desired_rows(policy, together, step, kappa)
    for b in range(50):
        one = Position(rows[:, [b]], spent[[b]], budget[[b]], costs, capacity)
        alone = policy.next_round(one)
        assert alone.money[0] == pytest.approx(step.money[b], rel=1e-12)
        assert alone.rows[0] == pytest.approx(step.rows[b], nan_ok=True)
        assert alone.explores[0] == step.explores[b]
        rows_alone = desired_rows(policy, one, alone, kappa[:, [b]])[:, 0]
        assert rows_alone == pytest.approx(wanted[:, b], rel=1e-7, abs=1e-7)


def test_rounds_by_budget_end_at_the_marks() -> None:
    policy = sw.ETG(0.25)
    cases = [
        ([0, 0], 25.0, True),
        ([10, 5], 5.0, True),  # five rows fewer than asked for: the first round goes on
        ([15, 5], 25.0, False),
        ([16, 5], 24.0, False),
        ([45, 5], 20.0, False),  # more was spent than the second mark allows: the third is a short one
        ([60, 20], 0.0, False),
    ]
    for rows, money, explores in cases:
        step = policy.next_round(position(rows, 100.0, [1.0, 2.0]))
        assert (step.money[0], bool(step.explores[0])) == (money, explores)
        assert math.isnan(step.rows[0])


def test_money_that_buys_no_row_makes_no_round() -> None:
    step = sw.ETG(0.25).next_round(position([8, 8], 100.0, [1.5, 1.5]))  # 24 spent, the mark is at 25
    assert step.money[0] == pytest.approx(26.0)
    assert not step.explores[0]
    tiny = sw.ETG(0.1).next_round(position([0, 0], 10.0, [4.0, 5.0]))
    assert tiny.money[0] == pytest.approx(4.0)
    assert tiny.explores[0], "the marks before it bought nothing to learn from"


def test_money_spent_beyond_the_prices_is_gone() -> None:
    step = sw.ETG(0.5).next_round(position([10, 10], 100.0, [1.0, 1.0], spent=70.0))
    assert step.money[0] == pytest.approx(30.0)
    over = position([10, 10], 100.0, [1.0, 1.0], spent=130.0)
    assert over.left[0] == 0.0
    assert sw.ETG(0.5).next_round(over).money[0] == 0.0
    assert sw.Fixed().next_round(over).money[0] == 0.0


def test_rounds_by_rows() -> None:
    """B s/c_max rows each: with B = 100, the highest price 4 and s = 0.2 that is 5."""
    policy, costs = sw.ETG(0.2, per="rows"), [1.0, 4.0]
    for rows, asked, explores in (
        ([0, 0], 5, True),
        ([2, 1], 2, True),  # a shortfall: the first round goes on
        ([3, 2], 5, False),
        ([4, 2], 4, False),  # one more than asked for
        ([17, 8], 5, False),  # the 25 rows of the horizon are had and money is left, as the cheap source was used
        ([30, 8], 5, False),
    ):
        step = policy.next_round(position(rows, 100.0, costs))
        assert (step.rows[0], bool(step.explores[0])) == (asked, explores)
        assert step.money[0] == pytest.approx(100.0 - np.dot(rows, costs))


def test_rows_of_a_round_are_rounded_down() -> None:
    policy = sw.ETG([0.3, 0.75, 1.0], per="rows")
    had, counts = 0, []
    for _ in range(3):
        counts.append(int(policy.next_round(position([had, 0], 26.0, [1.0, 2.5])).rows[0]))
        had += counts[-1]
    assert counts == [3, 4, 3]  # ends at ⌊3⌋, ⌊7.5⌋ and 10 of the ⌊26/2.5⌋ rows


def test_equal_prices_make_rounds_of_rows_and_of_money_the_same() -> None:
    for rows in ([0, 0], [5, 5], [10, 15]):
        at = position(rows, 50.0, [1.0, 1.0])
        by_rows, by_money = (sw.ETG(0.2, per=per).next_round(at) for per in ("rows", "budget"))
        assert by_rows.rows[0] == pytest.approx(by_money.money[0], rel=1e-12)


def test_a_dear_last_round_by_rows_keeps_to_the_money() -> None:
    policy = sw.ETG(0.5, per="rows")
    at = position([11, 8], 50.0, [1.0, 4.0])  # 7 left; the round would be 6 rows
    step = policy.next_round(at)
    wanted = desired_rows(policy, at, step, np.array([[0.0], [1.0]]))
    assert at.costs @ wanted == pytest.approx(7.0)


def test_the_cheapest_row_that_can_still_be_had() -> None:
    at = position([[5, 4, 5], [1, 1, 9]], 100.0, [1.0, 3.0], capacity=[5, 9])
    assert at.cheapest.tolist() == [3.0, 1.0, math.inf]
    assert at.room.tolist() == [[0, 1, 0], [8, 8, 0]]
    assert position([7, 0], 100.0, [1.0, 3.0], capacity=[5, 9]).room[:, 0].tolist() == [0, 9], "more than promised"
    assert sw.ETG(0.1).next_round(position([5, 9], 100.0, [1.0, 3.0], capacity=[5, 9])).money[0] <= 68.0


def test_a_policy_is_pure() -> None:
    policy, at = sw.ETG(0.2), position([3, 4], 50.0, [1.0, 2.0])
    first, again = policy.next_round(at), policy.next_round(at)
    assert first.money.tobytes() == again.money.tobytes()
    assert at.rows[:, 0].tolist() == [3, 4]


def test_exploration_may_begin_with_another_mix() -> None:
    study = sw.Study(
        ["x*(y - b*x)"],
        "b",
        {"cheap": sw.Source("x y"), "full": sw.Source("x y z", cost=2.0)},
    )
    assert sw.ETG(0.2, first="collect-all").exploring(study).tolist() == [0.0, 1.0]
    assert sw.ETC(0.2, first={"cheap": 3.0, "full": 1.0}).exploring(study).tolist() == [0.75, 0.25]
    order = sw.next_order(study, sw.ETG(0.2, first="collect-all"), budget=100, rows={})
    assert order is not None
    assert order.rows == {"cheap": 0, "full": 10}
    assert "mix that the policy begins with" in order.reason


def test_what_is_no_mix_is_refused() -> None:
    with pytest.raises(sw.AllocationError, match="collect-all"):
        sw.ETG(0.2, first="most")  # type: ignore[arg-type]
