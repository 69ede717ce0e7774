"""Worlds in which the truth is known, and which deal their rows to sources that see different columns.

The parameters were fixed before anything was looked at. Rows of different sources are different people.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import sourcewise as sw

Array = NDArray[np.float64]
Columns = Mapping[str, Array]
People = Callable[[np.random.Generator, int], Columns]
"""All variables of so many people, each (n,), whoever gets to see them."""


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """A study with the law of its rows. `truth` has every parameter, the target among them."""

    name: str
    study: sw.Study
    truth: Mapping[str, float]
    people: People

    @property
    def target(self) -> float:
        return self.truth[self.study.target]

    def deal(self, source: str, rows: int, random: np.random.Generator) -> dict[str, Array]:
        """Columns (rows,) of people whom `source` observes, and only what it observes of them."""
        everything = self.people(random, rows)
        return {name: everything[name] for name in self.study.sources[source].observes}


def _instrument(random: np.random.Generator, rows: int) -> Columns:
    z, u, e_x, e_y = random.standard_normal((4, rows))
    x = z + u + e_x
    return {"z": z, "x": x, "y": x + u + e_y}


IV = World(
    "IV",
    sw.Study(
        moments=["z*(x - alpha*z)", "z*(y - alpha*beta*z)"],
        target="beta",
        sources={"exposure": sw.Source("z x"), "outcome": sw.Source("z y")},
    ),
    {"alpha": 1.0, "beta": 1.0},
    _instrument,
)


def _two_instruments(random: np.random.Generator, rows: int) -> Columns:
    z1, z2, u, e_x, e_y = random.standard_normal((5, rows))
    z2 = 2.0 * z2  # all other variances are 1; with equal ones every allocation would be as good
    x = z1 + z2 + u + e_x
    return {"z1": z1, "z2": z2, "x": x, "y": x + u + e_y}


TWO_IVS = World(
    "Two IVs",
    sw.Study(
        moments=["z1*(y - beta*x)", "z2*(y - beta*x)"],
        target="beta",
        sources={"first": sw.Source("x y z1"), "second": sw.Source("x y z2")},
    ),
    {"beta": 1.0},
    _two_instruments,
)

EFFECT, A, B, D = -0.32439283544223846, 0.3335611397940348, -0.34589828079316454, 0.44690979199821323


def _confounder_mediator(random: np.random.Generator, rows: int) -> Columns:
    w, e_x, e_m, e_y = random.standard_normal((4, rows))
    x = D * w + e_x
    m = EFFECT / A * x + e_m
    return {"w": w, "x": x, "m": m, "y": A * m + B * w + e_y}


VARIANCE_OF_X = "x**2 - (d**2*sw2 + sx2)"
MOMENTS = (
    "x*(y - b*w - beta*x)",
    "w*(y - b*w - beta*x)",
    "x*(m - beta/a*x)",
    "m*(y - a*m - b*d*sw2/(d**2*sw2 + sx2)*x)",
    "x*(y - a*m - b*d*sw2/(d**2*sw2 + sx2)*x)",
    "w**2 - sw2",
    "w*(x - d*w)",
)


def _mediated(name: str, *variance_of_x: str | sw.Moment) -> World:
    return World(
        name,
        sw.Study(
            moments=[*MOMENTS, *variance_of_x],
            target="beta",
            sources={"confounder": sw.Source("x y w", cost=1.8), "mediator": sw.Source("x y m", cost=1.0)},
        ),
        {"beta": EFFECT, "a": A, "b": B, "d": D, "sw2": 1.0, "sx2": 1.0},
        _confounder_mediator,
    )


EIGHT = _mediated("Confounder-mediator, 8 moments", VARIANCE_OF_X)
# The published code has the variance of x twice: over the confounder's rows, and over all.
NINE = _mediated(
    "Confounder-mediator, 9 moments",
    sw.Moment(VARIANCE_OF_X, sources=("confounder",), name="variance of x, confounder's rows"),
    sw.Moment(VARIANCE_OF_X, name="variance of x, all rows"),
)

WEAK_ROWS = 1000


def _weak_instrument(random: np.random.Generator, rows: int) -> Columns:
    z, first, second = random.standard_normal((3, rows))
    e = 0.95 * first + math.sqrt(1.0 - 0.95**2) * second
    x = z / math.sqrt(WEAK_ROWS) + first  # concentration 1: WEAK_ROWS times slope² over the variance of `first`
    return {"z": z, "x": x, "y": x + e}


WEAK = World(
    "Weak IV",
    sw.Study(moments=["z*(y - beta*x)"], target="beta", sources={"all": sw.Source("z x y")}),
    {"beta": 1.0},
    _weak_instrument,
)
