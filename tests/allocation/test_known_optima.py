"""Optima of the paper's five studies, recomputed elsewhere from population moments by closed form or quadrature.

Those of the linear IV study have a closed form and are met to 1e-9; the others were computed to six places, so
they are compared to 1e-5 (shares) and 1e-6 relative (variances, 1e-3 for the draft lottery's, whose parameters
are printed with five digits).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import sourcewise as sw
from allocation import worlds

ROOT3 = math.sqrt(3.0)


@pytest.mark.parametrize("stacking", ["stacked", "pooled"])
def test_instrument(stacking: str) -> None:
    population = worlds.instrument()
    fit = population.fit(stacking)
    best = sw.allocate(population.study, fit)
    tolerance = 1e-9 if stacking == "stacked" else 1e-6  # a local search has no closed-form finish
    assert best.kappa["registry"] == pytest.approx((ROOT3 - 1) / 2, abs=tolerance)
    assert best.kappa["survey"] == pytest.approx((3 - ROOT3) / 2, abs=tolerance)
    assert best.variance == pytest.approx(8 + 4 * ROOT3, rel=1e-9)
    assert sw.variance(population.study, fit, {"registry": 0.5, "survey": 0.5}) == pytest.approx(16, rel=1e-9)
    assert best.stderr(16000) == pytest.approx(math.sqrt((8 + 4 * ROOT3) / 16000), rel=1e-9)
    assert best.budget_for(best.stderr(16000)) == pytest.approx(16000, rel=1e-9)


@pytest.mark.parametrize("stacking", ["stacked", "pooled"])
def test_two_instruments_put_everything_on_the_stronger(stacking: str) -> None:
    population = worlds.two_instruments()
    fit = population.fit(stacking)
    best = sw.allocate(population.study, fit)
    assert best.kappa == {"first": 0.0, "second": 1.0}
    assert best.variance == pytest.approx(0.5, rel=1e-9)
    for share in (0.0, 0.3, 0.5, 0.9):
        found = sw.variance(population.study, fit, {"first": share, "second": 1 - share})
        assert found == pytest.approx(1 / (2 - 1.5 * share), rel=1e-9)


CASES = [
    # study, stacking, κ*, V*, V at equal shares
    ("nine", "pooled", (0.137138, 0.862862), 1.027057, 1.250799),
    ("eight", "pooled", (0.139468, 0.860532), 1.039711, None),
    ("eight", "stacked", (0.137138, 0.862862), 1.027057, None),
    ("ihdp", "pooled", (0.805034, 0.0, 0.194966), 11.896915, 21.838606),
    ("ihdp", "stacked", (0.810403, 0.0, 0.189597), 11.738486, 19.278935),
    ("draft", "stacked", (0.15215, 0.84785), 338.692, 502.62),
    ("draft", "pooled", (0.15215, 0.84785), 338.692, 502.62),
]
MAKE: dict[str, Callable[[], worlds.Population]] = {
    "nine": lambda: worlds.confounder_mediator(published=True),
    "eight": lambda: worlds.confounder_mediator(published=False),
    "ihdp": worlds.ihdp,
    "draft": worlds.draft_lottery,
}


@pytest.mark.parametrize(("name", "stacking", "kappa", "variance", "equal"), CASES)
def test_optima_of_the_paper_s_studies(
    name: str, stacking: str, kappa: tuple[float, ...], variance: float, equal: float | None
) -> None:
    population = MAKE[name]()
    fit = population.fit(stacking)
    best = sw.allocate(population.study, fit)
    figures = 1e-5 if name == "draft" else 1e-6
    assert list(best.kappa.values()) == pytest.approx(list(kappa), abs=1e-5)
    assert [share == 0 for share in best.kappa.values()] == [share == 0 for share in kappa]
    assert best.variance == pytest.approx(variance, rel=figures)
    assert best.local == (stacking == "pooled")
    if not best.local:
        assert best.gap < 1e-9
    if equal is not None:
        mix = dict.fromkeys(population.study.sources, 1.0)
        assert sw.variance(population.study, fit, mix) == pytest.approx(equal, rel=figures)


def test_a_mix_that_does_not_identify_the_target_has_infinite_variance() -> None:
    """The trap: several moments of the first two IHDP sources coincide, and a pseudo-inverse would say 5.07."""
    population = worlds.ihdp()
    for stacking in ("pooled", "stacked"):
        fit = population.fit(stacking)
        assert sw.variance(population.study, fit, {"first": 0.5, "second": 0.5}) == math.inf
        collect_all = sw.variance(population.study, fit, {"both": 1.0})
        assert collect_all == pytest.approx(20.609, rel=1e-4)
    fit = population.fit("pooled")
    published = sw.variance(population.study, fit, {"first": 0.594, "both": 0.406})
    assert published == pytest.approx(13.371, rel=1e-4)


@pytest.mark.parametrize("name", ["eight", "ihdp", "draft"])
def test_stacking_never_has_the_larger_variance(name: str) -> None:
    population = MAKE[name]()
    stacked, pooled = population.fit("stacked"), population.fit("pooled")
    random = np.random.default_rng(5)
    for _ in range(20):
        mix = dict(zip(population.study.sources, random.dirichlet(np.ones(len(population.study.sources))), strict=True))
        low = sw.variance(population.study, stacked, mix)
        high = sw.variance(population.study, pooled, mix)
        assert low <= high * (1 + 1e-9)
