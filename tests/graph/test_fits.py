"""Fits of studies from graphs: found from any units and means, equal to what is known in closed form."""

from __future__ import annotations

import numpy as np
import pytest

import sourcewise as sw

GRAPH = "W -> X; W -> Y; X -> M; M -> Y; Z -> X; X <-> Y"
SOURCES = {"a": sw.Source("W X Y Z"), "b": sw.Source("X M Y"), "c": sw.Source("Z M")}
ROWS = {"a": 600, "b": 900, "c": 500}


def rows(random: np.random.Generator, count: int) -> dict[str, np.ndarray]:
    w, z, u, e, f, g = random.normal(size=(6, count))
    x = 0.5 * w + 0.7 * z + u + e
    m = 0.8 * x + f
    return {"W": w, "Z": z, "X": x, "M": m, "Y": 0.6 * m + 0.4 * w + u + g}


@pytest.mark.parametrize("weights", ["two-step", "iterated", "normal"])
@pytest.mark.parametrize(
    ("units", "mean"),
    [
        ({"Y": 1e6}, 0.0),
        ({"X": 1e-4, "M": 1e5}, 0.0),
        ({"W": 1e3, "Z": 1e-3, "X": 1e6, "M": 1e-6, "Y": 1e2}, 0.0),
        ({}, 1e6),
    ],
)
def test_units_and_means_change_nothing(weights: str, units: dict[str, float], mean: float) -> None:
    random = np.random.default_rng(3)
    raw = {name: rows(random, count) for name, count in ROWS.items()}
    study = sw.Study.from_graph(GRAPH, "effect(X -> Y)", SOURCES)
    given = {n: {v: raw[n][v] for v in s.observes} for n, s in SOURCES.items()}
    moved = {n: {v: units.get(v, 1.0) * (x + mean) for v, x in table.items()} for n, table in given.items()}
    plain, scaled = (sw.fit(study, data, weights=weights) for data in (given, moved))
    ratio = units.get("Y", 1.0) / units.get("X", 1.0)
    assert plain.converged
    assert scaled.converged
    # rows at a mean of 10⁶ are rounded to 1e-10 of their standard deviation
    assert scaled.target.value / ratio == pytest.approx(plain.target.value, rel=1e-6)
    assert scaled.target.stderr / ratio == pytest.approx(plain.target.stderr, rel=1e-6)


def test_least_squares_is_a_graph() -> None:
    random = np.random.default_rng(1)
    x, w, e = random.normal(size=(3, 400))
    x += w
    table = {"X": x, "W": w, "Y": 2 * x - w + e}
    study = sw.Study.from_graph("W -> X; W -> Y; X -> Y", "direct(X -> Y)", {"a": sw.Source("W X Y")})
    fit = sw.fit(study, {"a": table})
    design = np.column_stack([np.ones(400), x, w])
    slopes = np.linalg.lstsq(design, table["Y"], rcond=None)[0]
    assert fit.target.value == pytest.approx(slopes[1], rel=1e-8)
    assert fit.parameters["W_to_Y"].value == pytest.approx(slopes[2], rel=1e-8)
    residuals = table["Y"] - design @ slopes
    bread = np.linalg.inv(design.T @ design)
    robust = bread @ (design.T * residuals**2) @ design @ bread
    assert fit.target.stderr == pytest.approx(np.sqrt(robust[1, 1]), rel=1e-6)


def test_a_hidden_cause_projected_out_or_kept_makes_no_difference_to_the_effect() -> None:
    random = np.random.default_rng(2)
    z, u, e, f = random.normal(size=(4, 2000))
    x = z + u + e
    table = {"Z": z, "X": x, "Y": x + u + f}
    sources = {"a": sw.Source("Z X Y")}
    graph = "U [latent]; Z -> X; X -> Y; U -> X; U -> Y"
    kept, gone = (
        sw.fit(sw.Study.from_graph(graph, "effect(X -> Y)", sources, latent=way), {"a": table})
        for way in ("keep", "project")
    )
    wald = np.cov(z, table["Y"])[0, 1] / np.cov(z, x)[0, 1]
    assert gone.target.value == pytest.approx(wald, rel=1e-8)
    assert kept.target.value == pytest.approx(wald, rel=1e-6)
