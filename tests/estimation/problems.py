"""Small random problems, each as a study with data and as plain functions of rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

import sourcewise as sw
from estimation.plain import Array, Part, Plain

Data = Mapping[str, Mapping[str, Array]]


@dataclass(frozen=True)
class Problem:
    study: sw.Study
    data: Data
    parts: tuple[Part, ...]
    truth: Array
    """In the order of the study's parameters."""

    def plain(self, **options: bool) -> Plain:
        return Plain(self.parts, len(self.study.moments), **options)


def people(seed: int, rows: int) -> dict[str, Array]:
    """A confounded effect of x on y with two instruments; errors differ in size from row to row."""
    random = np.random.default_rng(seed)
    z, w, u, e, v = random.normal(size=(5, rows))
    x = 0.8 * z + 0.5 * w + u + e
    return {"z": z, "w": w, "x": x, "y": 0.7 + 1.3 * x + u + v * (0.5 + np.abs(z))}


def linear() -> Problem:
    """Three moments in one source, two of them again in another: five equations for two unknowns."""
    data = {"full": people(1, 300), "part": people(2, 200)}
    residual = "(y - c - b*x)"
    study = sw.Study(
        [f"z*{residual}", f"w*{residual}", residual],
        "b",
        {"full": sw.Source("z w x y"), "part": sw.Source("z x y")},
    )

    def part(name: str, instruments: tuple[str, ...]) -> Part:
        rows = data[name]
        columns = np.column_stack([*(rows[k] for k in instruments), np.ones(len(rows["x"]))])
        places = (0, 1, 2) if len(instruments) == 2 else (0, 2)
        return Part(places, lambda t: columns * (rows["y"] - t[0] - t[1] * rows["x"])[:, None])

    return Problem(study, data, (part("full", ("z", "w")), part("part", ("z",))), np.array([0.7, 1.3]))


def product() -> Problem:
    """Two-sample instruments with two of them: the reduced form of y is α β, nonlinear in the parameters."""
    first, second = people(3, 250), people(4, 350)
    data = {
        "exposure": {k: first[k] for k in ("z", "w", "x")},
        "outcome": {k: second[k] for k in ("z", "w", "y")},
    }
    effect = "(y - c - beta*(a1*z + a2*w))"
    study = sw.Study(
        ["z*(x - a1*z - a2*w)", "w*(x - a1*z - a2*w)", f"z*{effect}", f"w*{effect}", effect],
        "beta",
        {"exposure": sw.Source("z w x"), "outcome": sw.Source("z w y")},
    )

    def exposure(t: Array) -> Array:
        e = first["x"] - t[0] * first["z"] - t[1] * first["w"]
        return np.column_stack([first["z"] * e, first["w"] * e])

    def outcome(t: Array) -> Array:
        e = second["y"] - t[2] - t[3] * (t[0] * second["z"] + t[1] * second["w"])
        return np.column_stack([second["z"] * e, second["w"] * e, e])

    truth = np.array([0.8, 0.5, 0.7, 1.3])
    return Problem(study, data, (Part((0, 1), exposure), Part((2, 3, 4), outcome)), truth)


def exponential() -> Problem:
    """A Poisson mean with more instruments than coefficients: data and parameters do not separate."""
    random = np.random.default_rng(5)
    rows = {k: random.uniform(-1, 1, size=400) for k in ("x", "z")}
    rows["y"] = random.poisson(np.exp(0.3 + 0.6 * rows["x"])).astype(float)
    residual = "(y - exp(a + b*x))"
    study = sw.Study([residual, f"x*{residual}", f"z*{residual}", f"x**2*{residual}"], "b", {"s": sw.Source("x z y")})
    columns = np.column_stack([np.ones(400), rows["x"], rows["z"], rows["x"] ** 2])

    def moments(t: Array) -> Array:
        return np.asarray(columns * (rows["y"] - np.exp(t[0] + t[1] * rows["x"]))[:, None])

    return Problem(study, {"s": rows}, (Part((0, 1, 2, 3), moments),), np.array([0.3, 0.6]))


PROBLEMS = {"linear": linear(), "product": product(), "exponential": exponential()}
