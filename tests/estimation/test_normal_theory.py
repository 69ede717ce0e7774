"""Normal theory: its moments by brute force, its weights in their limits and under changes of units."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import sourcewise as sw
from estimation.plain import Array
from sourcewise.estimation.blocks import Blocks
from sourcewise.estimation.gmm import MODELLED, Scheme, Settings, estimate
from sourcewise.inference import infer
from sourcewise.moments.compiled import compile_source, compile_study
from sourcewise.moments.normal import Hermite, fourth_moment, shrinkage
from sourcewise.moments.separable import GramEvidence
from sourcewise.numerics.linalg import orthogonalize
from sourcewise.statistics.features import Features

TERMS = ((), (("a", 1),), (("b", 1),), (("c", 1),), (("a", 1), ("b", 1)), (("a", 2),), (("b", 1), ("c", 1)))
POWERS = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (2, 0, 0), (0, 1, 1))


def quadrature(points: int = 12) -> tuple[Array, Array]:
    """Points (3, P) and weights of three standard normal variables; exact for powers below 2 · points."""
    at, weight = np.polynomial.hermite_e.hermegauss(points)
    grid = np.array(list(product(at, repeat=3))).T
    return grid, np.array([np.prod(w) for w in product(weight / weight.sum(), repeat=3)])


def law(seed: int) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    return random.normal(size=(3, 1)), np.tril(random.normal(size=(3, 3)))[..., None]


def products(root: Array) -> Array:
    return np.asarray(np.einsum("jkb,lkb->jl", root, root))


def test_mean_products_are_those_of_normal_data() -> None:
    z, weight = quadrature()
    mean, factor = law(1)
    u = mean + factor[..., 0] @ z
    phi = np.stack([np.prod(u.T**power, axis=1) for power in np.array(POWERS)])
    np.testing.assert_allclose(products(Hermite.of(TERMS).root(mean, factor)), (phi * weight) @ phi.T, atol=1e-12)


def test_the_fourth_moment_is_that_of_normal_data() -> None:
    z, weight = quadrature()
    terms = Hermite.of(TERMS)
    axes = orthogonalize(terms.root(*law(2))[1:, 1:])
    pairs = zip(*np.triu_indices(3), strict=True)
    squares = [z[i] * z[j] if i < j else (z[i] ** 2 - 1) / np.sqrt(2) for i, j in pairs]
    w = axes.basis[..., 0] @ np.vstack([z, squares])
    expected = np.sum(weight * np.sum(w**2, axis=0) ** 2)
    assert fourth_moment(*terms.parts(axes.basis))[0] == pytest.approx(expected, rel=1e-12)


def test_the_fourth_moment_of_all_products_has_a_closed_form() -> None:
    """With every product of p variables ‖w‖² = r²/2 + p/2 for r = ‖z‖², chi-square with p degrees of freedom."""
    p = 4
    names = "abcd"
    pairs = [(names[i], names[j]) for i in range(p) for j in range(i, p)]
    seconds = [((x, 2),) if x == y else ((x, 1), (y, 1)) for x, y in pairs]
    terms = Hermite.of([(), *(((x, 1),) for x in names), *seconds])
    root = terms.root(np.ones((p, 1)), np.eye(p)[..., None])
    found = fourth_moment(*terms.parts(orthogonalize(root[1:, 1:]).basis))[0]
    r2, r4 = p * (p + 2), p * (p + 2) * (p + 4) * (p + 6)
    assert found == pytest.approx((r4 + 2 * p * r2 + p**2) / 4, rel=1e-12)


def test_shrinkage_is_whole_for_normal_theory_itself_and_fades_with_rows() -> None:
    terms = Hermite.of(TERMS)
    normal = terms.root(*law(3))[1:, 1:]
    assert shrinkage(terms, normal, normal, np.array([50.0]))[0] == 1.0
    other = normal * 1.5
    few, many = (float(shrinkage(terms, other, normal, np.array([rows]))[0]) for rows in (1e4, 1e6))
    assert 0 < many < few < 1
    assert few == pytest.approx(100 * many, rel=1e-12)


def study(weights: str = "two-step") -> sw.Study:
    """One factor with three indicators, its first in another source together with an outcome."""
    names = ("x1", "x2", "x3")
    loading = {"x1": "p", "x2": "l2*p", "x3": "l3*p"}
    moments = [f"{x} - m_{x}" for x in (*names, "y")]
    for j, x in enumerate(names):
        moments += [f"{x}*{w} - {loading[x]}*{loading[w]}/p - m_{x}*m_{w}" for w in names[j + 1 :]]
        moments.append(f"{x}**2 - {loading[x]}**2/p - e_{x} - m_{x}**2")
    moments += [f"y*{x} - b*{loading[x]} - m_y*m_{x}" for x in names] + ["y**2 - vy - m_y**2"]
    sources = {"tests": sw.Source("x1 x2 x3"), "outcome": sw.Source("x1 x2 y")}
    start = {"l2": sw.Parameter(start=1.0), "l3": sw.Parameter(start=1.0)}
    return sw.Study(
        [m for m in moments if m not in ("y*x3 - b*l3*p - m_y*m_x3",)], "b", sources, start, weights=weights
    )


def people(seed: int, rows: int, heavy: bool = False) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    f, *e = random.standard_normal((5, rows)) if not heavy else random.standard_t(5, (5, rows))
    return {"x1": f + e[0], "x2": 2 + 0.8 * f + e[1], "x3": 1.2 * f + e[2], "y": 1 + 0.5 * f + e[3]}


def data(rows: int, heavy: bool = False, shift: float = 0.0, scale: float = 1.0) -> dict[str, dict[str, Array]]:
    found = {}
    for seed, (name, columns) in enumerate({"tests": ("x1", "x2", "x3"), "outcome": ("x1", "x2", "y")}.items()):
        one = people(10 + seed, rows, heavy)
        found[name] = {x: shift + (scale if x != "y" else 1.0) * one[x] for x in columns}
    return found


@pytest.mark.parametrize("weights", ["normal", "shrunk", "ml"])
def test_shifts_and_units_change_nothing(weights: Any) -> None:
    """Not the estimate in its units, its standard error, nor the chi-square. Centres keep 1e-9 of the digits."""
    plain = sw.fit(study(), data(150, heavy=True), weights=weights)
    moved = sw.fit(study(), data(150, heavy=True, shift=300.0, scale=100.0), weights=weights)
    assert plain.converged
    assert moved.converged
    assert 100 * moved.target.value == pytest.approx(plain.target.value, rel=1e-6)
    assert 100 * moved.target.stderr == pytest.approx(plain.target.stderr, rel=1e-6)
    assert moved.overid.statistic == pytest.approx(plain.overid.statistic, rel=1e-5)


def test_with_many_normal_rows_all_weights_agree() -> None:
    fits = [sw.fit(study(), data(40_000), weights=w) for w in ("two-step", "normal", "shrunk", "ml")]
    for other in fits[1:]:
        assert abs(other.target.value - fits[0].target.value) < 0.1 * fits[0].target.stderr
        assert other.target.stderr == pytest.approx(fits[0].target.stderr, rel=0.02)


def test_with_many_rows_that_are_not_normal_shrunk_weights_are_the_samples() -> None:
    centred, shrunk, normal = (
        sw.fit(study(), data(200_000, heavy=True), weights=w, centred=True) for w in ("two-step", "shrunk", "normal")
    )
    assert abs(shrunk.target.value - centred.target.value) < 0.1 * abs(normal.target.value - centred.target.value)


@pytest.mark.parametrize("scheme", ["normal", "shrunk", "ml"])
def test_a_batch_is_its_problems_one_by_one(scheme: Scheme) -> None:
    whole = study(scheme)
    compiled = compile_study(whole)
    sets = [data(80 + 10 * k, heavy=bool(k % 2)) for k in range(4)]
    singles = [sw.fit(whole, each) for each in sets]
    parts = {}
    for name in whole.sources:
        source = compile_source(whole, name)
        features = Features(source, dict.fromkeys(source.atoms, 0.0))
        terms = [features(np.stack([each[name][v] for v in source.variables])) for each in sets]
        rows = np.array([float(t.shape[1]) for t in terms])
        parts[name] = GramEvidence(source, rows, np.stack([t @ t.T for t in terms]), np.zeros((len(source.atoms), 1)))
    blocks = Blocks(parts, "stacked", "robust", False, len(whole.moments), MODELLED[scheme])
    start = np.repeat(compiled.start[:, None], len(sets), axis=1)
    found = estimate(whole, compiled, blocks, Settings(scheme), start)
    known = infer(compiled, blocks, found, "robust", None, False)
    assert found.converged.all()
    np.testing.assert_allclose(known.target, [fit.target.value for fit in singles], rtol=1e-6)
    np.testing.assert_allclose(known.stderr, [fit.target.stderr for fit in singles], rtol=1e-6)
    np.testing.assert_allclose(known.statistic, [fit.overid.statistic for fit in singles], rtol=1e-5)


def test_pooled_moments_take_normal_weights_but_have_no_likelihood() -> None:
    normal, two_step = (sw.fit(study(), data(40_000), weights=w, stacking="pooled") for w in ("normal", "two-step"))
    assert abs(normal.target.value - two_step.target.value) < 0.1 * two_step.target.stderr
    assert normal.target.stderr == pytest.approx(two_step.target.stderr, rel=0.02)
    with pytest.raises(sw.EstimationError, match="needs stacking='stacked'"):
        sw.fit(study(), data(100), weights="ml", stacking="pooled")


@pytest.mark.parametrize(
    ("moments", "weights", "reason"),
    [
        (["z*(y - exp(b*x))"], "normal", "parameters separate"),
        (["z**2*(y - b*x)"], "shrunk", "at most two data terms"),
        (["z**2*(y - b*x)"], "ml", "at most two data terms"),
    ],
)
def test_moments_beyond_normal_theory_are_refused(moments: list[str], weights: Any, reason: str) -> None:
    random = np.random.default_rng(4)
    rows = dict(zip("zxy", random.normal(size=(3, 50)), strict=True))
    with pytest.raises(sw.EstimationError, match=reason):
        sw.fit(sw.Study(moments, "b", {"s": sw.Source("z x y")}), {"s": rows}, weights=weights)


def test_instruments_can_be_weighed_by_normal_theory() -> None:
    """With normal data, Var(z u) is E z² u² whatever the weights; both fits see the same 2SLS-like optimum."""
    random = np.random.default_rng(5)
    z1, z2, u, e = random.normal(size=(4, 3000))
    x = z1 + 0.5 * z2 + u
    rows = {"z1": z1, "z2": z2, "x": x, "y": 2 * x + u + e}
    made = sw.Study(["z1*(y - b*x)", "z2*(y - b*x)"], "b", {"s": sw.Source("z1 z2 x y")})
    robust, normal = (sw.fit(made, {"s": rows}, weights=w) for w in ("two-step", "normal"))
    assert abs(robust.target.value - normal.target.value) < 0.1 * robust.target.stderr
    assert normal.target.stderr == pytest.approx(robust.target.stderr, rel=0.05)
    classical = sw.fit(made, {"s": rows}, weights="normal", errors="normal")
    assert classical.target.stderr == pytest.approx(normal.target.stderr, rel=0.05)


@pytest.mark.parametrize("weights", ["normal", "shrunk"])
def test_a_moment_without_variance_has_no_say(weights: Scheme) -> None:
    """Nobody treated among a few rows: x*w - t is the same in all of them, and what is left of its variance about
    the mean are rounding errors. Their inverse drowned every other moment (estimates of 1e8)."""
    random = np.random.default_rng(5)
    w, noise = random.normal(size=(2, 318))
    x = (random.random(318) < 0.3) * 1.0
    x[:18] = 0.0
    columns = {"w": w, "x": x, "y": x + w + noise}
    rows = {name: column[:18] for name, column in columns.items()}, {name: c[18:] for name, c in columns.items()}
    of_w = ["w*(y - a*w - beta*x)", "w**2 - s", "(y - a*w - beta*x)**2 - r"]
    of_x = ["x*(y - a*w - beta*x)", "x*w - t"]
    sources = {"few": sw.Source("w x y"), "many": sw.Source("w x y")}
    centre = dict.fromkeys(columns, 0.07)  # of earlier rows: about itself a constant would be an exact zero

    def fit(moments: list[Any]) -> sw.Fit:
        study = sw.Study(moments, "beta", sources)
        parts = {name: sw.summarize(study, name, part, centre) for name, part in zip(sources, rows, strict=True)}
        return sw.fit(study, parts, weights=weights)

    whole = fit([*of_w, *of_x])
    spared = fit([*of_w, *(sw.Moment(moment, sources=("many",)) for moment in of_x)])
    assert whole.converged
    # the first of the two steps sees them
    assert whole.target.value == pytest.approx(spared.target.value, abs=0.01 * spared.target.stderr)
