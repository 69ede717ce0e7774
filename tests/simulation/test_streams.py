"""Streams: the statistics of the first n rows are those of these rows, and rows are nobody's but the seed's."""

from __future__ import annotations

import numpy as np
import pytest

import sourcewise as sw
from simulation.problems import IV, IV_STUDY, MEANS_STUDY
from sourcewise.moments.separable import GramEvidence
from sourcewise.simulation.streams import GROUP, PIECE, STRIDE, Stream, plan_source

COUNTS = np.array([1, 2, STRIDE - 1, STRIDE, STRIDE + 1, PIECE, PIECE + 3, 299])


def stream(world: sw.LinearWorld, study: sw.Study, source: str, first: int = 0, rows: int = 300) -> Stream:
    return Stream(world, study, plan_source(world, study, source), 7, first, 3, rows)


@pytest.mark.parametrize("shift", [0.0, 1e6])
def test_sums_are_those_of_the_rows_themselves(shift: float) -> None:
    """Also where the mean is a million standard deviations away: the fit of the very rows is the reference."""
    world = sw.LinearWorld({}, {"a": 5.0, "b": 7.0}, {"x": 1.0, "y": 9.0}, {"x": shift, "y": -shift})
    dealt = stream(world, MEANS_STUDY, "left")
    for r in range(3):
        rows = dealt._columns[0, :, r]
        found = dealt.evidence(COUNTS, np.full(len(COUNTS), r))
        assert isinstance(found, GramEvidence)
        theta = np.full((2, len(COUNTS)), shift)
        mean, _ = found.mean_and_slope(theta)
        spread = found.factor(theta, "robust")
        for k, n in enumerate(COUNTS):
            assert mean[0, k] == pytest.approx((rows[:n] - shift).mean(), rel=1e-9, abs=1e-9)
            assert (spread[0, :, k] ** 2).sum() == pytest.approx(((rows[:n] - shift) ** 2).mean(), rel=1e-9, abs=1e-12)


def test_a_row_depends_on_seed_source_replication_and_place_alone() -> None:
    short, long = stream(IV, IV_STUDY, "treatment", rows=130), stream(IV, IV_STUDY, "treatment", rows=1000)
    assert (short._columns[:, :130, :3] == long._columns[:, :130, :3]).all()
    later = stream(IV, IV_STUDY, "treatment", first=GROUP)
    whole = Stream(IV, IV_STUDY, plan_source(IV, IV_STUDY, "treatment"), 7, 0, GROUP + 3, 300)
    assert (later._columns[:, :300, :3] == whole._columns[:, :300, GROUP : GROUP + 3]).all()
    other = stream(IV, IV_STUDY, "outcome")
    assert not np.isin(other._columns[0, :100, 0], short._columns).any()


def test_rows_that_do_not_separate_are_kept() -> None:
    study = sw.Study(["z*(y - exp(b*z))"], "b", {"all": sw.Source("z y")})
    world = sw.FunctionWorld(lambda random, n: dict.fromkeys("zy", random.normal(size=n)), 0.0)
    dealt = Stream(world, study, plan_source(world, study, "all"), 0, 0, 2, 40)
    mean, _ = dealt.evidence(np.array([10, 40]), np.array([0, 1])).mean_and_slope(np.zeros((1, 2)))
    z, y = dealt._columns[:, :10, 0]
    assert mean[0, 0] == pytest.approx((z * (y - 1)).mean())
