"""Calls that are wrong: each ends in a SourcewiseError that says what to do, or in a result that says what to doubt.

Never another exception, never a warning (pytest turns them into errors), never a wrong number in silence.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sourcewise as sw
from estimation.plain import Array

RANDOM = np.random.default_rng(0)
N = 200
Z, W, U, E, V = RANDOM.normal(size=(5, N))
X = Z + U + E
Y = X + U + V
FULL: dict[str, Any] = {"s": {"z": Z, "w": W, "x": X, "y": Y}}
S = sw.Source
ONE = sw.Study(["z*(y - b*x)"], "b", {"s": S("z x y")})
OVER = sw.Study(["z*(y - b*x)", "w*(y - b*x)"], "b", {"s": S("z w x y")})
TWO = sw.Study(["z*(x - alpha*z)", "z*(y - alpha*beta*z)"], "beta", {"a": S("z x"), "b": S("z y")})
PAIR: dict[str, Any] = {"a": {"z": Z, "x": X}, "b": {"z": Z, "y": Y}}
LINE = sw.Study(["y - a - b*x", "x*(y - a - b*x)"], "b", {"s": S("x y")})


def call(study: Any = ONE, data: Any = FULL, **options: Any) -> Callable[[], Any]:
    return lambda: sw.fit(study, data, **options)


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no study": (call(None), "Study"),
    "a text for a study": (call("z*(y - b*x)"), "Study"),
    "no data": (call(data=None), "data by source"),
    "a list of data": (call(data=[FULL]), "data by source"),
    "empty data": (call(data={}), "data by source"),
    "a frame without its source": (call(data=FULL["s"]), "no source 'z'"),
    "a misspelt source": (call(TWO, {"A": PAIR["a"]}), "sources are a, b"),
    "a number for a source": (call(TWO, {1: PAIR["a"]}), "no source 1"),
    "None for a frame": (call(TWO, {"a": None}), "NoneType"),
    "a file that is not there": (call(TWO, {"a": "nothing.csv"}), "no file"),
    "another source's statistics": (call(TWO, {"a": sw.summarize(TWO, "b", PAIR["b"])}), "source 'b'"),
    "another study's statistics": (call(LINE, {"s": sw.summarize(ONE, "s", FULL["s"])}), "another study"),
    "a column missing": (call(data={"s": {"z": Z, "x": X}}), "y"),
    "columns of unequal length": (call(data={"s": {"z": Z, "x": X, "y": Y[:9]}}), "y"),
    "no rows": (call(data={"s": {"z": [], "x": [], "y": []}}), "no rows"),
    "text in a column": (call(data={"s": {"z": Z, "x": X, "y": ["a"] * N}}), "y"),
    "infinite values": (call(data={"s": {"z": Z, "x": X, "y": np.where(Z > 1, np.inf, Y)}}), "infinite"),
    "values too large to multiply": (call(data={"s": {"z": 1e160 * Z, "x": 1e160 * X, "y": Y}}), "larger units"),
    "values too small to multiply": (call(data={"s": {"z": 1e-170 * Z, "x": 1e-170 * X, "y": Y}}), "smaller units"),
    "misspelt weights": (call(weights="two_step"), "'two-step'"),
    "a scalar weight": (call(weights=2.0), "1 × 1"),
    "a weight of another size": (call(OVER, weights=np.eye(3)), "2 × 2"),
    "a ragged weight": (call(OVER, weights=[[1, 2], [3]]), "real numbers"),
    "a complex weight": (call(weights=[[1j]]), "real numbers"),
    "a negative weight": (call(weights=[[-1.0]]), "positive semi-definite"),
    "a zero weight": (call(weights=[[0.0]]), "not zero"),
    "a weight of NaN": (call(weights=[[math.nan]]), "finite"),
    "a lopsided weight": (call(OVER, weights=[[1, 0.5], [0, 1]]), "symmetric"),
    "one weight for two sources": (call(TWO, PAIR, weights=np.eye(2)), "stacking='pooled'"),
    "a weight for one source of two": (call(TWO, PAIR, weights={"a": np.eye(1)}), "each of a, b"),
    "a first weight without a second": (call(weights="identity", first_weight=np.eye(1)), "second step"),
    "a negative ridge": (call(ridge=-0.1), "0 or more"),
    "a ridge of text": (call(ridge="0.1"), "0 or more"),
    "a ridge that does nothing": (call(weights="cue", ridge=0.1), "two-step"),
    "misspelt stacking": (call(stacking="stack"), "'stacked', 'pooled'"),
    "unknown errors": (call(errors="hc1"), "'robust', 'homoskedastic'"),
    "unknown covariance": (call(covariance="clustered"), "'windmeijer'"),
    "windmeijer without two steps": (call(weights="cue", covariance="windmeijer"), "two-step"),
    "centred as text": (call(centred="yes"), "True or False"),
    "centred and homoskedastic": (call(centred=True, errors="homoskedastic"), "one of them"),
    "a list of starts": (call(start=[1.0]), "by parameter"),
    "a start for nobody": (call(start={"beta": 1.0}), "parameters are b"),
    "a start of text": (call(start={"b": "1"}), "finite number"),
    "a start of NaN": (call(start={"b": math.nan}), "finite number"),
    "a start of many": (call(start={"b": np.ones(2)}), "finite number"),
    "unknown missing": (call(missing="ignore"), "drop"),
    "no iterations": (call(max_iterations=0), "1 or more"),
    "half an iteration": (call(max_iterations=1.5), "whole number"),
    "a negative seed": (call(seed=-1), "0 or more"),
    "a seed of text": (call(seed="now"), "whole number"),
    "no seed": (call(seed=None), "whole number"),
    "summarize without a study": (lambda: sw.summarize(None, "s", FULL["s"]), "Study"),  # type: ignore[arg-type]
    "summarize a list of sources": (lambda: sw.summarize(ONE, ["s"], FULL["s"]), "no source"),  # type: ignore[arg-type]
    "summarize about half a centre": (lambda: sw.summarize(ONE, "s", FULL["s"], {"z": 0.0}), "centre"),
    "statistics and nothing": (lambda: sw.summarize(ONE, "s", FULL["s"]) + None, "merged"),  # type: ignore[operator]
    "data of a source without moments": (
        call(sw.Study(["x - b"], "b", {"s": S("x"), "idle": S("y")}), {"idle": {"y": Y}}),
        "computes no moment",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_wrong_call_is_refused_with_a_reason(name: str) -> None:
    attempt, reason = REFUSED[name]
    with pytest.raises(sw.SourcewiseError) as caught:
        attempt()
    assert reason in str(caught.value)


def study_of(moment: str, target: str = "b", **bounds: float) -> sw.Study:
    return sw.Study([moment], target, {"s": S("x")}, {"b": sw.Parameter(**bounds)} if bounds else None)


def flat(value: float) -> Array:
    return np.full(N, value)


# A call, and what its advice must say. Nothing is "no advice": the result must then be right, which is checked below.
DOUBTED: dict[str, tuple[Callable[[], sw.Fit], str]] = {
    "one row": (call(data={"s": {"z": Z[:1], "x": X[:1], "y": Y[:1]}}), "fewer rows than moments"),
    "two rows": (call(LINE, {"s": {"x": X[:2], "y": Y[:2]}}), "2 rows for 2 moments"),
    "a constant regressor": (call(LINE, {"s": {"x": flat(2.0), "y": Y}}), "not identified"),
    "a constant outcome": (call(LINE, {"s": {"x": X, "y": flat(3.0)}}), "perfect fit"),
    "an instrument of zeros": (call(data={"s": {"z": flat(0.0), "x": X, "y": Y}}), "not identified"),
    "nothing but zeros": (call(data={"s": {"z": flat(0.0), "x": flat(0.0), "y": flat(0.0)}}), "not identified"),
    "a perfect fit": (call(LINE, {"s": {"x": X, "y": 2 * X + 1}}), "perfect fit"),
    "one source of two": (call(TWO, {"a": PAIR["a"]}), "not identified"),
    "the same instrument twice": (call(OVER, {"s": {"z": Z, "w": 2 * Z, "x": X, "y": Y}}), "depend on the others"),
    "nearly the same": (call(OVER, {"s": {"z": Z, "w": Z + 1e-13 * W, "x": X, "y": Y}}), "depend on the others"),
    "an irrelevant instrument": (call(data={"s": {"z": W, "x": X, "y": Y}}), "weak_interval"),
    "a binary variable": (
        call(sw.Study(["x - p", "x*x - p", "y - b*x"], "b", {"s": S("x y")}), {"s": {"x": 1.0 * (Z > 0), "y": Y}}),
        "depend on the others",
    ),
    "two means for one": (
        call(sw.Study(["x - b", "y - b"], "b", {"s": S("x y")}), {"s": {"x": X, "y": Y + 50}}),
        "contradict",
    ),
    "a bound that holds": (call(study_of("x - b", lower=3.0), {"s": {"x": X}}), "bound 3"),
    "a logarithm of a negative number": (call(study_of("x - b", "log(b)"), {"s": {"x": X - 9}}), "not a finite number"),
    "an exponential beyond numbers": (call(study_of("x - b", "exp(b)"), {"s": {"x": X + 999}}), "not a finite number"),
    "a target without slope": (call(study_of("x - b", "b**2"), {"s": {"x": np.array([-1.0, 1.0] * 9)}}), "no slope"),
    "two solutions": (call(study_of("x - b**2"), {"s": {"x": X + 9}}), "several local minima"),
    "no solution": (call(study_of("x - b**2"), {"s": {"x": X - 9}}), "before it converged"),
    "a solution at infinity": (call(study_of("x - exp(b)"), {"s": {"x": X - 9}}), "not identified"),
    "a root of nothing": (call(study_of("x - sqrt(b)", lower=0.0), {"s": {"x": X - 9}}), "bound 0"),
    "one step": (
        call(study_of("x - b**3"), {"s": {"x": X + 9}}, max_iterations=1, start={"b": 9.0}),
        "before it converged",
    ),
    "missing values dropped": (
        call(data={"s": {**FULL["s"], "y": np.where(Z > 1, np.nan, Y)}}, missing="drop"),
        "missing values",
    ),
}


@pytest.mark.parametrize("name", DOUBTED)
def test_a_doubtful_result_says_what_to_doubt(name: str) -> None:
    attempt, reason = DOUBTED[name]
    fit = attempt()
    assert any(reason in line for line in fit.advice), fit.advice
    # and whatever else is asked of it has an answer
    assert reason in " ".join(fit.summary().split()) or "* " in fit.summary()
    assert fit._repr_html_()
    assert json.dumps(fit.to_dict(), allow_nan=False)
    assert str(fit.weak_interval())
    assert repr(fit)


@pytest.mark.parametrize("unit", [1e-12, 1e-6, 1e6, 1e12])
@pytest.mark.parametrize("which", ["x", "y", "z"])
def test_units_are_a_matter_of_taste(unit: float, which: str) -> None:
    plain = sw.fit(ONE, FULL)
    fit = sw.fit(ONE, {"s": {**FULL["s"], which: unit * FULL["s"][which]}})
    size = {"x": 1 / unit, "y": unit, "z": 1.0}[which]
    assert fit.converged
    assert not fit.advice
    assert fit.target.value == pytest.approx(size * plain.target.value, rel=1e-10)
    assert fit.target.stderr == pytest.approx(size * plain.target.stderr, rel=1e-9)
    assert fit.weak_interval().segments[0] == pytest.approx(
        [size * end for end in plain.weak_interval().segments[0]], rel=1e-7
    )


def test_a_duplicate_moment_changes_nothing() -> None:
    once = sw.fit(ONE, FULL)
    twice = sw.fit(OVER, {"s": {**FULL["s"], "w": 2 * Z}})
    assert twice.target.value == pytest.approx(once.target.value, rel=1e-10)
    assert twice.target.stderr == pytest.approx(once.target.stderr, rel=1e-9)
    assert twice.overid.df == 0


def test_names_that_are_functions_elsewhere_are_plain_names() -> None:
    study = sw.Study(["I*(S - beta*E)"], "beta", {"N": S("I S E")})
    fit = sw.fit(study, {"N": {"I": Z, "S": Y, "E": X}})
    assert fit.target.value == pytest.approx(sw.fit(ONE, FULL).target.value, rel=1e-12)
