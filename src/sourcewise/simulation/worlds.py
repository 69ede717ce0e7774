"""Worlds in which the truth is known: they deal rows of all variables, whoever gets to see them.

A world is any object with the truth and a `deal`; these are the ones that the paper's experiments need. They hold
numbers and no closures, so that they travel to other processes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Protocol, runtime_checkable

import numpy as np

from sourcewise.errors import SimulationError
from sourcewise.inference import target_and_gradient
from sourcewise.moments.compiled import compile_study
from sourcewise.numerics.linalg import Array
from sourcewise.simulation.history import History
from sourcewise.spec.study import Study

Columns = Mapping[str, Array]
Truth = float | Mapping[str, float]
Points = tuple[Columns, Array]
"""Values of all variables at some points, and the points' probabilities."""

MOST_POINTS = 2**17
DEGREE = 5
"""Quadrature with this many points a noise is exact up to the 9th power: moments of degree 4 and their squares."""
FEWEST = 3
DRAWN = 2**18


@runtime_checkable
class World(Protocol):
    """What `simulate` needs to know of a world."""

    @property
    def truth(self) -> Truth:
        """The true target, or the true value of every parameter."""

    def deal(self, random: np.random.Generator, rows: int) -> Columns:
        """All variables (rows,) of so many independent rows. Equal generators must give equal rows."""


@dataclass(frozen=True, slots=True)
class FunctionWorld:
    """Rows from a function of a generator and a number of rows. To run in other processes it must be importable."""

    function: Callable[[np.random.Generator, int], Columns]
    truth: Truth

    def deal(self, random: np.random.Generator, rows: int) -> Columns:
        return self.function(random, rows)


@dataclass(frozen=True, slots=True)
class LinearWorld:
    """Each variable is a sum of earlier ones times coefficients, an intercept and independent normal noise.

    equations: {"x": {"z": 1.0, "u": 0.5}, ...}, in causal order or not; a variable without an equation is noise alone.
    variances: of the noise of each variable; 1 where nothing is said. Variables that no source observes are hidden.
    """

    equations: Mapping[str, Mapping[str, float]]
    truth: Truth
    variances: Mapping[str, float] = field(default_factory=dict)
    intercepts: Mapping[str, float] = field(default_factory=dict)
    order: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "order", _causal_order(self.equations, {*self.variances, *self.intercepts}))
        for name, variance in self.variances.items():
            if not 0 <= variance < math.inf:
                raise SimulationError(f"the noise of {name!r} must have a finite variance, 0 or more, not {variance!r}")

    def deal(self, random: np.random.Generator, rows: int) -> Columns:
        return self.solve(random.standard_normal((len(self.order), rows)))

    def solve(self, noise: Array, given: Columns | None = None) -> dict[str, Array]:
        """Variables from standard normal noise (variables, rows), which becomes them, and the `given` ones."""
        found: dict[str, Array] = dict(given or {})
        for name, value in zip(self.order, noise, strict=True):
            if name in self.variances:
                value *= math.sqrt(self.variances[name])
            for cause, coefficient in self.equations.get(name, {}).items():
                value += found[cause] if coefficient == 1.0 else coefficient * found[cause]
            value += self.intercepts.get(name, 0.0)
            found[name] = value
        return found

    def population(self) -> Points:
        """Points that have the moments of the whole law."""
        points, mass = _normals(len(self.order))
        return self.solve(points), mass


@dataclass(frozen=True, slots=True, eq=False)
class TableWorld:
    """Rows of a table drawn with replacement, and variables simulated on top of them by linear equations."""

    table: Columns
    equations: Mapping[str, Mapping[str, float]]
    truth: Truth
    variances: Mapping[str, float] = field(default_factory=dict)
    outcomes: LinearWorld = field(init=False)

    def __post_init__(self) -> None:
        if len({len(column) for column in self.table.values()}) != 1:
            raise SimulationError("the columns of a world's table must be there and be of one length")
        known = dict.fromkeys(self.table, 0.0)
        inner = {name: {c: b for c, b in causes.items() if c not in known} for name, causes in self.equations.items()}
        order = LinearWorld(inner, self.truth, self.variances)
        object.__setattr__(order, "equations", self.equations)
        object.__setattr__(self, "outcomes", order)

    def deal(self, random: np.random.Generator, rows: int) -> Columns:
        size = len(next(iter(self.table.values())))
        chosen = random.integers(0, size, size=rows)
        given = {name: column[chosen] for name, column in self.table.items()}
        return self.outcomes.solve(random.standard_normal((len(self.outcomes.order), rows)), given)

    def population(self) -> Points:
        points, mass = _normals(len(self.outcomes.order))
        size = len(next(iter(self.table.values())))
        given = {name: np.repeat(column, len(mass)) for name, column in self.table.items()}
        return self.outcomes.solve(np.tile(points, size), given), np.tile(mass, size) / size


@dataclass(frozen=True, slots=True)
class LotteryWorld:
    """A lottery z moves a choice x = 1{alpha z + cut + e > 0}; the outcome is y = beta x + gamma + mixed e + noise."""

    chance: float
    alpha: float
    cut: float
    beta: float
    gamma: float
    mixed: float
    variance: float

    @property
    def truth(self) -> float:
        return self.beta

    def deal(self, random: np.random.Generator, rows: int) -> Columns:
        z = (random.random(rows) < self.chance).astype(np.float64)
        hidden, noise = random.standard_normal((2, rows))
        x = (self.alpha * z + self.cut + hidden > 0).astype(np.float64)
        noise *= math.sqrt(self.variance)
        noise += self.beta * x + self.gamma + self.mixed * hidden
        return {"z": z, "x": x, "y": noise}

    def population(self) -> Points:
        """Only the first two moments of y given z and x matter, so y takes two values there."""
        columns, mass = [], []
        for z, share in ((1.0, self.chance), (0.0, 1.0 - self.chance)):
            at = self.alpha * z + self.cut
            density = math.exp(-0.5 * at * at) / math.sqrt(2.0 * math.pi)
            chosen = 0.5 * math.erfc(-at / math.sqrt(2.0))
            for x, part, pull in ((1.0, chosen, density), (0.0, 1.0 - chosen, -density)):
                hidden = pull / part  # mean of e among those who chose x, and its variance
                spread = math.sqrt(self.mixed**2 * (1.0 - at * hidden - hidden**2) + self.variance)
                centre = self.beta * x + self.gamma + self.mixed * hidden
                columns += [(z, x, centre + spread), (z, x, centre - spread)]
                mass += [0.5 * share * part] * 2
        values = np.array(columns).T
        return dict(zip(("z", "x", "y"), values, strict=True)), np.array(mass)


def target_truth(world: World | History, study: Study) -> float:
    """The true value of the study's target."""
    if not isinstance(world.truth, Mapping):
        return float(world.truth)
    compiled = compile_study(study)
    missing = [name for name in compiled.parameters if name not in world.truth]
    if missing:
        raise SimulationError(
            f"the world's truth lacks the parameter {', '.join(missing)} of the study; give every parameter, "
            f"or the target alone as a number"
        )
    theta = np.array([[float(world.truth[name])] for name in compiled.parameters])
    return float(target_and_gradient(compiled, theta)[0][0])


def population_of(world: World) -> Points:
    """The world's population: exact where the world knows it, otherwise a large sample of it."""
    exact = getattr(world, "population", None)
    if exact is not None:
        points: Points = exact()
        return points
    return world.deal(np.random.Generator(np.random.SFC64(0)), DRAWN), np.full(DRAWN, 1.0 / DRAWN)


def _normals(count: int) -> tuple[Array, Array]:
    """Gauss–Hermite points (count, N) of independent standard normal variables and their weights; a sample of them
    where the grid would be too large."""
    order = next((k for k in range(DEGREE, FEWEST - 1, -1) if k**count <= MOST_POINTS), None)
    if order is None:
        half = np.random.Generator(np.random.SFC64(0)).standard_normal((count, DRAWN // 2))
        return np.concatenate([half, -half], axis=1), np.full(DRAWN, 1.0 / DRAWN)
    points, weights = np.polynomial.hermite_e.hermegauss(order)
    grid = np.array(list(product(points, repeat=count))).T
    return grid, np.prod(np.array(list(product(weights / weights.sum(), repeat=count))), axis=1)


def _causal_order(equations: Mapping[str, Mapping[str, float]], others: set[str]) -> tuple[str, ...]:
    names = dict.fromkeys([*(c for causes in equations.values() for c in causes), *equations, *sorted(others)])
    order: dict[str, None] = {}
    while len(order) < len(names):
        ready = [name for name in names if name not in order and set(equations.get(name, {})) <= set(order)]
        if not ready:
            circle = ", ".join(name for name in names if name not in order)
            raise SimulationError(f"the equations of {circle} form a circle; a world's variables need a causal order")
        order.update(dict.fromkeys(ready))
    return tuple(order)
