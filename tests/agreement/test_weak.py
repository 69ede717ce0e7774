"""Intervals that hold under weak instruments, against closed forms, another minimiser, and printed figures.

Tolerances are relative. 1e-5 for the printed intervals (the print .024805 uses up 9.4e-6 of it, so an end
point must be found to 6e-7) and where two minimisers are compared; 1e-7 against polynomial roots, where only
the search for the end point lies in between.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.polynomial import Polynomial
from scipy import optimize, stats

import sourcewise as sw
from agreement.models import Array, LinearModel, card, mroz

MODELS = {"5 Card": card("nearc4"), "6 Card": card("nearc2", "nearc4"), "7 Mroz": mroz()}


def robust_ends(reduced: LinearModel, level: float) -> Array:
    """Real solutions in the target of n·g'Ω⁻¹g = chi-square quantile, a polynomial for one or two moments."""
    y, (x,) = reduced.y, reduced.frame[list(reduced.endogenous)].to_numpy().T
    z = reduced.frame[list(reduced.excluded)].to_numpy().T
    quantile = stats.chi2.ppf(level, len(z)) / len(y)
    g = [Polynomial([np.mean(a * y), -np.mean(a * x)]) for a in z]
    omega = [
        [Polynomial([np.mean(a * b * y * y), -2 * np.mean(a * b * x * y), np.mean(a * b * x * x)]) for b in z]
        for a in z
    ]
    if len(z) == 1:
        gap = g[0] ** 2 - quantile * omega[0][0]
    else:
        determinant = omega[0][0] * omega[1][1] - omega[0][1] ** 2
        form = g[0] ** 2 * omega[1][1] - 2 * g[0] * g[1] * omega[0][1] + g[1] ** 2 * omega[0][0]
        gap = form - quantile * determinant
    roots = gap.roots()
    return np.sort(roots[np.abs(roots.imag) < 1e-9].real)


def profile(model: LinearModel, target: float) -> float:
    """n·g'Ω⁻¹g with robust Ω, minimised over the other coefficients (BFGS on whitened columns)."""
    scale = len(model.frame) ** 0.5
    others, z = (np.linalg.qr(columns)[0] * scale for columns in (model.X[:, 1:], model.Z))
    left = model.y - target * model.X[:, 0]

    def objective(coefficients: Array) -> tuple[float, Array]:
        moments = z * (left - others @ coefficients)[:, None]
        mean = moments.mean(axis=0)
        tilt = np.linalg.solve(moments.T @ moments / len(z), mean)
        return float(len(z) * mean @ tilt), -2 * others.T @ ((1 - moments @ tilt) * (z @ tilt))

    start = others.T @ left / len(z)
    return float(optimize.minimize(objective, start, jac=True, method="BFGS", options={"gtol": 1e-7}).fun)


def profiled_ends(model: LinearModel, centre: float, reach: float) -> list[float]:
    quantile = stats.chi2.ppf(0.95, len(model.excluded))

    def gap(target: float) -> float:
        return profile(model, target) - quantile

    outer = ((centre - reach, centre), (centre, centre + reach))
    return [float(optimize.brentq(gap, low, high, xtol=1e-10)) for low, high in outer]


def fit_reduced(model: LinearModel) -> Any:
    reduced = model.partialled_out()
    return sw.fit(reduced.reduced_study(), {"data": reduced.frame})


@pytest.mark.parametrize("level", [0.9, 0.95])
@pytest.mark.parametrize("row", MODELS)
def test_one_parameter_interval_matches_the_roots(row: str, level: float) -> None:
    (segment,) = fit_reduced(MODELS[row]).weak_interval(level).segments
    expected = robust_ends(MODELS[row].partialled_out(), level)
    assert list(segment) == pytest.approx(list(expected), rel=1e-7, abs=0)


def test_a_weak_instrument_leaves_two_rays() -> None:
    """The two-year college alone moves education too little: only a stretch in the middle is excluded."""
    model = card("nearc2")
    segments = fit_reduced(model).weak_interval(0.95).segments
    low, high = robust_ends(model.partialled_out(), 0.95)
    assert [end for segment in segments for end in segment] == pytest.approx(
        [-math.inf, low, high, math.inf], rel=1e-7, abs=0
    )
    assert (low, high) == pytest.approx((-0.66384629, 0.05157470), rel=1e-6, abs=0)


@pytest.mark.parametrize("row", MODELS)
def test_interval_with_nuisance_parameters_matches_a_profile(row: str) -> None:
    model = MODELS[row]
    fit = sw.fit(model.study(), {"data": model.frame}, weights="two-step", first_weight=model.first_weight())
    (segment,) = fit.weak_interval(0.95).segments
    expected = profiled_ends(model, centre=fit.target.value, reach=0.4)
    assert list(segment) == pytest.approx(expected, rel=1e-5, abs=0)


# The printed intervals assume homoskedastic errors: they invert an F test with n − M degrees of freedom. With
# Ω_jk = E[z_j z_k]·E[e²] the objective is n·R² of the residual on the instruments, of which F is a monotone
# function: the same interval comes out at the level whose chi-square quantile is that F quantile, rewritten.
HOMOSKEDASTIC = {"5 Card": (0.024805, 0.284823), "6 Card": (0.053600, 0.361981)}


def level_of_F(model: LinearModel, level: float) -> float:
    restrictions, freedom = len(model.excluded), model.Z.shape[0] - model.Z.shape[1]
    explained = restrictions * stats.f.ppf(level, restrictions, freedom)
    return float(stats.chi2.cdf(len(model.frame) * explained / (explained + freedom), restrictions))


def fit_homoskedastic(model: LinearModel) -> Any:
    return sw.fit(
        model.study(),
        {"data": model.frame},
        weights="two-step",
        first_weight=model.first_weight(),
        errors="homoskedastic",
        covariance="model",
    )


@pytest.mark.parametrize("row", HOMOSKEDASTIC)
def test_homoskedastic_interval_matches_the_print(row: str) -> None:
    model = MODELS[row]
    (segment,) = fit_homoskedastic(model).weak_interval(level_of_F(model, 0.95)).segments
    assert list(segment) == pytest.approx(HOMOSKEDASTIC[row], rel=1e-5, abs=0)


@pytest.mark.parametrize(
    ("row", "estimate", "stderr", "sargan"),
    [("6 Card", 0.157059, 0.052578, 1.2481554), ("7 Mroz", 0.0613966, 0.0314367, 0.378071)],
)
def test_homoskedastic_two_step_is_classical_two_stage(row: str, estimate: float, stderr: float, sargan: float) -> None:
    """Its second-step weight is (σ̂² Z'Z/n)⁻¹, so the estimate stays and J is Sargan's statistic."""
    model = MODELS[row]
    fit = fit_homoskedastic(model)
    rows, unknowns = model.X.shape
    found = (fit.target.value, fit.target.stderr * (rows / (rows - unknowns)) ** 0.5, fit.overid.statistic)
    assert found == pytest.approx((estimate, stderr, sargan), rel=1e-5, abs=0)
