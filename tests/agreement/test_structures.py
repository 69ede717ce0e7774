"""Every parameter of two covariance structures by ML, GLS, WLS and ULS against their discrepancy functions, written
out with NumPy and minimised by SciPy; standard errors and chi-squares by their textbook formulas.

The figures that lavaan prints for some of these parameters are in `test_outside`. Here all are held to 1e-5 of their
value: SciPy ends within 1e-7 of a minimum, and central differences of Σ(θ), a polynomial, keep nine digits.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy.optimize import least_squares, root

import sourcewise as sw
from agreement.models import Array, inverse
from agreement.rows import fit_structure, study_of, values_of
from agreement.structures import Structure, ability, democracy

MODELS: dict[str, Callable[[], Structure]] = {"ability": ability, "democracy": democracy}
EXACT: Any = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15, "x_scale": "jac", "jac": "3-point", "max_nfev": 5000}


class Reference:
    """One structure, without the package's moments, weights or search."""

    def __init__(self, model: Structure) -> None:
        self.model, self.rows, self.sample = model, len(model.frame), model.sample()
        self.names = list(study_of(model).parameters)
        self.upper = np.array(model.pairs).T
        self.start = np.array([model.start()[name] for name in self.names])

    def implied(self, theta: Array) -> Array:
        return self.model.implied(dict(zip(self.names, theta, strict=True)))

    def residual(self, theta: Array) -> Array:
        return np.asarray((self.sample - self.implied(theta))[tuple(self.upper)])

    def slopes(self, theta: Array) -> Array:
        """∂σ/∂θ (moments, D)."""
        columns = []
        for d in range(len(theta)):
            step = np.zeros_like(theta)
            step[d] = 1e-4
            columns.append((self.residual(theta - step) - self.residual(theta + step)) / 2e-4)
        return np.column_stack(columns)

    def minimum(self, weight: Array) -> Array:
        """The least (s − σ(θ))ᵀ W (s − σ(θ))."""
        half = np.linalg.cholesky(weight).T

        def white(theta: Array) -> Array:
            return np.asarray(half @ self.residual(theta))

        once = least_squares(white, self.start, **EXACT)
        return np.asarray(least_squares(white, once.x, **EXACT).x)

    @cache  # noqa: B019
    def likeliest(self) -> Array:
        """Where the gradient of log |Σ| + tr(S Σ⁻¹) vanishes, ∂Σ' V⁻¹ (s − σ) = 0 with V of normal data."""

        def gradient(theta: Array) -> Array:
            weight = self.model.normal_weight(self.implied(theta))
            return np.asarray(self.slopes(theta).T @ weight @ self.residual(theta))

        start = self.minimum(self.model.normal_weight(self.sample))
        options: Any = {"xtol": 1e-14, "maxfev": 20_000}
        found = root(gradient, start, method="hybr", options=options)
        assert np.abs(gradient(found.x)).max() < 1e-7
        return np.asarray(found.x)

    def errors(self, theta: Array, weight: Array, variance: Array) -> Array:
        """Square roots of the diagonal of (D'WD)⁻¹ D'W V W D (D'WD)⁻¹ / n."""
        slopes = self.slopes(theta)
        bread = np.linalg.inv(slopes.T @ weight @ slopes)
        response = bread @ slopes.T @ weight
        return np.asarray(np.sqrt(np.diag(response @ variance @ response.T) / self.rows))

    def chi_square(self, theta: Array, weight: Array) -> float:
        gap = self.residual(theta)
        return float(self.rows * gap @ weight @ gap)


@cache
def reference(name: str) -> Reference:
    return Reference(MODELS[name]())


def agrees(fit: Any, theta: Array, errors: Array) -> None:
    assert fit.converged
    np.testing.assert_allclose(list(values_of(fit).values()), theta, rtol=1e-5, atol=1e-6 * errors.max())
    np.testing.assert_allclose([part.stderr for part in fit.parameters.values()], errors, rtol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_maximum_likelihood(name: str) -> None:
    outside, fit = reference(name), fit_structure(MODELS[name](), "ml", covariance="model")
    theta = outside.likeliest()
    weight = outside.model.normal_weight(outside.implied(theta))
    agrees(fit, theta, outside.errors(theta, weight, inverse(weight)))
    values = dict(zip(outside.names, theta, strict=True))
    assert fit.overid.statistic == pytest.approx(outside.model.likelihood_ratio(values), rel=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_maximum_likelihood_with_robust_errors(name: str) -> None:
    """Satorra and Bentler's sandwich and chi-square, from the sample's fourth moments."""
    outside, fit = reference(name), fit_structure(MODELS[name](), "ml")
    theta = outside.likeliest()
    weight = outside.model.normal_weight(outside.implied(theta))
    variance = inverse(outside.model.empirical_weight())
    agrees(fit, theta, outside.errors(theta, weight, variance))
    slopes = outside.slopes(theta)
    left = weight - weight @ slopes @ np.linalg.inv(slopes.T @ weight @ slopes) @ slopes.T @ weight
    values = dict(zip(outside.names, theta, strict=True))
    inflation = np.trace(left @ variance) / fit.overid.df
    assert fit.overid.statistic == pytest.approx(outside.model.likelihood_ratio(values) / inflation, rel=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_generalised_least_squares(name: str) -> None:
    outside, fit = reference(name), fit_structure(MODELS[name](), "normal", covariance="model")
    weight = outside.model.normal_weight(outside.sample)
    theta = outside.minimum(weight)
    agrees(fit, theta, outside.errors(theta, weight, inverse(weight)))
    assert fit.overid.statistic == pytest.approx(outside.chi_square(theta, weight), rel=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_weighted_least_squares(name: str) -> None:
    outside, fit = reference(name), fit_structure(MODELS[name](), "two-step", covariance="model")
    weight = outside.model.empirical_weight()
    theta = outside.minimum(weight)
    agrees(fit, theta, outside.errors(theta, weight, inverse(weight)))
    assert fit.overid.statistic == pytest.approx(outside.chi_square(theta, weight), rel=1e-5)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("errors", ["robust", "normal"])
def test_unweighted_least_squares(name: str, errors: Any) -> None:
    outside = reference(name)
    fit = fit_structure(MODELS[name](), "identity", errors=errors)
    theta, eye = outside.minimum(np.eye(len(outside.upper[0]))), np.eye(len(outside.upper[0]))
    robust = errors == "robust"
    # of the products about their means, as `centred=True` takes them
    weight = outside.model.empirical_weight() if robust else outside.model.normal_weight(outside.sample)
    agrees(fit, theta, outside.errors(theta, eye, inverse(weight)))


ABILITY = """
visual =~ x1 + x2 + x3
textual =~ x4 + x5 + x6
speed =~ x7 + x8 + x9
"""
DEMOCRACY = """
# measurement model
  ind60 =~ x1 + x2 + x3
  dem60 =~ y1 + y2 + y3 + y4
  dem65 =~ y5 + y6 + y7 + y8
# regressions
  dem60 ~ ind60
  dem65 ~ ind60 + dem60
# residual correlations
  y1 ~~ y5
  y2 ~~ y4 + y6
  y3 ~~ y7
  y4 ~~ y8
  y6 ~~ y8
"""
TEXTS = {"ability": (ABILITY, "direct(visual -> x2)", 24), "democracy": (DEMOCRACY, "direct(ind60 -> dem60)", 35)}
# Figures of lavaan, and the share of ours that it prints of the chi-square and of the standard error (see `rows`).
PRINTED = [
    ("ability", "ml", (0.5535003, 0.0996651, 85.305522), (0, 0)),
    ("ability", "normal", (0.4811267, None, 77.470723), (1, 0)),
    ("ability", "two-step", (0.5150403, 0.0974263, 83.318580), (-1, 0.5)),
    ("ability", "identity", (0.5006850, 0.1028131, None), (0, 0.5)),
    ("democracy", "ml", (1.483001, 0.399149, 38.125218), (0, 0)),
    ("democracy", "normal", (1.755087, None, 35.946857), (1, 0)),
]


# With means as parameters their covariance with the products enters the two-step weight: another estimator than WLS.
CASES = [(*line, means) for line in PRINTED for means in (False, True) if not (means and line[1] == "two-step")]


@pytest.mark.parametrize(
    ("name", "weights", "printed", "powers", "intercepts"),
    CASES,
    ids=lambda value: str(value) if not isinstance(value, tuple) else "",
)
def test_the_same_from_the_text_of_the_model(
    name: str,
    weights: Any,
    printed: tuple[float, float | None, float | None],
    powers: tuple[float, float],
    intercepts: bool,
) -> None:
    """lavaan's figures from the texts of its tutorial, by the same calls that a user makes."""
    text, target, df = TEXTS[name]
    frame = MODELS[name]().frame
    study = sw.Study.from_graph(text, target, {"rows": sw.Source(list(frame.columns))}, intercepts=intercepts)
    covariance: Any = "robust" if weights == "identity" else "model"
    fit = sw.fit(study, {"rows": frame}, weights=weights, covariance=covariance, centred=not intercepts)
    value, stderr, chi_square = printed
    share = (len(frame) - 1) / len(frame)
    assert fit.converged
    assert fit.overid.df == df
    assert fit.target.value == pytest.approx(value, rel=1e-5)
    assert stderr is None or fit.target.stderr * share ** powers[1] == pytest.approx(stderr, rel=1e-5)
    assert chi_square is None or fit.overid.statistic * share ** powers[0] == pytest.approx(chi_square, rel=1e-5)
