"""Tables that are exported open in a spreadsheet as what they are: no text of a user is taken for a formula."""

from __future__ import annotations

import csv
import io

import pytest

from sourcewise.spreadsheet import to_csv


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http://x";"y")'])
def test_text_that_looks_like_a_formula_is_quoted(text: str) -> None:
    (row,) = list(csv.reader(io.StringIO(to_csv(["a"], [[text]]), newline="")))[1:]
    assert row == ["'" + text.replace("\r", "\n")]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(-1.5, "-1.5"), (7, "7"), (None, ""), ('a,b\n"c"', 'a,b\n"c"'), ("a=b", "a=b"), ("a\r=1", "a\n=1")],
)
def test_numbers_and_other_texts_stay(value: object, shown: str) -> None:
    (row,) = list(csv.reader(io.StringIO(to_csv(["a", "b"], [[value, 1]]), newline="")))[1:]
    assert row == [shown, "1"]
