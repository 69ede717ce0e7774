"""Sums of products and rows are two ways to keep the same data: whatever is asked of one, the other answers alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from sourcewise.errors import EstimationError
from sourcewise.moments.base import Evidence
from sourcewise.moments.compiled import CompiledSource, compile_source
from sourcewise.moments.rowwise import BLOCK, RowEvidence
from sourcewise.moments.separable import GramEvidence
from sourcewise.spec.study import Source, Study
from sourcewise.statistics.gram import Statistics, evidence
from sourcewise.statistics.summarize import summarize
from strategies import Array

# Both sides round: the Gram side when it expands, the row side when it adds. With means of a few standard deviations
# a hundred eps is room enough: measured, the largest difference is 2e-15.
TOLERANCE = 2e-14
POINTS = 6
ROWS = 300

MODELS: dict[str, list[str]] = {
    "linear instruments": ["z*(x - a*z)", "z*(y - a*b*z)", "x - z*a - c"],
    "polynomial": ["(x - a)*(y - b)**2 - c", "(a*x + b)**3 - y*c", "x*y - a*b*z", "(x - a)**2 - c"],
    "functions of data": ["exp(x)*(y - a*x)", "(y - b/z)/z", "(x > 0)*(y - exp(a)*x - logistic(b)) - c*sqrt(z)"],
    "functions of parameters": ["x - exp(a*b)", "y*Phi(a) - log(1 + b**2)", "x*y - abs(c)*phi(b)"],
    "a moment without its mean": ["(x > 0)*(a - 1) + c*b*z - c*b*z", "b*x", "a*b*c*y*y"],
}


@dataclass(frozen=True)
class Pair:
    source: CompiledSource
    gram: GramEvidence
    rows: RowEvidence
    theta: Array


def data(rows: int = ROWS) -> dict[str, Array]:
    rng = np.random.default_rng(7)
    z = np.abs(rng.normal(size=rows)) + 0.5
    x = 0.6 * z + rng.normal(size=rows)
    return {"x": x, "y": 2.0 + 0.5 * x + rng.normal(size=rows), "z": z}


def pair_of(moments: list[str], rows: int = ROWS) -> Pair:
    names = [name for name in "abc" if any(name in moment for moment in moments)]
    study = Study(moments, names[0], {"only": Source("z y x")})
    source = compile_source(study, "only")
    columns = data(rows)
    kept = summarize(study, "only", columns)
    assert isinstance(kept, Statistics)
    table = np.stack([columns[name] for name in source.variables])
    theta = np.random.default_rng(8).normal(size=(len(study.parameters), POINTS)) + 0.5
    return Pair(source, evidence(source, kept), RowEvidence(source, [table]), theta)


@pytest.fixture(params=list(MODELS.values()), ids=list(MODELS), scope="module")
def pair(request: pytest.FixtureRequest) -> Pair:
    return pair_of(request.param)


def assert_close(found: Array, expected: Array, scale: Array) -> None:
    """Every difference is small beside the standard deviations of what was averaged."""
    assert found.shape == expected.shape
    assert (np.abs(found - expected) <= TOLERANCE * scale).all(), np.max(np.abs(found - expected) / scale)


def variance(part: Evidence, theta: Array, errors: Any = "robust") -> Array:
    rows = part.factor(theta, errors)
    return np.asarray(np.einsum("ikb,jkb->ijb", rows, rows))


def spread(pair: Pair) -> Array:
    """Root mean squares of the moments (M, B), with room for those that are zero."""
    return np.asarray(np.sqrt(np.einsum("iib->ib", variance(pair.rows, pair.theta)))) + 1.0


def slope_spread(pair: Pair) -> Array:
    """A bound (M, D, B) on the root mean squares of ∂g/∂θ."""
    slopes = pair.rows.factors(pair.theta, "robust")[1]
    return np.asarray(np.sqrt(np.einsum("djkb,djkb->jdb", slopes, slopes))) + 1.0


def test_means_and_slopes_agree(pair: Pair) -> None:
    (mean, slope), (by_row, slope_by_row) = (p.mean_and_slope(pair.theta) for p in (pair.gram, pair.rows))
    assert mean.shape == (len(pair.source.moments), POINTS)
    assert_close(mean, by_row, spread(pair))
    assert_close(slope, slope_by_row, slope_spread(pair))


def test_variances_agree(pair: Pair) -> None:
    scale = spread(pair)
    found, expected = variance(pair.gram, pair.theta), variance(pair.rows, pair.theta)
    assert_close(found, expected, scale[:, None] * scale[None])


def test_the_first_column_of_a_factor_is_the_mean(pair: Pair) -> None:
    for part in (pair.gram, pair.rows):
        mean, _ = part.mean_and_slope(pair.theta)
        assert_close(part.factor(pair.theta, "robust")[:, 0], mean, spread(pair))


def test_crosses_agree(pair: Pair) -> None:
    along = np.random.default_rng(9).normal(size=(len(pair.source.moments), POINTS))
    found, expected = (p.cross(pair.theta, along, "robust") for p in (pair.gram, pair.rows))
    total = np.einsum("mb,mb->b", np.abs(along), spread(pair))
    assert_close(found, expected, slope_spread(pair) * total)


def test_factors_with_slopes_agree(pair: Pair) -> None:
    scale = spread(pair)
    products = []
    for part in (pair.gram, pair.rows):
        rows, slopes = part.factors(pair.theta, "robust")
        assert_close(np.einsum("ikb,jkb->ijb", rows, rows), variance(part, pair.theta), scale[:, None] * scale[None])
        products.append(np.einsum("dikb,jkb->idjb", slopes, rows))
    assert_close(products[0], products[1], slope_spread(pair)[:, :, None] * scale[None, None])


def test_slopes_are_derivatives(pair: Pair) -> None:
    """Central differences with a step of 1e-5 are off by 1e-10 of third derivatives, and by eps/1e-5 in rounding."""
    step = 1e-5
    for part in (pair.gram, pair.rows):
        _, slope = part.mean_and_slope(pair.theta)
        rows, slopes = part.factors(pair.theta, "robust")
        half = np.einsum("dikb,jkb->dijb", slopes, rows)
        for d in range(len(pair.theta)):
            shift = np.zeros_like(pair.theta)
            shift[d] = step
            ahead, behind = pair.theta + shift, pair.theta - shift
            difference = (part.mean_and_slope(ahead)[0] - part.mean_and_slope(behind)[0]) / (2 * step)
            np.testing.assert_allclose(slope[:, d], difference, rtol=1e-7, atol=1e-7)
            change = (variance(part, ahead) - variance(part, behind)) / (2 * step)
            np.testing.assert_allclose(half[d] + half[d].swapaxes(0, 1), change, rtol=1e-6, atol=1e-6)


def test_homoskedastic_variance_against_numpy() -> None:
    """Ω_jk = E[q_j q_k] E[r_j r_k] for moments q_j r_j, q the factors without parameters. Entries are up to 50."""
    pair = pair_of(["z*(x - a*z)", "z*x*(y - a*b*z)", "y - b*x - c", "z**2*(x - c)"])
    at = data()
    x, y, z = at["x"], at["y"], at["z"]
    along = np.random.default_rng(10).normal(size=(4, POINTS))
    rows, slopes = pair.gram.factors(pair.theta, "homoskedastic")
    found_slope = np.einsum("dikb,jkb->dijb", slopes, rows)
    found_cross = pair.gram.cross(pair.theta, along, "homoskedastic")
    q = np.stack([z, z * x, np.ones(ROWS), z**2])
    nothing = np.zeros(ROWS)
    for index, (a, b, c) in enumerate(pair.theta.T):
        r = np.stack([x - a * z, y - a * b * z, y - b * x - c, x - c])
        omega = (q @ q.T / ROWS) * (r @ r.T / ROWS)
        found = variance(pair.gram, pair.theta, "homoskedastic")[..., index]
        np.testing.assert_allclose(found, omega, rtol=0, atol=50 * TOLERANCE)
        np.testing.assert_allclose(rows[..., index] @ rows[..., index].T, omega, rtol=0, atol=50 * TOLERANCE)
        derivatives = (
            [-z, -b * z, nothing, nothing],
            [nothing, -a * z, -x, nothing],
            [nothing, nothing, nothing - 1, nothing - 1],
        )
        for d, dr in enumerate(np.stack(row) for row in derivatives):
            half = (q @ q.T / ROWS) * (dr @ r.T / ROWS)
            np.testing.assert_allclose(found_slope[d, ..., index], half, rtol=0, atol=50 * TOLERANCE)
            np.testing.assert_allclose(found_cross[:, d, index], half @ along[:, index], rtol=0, atol=50 * TOLERANCE)


def test_rows_refuse_a_variance_that_needs_separable_moments() -> None:
    pair = pair_of(["z*(x - a*z)"])
    asked: Any = "homoskedastic"
    for question in (pair.rows.factor, pair.rows.factors):
        with pytest.raises(EstimationError, match=r"errors='homoskedastic' needs moments .* 'only'"):
            question(pair.theta, asked)
    with pytest.raises(EstimationError, match="errors='homoskedastic'"):
        pair.rows.cross(pair.theta, np.ones((1, POINTS)), asked)


def test_many_blocks_of_rows_are_one_sample() -> None:
    pair = pair_of(MODELS["polynomial"], rows=2 * BLOCK + 5)
    found, expected = pair.gram.mean_and_slope(pair.theta), pair.rows.mean_and_slope(pair.theta)
    assert pair.rows.rows.tolist() == [2 * BLOCK + 5]
    assert_close(found[0], expected[0], spread(pair))
    assert_close(found[1], expected[1], slope_spread(pair))


def test_many_problems_at_once_are_the_same_problems_one_by_one() -> None:
    """θ (D, B) with B data sets, and `take`, for both kinds of evidence: to rounding of the vectorised sums."""
    study = Study(MODELS["polynomial"], "a", {"only": Source("z y x")})
    source = compile_source(study, "only")
    rng = np.random.default_rng(11)
    tables = [rng.normal(size=(3, rows)) + 1.0 for rows in (30, 40, 50)]
    columns = [dict(zip(source.variables, table, strict=True)) for table in tables]
    kept = [one for one in (summarize(study, "only", table) for table in columns) if isinstance(one, Statistics)]
    single = [evidence(source, one) for one in kept]
    centre = np.array([[one.centre[atom] for one in kept] for atom in source.atoms])
    counts = np.array([float(one.n) for one in kept])
    gram = GramEvidence(source, counts, np.stack([one.gram for one in kept]), centre)
    rows = RowEvidence(source, tables)
    theta = rng.normal(size=(3, 3))
    which = np.array([2, 0])
    for many in (gram, rows):
        fewer = many.take(which)
        assert fewer.rows.tolist() == [50, 30]
        for k, b in enumerate(which.tolist()):
            expected = single[b].mean_and_slope(theta[:, [b]])
            for found in (many.mean_and_slope(theta), fewer.mean_and_slope(theta[:, which])):
                place = b if found[0].shape[1] == 3 else k
                np.testing.assert_allclose(found[0][:, place], expected[0][:, 0], rtol=1e-12, atol=1e-12)
                np.testing.assert_allclose(found[1][..., place], expected[1][..., 0], rtol=1e-12, atol=1e-12)
            found_variance = variance(fewer, theta[:, which])[..., k]
            np.testing.assert_allclose(found_variance, variance(single[b], theta[:, [b]])[..., 0], rtol=1e-11)
