"""Maps of the variance: bands that cover the triangle exactly, and mixes without an answer marked as such."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plots.specs import HOSTILE, drawn, notes_on, rows_in
from sourcewise.errors import ReportError
from sourcewise.plots import simplex_grid, variance_line, variance_ternary
from sourcewise.plots.curves import CROSS
from sourcewise.plots.ternary import TOP, Point, bands, on_paper

LEVELS = [0.2, 0.5, 0.7]


def area(piece: list[Point]) -> float:
    following = [*piece[1:], piece[0]]
    return abs(math.fsum(x * v - u * y for (x, y), (u, v) in zip(piece, following, strict=True))) / 2


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 5), st.data())
def test_bands_cover_the_triangle_once(steps: int, data: st.DataObject) -> None:
    places = [(i, j) for i in range(steps + 1) for j in range(steps + 1 - i)]
    levels = st.one_of(st.floats(0, 1), st.sampled_from(LEVELS))
    values = {place: data.draw(levels) for place in places}
    found = bands(values, steps, LEVELS)
    flat = [triangle for triangle in found if triangle]
    assert len(found) == len(LEVELS) + 1
    total = math.fsum(area(piece) for band in flat for piece in band)
    # A triangle that lies in a level exactly belongs to the band above and below it.
    doubled = sum(
        values[i, j] == values[k, m] == values[n, o]
        for (i, j), (k, m), (n, o) in _small(steps)
        if values[i, j] in LEVELS
    )
    assert total == pytest.approx(TOP / 2 * (1 + doubled / steps**2), abs=1e-9)  # fmt: skip


def _small(steps: int) -> list[tuple[tuple[int, int], tuple[int, int], tuple[int, int]]]:
    upward = [((i, j), (i + 1, j), (i, j + 1)) for i in range(steps) for j in range(steps - i)]
    downward = [((i + 1, j), (i + 1, j + 1), (i, j + 1)) for i in range(steps) for j in range(steps - i - 1)]
    return upward + downward


def test_a_band_holds_what_lies_between_its_levels() -> None:
    steps = 8
    plane = {(i, j): i / steps for i in range(steps + 1) for j in range(steps + 1 - i)}  # the share of the right corner
    found = bands(plane, steps, LEVELS)
    for band, (low, high) in zip(found, ((0, 0.2), (0.2, 0.5), (0.5, 0.7), (0.7, 1)), strict=True):
        # Right shares between low and high make a strip whose part of the triangle is known.
        assert math.fsum(map(area, band)) == pytest.approx(TOP / 2 * ((1 - low) ** 2 - (1 - high) ** 2), abs=1e-12)


def test_the_grid_holds_every_mix_once() -> None:
    grid = simplex_grid(10)
    assert len(grid) == len(set(grid)) == 66
    assert all(math.fsum(mix) == pytest.approx(1) for mix in grid)
    assert on_paper((0, 0, 1)) == (0.5, TOP)


def ihdp_like(steps: int) -> list[dict[str, float]]:
    """Without the third source the target is not identified."""
    return [
        {"a": a, "b": b, "c": c, "variance": math.inf if c == 0 else 1 / c + 2 / (0.1 + a)}
        for a, b, c in simplex_grid(steps)
    ]


def test_mixes_that_identify_nothing_are_crossed_and_counted() -> None:
    rows = ihdp_like(10)
    chart = variance_ternary(rows, ["a", "b", "c"], [0.6, 0.0, 0.4], marks={"equal": [1, 1, 1]})
    shapes = [item.get("shape") for item in drawn(chart, "symbol")]
    assert shapes.count(CROSS) == 11
    assert "11 mixes that do not identify" in notes_on(chart)
    assert "60.0% a, 0.0% b, 40.0% c" in notes_on(chart)
    given_rows = sorted((row["a"], row["b"], row["c"]) for row in rows)
    assert sorted(rows_in(chart, "share1", "share2", "share3", "variance"))[0][:3] == given_rows[0]
    assert len(rows_in(chart, "share1", "variance")) == len(rows)
    assert {text for (text,) in rows_in(chart, "text")} >= {"a", "b", "c", "best", "equal", "25%", "50%", "75%"}


def test_all_mixes_without_an_answer_still_give_a_chart() -> None:
    rows = [{**row, "variance": math.nan} for row in ihdp_like(4)]
    chart = variance_ternary(rows, ["a", "b", "c"], [1, 0, 0])
    assert "15 mixes" in notes_on(chart)


def test_an_incomplete_grid_and_two_sources_are_refused() -> None:
    with pytest.raises(ReportError, match="no such grid"):
        variance_ternary(ihdp_like(4)[:-1], ["a", "b", "c"], [1, 0, 0])
    with pytest.raises(ReportError, match="three sources, not of 2"):
        variance_ternary(ihdp_like(4), ["a", "b"], [1, 0])
    with pytest.raises(ReportError, match="at least 0"):
        variance_ternary([{"a": -1, "b": 1, "c": 1, "variance": 1}], ["a", "b", "c"], [1, 0, 0])


def test_a_line_of_mixes_ends_at_its_ceiling_and_marks_the_best() -> None:
    shares = [k / 20 for k in range(21)]
    variance = [2 / s + 6 / (1 - s) if 0 < s < 1 else math.inf for s in shares]
    chart = variance_line({"share": shares, "variance": variance}, 0.366, source=HOSTILE, marks={"equal": 0.5})
    assert [share for share, _ in rows_in(chart, "share", "variance")] == shares
    assert ("best 36.6%",) in rows_in(chart, "text")
    assert "0 (infinite), 1 (infinite)" in notes_on(chart)
    assert [item.get("shape") for item in drawn(chart, "symbol")] == [CROSS, CROSS]
