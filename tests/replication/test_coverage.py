"""Do 95 % intervals cover 95 % of the time, and do J tests reject 5 %? Designs and seed were fixed beforehand.

The normal run takes 300 replications. Its bounds are those that a correct rate leaves with probability 2e-5, so that
none of the checks here is due by chance, while standard errors that are a quarter too small (coverage 86 %) still
fail. The slow run takes 10,000 and the bars are 0.7 points, three standard errors of such a share.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import numpy as np
import pytest
from scipy.special import chdtri
from scipy.stats import binom

from replication.batch import Replications, covered_by_inversion, covers, replicate
from replication.tables import BOTH, REPLICATIONS, WORLDS, line, rates
from replication.worlds import EIGHT, IV, NINE, TWO_IVS, WEAK, WEAK_ROWS, World
from sourcewise.estimation.blocks import Stacking

ROWS = 1000
FEW = 300
# V at equal shares, from population moments; for the confounder-mediator, V times the mean price 1.4 is 1.250799.
VARIANCE = {IV.name: 16.0, TWO_IVS.name: 0.8, EIGHT.name: 1.250799 / 1.4, NINE.name: 1.250799 / 1.4}
# Copies of moments less parameters. Pooling merges copies; of two equal moments in one source, one is dropped.
DEGREES = {
    **{(IV.name, "stacked"): 0, (TWO_IVS.name, "stacked"): 1, (EIGHT.name, "stacked"): 3, (NINE.name, "stacked"): 3},
    **{(IV.name, "pooled"): 0, (TWO_IVS.name, "pooled"): 1, (EIGHT.name, "pooled"): 2, (NINE.name, "pooled"): 3},
}
worlds = pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
stackings = pytest.mark.parametrize("stacking", BOTH)


@lru_cache
def few(world: World) -> dict[Stacking, Replications]:
    return replicate(world, BOTH, ROWS, FEW)


@lru_cache
def many(world: World) -> dict[Stacking, Replications]:
    return replicate(world, BOTH, ROWS, REPLICATIONS)


def binomial_bounds(rate: float) -> tuple[float, float]:
    low, high = binom.interval(1 - 2e-5, FEW, rate)
    return float(low), float(high)


@worlds
@stackings
def test_intervals_and_tests_keep_their_level_roughly(world: World, stacking: Stacking) -> None:
    found = few(world)[stacking]
    low, high = binomial_bounds(0.95)
    for stderr in (found.stderr, found.corrected):
        assert low <= covers(found.estimate, stderr, world.target).sum() <= high
    assert set(found.degrees) == {DEGREES[world.name, stacking]}
    if world is not IV:
        low, high = binomial_bounds(0.05)
        assert low <= (found.statistic > chdtri(found.degrees, 0.05)).sum() <= high


@worlds
def test_standard_errors_are_those_of_the_theory(world: World) -> None:
    """√(V/T), within 3 %: their bias at 1,000 rows is about 1 %, the noise of a median of 300 below that."""
    found = few(world)["stacked"]
    assert np.median(found.stderr) == pytest.approx((VARIANCE[world.name] / ROWS) ** 0.5, rel=0.03)


def test_a_weak_instrument_needs_inversion_roughly() -> None:
    low, _ = binomial_bounds(0.95)
    found = replicate(WEAK, ("stacked",), WEAK_ROWS, FEW)["stacked"]
    assert covers(found.estimate, found.stderr, WEAK.target).sum() < low
    assert covered_by_inversion(WEAK, WEAK_ROWS, FEW).sum() >= low


@pytest.mark.slow
@worlds
@stackings
def test_intervals_and_tests_keep_their_level(world: World, stacking: Stacking) -> None:
    found = rates(many(world)[stacking], world.target)
    assert 94.3 <= found.coverage <= 95.7
    assert 94.3 <= found.corrected <= 95.7
    if world is IV:
        assert found.rejected is None
        ratio = found.median_ratio  # the estimator has no moments
    else:
        assert found.rejected is not None
        assert 4.3 <= found.rejected <= 5.7
        ratio = found.mean_ratio
    assert 0.98 <= ratio <= 1.02


@pytest.mark.slow
def test_a_weak_instrument_needs_inversion() -> None:
    found = replicate(WEAK, ("stacked",), WEAK_ROWS, REPLICATIONS)["stacked"]
    # about 82 % is what the literature's design gives the normal interval; 2 points are five standard errors
    assert 80 <= 100 * covers(found.estimate, found.stderr, WEAK.target).mean() <= 84
    assert 94.3 <= 100 * covered_by_inversion(WEAK, WEAK_ROWS, REPLICATIONS).mean() <= 95.7


@pytest.mark.slow
@worlds
@stackings
def test_the_documented_table_is_what_comes_out(world: World, stacking: Stacking, root: Path) -> None:
    """To 0.05 points and 0.002: another machine's last bits may move a few replications across a border."""
    found = line(world, stacking, ROWS, rates(many(world)[stacking], world.target))
    start = f"| {world.name} | {stacking} | {ROWS:,} |"
    page = (root / "docs" / "coverage.md").read_text(encoding="utf-8")
    (printed,) = (row for row in page.splitlines() if row.startswith(start))
    shares, expected = (_numbers(row, start) for row in (found, printed))
    for value, shown in zip(shares, expected, strict=True):
        assert value == pytest.approx(shown, abs=0.002 if shown < 2 else 0.05)


def _numbers(row: str, start: str) -> list[float]:
    return [float(number) for number in re.findall(r"\d+\.?\d*", row.removeprefix(start))]
