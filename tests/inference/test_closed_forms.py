"""Asymptotic variances against their closed forms, from exact population moments.

V(θ, κ) is T times the squared standard error. With exact moments only rounding lies between the two sides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pytest

import sourcewise as sw
from inference.population import ROWS, Array, statistics
from replication.worlds import EFFECT, EIGHT, IV, NINE, TWO_IVS, A, B, D


def instrument(e: Array) -> Mapping[str, Array]:
    z, u, e_x, e_y = e
    x = z + u + e_x
    return {"z": z, "x": x, "y": x + u + e_y}


def two_instruments(e: Array) -> Mapping[str, Array]:
    z1, z2, u, e_x, e_y = e[0], 2.0 * e[1], *e[2:]
    x = z1 + z2 + u + e_x
    return {"z1": z1, "z2": z2, "x": x, "y": x + u + e_y}


def mediated(e: Array) -> Mapping[str, Array]:
    w, e_x, e_m, e_y = e
    x = D * w + e_x
    m = EFFECT / A * x + e_m
    return {"w": w, "x": x, "m": m, "y": A * m + B * w + e_y}


def variance(study: sw.Study, people: Any, dimension: int, shares: Mapping[str, float], **options: Any) -> float:
    """V(θ, κ)."""
    fit = sw.fit(study, statistics(study, people, dimension, shares), **options)
    assert fit.converged
    assert sum(fit.rows.values()) == ROWS
    return fit.target.stderr**2 * ROWS


BEST = (math.sqrt(3) - 1) / 2


@pytest.mark.parametrize("stacking", ["stacked", "pooled"])
@pytest.mark.parametrize("share", [BEST, 0.5, 0.1, 0.9, 0.367])
def test_one_instrument(share: float, stacking: str) -> None:
    """V = 2/κ₁ + 6/κ₂, smallest at κ₁ = (√3 − 1)/2."""
    shares = {"exposure": share, "outcome": 1.0 - share}
    found = variance(IV.study, instrument, 4, shares, stacking=stacking)
    assert found == pytest.approx(2 / share + 6 / (1 - share), rel=1e-12)


def test_one_instrument_as_printed() -> None:
    best = variance(IV.study, instrument, 4, {"exposure": BEST, "outcome": (3 - math.sqrt(3)) / 2})
    assert best == pytest.approx(8 + 4 * math.sqrt(3), rel=1e-12)
    assert variance(IV.study, instrument, 4, {"exposure": 0.5, "outcome": 0.5}) == pytest.approx(16, rel=1e-12)


@pytest.mark.parametrize("stacking", ["stacked", "pooled"])
@pytest.mark.parametrize("share", [1e-6, 0.05, 0.5, 0.75])
def test_two_instruments(share: float, stacking: str) -> None:
    """V = 1/(2 − 1.5 κ₁): the second instrument varies four times as much."""
    shares = {"first": share, "second": 1.0 - share}
    found = variance(TWO_IVS.study, two_instruments, 5, shares, stacking=stacking)
    assert found == pytest.approx(1 / (2 - 1.5 * share), rel=1e-12)


@pytest.mark.parametrize("name", ["first", "second"])
def test_two_instruments_at_the_corners(name: str) -> None:
    found = variance(TWO_IVS.study, two_instruments, 5, {name: 1.0})
    assert found == pytest.approx({"first": 2.0, "second": 0.5}[name], rel=1e-12)


# (moments, stacking, κ₁, V·(κᵀc)), printed to six decimals
MEDIATED = {
    "nine, equal rows": (NINE.study, "pooled", 0.5, 1.250799),
    "nine, best": (NINE.study, "pooled", None, 1.027057),
    "eight, pooled": (EIGHT.study, "pooled", None, 1.039711),
    "eight, stacked": (EIGHT.study, "stacked", None, 1.027057),
}
RATIOS = {"nine, best": 0.137138, "eight, pooled": 0.139468, "eight, stacked": 0.137138}


@pytest.mark.parametrize("row", MEDIATED)
def test_confounder_and_mediator(row: str) -> None:
    """The printed ratios are minima, so that their own rounding does not show in V."""
    study, stacking, share, expected = MEDIATED[row]
    first = RATIOS[row] if share is None else share
    price = 1.8 * first + 1.0 * (1 - first)
    shares = {"confounder": first, "mediator": 1 - first}
    found = variance(study, mediated, 4, shares, stacking=stacking) * price
    assert found == pytest.approx(expected, abs=6e-7)


@pytest.mark.parametrize("weights", ["iterated", "cue"])
def test_efficient_weights_share_their_variance(weights: str) -> None:
    shares = {"exposure": 0.5, "outcome": 0.5}
    assert variance(IV.study, instrument, 4, shares, weights=weights) == pytest.approx(16, rel=1e-12)
    mixed = {"confounder": 0.3, "mediator": 0.7}
    reference = variance(EIGHT.study, mediated, 4, mixed)
    assert variance(EIGHT.study, mediated, 4, mixed, weights=weights) == pytest.approx(reference, rel=1e-9)


def test_pooling_never_beats_stacking() -> None:
    losses = []
    for share in (0.05, 0.139, 0.5, 0.8, 0.95):
        shares = {"confounder": share, "mediator": 1 - share}
        stacked, pooled = (variance(EIGHT.study, mediated, 4, shares, stacking=way) for way in ("stacked", "pooled"))
        losses.append(pooled / stacked - 1)
    assert min(losses) > -1e-12
    assert max(losses) > 0.01
