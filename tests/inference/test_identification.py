"""What the data do and do not determine, whether moments agree, and how firmly they hold the target."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
import statsmodels.api as sm

import sourcewise as sw
from estimation.plain import Array, minimum
from estimation.problems import PROBLEMS

A, B = sw.Source("z x"), sw.Source("z y")


def two_samples(seed: int = 1, rows: int = 400, strength: float = 1.0) -> dict[str, dict[str, Array]]:
    random = np.random.default_rng(seed)
    z, u, e, v = random.normal(size=(4, 2, rows))
    x = strength * z + u + e
    y = x + u + v
    return {"a": {"z": z[0], "x": x[0]}, "b": {"z": z[1], "y": y[1]}}


def test_a_target_stands_although_nuisance_parameters_do_not() -> None:
    """Two-sample instruments as a covariance structure, a variance of z for each source: 6 moments, 7 parameters.

    The moments of x² and y² only define nuisance parameters, and the rest are the two moments of the plain study.
    """
    study = sw.Study(
        [
            sw.Moment("z*z - vz1", ("a",), "z in a"),
            "z*x - alpha*vz1",
            "x*x - (alpha**2*vz1 + vx)",
            sw.Moment("z*z - vz2", ("b",), "z in b"),
            "z*y - alpha*beta*vz2",
            "y*y - (alpha**2*beta**2*vz2 + beta**2*vx + 2*beta*cov + vy)",
        ],
        "beta",
        {"a": A, "b": B},
    )
    plain = sw.Study(["z*(x - alpha*z)", "z*(y - alpha*beta*z)"], "beta", {"a": A, "b": B})
    whole, small = (sw.fit(which, two_samples()) for which in (study, plain))
    assert len(study.moments) < len(study.parameters)
    assert whole.converged
    assert whole.target.identified
    assert whole.target.value == pytest.approx(small.target.value, rel=1e-9)
    assert whole.target.stderr == pytest.approx(small.target.stderr, rel=1e-8)
    known = {name for name, estimate in whole.parameters.items() if estimate.identified}
    assert known == {"vz1", "alpha", "vx", "vz2", "beta"}
    for name in ("cov", "vy"):
        assert math.isnan(whole.parameters[name].stderr)
        assert whole.parameters[name].interval() == (-math.inf, math.inf)
    hidden = [list(whole.parameters).index(name) for name in ("cov", "vy")]
    assert np.isnan(whole.covariance[hidden]).all()
    assert np.isnan(whole.covariance[:, hidden]).all()
    (line,) = whole.advice
    assert line.startswith("Not identified, and reported without a standard error: cov, vy.")
    assert "not identified" in whole.summary()


@pytest.mark.parametrize("stacking", ["stacked", "pooled"])
def test_moments_of_nuisance_parameters_alone_change_nothing(stacking: str) -> None:
    """5 moments and 6 parameters against the same without y², which only two free parameters appear in."""
    moments = ["z*z - vz", "z*x - alpha*vz", "z*y - alpha*beta*vz", "x*x - (alpha**2*vz + vx)"]
    more = [*moments, "y*y - (alpha**2*beta**2*vz + s + t)"]
    small, whole = (
        sw.fit(sw.Study(which, "beta", {"a": A, "b": B}), two_samples(), stacking=stacking)  # type: ignore[arg-type]
        for which in (moments, more)
    )
    assert whole.target.value == pytest.approx(small.target.value, rel=1e-8)
    assert whole.target.stderr == pytest.approx(small.target.stderr, rel=1e-7)
    assert whole.overid.df == small.overid.df
    assert whole.overid.statistic == pytest.approx(small.overid.statistic, rel=1e-6, abs=1e-9)
    assert not whole.parameters["s"].identified
    assert not whole.parameters["t"].identified


def test_what_is_identified_is_judged_for_the_target_not_its_parts() -> None:
    """Only a + b is seen."""
    x = np.random.default_rng(2).normal(loc=3.0, size=100)
    fits = {
        target: sw.fit(sw.Study(["x - a - b"], target, {"s": sw.Source("x")}), {"s": {"x": x}})
        for target in ("a + b", "exp(a)*exp(b)", "a", "a - b", "a*b")
    }
    assert {target: fit.target.identified for target, fit in fits.items()} == {
        "a + b": True,
        "exp(a)*exp(b)": True,
        "a": False,
        "a - b": False,
        "a*b": False,
    }
    assert fits["a + b"].target.value == pytest.approx(x.mean(), rel=1e-12)
    assert fits["a + b"].target.stderr == pytest.approx(x.std() / 10, rel=1e-10)


@pytest.mark.parametrize("source", ["a", "b"])
def test_a_target_that_is_not_identified_is_refused_as_a_result(source: str) -> None:
    study = sw.Study(["z*(x - alpha*z)", "z*(y - alpha*beta*z)"], "beta", {"a": A, "b": B})
    fit = sw.fit(study, {source: two_samples()[source]})
    assert not fit.target.identified
    assert math.isnan(fit.target.stderr)
    assert fit.target.interval() == (-math.inf, math.inf)
    assert str(fit.weak_interval()) == "(-inf, inf)"
    assert fit.advice[0].startswith("The target 'beta' is not identified by these data")
    assert json.loads(json.dumps(fit.to_dict(), allow_nan=False))["target"]["stderr"] is None
    assert "not identified" in fit.summary()


def test_a_perfect_fit_is_not_called_unidentified() -> None:
    x = np.random.default_rng(3).normal(size=50)
    study = sw.Study(["y - a - b*x", "x*(y - a - b*x)"], "b", {"s": sw.Source("x y")})
    fit = sw.fit(study, {"s": {"x": x, "y": 2 * x + 1}})
    assert fit.target.value == pytest.approx(2.0, rel=1e-12)
    assert not math.isfinite(fit.target.stderr) or fit.target.stderr < 1e-12
    assert any("perfect fit" in line for line in fit.advice)
    assert not any("not identified" in line for line in fit.advice)


def test_a_source_is_judged_by_what_the_others_say_without_it() -> None:
    """Linear moments: J minus J without the source, at the same weights, each minimised in full."""
    problem = PROBLEMS["linear"]
    plain = problem.plain()
    weights = plain.weights(plain.solve(problem.truth, plain.identity()))
    fit = sw.fit(problem.study, problem.data)
    rows = 500
    whole = plain.statistic(plain.solve(problem.truth, weights), weights)
    sizes = {"full": 3, "part": 2}
    for name in problem.data:
        kept = slice(0, 3) if name == "part" else slice(3, 5)

        def rest(theta: Array, kept: slice = kept) -> Array:
            return plain.residual(theta, weights)[kept]

        without = rows * float(np.sum(rest(minimum(rest, problem.truth)) ** 2))
        test = fit.overid.by_source[name]
        assert test.statistic == pytest.approx(whole - without, rel=1e-6)
        assert test.df == sizes[name]
    assert fit.overid.df == 3


def test_the_source_that_disagrees_is_named() -> None:
    random = np.random.default_rng(4)
    data = {name: {"x": random.normal(loc=shift, size=200)} for name, shift in (("p", 0.0), ("q", 0.0), ("odd", 0.5))}
    study = sw.Study(["x - mu"], "mu", {name: sw.Source("x") for name in data})
    fit = sw.fit(study, data)
    assert fit.overid.df == 2
    assert fit.overid.pvalue < 1e-4
    assert min(fit.overid.by_source, key=lambda name: fit.overid.by_source[name].pvalue) == "odd"
    (line,) = fit.advice
    assert "source 'odd'" in line
    agreeing = sw.fit(study, {name: data[name] for name in ("p", "q")})
    assert not agreeing.advice
    assert sw.fit(study, data, stacking="pooled").overid.df == 0


def test_nothing_to_test_is_not_a_number() -> None:
    study = sw.Study(["x - mu"], "mu", {"s": sw.Source("x")})
    fit = sw.fit(study, {"s": {"x": np.arange(9.0)}})
    assert fit.overid.df == 0
    assert fit.overid.statistic == 0
    assert math.isnan(fit.overid.pvalue)
    assert fit.to_dict()["overid"]["pvalue"] is None


IV = sw.Study(["y - c - b*x", "z*(y - c - b*x)"], "b", {"s": sw.Source("z x y")})


def first_stage(strength: float) -> tuple[dict[str, Array], float]:
    """Rows, and the robust (HC0) F of the instrument in a regression of x on it."""
    random = np.random.default_rng(5)
    z, u, e, v = random.normal(size=(4, 300))
    x = strength * z + u + e * (1 + 0.5 * np.abs(z))
    slope = sm.OLS(x, sm.add_constant(z)).fit(cov_type="HC0")
    return {"z": z, "x": x, "y": x + u + v}, float(slope.tvalues[1] ** 2)


@pytest.mark.parametrize("strength", [0.05, 0.1, 0.2, 0.3, 1.0, 5.0])
def test_strength_is_close_to_the_first_stage_F(strength: float) -> None:
    """The F holds instruments fixed, and here they are random: 1/strength exceeds 1/F by a few times 1/rows."""
    rows, statistic = first_stage(strength)
    fit = sw.fit(IV, {"s": rows})
    assert 1 / fit.strength - 1 / statistic == pytest.approx(0.0, abs=5 / 300 + 0.07 / statistic)
    weak = [line for line in fit.advice if "weak" in line]
    assert len(weak) == (fit.strength < 10)
    shifted = {name: 1e3 + 7 * column for name, column in rows.items()}
    assert sw.fit(IV, {"s": shifted}).strength == pytest.approx(fit.strength, rel=1e-5)


def test_strength_of_two_samples_follows_the_first_stage_of_one() -> None:
    verdicts = []
    for strength in (0.05, 0.15, 0.6, 1.0):
        data = two_samples(6, 300, strength)
        study = sw.Study(["z*(x - alpha*z)", "z*(y - alpha*beta*z)"], "beta", {"a": A, "b": B})
        slope = sm.OLS(data["a"]["x"], data["a"]["z"]).fit(cov_type="HC0")
        fit = sw.fit(study, data)
        verdicts.append((slope.tvalues[0] ** 2 < 10, fit.strength < 10))
    assert verdicts == [(True, True), (True, True), (False, False), (False, False)]


def test_a_weak_instrument_is_said() -> None:
    rows, statistic = first_stage(0.05)
    assert statistic < 10
    fit = sw.fit(IV, {"s": rows})
    assert any("weak_interval()" in line for line in fit.advice)
    assert "Strength:" in fit.summary()
