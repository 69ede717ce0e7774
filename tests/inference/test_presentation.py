"""The summary as text, as HTML and as plain data."""

from __future__ import annotations

import json
import math
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest

import sourcewise as sw
from estimation.problems import PROBLEMS

WIDTH = 88


def random_study(seed: int) -> sw.Fit:
    """A fit with something of everything: an unidentified parameter, a bound, dropped rows, a dropped moment."""
    random = np.random.default_rng(seed)
    x = random.normal(size=40) * 10.0 ** random.integers(-6, 7)
    y = 1e-7 * x + random.normal(size=40)
    y[:3] = np.nan
    study = sw.Study(
        ["y - a - b*x", "x*(y - a - b*x)", "x - m", "2*x - 2*m", "x**2 - s - t", "y - c"],
        "a + m/b",
        {"a rather long name of a source": sw.Source("x y", cost=12345.678), "other": sw.Source("x")},
        {"c": sw.Parameter(lower=50.0)},
    )
    other = {"x": x + 1}
    return sw.fit(study, {"a rather long name of a source": {"x": x, "y": y}, "other": other}, missing="drop")


FITS = {
    **{name: sw.fit(problem.study, problem.data) for name, problem in PROBLEMS.items()},
    **{f"everything {seed}": random_study(seed) for seed in range(3)},
    "pooled": sw.fit(PROBLEMS["linear"].study, PROBLEMS["linear"].data, stacking="pooled", weights="cue"),
}
each_fit = pytest.mark.parametrize("fit", FITS.values(), ids=FITS)


@each_fit
def test_no_line_is_wider_than_the_table(fit: sw.Fit) -> None:
    assert max(map(len, fit.summary().splitlines())) <= WIDTH


@each_fit
def test_the_summary_holds_the_target_the_sources_and_the_advice(fit: sw.Fit) -> None:
    text = fit.summary()
    assert fit.study.target in text
    for name in (*fit.rows, *fit.parameters):
        assert name in text
    words = " ".join(text.replace("\n* ", "\n").split())
    for line in fit.advice:
        assert " ".join(line.split()) in words
    assert f"{sum(fit.rows.values()):,}" in text
    assert all(not line.endswith(" ") for line in text.splitlines())


@each_fit
def test_columns_of_numbers_end_in_the_same_place(fit: sw.Fit) -> None:
    lines = fit.summary().splitlines()
    head = next(k for k, line in enumerate(lines) if "Std. Err." in line)
    end = next(k for k in range(head + 2, len(lines)) if set(lines[k]) == {"="})
    known = [line for line in lines[head + 2 : end] if "not identified" not in line]
    stop = lines[head].index("Estimate") + len("Estimate")
    for line in known:
        assert line[stop - 1] != " "
        assert line[stop : stop + 1] in ("", " ")


class Strict(HTMLParser):
    """Refuses what a browser would have to guess."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.cells: list[int] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        if tag == "tr":
            self.cells.append(0)
        if tag in ("td", "th"):
            self.cells[-1] += 1

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        assert self.open
        self.text.append(data)


def parsed(html: str) -> Strict:
    parser = Strict()
    parser.feed(html)
    parser.close()
    assert not parser.open
    return parser


@each_fit
def test_html_is_well_formed(fit: sw.Fit) -> None:
    found = parsed(fit._repr_html_())
    assert any(fit.study.target in text for text in found.text)
    for line in fit.advice:
        assert line in found.text


def test_html_escapes_what_users_name() -> None:
    name = "<script>alert('x')</script> & co"
    study = sw.Study(["(x > 0)*(x - mu)"], "mu", {name: sw.Source("x")})
    fit = sw.fit(study, {name: {"x": np.arange(1.0, 9.0)}})
    html = fit._repr_html_()
    assert "<script" not in html
    assert name in parsed(html).text
    assert name in fit.summary()


@each_fit
def test_plain_data_survives_json(fit: sw.Fit) -> None:
    """No NaN, no infinity, no NumPy scalar: JSON knows none of them."""
    content = json.loads(json.dumps(fit.to_dict(), allow_nan=False))
    target = fit.target
    assert content["target"]["expression"] == fit.study.target
    assert content["target"]["value"] == target.value
    assert content["target"]["stderr"] == (target.stderr if math.isfinite(target.stderr) else None)
    for name, estimate in fit.parameters.items():
        assert content["parameters"][name]["value"] == estimate.value
        if not estimate.identified:
            assert content["parameters"][name]["stderr"] is None
            assert content["parameters"][name]["lower95"] is None
    assert content["rows"] == fit.rows
    assert content["advice"] == list(fit.advice)
    assert content["converged"] is True
    assert len(content["covariance"]) == len(fit.parameters)


def test_the_short_form_says_the_essentials() -> None:
    fit = FITS["linear"]
    low, high = fit.target.interval()
    assert repr(fit) == f"Fit(b = {fit.target.value:.6g}, 95% [{low:.6g}, {high:.6g}], converged)"


def test_cost_is_rows_at_their_price() -> None:
    study = sw.Study(["x - mu"], "mu", {"cheap": sw.Source("x", cost=0.5), "dear": sw.Source("x", cost=40)})
    data: dict[str, Any] = {"cheap": {"x": np.arange(10.0)}, "dear": {"x": np.arange(3.0)}}
    fit = sw.fit(study, data)
    assert fit.cost == 5 + 120
    assert fit.rows == {"cheap": 10, "dear": 3}


def test_advice_is_silent_where_nothing_is_wrong() -> None:
    assert all(not FITS[name].advice for name in PROBLEMS)
    said = " ".join(FITS["everything 0"].advice)
    for word in ("Not identified", "bound 50", "were left out", "depend on the others"):
        assert word in said
