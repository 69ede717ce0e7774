"""Random design problems that are as awkward as real ones: what the tests and the benchmark draw from."""

from __future__ import annotations

import numpy as np

from sourcewise.allocation.design import Problem
from sourcewise.numerics.linalg import Array

NEARLY = (1e-2, 1e-4, 1e-6, 1e-8)
"""How far apart nearly collinear sources lie, as a fraction of their length."""


def random_problem(random: np.random.Generator, *, limits: bool = False, most: int = 300) -> Problem:
    """3 to `most` sources, 2 to 20 parameters, costs over four orders of magnitude.

    A part of the sources are copies of others, nearly copies, informative in few directions only, or empty; the
    gradient is sometimes what a single source or two could give, where the optimum is a singular design.
    """
    size = int(np.exp(random.uniform(np.log(3), np.log(most + 1))))
    dimension = int(random.integers(2, 21))
    rows = int(random.integers(1, min(dimension, 6) + 1))
    roots = [_root(random, rows, dimension) for _ in range(size)]
    for i in range(1, size):
        kind = random.random()
        if kind < 0.1:
            roots[i] = roots[random.integers(i)].copy()
        elif kind < 0.25:
            other = roots[random.integers(i)]
            roots[i] = other + random.choice(NEARLY) * random.standard_normal(other.shape)
        elif kind < 0.28:
            roots[i] = roots[i][:0]
    costs = 10.0 ** random.uniform(-2, 2, size)
    priced = [root / np.sqrt(cost) for root, cost in zip(roots, costs, strict=True)]
    gradient = _gradient(random, roots, dimension)
    units = 10.0 ** random.uniform(-3, 3, dimension)
    problem = Problem(tuple(root * units for root in priced), gradient * units, float(10 ** random.uniform(-2, 5)))
    return _limited(random, problem) if limits else problem


def _root(random: np.random.Generator, rows: int, dimension: int) -> Array:
    """Some sources inform all parameters, some a few, some only one combination."""
    kind = random.random()
    root = random.standard_normal((int(random.integers(1, rows + 1)), dimension))
    if kind < 0.3:
        root = root * (random.random(dimension) < 0.4)
    elif kind < 0.5:
        root = random.standard_normal((len(root), 1)) * root[:1]
    return np.asarray(root)


def _gradient(random: np.random.Generator, roots: list[Array], dimension: int) -> Array:
    kind = random.random()
    if kind < 0.4:
        return random.standard_normal(dimension)
    few: Array = np.concatenate([roots[i] for i in random.integers(len(roots), size=1 if kind < 0.6 else 3)])
    few = few[np.abs(few).sum(axis=1) > 0]
    if kind < 0.9 and len(few):
        return np.asarray(random.standard_normal(len(few)) @ few)
    return np.asarray(np.eye(dimension)[random.integers(dimension)])


def _limited(random: np.random.Generator, problem: Problem) -> Problem:
    """A part of the sources with money already spent, a part with little to offer."""
    size, total = len(problem.roots), problem.total
    lower = np.where(random.random(size) < 0.4, random.dirichlet(np.ones(size)), 0.0) * random.choice([0.05, 0.5, 0.95])
    upper = np.where(random.random(size) < 0.5, np.inf, lower + random.uniform(0.0, 4.0 / size, size))
    if upper.sum() < 1.05:
        upper[random.integers(size)] = np.inf
    return Problem(problem.roots, problem.gradient, total, lower * total, upper * total)
