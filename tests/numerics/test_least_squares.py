"""Levenberg–Marquardt on the problems that minimisers are measured by, against SciPy's.

Every search is asked for its own verdict too: it must not claim a minimum that it has not reached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import approx_fprime, least_squares

from sourcewise.numerics.least_squares import Search, minimize
from sourcewise.numerics.linalg import Array

Complex = Any
"""Complex arrays; the formulas take real ones as well."""
UNBOUNDED = np.inf


@dataclass(frozen=True)
class Test:
    """One formula for r (R,) with data (P, B) that may differ from problem to problem; slopes by the complex step."""

    __test__ = False
    formula: Callable[[Complex, Array], list[Complex]]
    data: Array

    def residual(self, theta: Array) -> tuple[Array, Array]:
        with np.errstate(all="ignore"):
            value = np.array(self.formula(theta.astype(complex), self.data))
            slopes = []
            for d in range(len(theta)):
                moved = theta.astype(complex)
                moved[d] += 1e-30j
                slopes.append(np.array(self.formula(moved, self.data)).imag / 1e-30)
        return value.real, np.stack(slopes, axis=1)

    def take(self, which: NDArray[np.int64]) -> Self:
        return type(self)(self.formula, self.data[:, which])


def run(
    formula: Callable[..., list[Complex]],
    start: Array,
    data: Array | None = None,
    lower: Array | float = -UNBOUNDED,
    upper: Array | float = UNBOUNDED,
    noise: float = 1.0,
    max_iterations: int = 100,
) -> Search:
    start = start if start.ndim == 2 else start[:, None]
    batch = start.shape[1]
    data = np.zeros((1, batch)) if data is None else data
    low, high = (np.broadcast_to(np.asarray(bound, dtype=float), len(start)) for bound in (lower, upper))
    sizes = np.full(batch, noise)
    return minimize(Test(formula, data), start, lower=low, upper=high, noise=sizes, max_iterations=max_iterations)


def plain(formula: Callable[..., list[Complex]], data: Array | None = None) -> Callable[[Array], Array]:
    """The residual as SciPy wants it."""
    return lambda theta: np.array(formula(theta, np.zeros(1) if data is None else data), dtype=float)


def rosenbrock(t: Complex, _: Array) -> list[Complex]:
    return [10 * (t[1] - t[0] ** 2), 1 - t[0]]


def wood(t: Complex, _: Array) -> list[Complex]:
    return [
        10 * (t[1] - t[0] ** 2),
        1 - t[0],
        np.sqrt(90) * (t[3] - t[2] ** 2),
        1 - t[2],
        np.sqrt(10) * (t[1] + t[3] - 2),
        (t[1] - t[3]) / np.sqrt(10),
    ]


def powell(t: Complex, _: Array) -> list[Complex]:
    return [t[0] + 10 * t[1], np.sqrt(5) * (t[2] - t[3]), (t[1] - 2 * t[2]) ** 2, np.sqrt(10) * (t[0] - t[3]) ** 2]


def helical(t: Complex, _: Array) -> list[Complex]:
    turn = np.arctan(t[1] / t[0]) / (2 * np.pi) + np.where(t[0].real < 0, 0.5, 0.0)
    return [10 * (t[2] - 10 * turn), 10 * (np.sqrt(t[0] ** 2 + t[1] ** 2) - 1), t[2]]


CLASSICS = {
    "Rosenbrock": (rosenbrock, [-1.2, 1.0], [1.0, 1.0]),
    "Wood": (wood, [-3.0, -1.0, -3.0, -1.0], [1.0, 1.0, 1.0, 1.0]),
    "helical valley": (helical, [-1.0, 0.1, 0.0], [1.0, 0.0, 0.0]),
}


@pytest.mark.parametrize(("formula", "start", "truth"), CLASSICS.values(), ids=CLASSICS)
def test_classics_end_where_they_should(
    formula: Callable[..., list[Complex]], start: list[float], truth: list[float]
) -> None:
    """Zero residuals: the last Gauss–Newton steps are quadratic, and 1e-9 is far above where they end."""
    found = run(formula, np.array(start))
    assert found.converged.all()
    np.testing.assert_allclose(found.theta[:, 0], truth, atol=1e-8)
    assert found.objective[0] < 1e-17


def test_powells_singular_problem_goes_to_its_singular_minimum() -> None:
    """The Jacobian loses rank 2 there, so convergence is linear: the objective, not θ, measures success."""
    found = run(powell, np.array([3.0, -1.0, 0.0, 1.0]))
    assert found.converged.all()
    assert found.objective[0] < 1e-16
    np.testing.assert_allclose(found.theta[:, 0], 0.0, atol=1e-3)


def test_residuals_that_do_not_vanish_agree_with_scipy() -> None:
    """Freudenstein and Roth's problem: a local minimum of 48.98, where plain Gauss–Newton creeps.

    As many residuals as parameters and no root: the Jacobian is singular there, so that no verdict is asked for.
    """

    def freudenstein(t: Complex, _: Array) -> list[Complex]:
        return [-13 + t[0] + ((5 - t[1]) * t[1] - 2) * t[1], -29 + t[0] + ((t[1] + 1) * t[1] - 14) * t[1]]

    found = run(freudenstein, np.array([0.5, -2.0]))
    other = least_squares(
        plain(freudenstein),
        [0.5, -2.0],
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-15,
    )
    assert found.objective[0] == pytest.approx(2 * other.cost, rel=1e-12)
    assert found.objective[0] == pytest.approx(48.98425, abs=1e-5)
    np.testing.assert_allclose(found.theta[:, 0], other.x, rtol=1e-6)


def exponential(t: Complex, data: Array) -> list[Complex]:
    times = np.linspace(0.0, 2.0, len(data))
    return [row - t[0] * np.exp(-t[1] * time) for row, time in zip(data, times, strict=True)]


def decays(batch: int) -> Array:
    """Noisy exponential decays (8, batch), some steep, some nearly flat."""
    random = np.random.default_rng(11)
    rates = np.geomspace(0.05, 5.0, batch)
    clean = np.exp(-rates * np.linspace(0.0, 2.0, 8)[:, None]) * np.linspace(1.0, 50.0, batch)
    return np.asarray(clean + 0.05 * random.normal(size=clean.shape))


def test_a_batch_of_unequal_difficulty_is_a_loop_and_agrees_with_scipy() -> None:
    data = decays(9)
    start = np.tile([[1.0], [1.0]], (1, 9))
    together = run(exponential, start, data, noise=0.05)
    assert together.converged.all()
    assert len(set(together.iterations.tolist())) > 1  # not all are equally hard
    for b in range(9):
        alone = run(exponential, start[:, b], data[:, b : b + 1], noise=0.05)
        np.testing.assert_allclose(alone.theta[:, 0], together.theta[:, b], rtol=1e-9)
        other = least_squares(
            plain(exponential, data[:, b]), [1.0, 1.0], x_scale="jac", xtol=1e-14, ftol=1e-14, gtol=1e-14
        )
        np.testing.assert_allclose(together.theta[:, b], other.x, rtol=1e-6)
        assert together.objective[b] <= 2 * other.cost * (1 + 1e-10)


def test_a_large_batch_steps_by_another_factorisation_to_the_same_minima() -> None:
    data = decays(9)
    start = np.tile([[1.0], [1.0]], (1, 9))
    few, many = (
        run(exponential, start, data, noise=0.05),
        run(exponential, np.tile(start, 40), np.tile(data, 40), noise=0.05),
    )
    assert many.converged.all()
    np.testing.assert_allclose(many.theta, np.tile(few.theta, 40), rtol=1e-9)


def test_a_narrow_curved_valley_is_followed_to_its_end() -> None:
    """A product that is nearly fixed, and a weak pull along it. Steps on the tangent alone have gone a fifth of the way
    after 500 iterations."""
    found = run(lambda t, _: [10 * (t[0] * t[1] - 1), 0.01 * (t[1] - 50)], np.array([2.0, 0.5]), max_iterations=250)
    assert found.converged.all()
    np.testing.assert_allclose(found.theta[:, 0], [0.02, 50.0], rtol=1e-6)


def test_an_optimum_at_a_bound_agrees_with_scipy() -> None:
    lower, upper = np.array([-UNBOUNDED, 1.5]), np.array([0.9, UNBOUNDED])
    found = run(rosenbrock, np.array([-1.2, 2.0]), lower=lower, upper=upper)
    other = least_squares(
        plain(rosenbrock),
        [-1.2, 2.0],
        bounds=(lower, upper),
        xtol=1e-15,
        ftol=1e-15,
        gtol=1e-15,
    )
    assert found.converged.all()
    assert found.theta[1, 0] == 1.5
    assert found.objective[0] <= 2 * other.cost + 1e-12
    assert found.theta[0, 0] == pytest.approx(other.x[0], abs=1e-6)


def test_a_start_outside_the_bounds_is_brought_in_and_a_parameter_may_be_held() -> None:
    found = run(rosenbrock, np.array([9.0, 9.0]), lower=np.array([2.0, -5.0]), upper=np.array([2.0, 20.0]))
    assert found.theta[:, 0] == pytest.approx([2.0, 4.0], abs=1e-9)
    assert found.converged.all()


def test_a_region_without_values_is_left_by_shorter_steps() -> None:
    """The first full step from 0.1 would go to log(−…); damping brings it back."""

    def logarithm(t: Complex, _: Array) -> list[Complex]:
        return [np.where(t[0].real > 0, np.log(t[0]), np.nan) - np.log(0.5 + 0j)]

    for start in (0.1, 3.0, 50.0):
        found = run(logarithm, np.array([start]))
        assert found.converged.all()
        assert found.theta[0, 0] == pytest.approx(0.5, rel=1e-8)


def test_a_start_without_values_is_reported_and_does_not_disturb_the_others() -> None:
    def root(t: Complex, _: Array) -> list[Complex]:
        return [np.where(t[0].real > 0, np.sqrt(t[0]), np.nan) - 2.0]

    found = run(root, np.array([[-1.0, 1.0]]))
    assert found.finite.tolist() == [False, True]
    assert found.converged.tolist() == [False, True]
    assert found.theta[0, 1] == pytest.approx(4.0, rel=1e-9)


def test_an_undetermined_parameter_costs_nothing_and_hardly_moves() -> None:
    """Only the product is seen, and the third parameter not at all."""

    def product(t: Complex, _: Array) -> list[Complex]:
        return [t[0] * t[1] - 6.0, 2 * (t[0] * t[1] - 6.0) + 0 * t[2]]

    found = run(product, np.array([1.0, 1.0, 7.0]))
    assert found.converged.all()
    assert found.theta[0, 0] * found.theta[1, 0] == pytest.approx(6.0, rel=1e-8)
    assert found.theta[2, 0] == 7.0
    assert np.abs(found.theta[:2, 0]).max() < 10


def test_too_few_iterations_are_not_called_convergence() -> None:
    found = run(wood, np.array([-3.0, -1.0, -3.0, -1.0]), max_iterations=3)
    assert not found.converged.any()
    assert found.iterations.tolist() == [3]
    assert found.finite.all()


def test_units_do_not_matter() -> None:
    """Parameters and residuals in other units: the same path, up to rounding."""
    scale, size = np.array([1e-9, 1e7]), 1e-6

    def other_units(t: Complex, data: Array) -> list[Complex]:
        return [size * part for part in rosenbrock(t / scale[:, None], data)]

    plain = run(rosenbrock, np.array([-1.2, 1.0]))
    scaled = run(other_units, np.array([-1.2, 1.0]) * scale, noise=size)
    assert scaled.converged.all()
    np.testing.assert_allclose(scaled.theta[:, 0] / scale, plain.theta[:, 0], atol=1e-8)


def test_the_slopes_of_these_tests_are_right() -> None:
    point = np.array([-1.3, 0.7, 0.4, 2.0])
    for formula, size in ((rosenbrock, 2), (wood, 4), (powell, 4), (helical, 3)):
        problem = Test(formula, np.zeros((1, 1)))
        slopes = problem.residual(point[:size, None])[1][..., 0]
        approximate = approx_fprime(point[:size], plain(formula), 1e-7)
        np.testing.assert_allclose(slopes, approximate, rtol=1e-4, atol=1e-4)
