"""Figures of campaigns and plans: every row is in them, and what is unknown or endless is seen and said."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plots.specs import HOSTILE, drawn, encodings_in, marks_in, notes_on, rows_in
from sourcewise.plots import (
    estimates_by_round,
    mix_over_time,
    policy_outcomes,
    source_worth,
    stderr_by_budget,
    width_by_money,
)
from sourcewise.plots.curves import CROSS

numbers = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf, -math.inf, None]))
LOOK = ("estimate", "low", "high", "anytime_low", "anytime_high")


def finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


shares = st.fixed_dictionaries(
    {"source": st.sampled_from("ab"), "round": st.integers(1, 20), "share": numbers, "best": numbers}
)
estimates = st.fixed_dictionaries({"round": st.integers(1, 20), **dict.fromkeys(LOOK, numbers)})


@settings(max_examples=20, deadline=None)
@given(st.lists(shares, min_size=1, max_size=8))
def test_every_share_is_in_a_figure_of_the_mix(rows: list[dict[str, Any]]) -> None:
    found = Counter(
        (s, r, kind, p) for s, r, kind, p in rows_in(mix_over_time(rows), "source", "round", "kind", "percent")
    )
    for row in rows:
        for kind, column in (("collected so far", "share"), ("estimated best", "best")):
            value = finite(row[column])
            found.subtract([(row["source"], row["round"], kind, None if value is None else 100 * value)])
    assert not +found
    assert not -found


@settings(max_examples=20, deadline=None)
@given(st.lists(estimates, min_size=1, max_size=8))
def test_every_estimate_is_in_a_figure_of_estimates(rows: list[dict[str, Any]]) -> None:
    found = rows_in(estimates_by_round(rows), "round", *LOOK)
    assert Counter(found) == Counter((row["round"], *(finite(row[name]) for name in LOOK)) for row in rows)


def looks(count: int) -> list[dict[str, Any]]:
    return [
        dict(zip(("round", *LOOK), (k, 1.0, 1 - 1 / k, 1 + 1 / k, 1 - 2 / k, 1 + 2 / k), strict=True))
        for k in range(1, count + 1)
    ]


def test_an_interval_without_an_end_reaches_the_edges() -> None:
    rows = looks(3)
    rows[0].update(low=-math.inf, high=math.inf, anytime_low=None, anytime_high=None)
    chart = estimates_by_round(rows)
    low, high = next(y["scale"]["domain"] for y in encodings_in(chart, "y") if "scale" in y)
    ends = rows_in(chart, "low_shown", "high_shown")
    assert ends[0] == (low, high)
    assert all(low <= bottom < top <= high for bottom, top in ends)
    assert len(drawn(chart, "rule")) == 5


def test_a_wild_first_round_does_not_flatten_the_others() -> None:
    rows = looks(10)
    rows[0].update(estimate=1e6, high=2e6, anytime_high=3e6)
    chart = estimates_by_round(rows)
    low, high = next(y["scale"]["domain"] for y in encodings_in(chart, "y") if "scale" in y)
    assert high - low < 10
    assert "round 1 (1e+06)" in notes_on(chart)
    assert [item.get("shape") for item in drawn(chart, "symbol")].count(CROSS) == 1


@pytest.mark.parametrize(
    ("first", "last", "ticks"),
    [(1, 3, [1, 2, 3]), (1, 20, list(range(2, 21, 2))), (0, 1000, list(range(0, 1001, 100)))],
)
def test_rounds_are_whole_and_few(first: int, last: int, ticks: list[int]) -> None:
    rows = [{**look, "round": number} for look, number in zip(looks(2), (first, last), strict=True)]
    assert encodings_in(estimates_by_round(rows), "x")[0]["axis"]["values"] == ticks


def test_rounds_without_a_best_mix_are_said() -> None:
    rows = [{"source": s, "round": r, "share": 0.5, "best": None if r < 3 else 0.4} for s in "ab" for r in range(1, 5)]
    chart = mix_over_time(rows)
    assert "Not known (estimated best) in round 1, 2." in notes_on(chart)
    assert marks_in(chart) == ["line", "point", "line", "point"]
    assert len(drawn(chart, "symbol")) == 12


def test_a_width_that_is_endless_is_crossed_and_the_target_is_a_line() -> None:
    rows = [
        {"series": s, "spent": m, "width": math.inf if m == 1 else 2 / m} for s in ("ours", "equal") for m in (1, 2, 3)
    ]
    chart = width_by_money(rows, target=0.1)
    assert rows_in(chart, "level", "text") == [(0.1, "target")]
    assert "ours at 1 (infinite), equal at 1 (infinite)" in notes_on(chart)
    assert [item.get("shape") for item in drawn(chart, "symbol")].count(CROSS) == 2
    assert len(rows_in(chart, "series", "spent", "width")) == 6


def test_a_mix_that_never_identifies_the_target_is_named_once() -> None:
    rows = [
        {"mix": m, "budget": b, "stderr": v / b} for m, v in (("best", 1.0), (HOSTILE, math.inf)) for b in (1, 2, 3)
    ]
    chart = stderr_by_budget(rows, target=0.2)
    assert "everywhere (infinite)" in notes_on(chart)
    assert "at 1" not in notes_on(chart)
    assert len(rows_in(chart, "mix", "budget", "stderr")) == 6


def test_what_a_source_is_worth_is_said_beside_its_bar() -> None:
    chart = source_worth({"source": ["a", "b", "c"], "extra": [0.25, math.inf, math.nan]})
    assert [words for (words,) in rows_in(chart, "words")] == [
        "+25.0%",
        "× the target is not identified without it",
        "× not known",
    ]
    assert marks_in(chart) == ["bar", "text"]


def test_policies_stand_in_their_order_with_intervals() -> None:
    chart = policy_outcomes(
        {"policy": ["z", "a", "x"], "value": [1, 2, math.nan], "low": [0, 1, 0], "high": [2, 3, math.inf]}
    )
    assert encodings_in(chart, "y")[0]["sort"] == ["z", "a", "x"]
    assert "x (missing)" in notes_on(chart)
    shapes = [item.get("shape") for item in drawn(chart, "symbol")]
    assert shapes.count(CROSS) == 1
    assert len(shapes) == 3


@pytest.mark.parametrize(
    "draw", [mix_over_time, width_by_money, estimates_by_round, stderr_by_budget, source_worth, policy_outcomes]
)
def test_nothing_is_shown_as_nothing(draw: Any) -> None:
    assert rows_in(draw([]), "text") == [("Nothing to show yet",)]


def test_six_thousand_rounds_are_drawn_without_a_point_for_each() -> None:
    rows = [{"series": "ours", "spent": float(k), "width": 1 / (k + 1)} for k in range(6000)]
    chart = width_by_money(rows)
    assert len(rows_in(chart, "spent")) == 6000
    assert marks_in(chart) == ["line", "point"]
    assert drawn(chart, "symbol") == []
