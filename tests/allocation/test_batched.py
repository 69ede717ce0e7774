"""Thousands of designs at once, against certificates, closed forms and the cone program.

Tolerances: the certified gap stops at about 1e-10, where the search does, so 1e-8 leaves room for other processors;
variances are compared with an independent evaluation by least squares, exact to the condition of the problem (1e-9)."""

from __future__ import annotations

import numpy as np
import pytest

from sourcewise.allocation.batched import solve_batch
from sourcewise.allocation.design import Problem, solve
from sourcewise.errors import AllocationError
from sourcewise.numerics.linalg import Array

SHAPES = [(3, 1, 2, 600), (3, 4, 4, 2000), (3, 9, 6, 300), (8, 2, 6, 1600), (20, 3, 20, 40)]


def problems(size: int, tall: int, dimension: int, batch: int, seed: int = 0) -> tuple[Array, Array]:
    """Sources that see half of the parameters, prices over four orders of magnitude, some sources twice or nearly."""
    generator = np.random.default_rng(seed)
    roots = generator.normal(size=(size, tall, dimension, batch))
    roots *= generator.random((size, 1, dimension, batch)) < 0.5
    roots /= 10 ** generator.uniform(-1, 1, (size, 1, 1, batch))
    roots[1, ..., ::5] = roots[0, ..., ::5]
    roots[2, ..., ::7] = roots[0, ..., ::7] + 1e-7 * roots[1, ..., ::7]
    return roots, generator.normal(size=(dimension, batch))


def variance(roots: Array, gradient: Array, money: Array) -> float:
    stack = (roots * np.sqrt(money)[:, None, None]).reshape(-1, len(gradient))
    scale = np.linalg.norm(stack, axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    aim = gradient / scale
    h = np.linalg.lstsq((stack / scale).T, aim, rcond=1e-9)[0]
    inside = np.linalg.norm((stack / scale).T @ h - aim) <= 1e-6 * np.linalg.norm(aim)
    return float(h @ h) if inside else np.inf


@pytest.mark.parametrize("shape", SHAPES)
def test_every_answer_is_certified_and_its_variance_is_true(shape: tuple[int, int, int, int]) -> None:
    roots, gradient = problems(*shape)
    found = solve_batch(roots, gradient)
    seen = np.isfinite(found.value)
    assert seen.mean() > 0.3
    assert found.gap.max() <= 1e-8
    assert (found.money >= 0).all()
    assert found.money.sum(axis=0) == pytest.approx(1.0, abs=1e-12)
    for b in range(0, shape[-1], 7):
        assert found.value[b] == pytest.approx(variance(roots[..., b], gradient[:, b], found.money[:, b]), rel=1e-9)


@pytest.mark.parametrize("limited", ["no", "lower", "upper", "both"])
def test_agrees_with_the_cone_program_under_limits(limited: str) -> None:
    roots, gradient = problems(4, 2, 3, 240, seed=1)
    generator = np.random.default_rng(2)
    total = 10 ** generator.uniform(-2, 4, 240)
    lower, upper = np.zeros((4, 240)), np.full((4, 240), np.inf)
    if limited in ("lower", "both"):
        lower = total * generator.dirichlet(np.ones(4), 240).T * generator.uniform(0, 1, 240)
    if limited in ("upper", "both"):
        upper = lower + total * generator.uniform(0, 1, (4, 240)) * (generator.random((4, 240)) < 0.8)
        upper[3, upper.sum(axis=0) < total] = np.inf
        upper[:, :10] = lower[:, :10] + (total - lower.sum(axis=0))[:10] * generator.dirichlet(np.ones(4), 10).T
    found = solve_batch(roots, gradient, total, lower, upper)
    assert found.gap.max() <= 1e-8
    slack = 1e-9 * total
    assert ((found.money >= lower - slack) & (found.money <= upper + slack)).all()
    assert np.abs(found.money.sum(axis=0) - total).max() <= 1e-9 * total.max()
    for b in range(0, 240, 3):
        pieces = tuple(roots[i, :, :, b] for i in range(4))
        other = solve(Problem(pieces, gradient[:, b], float(total[b]), lower[:, b], upper[:, b]))
        # The cone program's answer is only known to lie within its own gap where sources are nearly collinear.
        assert np.isfinite(other.value) == np.isfinite(found.value[b])
        if np.isfinite(other.value):
            assert found.value[b] == pytest.approx(other.value, rel=2e-8 + 2 * other.gap)


def column(*roots: list[list[float]]) -> Array:
    return np.array(roots, dtype=float)[..., None]


def test_known_optimum_of_the_instrument() -> None:
    """V = 2/κ₁ + 6/κ₂ is least at κ₁ = (√3 − 1)/2, where it is 8 + 4√3."""
    roots = column([[1 / np.sqrt(2), 0]], [[0, 1 / np.sqrt(6)]])
    found = solve_batch(roots, np.ones((2, 1)))
    assert found.money[:, 0] == pytest.approx([(np.sqrt(3) - 1) / 2, (3 - np.sqrt(3)) / 2], abs=1e-12)
    assert found.value[0] == pytest.approx(8 + 4 * np.sqrt(3), rel=1e-12)


def test_a_source_that_is_worth_less_gets_exactly_nothing() -> None:
    found = solve_batch(column([[np.sqrt(0.5)]], [[np.sqrt(2)]]), np.ones((1, 1)))
    assert found.money[:, 0].tolist() == [0.0, 1.0]
    assert found.value[0] == pytest.approx(0.5, rel=1e-14)


def test_an_optimum_with_singular_information() -> None:
    """Only the first source sees the target, the others see nuisances that do not help."""
    roots = column([[1, 0, 0], [0, 0, 0]], [[0, 1, 0], [0, 0, 1]], [[0, 1, 1], [0, 0, 2]])
    found = solve_batch(roots, np.array([[1.0], [0.0], [0.0]]))
    assert found.money[:, 0].tolist() == [1.0, 0.0, 0.0]
    assert found.gap[0] <= 1e-9


def test_money_that_cannot_identify_the_target_has_infinite_variance() -> None:
    """Two sources see only θ₁ + θ₂ and θ₁ + θ₂ + 1e-12 θ₁, as good as the same; the third may not be used."""
    roots = column([[1, 1]], [[1 + 1e-12, 1]], [[0, 1]])
    gradient = np.array([[1.0], [0.0]])
    assert np.isfinite(solve_batch(roots, gradient).value[0])
    shut = solve_batch(roots, gradient, upper=np.array([[np.inf], [np.inf], [0.0]]))
    assert shut.value[0] == np.inf
    assert shut.money.sum() == pytest.approx(1.0)
    assert shut.money[2, 0] == 0


def test_one_broken_replication_leaves_the_others_alone() -> None:
    roots, gradient = problems(3, 2, 2, 9, seed=4)
    whole = solve_batch(roots, gradient)
    broken = roots.copy()
    broken[0, 0, 0, 4] = np.nan
    gradient[:, 5] = 0.0
    found = solve_batch(broken, gradient)
    assert found.value[4] == np.inf
    assert found.value[5] == 0.0
    others = [0, 1, 2, 3, 6, 7, 8]
    assert found.money[:, others] == pytest.approx(whole.money[:, others], abs=1e-9)


def test_units_do_not_matter() -> None:
    roots, gradient = problems(3, 3, 3, 200, seed=5)
    plain = solve_batch(roots, gradient)
    units = np.array([1e-6, 1.0, 1e5])[:, None]
    scaled = solve_batch(roots / units, gradient / units, 1e7)
    seen = np.isfinite(plain.value)
    assert np.isfinite(scaled.value).tolist() == seen.tolist()
    assert scaled.value[seen] == pytest.approx(plain.value[seen] / 1e7, rel=1e-9)


@pytest.mark.parametrize(
    ("total", "lower", "upper", "rule"),
    [
        (1.0, 0.6, None, "lower limits exceed"),
        (1.0, None, 0.2, "upper limits leave money"),
        (1.0, 0.3, 0.2, "below its lower limit"),
    ],
)
def test_impossible_limits_are_refused(total: float, lower: float | None, upper: float | None, rule: str) -> None:
    roots, gradient = problems(3, 1, 2, 4, seed=6)
    low, high = (None if limit is None else np.full((3, 1), limit) for limit in (lower, upper))
    with pytest.raises(AllocationError, match=rule):
        solve_batch(roots, gradient, total, low, high)
