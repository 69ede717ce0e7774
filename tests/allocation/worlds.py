"""The paper's five studies with their exact populations: weighted points that have all the moments that matter."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import product

import numpy as np
from numpy.typing import NDArray

import sourcewise as sw
from sourcewise.moments.compiled import compile_source, describe_term
from sourcewise.statistics.features import Features

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Population:
    """Points of all variables, and their probabilities."""

    study: sw.Study
    columns: Mapping[str, Array]
    mass: Array

    def fit(self, stacking: str, rows: int = 10**6) -> sw.Fit:
        """What `rows` rows of each source that mirror the population would lead to: the truth, found from the data."""
        return sw.fit(self.study, {name: self._mirror(name, rows) for name in self.study.sources}, stacking=stacking)  # type: ignore[arg-type]

    def _mirror(self, name: str, rows: int) -> sw.Statistics:
        source = compile_source(self.study, name)
        centre = dict.fromkeys(source.atoms, 0.0)
        terms = Features(source, centre)(np.array([self.columns[v] for v in source.variables]))
        gram = rows * (terms * self.mass @ terms.T)
        gram = 0.5 * (gram + gram.T)
        gram[0, 0] = rows
        return sw.Statistics(name, tuple(map(describe_term, source.terms)), centre, rows, gram)


def normals(count: int, order: int = 6) -> tuple[Array, Array]:
    """Gauss–Hermite points (count, order^count): exact for powers of each variable below 2·order."""
    points, weights = np.polynomial.hermite_e.hermegauss(order)
    grid = np.array(list(product(points, repeat=count))).T
    mass = np.prod(np.array(list(product(weights / weights.sum(), repeat=count))), axis=1)
    return grid, mass


def instrument() -> Population:
    (z, u, e_x, e_y), mass = normals(4)
    x = z + u + e_x
    study = sw.Study(
        ["z*(x - alpha*z)", "z*(y - alpha*beta*z)"], "beta", {"registry": sw.Source("z x"), "survey": sw.Source("z y")}
    )
    return Population(study, {"z": z, "x": x, "y": x + u + e_y}, mass)


def two_instruments() -> Population:
    (z1, z2, u, e_x, e_y), mass = normals(5, 4)
    x = z1 + 2.0 * z2 + u + e_x
    sources = {"first": sw.Source("x y z1"), "second": sw.Source("x y z2")}
    study = sw.Study(["z1*(y - beta*x)", "z2*(y - beta*x)"], "beta", sources)
    return Population(study, {"z1": z1, "z2": 2.0 * z2, "x": x, "y": x + u + e_y}, mass)


EFFECT, A, B, D = -0.32439283544223846, 0.3335611397940348, -0.34589828079316454, 0.44690979199821323


def confounder_mediator(published: bool) -> Population:
    """With the nine moments of the published code, or the eight whose masks follow from the variables."""
    (w, e_x, e_m, e_y), mass = normals(4)
    x = D * w + e_x
    m = EFFECT / A * x + e_m
    moments: list[str | sw.Moment] = [
        "x*(y - b*w - beta*x)",
        "w*(y - b*w - beta*x)",
        "x*(m - beta/a*x)",
        "m*(y - a*m - b*d*sw/(d**2*sw + sx)*x)",
        "x*(y - a*m - b*d*sw/(d**2*sw + sx)*x)",
        "w**2 - sw",
        "w*(x - d*w)",
        "x**2 - (d**2*sw + sx)",
    ]
    if published:
        moments.append(sw.Moment("x**2 - (d**2*sw + sx)", sources=("first",), name="again"))
    sources = {"first": sw.Source("x y w", 1.8), "second": sw.Source("x y m", 1.0)}
    study = sw.Study(moments, "beta", sources)
    return Population(study, {"w": w, "x": x, "m": m, "y": A * m + B * w + e_y}, mass)


@cache
def ihdp() -> Population:
    with files("sourcewise.experiments").joinpath("data/ihdp.csv").open(encoding="utf-8") as file:
        table = np.array([[float(v) for v in row.values()] for row in csv.DictReader(file)]).T
    treat, weight, smoked = table
    weight = (weight - weight.mean()) / weight.std()
    (noise,), mass = normals(1, 8)
    x, w1, w2 = (np.repeat(column, len(noise)) for column in (treat, weight, smoked))
    y = x + w1 + 0.1 * w2 + np.tile(noise, len(treat))
    moments = [
        "w1*(y - a1*w1 - beta*x) - a2*d",
        "x*(y - a1*w1 - beta*x) - a2*t2",
        "w2*(y - a2*w2 - beta*x) - a1*d",
        "x*(y - a2*w2 - beta*x) - a1*t1",
        "w1*w2 - d",
        "x*w1 - t1",
        "x*w2 - t2",
        "w1**2 - s1",
        "w2**2 - s2",
        "(y - a1*w1 - beta*x)**2 - a2**2*s2 - sy",
        "(y - a2*w2 - beta*x)**2 - a1**2*s1 - sy",
    ]
    sources = {
        "first": sw.Source("x y w1", 1.0),
        "second": sw.Source("x y w2", 3.0),
        "both": sw.Source("x y w1 w2", 3.5),
    }
    study = sw.Study(moments, "beta", sources)
    return Population(study, {"x": x, "y": y, "w1": w1, "w2": w2}, np.tile(mass, len(treat)) / len(treat))


def draft_lottery() -> Population:
    """Only the first two moments of y given z matter, so y takes two values given z."""
    chance, beta, gamma, alpha, cut, mixed, noise = 25 / 73, -0.43127, 0.083441, 0.4766, -1.050257, -0.5, 0.605823
    points, mass = [], []
    for z, p in ((1.0, 0.2831), (0.0, 0.1468)):
        share = chance if z else 1 - chance
        density = math.exp(-0.5 * (alpha * z + cut) ** 2) / math.sqrt(2 * math.pi)
        mean = beta * p + gamma
        spread = math.sqrt(beta**2 * p * (1 - p) + mixed**2 + noise + 2 * beta * mixed * density)
        for x, q in ((1.0, p), (0.0, 1 - p)):
            for sign in (1.0, -1.0):
                points.append((z, x, mean + sign * spread))
                mass.append(0.5 * share * q)
    z, x, y = np.array(points).T
    moments = ["z*(y - m1)", "(1 - z)*(y - m0)", "z*(x - t1)", "(1 - z)*(x - t0)"]
    sources = {"exposure": sw.Source("z x"), "outcome": sw.Source("z y")}
    return Population(sw.Study(moments, "(m1 - m0)/(t1 - t0)", sources), {"z": z, "x": x, "y": y}, np.array(mass))
