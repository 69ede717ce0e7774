"""Figures of simulations: every row is in them, and a value without a place on the axis is seen and named."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from plots.specs import HOSTILE, as_json_has_it, drawn, encodings_in, marks_in, notes_on, rows_in
from sourcewise.errors import ReportError
from sourcewise.plots import coverage, mix_spread, regret_curves, tails
from sourcewise.plots.curves import CROSS
from sourcewise.plots.table import printable

numbers = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf, -math.inf, None]))
names = st.one_of(st.text(max_size=8), st.just(HOSTILE))
budgets = st.floats(1, 1e6)


def table(policies: int, budgets: int) -> list[dict[str, Any]]:
    return [
        {
            "policy": f"policy {k}",
            "budget": 100.0 * (j + 1),
            "regret": 5.0 * k - j,
            "low": 5.0 * k - j - 1,
            "high": 9.0 * k,
        }
        for k in range(policies)
        for j in range(budgets)
    ]


def expected(rows: list[dict[str, Any]], text: str, *columns: str) -> Counter[tuple[Any, ...]]:
    """What the chart must hold: the printable name and the numbers as JSON has them."""
    values = [[math.nan if row[name] is None else row[name] for name in columns] for row in rows]
    return Counter((printable(row[text]), *map(as_json_has_it, cells)) for row, cells in zip(rows, values, strict=True))


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries({"policy": names, "budget": budgets, "regret": numbers, "low": numbers, "high": numbers}),
        min_size=1,
        max_size=12,
    )
)
def test_every_row_is_in_a_regret_curve(rows: list[dict[str, Any]]) -> None:
    chart = regret_curves(rows)
    columns = ("budget", "regret", "low", "high")
    assert Counter(rows_in(chart, "policy", *columns)) == expected(rows, "policy", *columns)


@settings(max_examples=15, deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries(
            {"policy": names, "source": st.sampled_from("ab"), "budget": budgets}
            | {"share": numbers, "low": numbers, "high": numbers}
        ),
        min_size=1,
        max_size=12,
    )
)
def test_every_row_is_in_a_figure_of_mixes(rows: list[dict[str, Any]]) -> None:
    chart = mix_spread(rows, {"a": 0.25, "b": 0.75})
    columns = ("budget", "share", "low", "high")
    assert Counter(rows_in(chart, "policy", *columns)) == expected(rows, "policy", *columns)


def test_what_has_no_place_is_crossed_and_named() -> None:
    rows = table(2, 3)
    rows[0]["regret"], rows[1]["regret"], rows[5]["regret"] = math.nan, math.inf, 1000.0
    chart = regret_curves(rows, ceiling=50)
    symbols = [item.get("shape") for item in drawn(chart, "symbol")]
    assert symbols.count(CROSS) == 3
    assert len(symbols) == 6
    for words in ("policy 0 at 100 (missing)", "policy 0 at 200 (infinite)", "policy 1 at 300 (1,000)"):
        assert words in notes_on(chart)


def test_a_bar_without_an_end_reaches_the_edge() -> None:
    rows = table(1, 2)
    rows[0]["high"] = math.inf
    (low, high), _ = rows_in(regret_curves(rows), "bar_low", "bar_high")
    assert low == rows[0]["low"]
    assert high == max(encodings_in(regret_curves(rows), "y")[-2]["scale"]["domain"])


def test_a_regret_curve_has_bars_lines_points_and_the_oracle() -> None:
    chart = regret_curves(table(3, 4))
    assert marks_in(chart) == ["rule", "text", "rule", "line", "point", "point"]
    assert rows_in(chart, "level", "text") == [(0.0, "oracle")]
    domain = encodings_in(chart, "color")[0]["scale"]["domain"]
    assert domain == ["policy 0", "policy 1", "policy 2"]
    low, high = next(y["scale"]["domain"] for y in encodings_in(chart, "y") if "scale" in y)
    assert low < -3
    assert high > 18
    assert {y.get("title") for y in encodings_in(chart, "y") if "axis" in y} == {None}
    assert any(y["axis"]["title"] == "Relative regret (%)" for y in encodings_in(chart, "y") if y.get("axis"))


def test_twelve_policies_differ_in_colour_or_shape() -> None:
    chart = regret_curves(table(12, 2))
    colours = encodings_in(chart, "color")[0]["scale"]["range"]
    shapes = encodings_in(chart, "shape")[0]["scale"]["range"]
    assert len(set(zip(colours, shapes, strict=True))) == 12


def test_bars_at_one_budget_stand_beside_each_other_and_close_to_it() -> None:
    at = [place for budget, place in rows_in(regret_curves(table(5, 4)), "budget", "budget_shown") if budget == 200]
    assert len(set(at)) == 5
    assert max(abs(place - 200) for place in at) < 15


def test_one_budget_one_policy_and_no_rows() -> None:
    for rows in (table(1, 1), table(3, 1), []):
        assert regret_curves(rows).to_dict()["title"]["text"] == ["Relative regret by budget"]


def test_columns_arrays_and_rows_give_the_same_chart() -> None:
    rows = table(2, 2)
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    arrays = {name: np.array(values) for name, values in columns.items()}
    assert regret_curves(rows).to_dict() == regret_curves(columns).to_dict() == regret_curves(arrays).to_dict()


def test_coverage_has_the_binomial_error_that_scipy_gives() -> None:
    chart = coverage({"policy": ["a", "a"], "budget": [1, 2], "coverage": [0.94, 1.0], "runs": [200, 50]})
    for (low, high), (hits, runs) in zip(rows_in(chart, "low", "high"), ((188, 200), (50, 50)), strict=True):
        wilson = binomtest(hits, runs).proportion_ci(0.95, method="wilson")
        # Wilson's formula in double precision: a few units in the last of its hundred percent.
        assert (low, high) == pytest.approx((100 * wilson.low, 100 * wilson.high), abs=1e-10)
    assert rows_in(chart, "level", "text") == [(95.0, "95 %")]


def test_coverage_without_runs_is_crossed() -> None:
    chart = coverage({"policy": ["a"], "budget": [1], "coverage": [0.9], "runs": [0]})
    assert [item.get("shape") for item in drawn(chart, "symbol")] == [CROSS]


def test_tails_show_both_numbers_on_their_own_axes() -> None:
    rows = [{"policy": "a", "budget": b, "median": 5.0, "p99": 100.0 * b} for b in (1, 2)]
    chart = tails(rows)
    titles = [y["axis"]["title"] for y in encodings_in(chart, "y") if y.get("axis")]
    assert set(titles) == {"99th percentile", "Median"}
    assert len(rows_in(chart, "median", "p99")) in (2, 4)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"policy": ["a"]}, "needs the column 'budget'"),
        ([{"policy": "a", "budget": 1}], "needs the column 'regret'"),
        ({"policy": ["a"], "budget": [1, 2], "regret": [1], "low": [1], "high": [1]}, "equally long"),
        (
            {"policy": ["a"], "budget": ["1"], "regret": [1], "low": [1], "high": [1]},
            "'budget' of a chart holds numbers",
        ),
        ([1], "a list of dicts"),
    ],
)
def test_a_wrong_table_is_refused_with_the_reason(data: Any, words: str) -> None:
    with pytest.raises(ReportError, match=words):
        regret_curves(data)


def test_a_source_without_a_best_share_is_refused() -> None:
    rows = {"policy": ["a"], "source": ["s"], "budget": [1], "share": [0.5], "low": [0.4], "high": [0.6]}
    with pytest.raises(ReportError, match="no share for the source 's'"):
        mix_spread(rows, {"t": 1.0})


def test_a_bar_that_leaves_the_figure_does_not_squeeze_it() -> None:
    """One run of heavy tails can have an interval of any length: neither end of it may set the axis."""
    wild = {"policy": "wild", "budget": 300.0, "regret": 308.0, "low": -226.0, "high": 843.0}
    wide = {"policy": "wide", "budget": 300.0, "regret": 10.0, "low": -500.0, "high": 500.0}
    calm = {"policy": "calm", "budget": 300.0, "regret": 5.0, "low": 2.0, "high": 8.0}
    assert 2.0 < _top(regret_curves([wild, calm], ceiling=60.0)) < 20.0
    low, high = _axis(regret_curves([wild, wide, calm], ceiling=60.0))
    assert (low, high) == (-60.0, 60.0)


def _axis(chart: Any) -> tuple[float, float]:
    found = {tuple(y["scale"]["domain"]) for y in encodings_in(chart, "y") if "scale" in y}
    assert len(found) == 1
    low, high = found.pop()
    return low, high


def _top(chart: Any) -> float:
    low, high = _axis(chart)
    assert low > -20.0
    return high
