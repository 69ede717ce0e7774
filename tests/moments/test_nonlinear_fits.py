"""Moments that keep their rows, through the public door, against software that was written for each of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.optimize import root
from scipy.special import expit, ndtr

import sourcewise as sw
from strategies import Array

ROWS = 800
# A fit stops when a step moves the moments by a small share of their noise; the last Newton step is quadratic, so
# both sides agree to far more than that. Measured: 4e-11 for the probit, 2e-15 for the logit.
ESTIMATE, STDERR = 1e-10, 2e-10


def binary(seed: int, probability: str) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=ROWS)
    z = rng.uniform(-1, 2, size=ROWS)
    index = 0.3 + 0.8 * x - 0.5 * z
    chance = expit(index) if probability == "logistic" else ndtr(index)
    return {"x": x, "z": z, "y": (rng.random(ROWS) < chance).astype(float)}


INDEX = "(b0 + b1*x + b2*z)"
LOGIT = f"(y - logistic{INDEX})"
PROBIT = f"(y - Phi{INDEX})*phi{INDEX}/(Phi{INDEX}*Phi(-{INDEX}))"


@pytest.mark.parametrize(
    ("score", "model", "kind"), [(LOGIT, sm.Logit, "logistic"), (PROBIT, sm.Probit, "normal")], ids=["logit", "probit"]
)
@pytest.mark.parametrize("split", [False, True], ids=["one source", "two pooled"])
def test_likelihood_scores_agree_with_statsmodels(score: str, model: type, kind: str, split: bool) -> None:
    """Just identified: the weight is idle, and the robust covariance is White's (HC0 at the observed Hessian)."""
    data = binary(12, kind)
    moments = [score, f"x*{score}", f"z*{score}"]
    names = ["north", "south"] if split else ["north"]
    study = sw.Study(moments, "b1", {name: sw.Source("x z y") for name in names})
    share = {name: {k: v[i :: len(names)] for k, v in data.items()} for i, name in enumerate(names)}
    fit = sw.fit(study, share, stacking="pooled")
    exog = np.column_stack([np.ones(ROWS), data["x"], data["z"]])
    expected = model(data["y"], exog).fit(cov_type="HC0", disp=False, tol=1e-14, method="newton")
    found = [fit.parameters[name] for name in ("b0", "b1", "b2")]
    assert fit.converged
    np.testing.assert_allclose([p.value for p in found], expected.params, rtol=ESTIMATE)
    np.testing.assert_allclose([p.stderr for p in found], expected.bse, rtol=STDERR)
    assert fit.target.stderr == pytest.approx(expected.bse[1], rel=STDERR)
    assert all(isinstance(kept, sw.Rows) for kept in fit.statistics.values())


def test_a_power_with_a_parameter_for_an_exponent() -> None:
    """c**alpha is written exp(alpha*log(c)); the two equations are solved by SciPy on the rows."""
    rng = np.random.default_rng(13)
    c = np.exp(rng.normal(0.0, 0.3, size=ROWS))
    r = 1.05 * np.exp(0.2 * rng.normal(size=ROWS)) / c**-1.5
    euler = "(delta*exp(alpha*log(c))*r - 1)"
    study = sw.Study([euler, f"r*{euler}"], "alpha", {"panel": sw.Source("c r")}, {"alpha": sw.Parameter(-1.0)})
    fit = sw.fit(study, {"panel": {"c": c, "r": r}})

    def equations(theta: Array) -> list[float]:
        error = theta[0] * c ** theta[1] * r - 1
        return [float(error.mean()), float((r * error).mean())]

    solution = root(equations, [1.0, -1.0], tol=1e-14)
    assert fit.converged
    np.testing.assert_allclose([fit.parameters[n].value for n in ("delta", "alpha")], solution.x, rtol=ESTIMATE)


@pytest.mark.parametrize("weights", ["two-step", "iterated", "cue"])
def test_kept_rows_and_sums_lead_to_the_same_fit(weights: Any) -> None:
    """A moment written as the logarithm of an exponential means the same and makes its source keep the rows."""
    rng = np.random.default_rng(14)
    z, w, u = rng.normal(size=(3, ROWS))
    x = z + 0.5 * w + u + rng.normal(size=ROWS)
    data = {"only": {"x": x, "y": 1 + 0.7 * x + u, "z": z, "w": w}}
    sources = {"only": sw.Source("x y z w")}
    plain = [f"{q}*(y - a - b*x)" for q in ("1", "z", "w")]
    hidden = [f"{q}*log(exp(y - a - b*x))" for q in ("1", "z", "w")]
    kept, summed = (sw.fit(sw.Study(moments, "b", sources), data, weights=weights) for moments in (hidden, plain))
    assert isinstance(kept.statistics["only"], sw.Rows)
    assert isinstance(summed.statistics["only"], sw.Statistics)
    assert kept.target.value == pytest.approx(summed.target.value, rel=ESTIMATE)
    assert kept.target.stderr == pytest.approx(summed.target.stderr, rel=STDERR)
    assert kept.overid.statistic == pytest.approx(summed.overid.statistic, rel=1e-7)
    np.testing.assert_allclose(kept.covariance, summed.covariance, rtol=1e-7)
