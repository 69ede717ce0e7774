"""Agreement with outside software: Stata, gretl, lavaan and textbooks as printed, linearmodels live.

A tolerance is relative, for every figure of a row; nothing is compared in absolute terms, so that a small
standard error is held to as many digits as a large chi-square.

- 1e-8 (rows 1 and 2): linear algebra alone lies between data and figure, and the prints carry 12 digits. It
  is tight enough to tell conventions apart: the standard error of row 2 with the second-step weight alone
  instead of the sandwich differs by 8e-3, with the final Ω on both sides by 5e-7.
- 1e-6 (row 3): Stata stops iterating when the parameters move by less than 1e-6.
- 1e-5 (rows 4 to 9): the prints carry five to eight digits (cut by up to 9e-6 of the figure), and gretl's and
  lavaan's optimisers stop 1e-6 short of the optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from linearmodels.iv import IV2SLS

from agreement import rows
from agreement.models import LinearModel, card, griliches, mroz
from agreement.rows import Figures, figures, fit_linear, fit_structure, values_of
from agreement.structures import ability, democracy


@dataclass(frozen=True, slots=True)
class Row:
    """A printed result, what computes it here, and the relative tolerance of every figure."""

    name: str
    compute: Callable[[], Figures]
    tolerance: float
    printed: Figures


STATA_1 = {
    "estimate": 0.17242531190423,
    "stderr": 0.02073807855911,
    "J": 13.2683313739,
    "pvalue": 0.0013146751383334,
}
STATA_2 = {"estimate": 0.17579576802, "stderr": 0.02085135579518, "J": 11.6014813678}
# Estimate and error as igmm prints them; J at the fixed point, which Stata's 11.41312079 misses by 2e-7.
STATA_3 = {"estimate": 0.17587739850768, "stderr": 0.02085563162829, "J": 11.4131186}
GRETL = {
    "estimate": -0.344317,
    "stderr": 2.21459,
    "delta": 0.9915662,
    "delta stderr": 0.0042362,
    "J": 11.81027,
}
# Sargan's statistic is printed as 1.2482, too short for the tolerance; these digits are linearmodels'.
CARD_6 = {"estimate": 0.157059, "stderr": 0.052578, "J": 1.2481554}
MROZ = {"estimate": 0.0613966, "stderr": 0.0314367, "J": 0.378071}
ML_8 = {"estimate": 0.5535003, "stderr": 0.0996651, "chi-square": 85.305522}
WLS_8 = {"estimate": 0.5150403, "stderr": 0.0974263, "chi-square": 83.318580}
ML_9 = {"estimate": 1.483001, "stderr": 0.399149, "chi-square": 38.125218}

MATRIX = [
    Row("1 Griliches 2SLS", rows.two_stage, 1e-8, STATA_1 | {"df": 2}),
    Row("2 Griliches two-step", lambda: rows.reweighted("two-step"), 1e-8, STATA_2 | {"df": 2}),
    Row("3 Griliches iterated", lambda: rows.reweighted("iterated"), 1e-6, STATA_3 | {"df": 2}),
    Row("4 Euler equation iterated", rows.consumption, 1e-5, GRETL | {"df": 3}),
    Row("5 Card", lambda: rows.textbook(card("nearc4")), 1e-5, {"estimate": 0.131504, "stderr": 0.054964}),
    Row("6 Card", lambda: rows.textbook(card("nearc2", "nearc4")), 1e-5, CARD_6 | {"df": 1}),
    Row("7 Mroz", lambda: rows.textbook(mroz()), 1e-5, MROZ | {"df": 1}),
    Row("8 ability ML", lambda: rows.likelihood(ability()), 1e-5, ML_8 | {"df": 24}),
    Row(
        "8 ability GLS",
        lambda: rows.least_squares(ability()),
        1e-5,
        {"estimate": 0.4811267, "chi-square": 77.470723},
    ),
    Row("8 ability WLS", rows.distribution_free, 1e-5, WLS_8 | {"df": 24}),
    Row("8 ability ULS", rows.unweighted, 1e-5, {"estimate": 0.5006850, "stderr": 0.1028131}),
    Row("9 democracy ML", lambda: rows.likelihood(democracy()), 1e-5, ML_9 | {"df": 35}),
    Row(
        "9 democracy GLS",
        lambda: rows.least_squares(democracy()),
        1e-5,
        {"estimate": 1.755087, "chi-square": 35.946857},
    ),
]


@pytest.mark.parametrize("row", MATRIX, ids=lambda row: row.name)
def test_figures_match_the_print(row: Row) -> None:
    found = row.compute()
    assert {name: found[name] for name in row.printed} == pytest.approx(row.printed, rel=row.tolerance, abs=0)


def two_stage_elsewhere(model: LinearModel) -> Any:
    frame = model.frame.assign(const=1.0)
    parts = ([model.outcome], [*model.exogenous, "const"], list(model.endogenous), list(model.excluded))
    return IV2SLS(*(frame[names] for names in parts)).fit(cov_type="robust", debiased=False)


LIVE = {"5 Card": card("nearc4"), "6 Card": card("nearc2", "nearc4"), "7 Mroz": mroz()}


@pytest.mark.parametrize("model", LIVE.values(), ids=LIVE)
def test_robust_results_match_linearmodels(model: LinearModel) -> None:
    """Every coefficient, every robust standard error, every covariance of the estimates; Sargan's test."""
    fit = fit_linear(model, weights=model.first_weight())
    outside = two_stage_elsewhere(model)
    names = [name.removeprefix("b_") for name in fit.parameters]
    errors = outside.std_errors[names].to_numpy()
    np.testing.assert_allclose(list(values_of(fit).values()), outside.params[names], rtol=1e-5)
    np.testing.assert_allclose([parameter.stderr for parameter in fit.parameters.values()], errors, rtol=1e-5)
    gap = (fit.covariance - outside.cov.loc[names, names].to_numpy()) / np.outer(errors, errors)
    assert np.abs(gap).max() < 1e-5
    if len(model.excluded) > len(model.endogenous):
        overid = rows.classical(model).overid
        expected = (outside.sargan.stat, outside.sargan.pval)
        assert (overid.statistic, overid.pvalue) == pytest.approx(expected, rel=1e-5, abs=0)


def test_centring_turns_J_into_J_over_one_minus_J_over_n() -> None:
    """Exact where the weight belongs to the estimate, as it does once iterated to convergence."""
    model = griliches()
    first = model.first_weight()
    raw = figures(fit_linear(model, weights="iterated", first_weight=first))
    centred = figures(fit_linear(model, weights="iterated", first_weight=first, centred=True))
    assert centred["estimate"] == pytest.approx(raw["estimate"], rel=1e-6, abs=0)
    assert centred["J"] == pytest.approx(raw["J"] / (1 - raw["J"] / len(model.frame)), rel=1e-6, abs=0)


def test_centred_two_step_is_the_distribution_free_estimator() -> None:
    """The variance of x_a·x_b − Σ_ab(θ) about its mean is free of θ: any first step leads to this weight."""
    by_hand = figures(fit_structure(ability(), ability().empirical_weight()))
    assert figures(fit_structure(ability(), "two-step")) == pytest.approx(by_hand, rel=1e-5, abs=0)


def test_full_minimisation_under_normal_weights_runs_in_a_circle() -> None:
    """Why maximum likelihood takes one step at a time."""
    model = ability()
    values = values_of(fit_structure(model, model.normal_weight(model.sample())))
    visited = []
    for _ in range(32):
        values = values_of(fit_structure(model, model.normal_weight(model.implied(values)), start=values))
        visited.append(values["l_x2"])
    assert sorted(visited[-2:]) == pytest.approx([0.4666, 0.5929], rel=2e-4, abs=0)
    assert visited[-2:] == pytest.approx(visited[-4:-2], rel=1e-4, abs=0)
