"""What a fit says about its own search: cycles, several minima, too few steps, no values."""

from __future__ import annotations

import numpy as np
import pytest

import sourcewise as sw
from estimation.plain import Array, Part, Plain
from estimation.problems import PROBLEMS
from sourcewise.estimation import gmm

INSTRUMENTS = sw.Study(["z*(y - b*x)", "w*(y - b*x)"], "b", {"s": sw.Source("z w x y")})


def unruly(seed: int, rows: int) -> dict[str, Array]:
    """Four unrelated columns with heavy tails: instruments that say nothing, and say it loudly."""
    columns = np.round(np.random.default_rng(seed).standard_t(2, size=(4, rows)), 1)
    return dict(zip("zwxy", columns, strict=True))


def plain(rows: dict[str, Array]) -> Plain:
    z = np.column_stack([rows["z"], rows["w"]])
    return Plain((Part((0, 1), lambda t: z * (rows["y"] - t[0] * rows["x"])[:, None]),), 2)


def next_estimate(rows: dict[str, Array], b: float) -> float:
    """One more reweighting, in closed form: b' = G'W h / G'W G for g = h − G b."""
    z = np.column_stack([rows["z"], rows["w"]])
    weight = plain(rows).weights(np.array([b]))[0]
    G, h = z.T @ rows["x"], z.T @ rows["y"]
    return float(G @ weight @ h / (G @ weight @ G))


def test_a_cycle_of_two_is_recognised_and_is_no_convergence() -> None:
    rows = unruly(91, 8)
    fit = sw.fit(INSTRUMENTS, {"s": rows}, weights="iterated")
    there = next_estimate(rows, fit.target.value)
    back = next_estimate(rows, there)
    assert abs(there - fit.target.value) > 1e-3  # it is a cycle,
    assert back == pytest.approx(fit.target.value, rel=1e-6)  # of two
    assert not fit.converged
    assert "back and forth" in fit.status
    assert any("back and forth" in line for line in fit.advice)


def test_iterated_weights_that_converged_are_at_a_fixed_point() -> None:
    verdicts = []
    for seed in (*range(40), 91, 293):
        rows = unruly(seed, 8)
        fit = sw.fit(INSTRUMENTS, {"s": rows}, weights="iterated")
        moved = abs(next_estimate(rows, fit.target.value) - fit.target.value)
        verdicts.append(fit.converged)
        # settled to 1e-8 of the moments' noise, which is 1e-8 standard errors when one parameter is estimated
        assert fit.converged == (moved < 1e-6 * fit.target.stderr), seed
    assert 0 < sum(verdicts) < len(verdicts)


def updated_objective(rows: dict[str, Array], values: Array) -> Array:
    """g'Ω⁻¹g on a grid of b, in one go."""
    residual = rows["y"][:, None] - values * rows["x"][:, None]
    g = np.stack([rows["z"][:, None] * residual, rows["w"][:, None] * residual])
    mean, omega = g.mean(axis=1), np.einsum("inb,jnb->bij", g, g) / len(rows["z"])
    return np.asarray(np.einsum("ib,ib->b", mean, np.linalg.solve(omega, mean.T[..., None])[..., 0].T))


def test_continuous_updating_reports_the_lower_of_two_minima_and_says_so() -> None:
    """Cases fixed by their seeds; the grid is fine enough to separate minima a hundredth apart."""
    grid = np.tan(np.linspace(-1.57, 1.57, 20001))
    seen = 0
    for seed in (1, 2, 4, 5, 11, 16, 69, 81, 87, 130, 157, 179, 187, 191):
        rows = unruly(seed, 30)
        heights = updated_objective(rows, grid)
        dips = 1 + np.flatnonzero((heights[1:-1] < heights[:-2]) & (heights[1:-1] < heights[2:]))
        assert len(dips) == 2
        fit = sw.fit(INSTRUMENTS, {"s": rows}, weights="cue")
        lowest = grid[dips[np.argmin(heights[dips])]]
        assert fit.target.value == pytest.approx(lowest, rel=0.02), seed
        assert fit.objective <= heights.min() * (1 + 1e-9)
        seen += any("several local minima" in line for line in fit.advice)
    assert seen >= 12  # a search from random starts may miss the higher one


def test_one_minimum_is_not_called_several() -> None:
    for problem in PROBLEMS.values():
        fit = sw.fit(problem.study, problem.data, weights="cue")
        assert fit.estimates.minima.tolist() == [1]
        assert not fit.advice


@pytest.mark.parametrize("unit", [1e-9, 1.0, 1e4])
def test_two_solutions_that_fit_equally_well_are_reported(unit: float) -> None:
    """E[x] = b² has two roots: whichever is reported, the reader must know of the other."""
    x = unit**2 * (4.0 + np.random.default_rng(1).normal(size=200))
    study = sw.Study(["x - b**2"], "b", {"s": sw.Source("x")})
    fit = sw.fit(study, {"s": {"x": x}})
    assert abs(fit.target.value) == pytest.approx(np.sqrt(x.mean()), rel=1e-9)
    assert fit.estimates.minima.tolist() == [2]
    assert any("several local minima" in line for line in fit.advice)
    chosen = sw.fit(study, {"s": {"x": x}}, start={"b": 3.0 * unit})
    assert chosen.target.value > 0


def test_too_few_steps_are_said() -> None:
    fit = sw.fit(PROBLEMS["exponential"].study, PROBLEMS["exponential"].data, max_iterations=1, start={"a": 5, "b": 9})
    assert not fit.converged
    assert fit.status == "stopped before it converged"
    assert "max_iterations" in fit.advice[0]
    assert not fit.to_dict()["converged"]


def test_a_first_step_that_did_not_converge_is_not_forgotten() -> None:
    """Two-step estimates rest on both of their steps, so no number of iterations of one step may claim more."""
    problem = PROBLEMS["exponential"]
    for steps in range(1, 12):
        fit = sw.fit(problem.study, problem.data, max_iterations=steps, start={"a": 3.0, "b": -2.0})
        whole = sw.fit(problem.study, problem.data)
        if fit.converged:
            assert fit.target.value == pytest.approx(whole.target.value, rel=1e-8)
    assert fit.converged


def test_moments_that_have_no_value_are_said() -> None:
    study = sw.Study(["y - log(a - x)"], "a", {"s": sw.Source("x y")}, {"a": sw.Parameter(upper=0.0)})
    fit = sw.fit(study, {"s": {"x": np.arange(1.0, 9.0), "y": np.ones(8)}})
    assert not fit.converged
    assert "not finite" in fit.status
    assert "not finite" in fit.advice[0]
    assert fit.to_dict()["target"]["stderr"] is None


def test_a_start_without_a_value_is_left_behind() -> None:
    """log(b) at b < 0: other starts are tried before giving up."""
    x = np.log(2.0) + np.array([-0.1, 0.0, 0.1, -0.2, 0.2])
    fit = sw.fit(sw.Study(["x - log(b)"], "b", {"s": sw.Source("x")}), {"s": {"x": x}}, start={"b": -1.0})
    assert fit.converged
    assert fit.target.value == pytest.approx(2.0, rel=1e-9)


def _nearly_irrelevant() -> tuple[sw.Study, dict[str, dict[str, Array]]]:
    """Three instruments of no use: the updated objective is lowest at 46, and hardly lower than at infinity."""
    random = np.random.default_rng(8)
    z, u = random.normal(size=(3, 100)), random.normal(size=100)
    x = 0.05 * z.sum(axis=0) + u
    y = x + 0.9 * u + 0.4 * random.normal(size=100)
    names = [f"z{k}" for k in range(3)]
    study = sw.Study([f"{name}*(y - b*x)" for name in names], "b", {"s": sw.Source([*names, "x", "y"])})
    return study, {"s": {"x": x, "y": y, **dict(zip(names, z, strict=True))}}


def test_a_low_minimum_far_out_is_found() -> None:
    study, data = _nearly_irrelevant()
    fit = sw.fit(study, data, weights="cue")
    assert fit.converged
    assert fit.target.value == pytest.approx(46.41, abs=0.01)


def test_a_continuously_updated_estimate_that_ran_off_is_not_called_converged(monkeypatch: pytest.MonkeyPatch) -> None:
    study, data = _nearly_irrelevant()
    monkeypatch.setattr(gmm, "ESCAPE", 10.0)
    fit = sw.fit(study, data, weights="cue")
    assert not fit.converged
    assert "ran off" in fit.status
    assert "infinity" in fit.advice[0]
