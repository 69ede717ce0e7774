"""How each row of the agreement matrix is computed, in the convention of the program that printed it.

Printed standard errors of rows 5 to 7 are classical with n − D degrees of freedom. lavaan's GLS chi-square is
(n − 1)·F where J is n·F. Its WLS and robust ULS compare a covariance divided by n − 1 with a variance of
products divided by n. That leaves a factor n/(n − 1) on the chi-square and √((n − 1)/n) on an error.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

import sourcewise as sw
from agreement.models import LinearModel, euler, griliches, one_source
from agreement.structures import Structure, ability

Figures = dict[str, float]


def figures(fit: Any) -> Figures:
    """What a print can be compared with. A fit that did not converge has nothing to compare."""
    assert fit.converged
    overid = fit.overid
    return {"estimate": fit.target.value, "stderr": fit.target.stderr, "J": overid.statistic, "df": overid.df}


def values_of(fit: Any) -> Figures:
    return {name: parameter.value for name, parameter in fit.parameters.items()}


def fit_linear(model: LinearModel, **options: Any) -> Any:
    return sw.fit(model.study(), {"data": model.frame}, **options)


def classical(model: LinearModel) -> Any:
    """Two-stage least squares with the variance that holds when errors are homoskedastic."""
    first = values_of(fit_linear(model, weights=model.first_weight()))
    coefficients = np.array([first[name] for name in model.coefficients])
    return fit_linear(model, weights=model.classical_weight(coefficients), covariance="model")


def two_stage() -> Figures:
    fit = classical(griliches())
    return figures(fit) | {"pvalue": fit.overid.pvalue}


def reweighted(weights: str) -> Figures:
    """Griliches from the two-stage weight on: "two-step" or "iterated"."""
    return figures(fit_linear(griliches(), weights=weights, first_weight=griliches().first_weight()))


def consumption() -> Figures:
    frame, instruments, moments = euler()
    first = np.linalg.inv(instruments.T @ instruments / len(frame))
    study = one_source(frame, moments, "alpha")
    start = {"alpha": 0.5, "delta": 0.5}  # where gretl's own script starts
    fit = sw.fit(study, {"data": frame}, weights="iterated", first_weight=first, start=start)
    delta = fit.parameters["delta"]
    return figures(fit) | {"delta": delta.value, "delta stderr": delta.stderr}


def textbook(model: LinearModel) -> Figures:
    """Two-stage least squares with Sargan's statistic and the standard error that textbooks print."""
    found = figures(classical(model))
    rows, unknowns = model.X.shape
    return found | {"stderr": found["stderr"] * (rows / (rows - unknowns)) ** 0.5}


@cache
def study_of(model: Structure) -> sw.Study:
    """Built once: the loops below fit it dozens of times."""
    return model.study()


def fit_structure(model: Structure, weights: Any, start: Figures | None = None, **options: Any) -> Any:
    data = {"data": model.frame}
    return sw.fit(study_of(model), data, weights=weights, start=start or model.start(), centred=True, **options)


def least_squares(model: Structure) -> Figures:
    """GLS: normal theory at the sample covariance, trusted to be right."""
    found = figures(fit_structure(model, "normal", covariance="model"))
    rows = len(model.frame)
    return found | {"chi-square": found["J"] * (rows - 1) / rows}


def distribution_free() -> Figures:
    """WLS: about its mean the variance of x_a·x_b − Σ_ab(θ) is free of θ, so that any first step leads to Browne's
    weight."""
    found = figures(fit_structure(ability(), "two-step", covariance="model"))
    ratio = len(ability().frame) / (len(ability().frame) - 1)
    return found | {"stderr": found["stderr"] / ratio**0.5, "chi-square": found["J"] * ratio}


def unweighted() -> Figures:
    found = figures(fit_structure(ability(), "identity"))
    rows = len(ability().frame)
    return found | {"stderr": found["stderr"] * ((rows - 1) / rows) ** 0.5}


def likelihood(model: Structure) -> Figures:
    """Maximum likelihood with the errors of its expected information and the likelihood ratio statistic."""
    found = figures(fit_structure(model, "ml", covariance="model"))
    return found | {"chi-square": found["J"]}
