"""Statistics add up like the rows they stand for, travel without losing a bit, and refuse what does not belong."""

from __future__ import annotations

import copy
import json
import math
import operator
import pickle
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sourcewise as sw
from sourcewise.errors import DataError, StudyError
from strategies import Array
from sums import SCORE, STUDY, assert_same, kept, rows, summed

EPS = float(np.finfo(np.float64).eps)


# -- what is summed ---------------------------------------------------------------------------------------------------


def exact_gram(data: Mapping[str, Array], centre: Mapping[str, float], terms: tuple[str, ...]) -> list[list[Fraction]]:
    """Σ φφᵀ in rational arithmetic, for terms that are products of x and z."""
    powers = {"1": (0, 0), "x": (1, 0), "z": (0, 1), "x*z": (1, 1), "(x)**2": (2, 0), "(z)**2": (0, 2)}
    deviations = [[Fraction(v) - Fraction(centre[name]) for v in data[name].tolist()] for name in ("x", "z")]
    values = [[u**p * v**q for u, v in zip(*deviations, strict=True)] for p, q in (powers[term] for term in terms)]
    return [[sum(map(operator.mul, left, right), Fraction(0)) for right in values] for left in values]


def relative_errors(found: sw.Statistics, exact: list[list[Fraction]]) -> Array:
    """Errors of the sums beside √(Σφ_j² Σφ_k²), the size that a sum of products has."""
    wrong = [
        [float(Fraction(value) - truth) for value, truth in zip(*pair, strict=True)]
        for pair in zip(found.gram.tolist(), exact, strict=True)
    ]
    scale = np.sqrt([float(exact[k][k]) for k in range(len(exact))])
    return np.asarray(np.abs(wrong) / np.outer(scale, scale))


@pytest.mark.parametrize("mean", [0.0, 1.0, 1e3, 1e6, -1e9])
def test_sums_keep_their_digits_far_from_the_origin(mean: float) -> None:
    """x − s is exact, products round once, and 500 additions lose a few eps: 1e-14, where the bar is 1e-13."""
    data = {name: mean + values for name, values in rows(500).items()}
    found = summed(data)
    assert relative_errors(found, exact_gram(data, found.centre, found.terms)).max() < 1e-14


def test_many_rows_against_exact_summation() -> None:
    """`math.fsum` rounds once. Blocks of 8192 rows keep the error of many additions near that of one block."""
    data = {name: 1e6 + values for name, values in rows(300_000).items()}
    found = summed(data)
    x, z = (data[name] - found.centre[name] for name in ("x", "z"))
    for pair, values in {("1", "x"): x, ("x", "z"): x * z, ("z", "z"): z * z, ("x*z", "x*z"): (x * z) ** 2}.items():
        j, k = (found.terms.index(term) for term in pair)
        size = math.sqrt(found.gram[j, j] * found.gram[k, k])
        assert abs(found.gram[j, k] - math.fsum(values.tolist())) < 1e-13 * size


def test_integers_are_summed_exactly() -> None:
    rng = np.random.default_rng(4)
    data = {"x": rng.integers(-50, 50, 20_000), "z": rng.integers(10**6, 10**6 + 40, 20_000)}
    found = summed(data, centre={"x": 0, "z": 10**6 + 7})
    x, z = (np.array([int(value) for value in part], dtype=object) for part in (data["x"], data["z"] - (10**6 + 7)))
    exact = {"1": x * 0 + 1, "x": x, "z": z, "x*z": x * z, "(x)**2": x * x, "(z)**2": z * z}
    assert found.gram.tolist() == [[int((exact[a] * exact[b]).sum()) for b in found.terms] for a in found.terms]


def test_one_row_and_equal_rows() -> None:
    alone = summed({"x": [3.0], "z": [2.0]})
    assert alone.n == 1
    assert alone.gram.sum() == 1.0  # everything but the count is zero about itself
    assert dict(alone.centre) == {"z": 2.0, "x": 3.0}
    same = summed({"x": [0.1] * 7, "z": [1e300] * 7})
    assert (same.n, same.gram.sum()) == (7, 7.0)


def test_the_centre_lies_within_a_spread_of_the_mean() -> None:
    data = {"x": rows()["x"] * 1e-3 + 5.0, "z": rows()["z"] * 1e6 - 1e9}
    for name, value in summed(data).centre.items():
        assert abs(value - data[name].mean()) <= 0.5 * data[name].std()


def test_a_given_centre_is_used() -> None:
    found = summed(centre={"x": 2, "z": -1.5})
    assert dict(found.centre) == {"z": -1.5, "x": 2.0}
    assert found.gram[0, found.terms.index("x")] == pytest.approx((rows()["x"] - 2).sum(), rel=1e-13)


@pytest.mark.parametrize(
    "centre",
    [
        {},
        {"x": 1.0},
        {"x": 0, "z": 0, "y": 0},
        *({"x": value, "z": 0} for value in (math.nan, math.inf, "a", None, 10**400, [1.0])),
        5,
        "zx",
        [1.0, 2.0],
    ],
)
def test_a_centre_that_does_not_fit_is_refused(centre: Any) -> None:
    with pytest.raises(DataError, match="the centre of source 'first' needs one finite number for each of z, x"):
        summed(centre=centre)


def test_missing_rows_are_counted() -> None:
    data = rows()
    data["x"][[1, 5]] = np.nan
    data["z"][[5, 7, 9]] = np.nan
    with pytest.raises(DataError, match=r"'first'.*z: 3"):
        summed(data)
    found = summed(data, missing="drop")
    assert (found.n, found.dropped) == (36, 4)
    both = found + summed(rows(5), centre=found.centre)
    assert (both.n, both.dropped) == (41, 4)


@pytest.mark.parametrize(("scale", "named"), [(1e80, "too large"), (1e170, "too large"), (1e-100, "too small")])
def test_values_whose_products_leave_floating_point_are_refused(scale: float, named: str) -> None:
    with pytest.raises(DataError, match=f"source 'first' .* {named} to be multiplied; express its variables in"):
        summed({"x": rows()["x"] * scale, "z": rows()["z"]})


def test_a_function_that_is_not_finite_is_named() -> None:
    study = sw.Study(["x - a/z", "log(x) - b"], "a", {"first": sw.Source("x z")})
    with pytest.raises(DataError, match=r"source 'first': z\*\*\(-1\) is not a finite number"):
        summed({"x": [1.0, 2.0], "z": [0.0, 1.0]}, study=study)
    with pytest.raises(DataError, match=r"source 'first': log\(x\) is not a finite number"):
        summed({"x": [1.0, -2.0], "z": [3.0, 1.0]}, study=study)


@pytest.mark.parametrize(("source", "named"), [("census", "'census'"), ("other", "'other' computes no moment")])
def test_a_source_without_use_is_refused(source: str, named: str) -> None:
    with pytest.raises(StudyError, match=named):
        sw.summarize(STUDY, source, {"y": [1.0], "z": [1.0]})


# -- merging ----------------------------------------------------------------------------------------------------------


@settings(max_examples=40, derandomize=True, deadline=None)
@given(cuts=st.lists(st.integers(1, 59), unique=True, max_size=6), seed=st.integers(0, 99), random=st.randoms())
def test_whole_numbers_merge_to_the_last_bit(cuts: list[int], seed: int, random: Any) -> None:
    """Sums of small integers are exact, so any order and any tree gives what all rows together give."""
    numbers = np.random.default_rng(seed).integers(-9, 10, size=(2, 60)).astype(float)
    edges = [0, *sorted(cuts), 60]
    centre = {"x": 1.0, "z": -2.0}
    parts = [summed({"x": numbers[0, a:b], "z": numbers[1, a:b]}, centre=centre) for a, b in pairwise(edges)]
    while len(parts) > 1:
        left = parts.pop(random.randrange(len(parts)))
        right = parts.pop(random.randrange(len(parts)))
        parts.append(random.choice([left + right, right.merge(left)]))
    assert_same(parts[0], summed({"x": numbers[0], "z": numbers[1]}, centre=centre))


def test_merging_leaves_its_parts_alone() -> None:
    left, right = summed(), summed(centre=summed().centre)
    before = left.gram.tobytes()
    assert (left + right).n == 80
    assert left.gram.tobytes() == before


def test_sum_of_a_list() -> None:
    first = summed()
    assert_same(sum([first, first], start=first), first + first + first)


STRANGERS: dict[str, tuple[Callable[[], object], str]] = {
    "another source": (lambda: summed(source="second", centre=summed().centre), "'first' and 'second'"),
    "another study": (
        lambda: summed(study=sw.Study(["x - a*z"], "a", {"first": sw.Source("x z")}), centre=summed().centre),
        "different data terms",
    ),
    "another centre": (lambda: summed(centre={"x": 5.0, "z": 0.0}), r"different centres .*centre=first\.centre"),
    "rows": (lambda: kept(), "with statistics only, not with Rows"),
    "a number": (lambda: 5, "not with int"),
    "nothing": (lambda: None, "not with NoneType"),
}


@pytest.mark.parametrize(("stranger", "message"), STRANGERS.values(), ids=STRANGERS)
def test_what_does_not_belong_together_is_not_merged(stranger: Callable[[], Any], message: str) -> None:
    with pytest.raises(DataError, match=message):
        summed() + stranger()
    with pytest.raises(DataError, match=message):
        summed().merge(stranger())


@pytest.mark.parametrize("stranger", [summed(), kept(source="second"), 5], ids=["sums", "another source", "number"])
def test_rows_merge_with_rows_of_their_kind_only(stranger: Any) -> None:
    with pytest.raises(DataError, match="'first' can be merged only with rows of the same source and study"):
        kept() + stranger


def test_statistics_of_another_study_or_source_are_not_fitted() -> None:
    other = sw.Study(["x - a*z"], "a", {"first": sw.Source("x z")})
    with pytest.raises(DataError, match=r"source 'first' hold other data terms .* summarize the rows again"):
        sw.fit(other, {"first": summed()})
    with pytest.raises(DataError, match="'second' was given statistics of source 'first'"):
        sw.fit(STUDY, {"second": summed()})
    with pytest.raises(DataError, match="'first' was given Rows that were made for another study"):
        sw.fit(STUDY, {"first": kept()})
    with pytest.raises(DataError, match="'first' was given Statistics that were made for another study"):
        sw.fit(SCORE, {"first": summed()})


# -- copies and text --------------------------------------------------------------------------------------------------

# Down to 1e-40 apart and up to 1e40: fourth powers of differences stay within floating point.
FLOATS = st.integers(-(2**62), 2**62).flatmap(lambda k: st.integers(-40, 20).map(lambda e: k * 10.0**e))


@settings(max_examples=60, derandomize=True, deadline=None)
@given(values=st.lists(st.tuples(FLOATS, FLOATS), min_size=1, max_size=5))
def test_json_restores_every_bit(values: list[tuple[float, float]]) -> None:
    """Sums of products of arbitrary floats have arbitrary last bits."""
    x, z = np.array(values).T
    found = summed({"x": x, "z": z})
    again = sw.Statistics.from_json(found.to_json())
    assert_same(again, found)
    assert again.to_json() == found.to_json()


def test_json_is_plain_and_its_bytes_are_read_too() -> None:
    found = summed()
    content = json.loads(found.to_json())
    assert (content["format"], content["version"], content["n"]) == ("sourcewise.statistics", 1, 40)
    assert_same(sw.Statistics.from_json(found.to_json().encode()), found)  # type: ignore[arg-type]
    reordered = json.dumps(dict(reversed(content.items())), indent=2)
    assert_same(sw.Statistics.from_json(reordered), found)


def test_copies_are_equal_to_the_last_bit() -> None:
    found = summed()
    for other in (pickle.loads(pickle.dumps(found)), copy.copy(found), copy.deepcopy(found)):
        assert_same(other, found)
    assert_same(pickle.loads(pickle.dumps(found)) + found, found + found)


def test_statistics_cannot_be_changed() -> None:
    for frozen in (summed().gram, kept().columns):
        with pytest.raises(ValueError, match="read-only"):
            frozen[0, 0] = 5.0
    with pytest.raises(TypeError):
        summed().centre["x"] = 1.0  # type: ignore[index]
    gram = np.array([[2.0]])
    made = sw.Statistics("first", ("1",), {}, 2, gram)
    gram[0, 0] = 7.0
    assert made.gram.tolist() == [[2.0]]


def test_a_name_is_not_markup() -> None:
    made = sw.Statistics("<script>alert(1)</script>", ("1",), {}, 2, np.array([[2.0]]))
    assert "<script>" not in made._repr_html_()


# -- rows -------------------------------------------------------------------------------------------------------------


def test_rows_merge_copy_and_travel_like_statistics() -> None:
    left, right = kept(30), kept(12)
    both = left + right
    assert (both.n, both.variables) == (42, ("x", "y"))
    assert both.columns.tolist() == np.hstack([left.columns, right.columns]).tolist()
    for other in (sw.Rows.from_json(both.to_json()), pickle.loads(pickle.dumps(both)), copy.deepcopy(both)):
        assert (other.source, other.variables, other.dropped) == (both.source, both.variables, both.dropped)
        assert other.columns.tobytes() == both.columns.tobytes()


def test_dropped_rows_are_counted_where_rows_are_kept() -> None:
    data = {"x": [1.0, np.nan, 2.0], "y": [0.0, 1.0, 1.0]}
    found = sw.summarize(SCORE, "first", data, missing="drop")
    assert isinstance(found, sw.Rows)
    assert (found.n, found.dropped) == (2, 1)
    assert (found + kept()).dropped == 1


HOSTILE_ROWS: dict[str, tuple[dict[str, Any], str]] = {
    "ragged": ({"columns": [[1.0], [1.0, 2.0]]}, "different lengths"),
    "too few columns": ({"columns": [[1.0]]}, "one column of finite numbers for each of x, y"),
    "no columns": ({"columns": [], "variables": []}, "at least one row"),
    "no rows": ({"columns": [[], []]}, "at least one row"),
    "flat": ({"columns": [1.0, 2.0]}, "'columns' to be lists of finite numbers"),
    "texts": ({"columns": [["1"], ["2"]]}, "'columns' to be lists of finite numbers"),
    "huge": ({"columns": [[10**400], [1.0]]}, "'columns' to be lists of finite numbers"),
    "statistics": ({"format": "sourcewise.statistics"}, 'does not say "format": "sourcewise.rows"'),
}


@pytest.mark.parametrize(("fields", "message"), HOSTILE_ROWS.values(), ids=HOSTILE_ROWS)
def test_hostile_rows_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(DataError) as refusal:
        sw.Rows.from_json(json.dumps({**json.loads(kept().to_json()), **fields}))
    assert message in str(refusal.value)


def test_rows_of_other_variables_are_not_fitted() -> None:
    forged = json.dumps({**json.loads(kept().to_json()), "variables": ["y", "x"]})
    with pytest.raises(DataError, match="hold y, x; its moments need x, y"):
        sw.fit(SCORE, {"first": sw.Rows.from_json(forged)})
