"""The best division of money: closed forms, certificates checked from scratch, and an independent solver."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from allocation.problems import random_problem
from sourcewise.allocation.design import Design, Problem, solve, variance
from sourcewise.errors import AllocationError
from sourcewise.numerics.linalg import Array, psd_root

SIMPLE = 1e-10
"""A few well-conditioned parameters: what is left is rounding."""


def points(*rows: list[float]) -> tuple[Array, ...]:
    return tuple(np.array([row]) for row in rows)


IV = Problem(points([2**-0.5, 0.0], [0.0, 6**-0.5]), np.ones(2))
"""V = 2/κ₁ + 6/κ₂: the paper's instrumental variable with its two sources of price 1."""


def test_the_instrumental_variable_of_the_paper() -> None:
    found = solve(IV)
    root = 3**0.5
    assert found.money == pytest.approx([(root - 1) / 2, (3 - root) / 2], abs=1e-9)
    assert found.value == pytest.approx(8 + 4 * root, rel=1e-12)
    assert found.gap < SIMPLE
    assert found.exact


def test_two_instruments_leave_the_weaker_one_exactly_nothing() -> None:
    found = solve(Problem((np.array([[0.5**0.5]]), np.array([[2**0.5]])), np.ones(1)))
    assert found.money.tolist() == [0.0, 1.0]
    assert found.value == pytest.approx(0.5, rel=1e-12)


def grid(degree: int, count: int = 201) -> tuple[Array, ...]:
    return points(*([t**k for k in range(degree + 1)] for t in np.linspace(-1, 1, count)))


@pytest.mark.parametrize(
    ("degree", "gradient", "money", "value"),
    [
        # Hoel and Levine: extrapolation puts |L_i(2)| at Chebyshev's points, for a value of (Σ|L_i(2)|)².
        (1, [1, 2], {0: 1 / 4, 200: 3 / 4}, 4.0),
        (2, [1, 2, 4], {0: 1 / 7, 100: 3 / 7, 200: 3 / 7}, 49.0),
        # Elfving: the slope is best seen from both ends, the value at a point from that point alone.
        (1, [0, 1], {0: 1 / 2, 200: 1 / 2}, 1.0),
        (2, [1, 0.5, 0.25], {150: 1.0}, 1.0),
    ],
)
def test_polynomials(degree: int, gradient: list[float], money: dict[int, float], value: float) -> None:
    found = solve(Problem(grid(degree), np.array(gradient, dtype=float)))
    assert found.value == pytest.approx(value, rel=SIMPLE)
    assert found.gap < 1e-9
    assert np.flatnonzero(found.money).tolist() == list(money)
    assert found.money[list(money)] == pytest.approx(list(money.values()), abs=1e-7)


@pytest.mark.parametrize(
    ("lower", "upper", "money"),
    [
        (None, [0.2, np.inf], [0.2, 0.8]),
        (None, [np.inf, 0.5], [0.5, 0.5]),
        ([0.5, 0.0], None, [0.5, 0.5]),
        ([0.1, 0.2], [0.9, 0.9], [(3**0.5 - 1) / 2, (3 - 3**0.5) / 2]),
        ([0.3, 0.7], None, [0.3, 0.7]),
        (None, [0.3, 0.7], [0.3, 0.7]),
    ],
)
def test_limits(lower: list[float] | None, upper: list[float] | None, money: list[float]) -> None:
    limits = [None if limit is None else np.array(limit) for limit in (lower, upper)]
    found = solve(Problem(IV.roots, IV.gradient, 1.0, *limits))
    assert found.money == pytest.approx(money, abs=1e-9)
    assert found.value == pytest.approx(2 / money[0] + 6 / money[1], rel=SIMPLE)
    assert found.gap < SIMPLE


# --- random problems -----------------------------------------------------------------------------------------


def filled(worth: Array, problem: Problem) -> float:
    """max Σ x_i worth_i over feasible money, source by source."""
    size = len(worth)
    lower = np.zeros(size) if problem.lower is None else problem.lower
    upper = np.full(size, np.inf) if problem.upper is None else problem.upper
    left, most = problem.total - lower.sum(), float(lower @ worth)
    for i in np.argsort(-worth):
        taken = min(left, upper[i] - lower[i])
        most, left = most + taken * worth[i], left - taken
    return most


def scaled_stack(problem: Problem, money: Array) -> tuple[Array, Array]:
    """A root of the information with columns of length 1 (units differ by six orders of magnitude), and ∇f to match."""
    rows = np.concatenate([root * np.sqrt(x) for root, x in zip(problem.roots, money, strict=True)])
    length = np.linalg.norm(np.concatenate(problem.roots), axis=0)
    length[length == 0] = 1.0
    return rows / length, problem.gradient / length


def beyond_range(problem: Problem, cutoff: float) -> float:
    """The part of ∇f outside what all sources together inform, as a fraction of its length."""
    stack, gradient = scaled_stack(problem, np.ones(len(problem.roots)))
    inside = stack.T @ np.linalg.lstsq(stack.T, gradient, rcond=cutoff)[0]
    return float(np.linalg.norm(gradient - inside) / np.linalg.norm(gradient))


def check(problem: Problem, found: Design) -> None:
    """Feasible, and certified, by formulas that share nothing with the solver."""
    money, total = found.money, problem.total
    assert money.sum() == pytest.approx(total, rel=1e-11)
    assert (money >= (0 if problem.lower is None else problem.lower)).all()
    assert problem.upper is None or (money <= problem.upper).all()
    if not found.identified:
        # Copies that differ in the eighth digit and in price by four orders of magnitude are as good as equal.
        assert beyond_range(problem, 1e-6) > 1e-7
        assert np.isnan(found.direction).all()
        return
    assert beyond_range(problem, 1e-10) < 1e-6
    assert found.exact
    worth = np.array([np.sum(np.square(root @ found.direction)) for root in problem.roots])
    bound = float(problem.gradient @ found.direction) ** 2 / filled(worth, problem)
    # Nearly collinear sources cost the raw coordinates, not the solver's, up to eight digits.
    assert bound == pytest.approx(found.bound, rel=1e-6)
    stack, gradient = scaled_stack(problem, money)
    sizes = np.linalg.svd(stack, compute_uv=False)
    if len(sizes) == len(gradient) and sizes[-1] > 1e-6 * sizes[0]:
        again = float(np.sum(np.square(np.linalg.lstsq(stack.T, gradient, rcond=None)[0])))
        assert again == pytest.approx(found.value, rel=1e-8)


@pytest.mark.parametrize("limits", [False, True])
@pytest.mark.parametrize("part", range(4))
def test_every_random_problem_is_certified(part: int, limits: bool) -> None:
    """2,000 without limits, 1,000 with."""
    gaps, size = [], 250 if limits else 500
    for seed in range(part * size, (part + 1) * size):
        problem = random_problem(np.random.default_rng([seed, 7]), limits=limits)
        found = solve(problem)
        check(problem, found)
        if found.identified:
            gaps.append(found.gap)
    # Some of the draws must not be identified, most must be.
    assert 0.8 * size < len(gaps) < size
    assert max(gaps) <= 1e-7
    assert np.quantile(gaps, 0.95) <= 1e-10


def objective(x: Array, problem: Problem) -> tuple[float, Array]:
    """V in units of the total, with its gradient."""
    information = sum(share * root.T @ root for share, root in zip(x, problem.roots, strict=True))
    u = np.linalg.solve(np.asarray(information), problem.gradient)
    return float(problem.gradient @ u), -np.array([np.sum(np.square(root @ u)) for root in problem.roots])


@pytest.mark.parametrize("limits", [False, True])
@pytest.mark.parametrize("seed", range(25))
def test_agrees_with_sequential_quadratic_programming(seed: int, limits: bool) -> None:
    random = np.random.default_rng([seed, 11])
    size, dimension = int(random.integers(3, 9)), int(random.integers(2, 6))
    costs = 10.0 ** random.uniform(-2, 2, size)
    roots = tuple(random.standard_normal((dimension, dimension)) / np.sqrt(cost) for cost in costs)
    lower = random.uniform(0, 0.5 / size, size) if limits else np.zeros(size)
    upper = lower + random.uniform(1 / size, 2 / size, size) if limits else np.ones(size)
    problem = Problem(roots, random.standard_normal(dimension), 1.0, lower, upper)
    found = solve(problem)
    best = np.inf
    for _ in range(4):
        start = np.clip(random.dirichlet(np.ones(size)), np.maximum(lower, 1e-3), upper)
        scale = objective(start, problem)[0]

        def value(x: Array, scale: float = scale) -> float:
            return objective(np.maximum(x, 1e-12), problem)[0] / scale

        def slope(x: Array, scale: float = scale) -> Array:
            return objective(np.maximum(x, 1e-12), problem)[1] / scale

        search = minimize(  # type: ignore[call-overload]  # its stubs know no constraint that is a mapping
            value,
            start,
            jac=slope,
            method="SLSQP",
            bounds=list(zip(lower, upper, strict=True)),
            constraints={"type": "eq", "fun": lambda x: x.sum() - 1, "jac": np.ones_like},
            options={"ftol": 1e-13, "maxiter": 500},
        )
        # It ends within about 1e-8 of its constraints: compare what feasible money would give.
        best = min(best, objective(np.maximum(search.x, 1e-12), problem)[0] * max(1.0, search.x.sum()))
    assert best >= found.bound * (1 - 1e-7)
    assert best <= found.value * (1 + 1e-5)


def test_thousands_of_sources_most_of_them_at_a_limit() -> None:
    random = np.random.default_rng(41)
    size = 3000
    roots = tuple(random.standard_normal((3, 10)) / 10 ** random.uniform(-1, 1) for _ in range(size))
    upper = np.full(size, 2.0 / size)
    problem = Problem(roots, random.standard_normal(10), 1.0, None, upper)
    found = solve(problem)
    check(problem, found)
    assert found.gap < 1e-9
    assert (found.money == upper).sum() > size / 3


# --- what must not matter ------------------------------------------------------------------------------------


def well_behaved(seed: int, size: int = 40, dimension: int = 6) -> Problem:
    random = np.random.default_rng([seed, 13])
    roots = tuple(random.standard_normal((3, dimension)) / 10 ** random.uniform(-1, 1) for _ in range(size))
    lower = np.where(random.random(size) < 0.3, 0.01, 0.0)
    upper = np.where(random.random(size) < 0.3, lower + 0.05, np.inf)
    return Problem(roots, random.standard_normal(dimension), 1.0, lower, upper)


@pytest.mark.parametrize("seed", range(10))
def test_units_do_not_matter(seed: int) -> None:
    problem = well_behaved(seed)
    assert problem.lower is not None
    assert problem.upper is not None
    found = solve(problem)
    random = np.random.default_rng([seed, 17])
    dimension = len(problem.gradient)
    prices, target, total = 10.0 ** random.uniform(-6, 6, 3)
    data = 10.0 ** random.uniform(-4, 4, dimension)
    turn = np.linalg.qr(random.standard_normal((dimension, dimension)))[0] * random.uniform(0.2, 5, dimension)
    for transform in (np.diag(data), turn):
        # θ = T η: ∇f becomes Tᵀ∇f and B becomes B T.
        roots = tuple(root @ transform / np.sqrt(prices) for root in problem.roots)
        gradient = target * transform.T @ problem.gradient
        again = solve(Problem(roots, gradient, total, problem.lower * total, problem.upper * total))
        assert again.money / total == pytest.approx(found.money, abs=1e-7)
        assert again.value == pytest.approx(found.value * target**2 * prices / total, rel=1e-9)
        assert again.gap < 1e-9


@pytest.mark.parametrize("seed", range(5))
def test_a_copy_of_a_source_and_one_without_information_change_nothing(seed: int) -> None:
    problem = Problem(well_behaved(seed).roots, well_behaved(seed).gradient)
    found = solve(problem)
    nothing = (np.zeros((0, 6)), np.zeros((2, 6)))
    again = solve(Problem((*problem.roots, *problem.roots, *nothing), problem.gradient))
    assert again.value == pytest.approx(found.value, rel=1e-9)
    assert again.money[:40] + again.money[40:80] == pytest.approx(found.money, abs=1e-7)
    assert again.money[80:].tolist() == [0.0, 0.0]


def test_the_direction_prices_money() -> None:
    """One more unit at source i lowers the variance by ‖B_i u‖²: against a difference quotient."""
    problem = well_behaved(0)
    found = solve(problem)
    step = 1e-6
    for i in (0, 7, int(np.argmax(found.money))):
        more = found.money.copy()
        more[i] += step
        slope = (found.value - variance(problem.roots, problem.gradient, more)) / step
        assert np.sum(np.square(problem.roots[i] @ found.direction)) == pytest.approx(slope, rel=1e-3)


# --- not identified ------------------------------------------------------------------------------------------


def trap() -> tuple[tuple[Array, ...], Array]:
    """As in IHDP: sources 1 and 2 miss one direction together, up to rounding errors, and source 3 is dear.

    The information is rounded by a change of units and a square, as an estimate would be.
    """
    random = np.random.default_rng(19)
    turn = np.linalg.qr(random.standard_normal((4, 4)))[0]
    narrow = [np.pad(random.standard_normal((3, 3)), ((0, 0), (0, 1))) @ turn for _ in range(2)]
    roots = [psd_root(root.T @ root * 0.1) / np.sqrt(0.1) for root in narrow]
    return (*roots, random.standard_normal((4, 4)) / 30), np.ones(4)


def test_sources_that_miss_a_direction_together_have_infinite_variance() -> None:
    roots, gradient = trap()
    without = solve(Problem(roots[:2], gradient, 2.0))
    assert without.value == np.inf
    assert not without.identified
    assert without.money.tolist() == [1.0, 1.0]
    # A pseudo-inverse would give a small number here, smaller than the best there is.
    information = sum(root.T @ root for root in roots[:2])
    best = solve(Problem(roots, gradient, 2.0))
    assert gradient @ np.linalg.pinv(np.asarray(information), rcond=1e-10) @ gradient < best.value
    assert best.money[2] > 0
    assert variance(roots, gradient, np.array([1.0, 1.0, 0.0])) == np.inf
    assert variance(roots, gradient, best.money) == pytest.approx(best.value, rel=SIMPLE)


def test_limits_can_make_the_target_unidentified() -> None:
    found = solve(Problem(IV.roots, IV.gradient, 1.0, np.array([0.2, 0.0]), np.array([1.0, 0.0])))
    assert found.value == np.inf
    assert found.money == pytest.approx([1.0, 0.0])


def test_a_parameter_that_no_source_informs_matters_only_to_a_target_that_uses_it() -> None:
    roots = points([1.0, 0.0], [2.0, 0.0])
    assert solve(Problem(roots, np.array([1.0, 0.0]))).money.tolist() == [0.0, 1.0]
    assert solve(Problem(roots, np.array([1.0, 1e-9]))).value == np.inf


def test_a_target_without_a_gradient_costs_nothing() -> None:
    found = solve(Problem(IV.roots, np.zeros(2)))
    assert (found.value, found.gap) == (0.0, 0.0)


# --- wrong calls ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"roots": ()}, "there is no source"),
        ({"roots": points([1.0, 0.0], [1.0])}, "that of source 1 has the shape"),
        ({"roots": points([1.0, np.nan], [1.0, 0.0])}, "NaN"),
        ({"gradient": np.array([1.0, np.inf])}, "gradient of the target must be finite"),
        ({"total": 0.0}, "above 0, not 0.0"),
        ({"total": np.nan}, "above 0, not nan"),
        ({"lower": np.array([0.6, 0.6])}, "at least 1.2 together, but there is only 1"),
        ({"upper": np.array([0.4, 0.5])}, "at most 0.9 together, but 1 is to be spent"),
        ({"lower": np.array([0.5, 0.0]), "upper": np.array([0.4, 1.0])}, "source 0 must get at least 0.5"),
        ({"lower": np.array([-0.1, 0.0])}, "at least 0"),
        ({"lower": np.array([0.1])}, "one number per source"),
    ],
)
def test_wrong_calls_say_what_is_wrong(change: dict[str, object], message: str) -> None:
    call: dict[str, object] = {"roots": IV.roots, "gradient": IV.gradient, **change}
    with pytest.raises(AllocationError, match=message):
        solve(Problem(**call))  # type: ignore[arg-type]
