"""A batch of problems is what so many calls of `fit` would find, and needs no start any more than they do."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import chdtri

import sourcewise as sw
from replication.batch import covered_by_inversion, estimates_of, evidence, frames, run
from replication.tables import BOTH
from replication.worlds import EIGHT, IV, NINE, TWO_IVS, WEAK, WEAK_ROWS, World
from sourcewise.estimation.blocks import Blocks, Stacking
from sourcewise.estimation.starts import plan

ROWS = 1000
worlds = pytest.mark.parametrize("world", [IV, TWO_IVS, EIGHT, NINE], ids=lambda world: world.name)
stackings = pytest.mark.parametrize("stacking", BOTH)


@worlds
@stackings
def test_a_batch_finds_what_single_fits_find(world: World, stacking: Stacking) -> None:
    """To 1e-9 relative. A search stops when a step would be small against the error of sampling, and a batch sums
    about other centres than `fit` chooses, so the last digits of a double are not promised."""
    count = 12
    blocks = Blocks(evidence(world, ROWS, count, 0), stacking, "robust", False, len(world.study.moments))
    batch, theta = run(world, blocks), estimates_of(world, blocks).theta
    for k, data in enumerate(frames(world, ROWS, count, 0)):
        fit = sw.fit(world.study, data, stacking=stacking)
        corrected = sw.fit(world.study, data, stacking=stacking, covariance="windmeijer")
        values = [parameter.value for parameter in fit.parameters.values()]
        assert values == pytest.approx(list(theta[:, k]), rel=1e-9, abs=0)
        assert fit.target.stderr == pytest.approx(batch.stderr[k], rel=1e-9, abs=0)
        assert corrected.target.stderr == pytest.approx(batch.corrected[k], rel=1e-9, abs=0)
        assert fit.overid.df == batch.degrees[k]
        # J is a difference of squares: where it is small, so is what is left of its digits.
        assert fit.overid.statistic == pytest.approx(batch.statistic[k], rel=1e-9, abs=1e-10)


@worlds
def test_nothing_has_to_be_drawn_or_given_to_start(world: World) -> None:
    """The linear pass reaches every parameter, and every search that starts there converges."""
    stages = plan(world.study, frozenset(), frozenset(range(len(world.study.moments))))
    assert all(stage.moments for stage in stages)
    assert sorted(k for stage in stages for k in stage.parameters) == list(range(len(world.study.parameters)))
    blocks = Blocks(evidence(world, ROWS, 300, 0), "stacked", "robust", False, len(world.study.moments))
    assert estimates_of(world, blocks).converged.all()


def test_the_weak_interval_is_what_inversion_says() -> None:
    """Does the set hold the truth? Three answers: `weak_interval`, the batch, and n·ḡ²/Ω from the rows themselves."""
    count = 36
    batch = covered_by_inversion(WEAK, WEAK_ROWS, count, level=0.8)  # a level at which both answers occur
    truth, shapes = WEAK.target, set()
    for k, data in enumerate(frames(WEAK, WEAK_ROWS, count, 0)):
        z, x, y = (data["all"][name] for name in "zxy")
        moment = z * (y - truth * x)
        held = WEAK_ROWS * np.mean(moment) ** 2 / np.mean(moment**2) <= chdtri(1, 0.2)
        found = sw.fit(WEAK.study, data).weak_interval(0.8)
        assert (truth in found, batch[k]) == (held, held)
        shapes.add((len(found.segments), found.bounded))
    assert 0 < batch.sum() < count
    assert {(1, True), (2, False)} <= shapes  # an interval, and two rays
