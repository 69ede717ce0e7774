"""Anytime intervals as campaigns compute them: how they are tuned, and how often they miss the truth at any look.

Thousands of campaigns are in tests/inference/test_anytime.py, by the engine of simulations; here is `Campaign` itself.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

import sourcewise as sw
from inference.test_anytime import LOOKS, study
from sourcewise.anytime import anytime_margin, tightest_for
from sourcewise.campaign.record import read_history
from sourcewise.records import Look
from storage.memory import MemoryStorage

BUDGET = 800.0 * LOOKS


def rows(source: str, n: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """β = 1, of people with a confounder."""
    z, u, first, second = random.standard_normal((4, n))
    x = z + u + first
    people = {"z": z, "x": x, "y": x + u + second}
    return {name: people[name] for name in study().sources[source].observes}


def looks_of(seed: int, target_width: float | None = None) -> tuple[Look, ...]:
    random = np.random.Generator(np.random.SFC64(seed))
    options = {"policy": sw.ETG(1 / LOOKS), "target_width": target_width}
    campaign = sw.Campaign.create(MemoryStorage(), study(), budget=BUDGET, **options)  # type: ignore[arg-type]
    while (order := campaign.ask()) is not None:
        for source, n in order.rows.items():
            campaign.tell(source, rows(source, n, random))
    return read_history(campaign.history()).looks


def margin(look: Look) -> float:
    low, high = look.anytime
    assert low is not None
    assert high is not None
    return (high - low) / 2


def test_a_campaign_tunes_its_intervals_at_the_first_look_and_never_again() -> None:
    looks = looks_of(1)
    assert len(looks) == LOOKS
    first = looks[0]
    assert first.stderr is not None
    tightest = first.stderr * math.sqrt(first.spent / BUDGET)
    for look in looks:
        assert look.stderr is not None
        assert margin(look) == pytest.approx(anytime_margin(look.stderr, tightest), rel=1e-9)


def test_a_target_width_tunes_them_before_any_look() -> None:
    looks = looks_of(2, target_width=0.5)
    assert 1 < len(looks) < LOOKS
    for look in looks:
        assert look.stderr is not None
        assert margin(look) == pytest.approx(anytime_margin(look.stderr, tightest_for(0.5)), rel=1e-9)
    assert 2 * margin(looks[-1]) <= 0.5 < 2 * margin(looks[-2])


@pytest.mark.slow
def test_campaigns_looked_at_after_every_round() -> None:
    """250 of them: a share of 5 % has a standard error of 1.4 points."""
    fixed = anytime = 0
    for seed in range(250):
        looks = looks_of(1000 + seed)
        assert len(looks) == LOOKS
        away = [abs((look.value or 0.0) - 1.0) for look in looks]
        fixed += any(d > 1.959964 * (look.stderr or 0.0) for d, look in zip(away, looks, strict=True))
        anytime += any(d > margin(look) for d, look in zip(away, looks, strict=True))
    print(f"missed at any of {LOOKS} looks: fixed {fixed / 2.5:.1f} %, anytime {anytime / 2.5:.1f} %")
    assert fixed / 250 > 0.15
    assert anytime / 250 <= 0.05
