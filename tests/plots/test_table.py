"""Columns into rows, texts into lines, and words for what cannot be drawn."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from html import escape
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sourcewise.plots.curves import spread_out
from sourcewise.plots.table import domain_of, marked, note_on, printable, rows_of, strict

anything = st.text(st.characters(codec=None, categories=None), max_size=40)


@given(anything)
def test_any_text_becomes_one_line_that_xml_and_json_hold(text: str) -> None:
    line = printable(text)
    assert ElementTree.fromstring(f"<a>{escape(line)}</a>").text == (line or None)
    assert json.loads(json.dumps(line, ensure_ascii=False)) == line
    assert len(line.splitlines()) <= 1
    assert printable(line) == line


@pytest.mark.parametrize("text", ["Überprüfung α²", "می‌خواهم", "हिन्दी", "日本語", "👩‍🔬"])
def test_words_of_any_language_stay_as_they_are(text: str) -> None:
    assert printable(text) == text


@pytest.mark.parametrize(
    ("text", "line"), [("a\nb", "a b"), ("a\u202eb", "a\ufffdb"), ("a\0b", "a\ufffdb"), ("\ud800", "?")]
)
def test_what_would_break_a_line_is_replaced(text: str, line: str) -> None:
    assert printable(text) == line


@pytest.mark.parametrize("number", [1, 2.5, np.float32(2.5), np.int64(3), Fraction(1, 4), True])
def test_every_kind_of_number_is_taken(number: Any) -> None:
    assert rows_of({"n": [number]}, [], ["n"]) == [{"n": float(number)}]


def test_unknown_numbers_are_null_in_the_data_and_named_in_the_note() -> None:
    rows = marked(
        rows_of({"p": list("abcdef"), "n": [None, math.nan, math.inf, -math.inf, 1e9, 1]}, ["p"], ["n"]), "n", (0, 10)
    )
    assert [row["state"] for row in rows] == ["missing", "missing", "infinite", "infinite", "beyond the axis", "shown"]
    assert [row["n"] for row in strict(rows)] == [None, None, None, None, 1e9, 1.0]
    assert note_on(rows, ["p"], "n") == [
        "× off the axis: a (missing), b (missing), c (infinite), d (infinite) and 1 more."
    ]
    assert note_on(rows[-1:], ["p"], "n") == []


@given(st.lists(st.one_of(st.floats(-1e9, 1e9), st.sampled_from([math.nan, math.inf])), max_size=8))
def test_an_axis_holds_what_it_shows(values: list[float]) -> None:
    low, high = domain_of(values, around=[0.0])
    assert low < high
    assert all(low <= value <= high for value in values if math.isfinite(value))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(1, 1e6)), min_size=1, max_size=10))
def test_points_that_are_spread_stay_nearer_to_their_place_than_to_the_next(points: list[tuple[str, float]]) -> None:
    rows = [{"p": name, "x": place} for name, place in points]
    moved = spread_out(rows, "x", "p", "at")
    places = sorted({place for _, place in points})
    for row in moved:
        others = [abs(place - row["x"]) for place in places if place != row["x"]]
        assert not others or abs(row["at"] - row["x"]) <= 0.5 * min(others)
