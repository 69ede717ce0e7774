"""Sets by inversion of the objective, in every shape that they can take, against brute force.

An end point is found to 1e-10 of itself; what it is compared with is good to 1e-8.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq, minimize_scalar

import sourcewise as sw
from estimation.plain import Array

ONE = sw.Study(["z*(y - b*x)"], "b", {"s": sw.Source("z x y")})
RATIO = sw.Study(["z*(x - alpha*z)", "z*(y - gamma*z)"], "gamma/alpha", {"a": sw.Source("z x"), "b": sw.Source("z y")})
CHAIN = sw.Study(["z*(x - alpha*z)", "z*(y - alpha*beta*z)"], "beta", {"a": sw.Source("z x"), "b": sw.Source("z y")})


def rows(strength: float, seed: int = 1, size: int = 200, effect: float = 1.0) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    z, u, e, v = random.normal(size=(4, size))
    x = strength * z + u + e
    return {"z": z, "x": x, "y": effect * x + u + v}


def anderson_rubin(data: dict[str, Array], level: float) -> Array:
    """Real roots of n ḡ² = q Ω, a quadratic in b."""
    zy, zx, quantile = data["z"] * data["y"], data["z"] * data["x"], stats.chi2.ppf(level, 1) / len(data["z"])
    coefficients = [
        zx.mean() ** 2 - quantile * np.mean(zx**2),
        -2 * (zx.mean() * zy.mean() - quantile * np.mean(zx * zy)),
        zy.mean() ** 2 - quantile * np.mean(zy**2),
    ]
    roots = np.roots(coefficients)
    return np.sort(roots[np.abs(roots.imag) < 1e-12].real)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95, 0.99])
def test_a_strong_instrument_gives_an_interval(level: float) -> None:
    data = rows(1.0)
    found = sw.fit(ONE, {"s": data}).weak_interval(level)
    assert found.bounded
    assert found.level == level
    assert list(found.segments[0]) == pytest.approx(list(anderson_rubin(data, level)), rel=1e-8)
    low, high = found.segments[0]
    assert 0.5 * (low + high) in found
    assert high + 1e-6 not in found


def test_a_weak_instrument_gives_two_rays() -> None:
    data = rows(0.02, seed=9, effect=30.0)
    low, high = anderson_rubin(data, 0.9)
    fit = sw.fit(ONE, {"s": data})
    found = fit.weak_interval(0.9)
    assert len(found.segments) == 2
    assert [end for segment in found.segments for end in segment] == pytest.approx(
        [-math.inf, low, high, math.inf], rel=1e-8
    )
    assert not found.bounded
    assert fit.target.value in found
    assert 0.5 * (low + high) not in found
    assert str(found) == f"(-inf, {low:.6g}] ∪ [{high:.6g}, inf)"


def test_an_irrelevant_instrument_gives_the_whole_line() -> None:
    data = rows(0.0, seed=3)
    assert not anderson_rubin(data, 0.99).size
    found = sw.fit(ONE, {"s": data}).weak_interval(0.99)
    assert str(found) == "(-inf, inf)"
    assert -1e300 in found


def test_moments_that_contradict_each_other_give_an_empty_set() -> None:
    random = np.random.default_rng(4)
    data = {name: {"x": random.normal(loc=k, size=100)} for k, name in enumerate(("p", "q"))}
    fit = sw.fit(sw.Study(["x - mu"], "mu", {"p": sw.Source("x"), "q": sw.Source("x")}), data)
    found = fit.weak_interval()
    assert found.empty
    assert found.bounded
    assert str(found) == "empty"
    assert fit.target.value not in found


def test_two_solutions_give_two_islands() -> None:
    """x = b²: the second island is hundreds of standard errors away and a few wide."""
    x = 4.0 + np.random.default_rng(5).normal(size=500)
    found = sw.fit(sw.Study(["x - b**2"], "b", {"s": sw.Source("x")}), {"s": {"x": x}}).weak_interval()
    # n (x̄ − m)²/(s² + (x̄ − m)²) = q at m = x̄ ± s √(q/(n − q))
    quantile = stats.chi2.ppf(0.95, 1)
    margin = x.std() * math.sqrt(quantile / (500 - quantile))
    near, far = math.sqrt(x.mean() - margin), math.sqrt(x.mean() + margin)
    assert [end for segment in found.segments for end in segment] == pytest.approx([-far, -near, near, far], rel=1e-8)


def height(data: dict[str, Array], gap: Array) -> float:
    return float(len(gap) * gap.mean() ** 2 / np.mean(gap**2))


def split(strength: float) -> dict[str, dict[str, Array]]:
    first, second = rows(strength, 6), rows(strength, 7)
    return {"a": {k: first[k] for k in "zx"}, "b": {k: second[k] for k in "zy"}}


def profiled(data: dict[str, dict[str, Array]], ratio: float) -> float:
    """min over α of T·Q(α, ratio·α), each source with its own updated variance."""
    a, b = data["a"], data["b"]

    def total(alpha: float) -> float:
        first = height(a, a["z"] * (a["x"] - alpha * a["z"]))
        return first + height(b, b["z"] * (b["y"] - ratio * alpha * b["z"]))

    grid = np.linspace(-3, 3, 601)
    best = grid[np.argmin([total(alpha) for alpha in grid])]
    return float(
        minimize_scalar(total, bounds=(best - 0.01, best + 0.01), method="bounded", options={"xatol": 1e-11}).fun
    )


@pytest.mark.parametrize("study", [RATIO, CHAIN], ids=["gamma/alpha", "beta"])
def test_a_ratio_of_parameters_against_a_profile(study: sw.Study) -> None:
    """The same hypothesis in two parametrisations: an expression held by a stiff residual, a parameter held exactly."""
    data = split(0.8)
    fit = sw.fit(study, data)
    quantile = stats.chi2.ppf(0.95, 1)
    centre, reach = fit.target.value, 6 * fit.target.stderr
    expected = [
        brentq(lambda ratio: profiled(data, ratio) - quantile, *ends, xtol=1e-10)
        for ends in ((centre - reach, centre), (centre, centre + reach))
    ]
    (segment,) = fit.weak_interval().segments
    assert list(segment) == pytest.approx(expected, rel=1e-7)


def test_a_ratio_with_a_denominator_near_zero_is_unbounded() -> None:
    """Fieller's case: whatever the parametrisation, the same two rays or the whole line."""
    data = split(0.1)
    ratio, chain = (sw.fit(study, data).weak_interval() for study in (RATIO, CHAIN))
    assert not ratio.bounded
    assert len(ratio.segments) == len(chain.segments)
    for left, right in zip(ratio.segments, chain.segments, strict=True):
        assert left == pytest.approx(right, rel=1e-6)


def test_a_product_of_parameters_against_a_closed_form() -> None:
    """αβ is the reduced form: α is free and its source has nothing to say."""
    data = split(0.8)
    study = sw.Study(CHAIN.moments, "alpha*beta", CHAIN.sources)
    (segment,) = sw.fit(study, data).weak_interval().segments
    b = data["b"]
    expected = anderson_rubin({"z": b["z"], "x": b["z"], "y": b["y"]}, 0.95)
    assert list(segment) == pytest.approx(list(expected), rel=1e-7)


def test_bounds_limit_the_set() -> None:
    data = rows(0.0, seed=3)
    study = sw.Study(ONE.moments, "b", ONE.sources, {"b": sw.Parameter(lower=-2.0, upper=5.0)})
    ((low, high),) = sw.fit(study, {"s": data}).weak_interval(0.99).segments
    assert (low, high) == pytest.approx((-2.0, 5.0), abs=1e-6)
