"""The best fixed mix at the truth, against closed forms and quadrature."""

from __future__ import annotations

import math

import pytest

import sourcewise as sw
from simulation.problems import MEANS, MEANS_STUDY, people
from sourcewise.allocation.allocate import variance
from sourcewise.estimation.blocks import Stacking
from sourcewise.experiments import EXPERIMENTS
from sourcewise.experiments.studies import draft_lottery
from sourcewise.simulation.oracle import best_fixed, population_fit

IHDP = (0.805034, 0.0, 0.194966)
IHDP_STACKED = (0.810403, 0.0, 0.189597)
MEDIATOR = (0.137138, 0.862862)
OPTIMA: list[tuple[str, Stacking, tuple[float, ...], float]] = [
    ("iv", "pooled", ((math.sqrt(3) - 1) / 2, (3 - math.sqrt(3)) / 2), 8 + 4 * math.sqrt(3)),
    ("iv", "stacked", ((math.sqrt(3) - 1) / 2, (3 - math.sqrt(3)) / 2), 8 + 4 * math.sqrt(3)),
    ("two-ivs", "pooled", (0.0, 1.0), 0.5),
    ("two-ivs", "stacked", (0.0, 1.0), 0.5),
    ("confounder-mediator", "pooled", MEDIATOR, 1.027057),
    ("confounder-mediator", "stacked", MEDIATOR, 1.027057),
    ("ihdp", "pooled", IHDP, 11.896915),
    ("ihdp", "stacked", IHDP_STACKED, 11.738486),
    ("draft-lottery", "pooled", (0.15215, 0.84785), 338.692),
    ("draft-lottery", "stacked", (0.15215, 0.84785), 338.692),
]

OTHERS: list[tuple[str, Stacking, tuple[float, ...], float]] = [
    ("iv", "pooled", (0.5, 0.5), 16.0),
    ("two-ivs", "pooled", (0.5, 0.5), 0.8),
    ("two-ivs", "pooled", (0.2, 0.8), 1 / (2 - 1.5 * 0.2)),
    ("confounder-mediator", "pooled", (0.5, 0.5), 1.250799),
    ("ihdp", "pooled", (1.0, 1.0, 1.0), 21.838606),
    ("ihdp", "stacked", (1.0, 1.0, 1.0), 19.278935),
    ("ihdp", "pooled", (0.0, 0.0, 1.0), 20.609),
    ("ihdp", "pooled", (0.594, 0.0, 0.406), 13.371),
    ("ihdp", "pooled", (0.5, 0.5, 0.0), math.inf),
    ("draft-lottery", "pooled", (0.5, 0.5), 502.62),
]
"""The values are printed with five or six digits: compared to 1e-4 of their size."""


@pytest.mark.parametrize(("name", "stacking", "kappa", "value"), OPTIMA)
def test_the_best_mix(name: str, stacking: Stacking, kappa: tuple[float, ...], value: float) -> None:
    best = EXPERIMENTS[name]().best(stacking)
    assert tuple(best.kappa.values()) == pytest.approx(kappa, abs=2e-5)
    assert best.variance == pytest.approx(value, rel=1e-5)


@pytest.mark.parametrize(("name", "stacking", "kappa", "value"), OTHERS)
def test_the_variance_of_other_mixes(name: str, stacking: Stacking, kappa: tuple[float, ...], value: float) -> None:
    experiment = EXPERIMENTS[name]()
    known = population_fit(experiment.world, experiment.study, stacking)
    mix = dict(zip(experiment.study.sources, kappa, strict=True))
    assert variance(experiment.study, known, mix) == pytest.approx(value, rel=1e-4)


def test_the_published_data_of_the_lottery() -> None:
    best = draft_lottery(as_published=True).best("pooled")
    assert tuple(best.kappa.values()) == pytest.approx((0.20839, 0.79161), abs=1e-5)
    assert best.variance == pytest.approx(180.542, rel=1e-5)


def test_a_population_that_is_only_known_by_drawing_is_nearly_the_exact_one() -> None:
    """V × cost of two means is (1·√1 + 3·√2)²; a sample of 2^18 knows a variance to 0.3 %, at one standard error."""
    exact, drawn = best_fixed(MEANS, MEANS_STUDY), best_fixed(sw.FunctionWorld(people, 2.0), MEANS_STUDY)
    assert exact.variance == pytest.approx((1 + 3 * math.sqrt(2)) ** 2, rel=1e-9)
    assert drawn.variance == pytest.approx(exact.variance, rel=0.01)


def test_where_sources_run_out_the_oracle_knows_it() -> None:
    limited = sw.Study(
        MEANS_STUDY.moments, MEANS_STUDY.target, {"left": sw.Source("x"), "right": sw.Source("y", 2.0, capacity=20)}
    )
    found = sw.simulate(MEANS, limited, {"etg": sw.ETG(0.25)}, [50, 400], runs=30, seed=0)
    oracle = found.outcomes["oracle"]
    assert (oracle.rows[:, 1] == [[360], [20]]).all()
    assert (found.outcomes["etg"].rows[1] <= 20).all()
    assert found.cell("oracle", 50).kappa["right"] > found.cell("oracle", 400).kappa["right"]
