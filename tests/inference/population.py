"""Statistics of a whole population: exact moments in place of sums over a sample.

A Gauss–Hermite rule with three nodes an axis integrates products of up to five equal standard normal factors
exactly; products of data terms of degree two have no more than four.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

import sourcewise as sw
from sourcewise.moments.compiled import compile_source, describe_term

Array = NDArray[np.float64]

ROWS = 10**15
"""Shares of so many rows are exact to 1e-15."""


def nodes(dimension: int) -> tuple[Array, Array]:
    """Standard normal vectors (dimension, 3^dimension) and their probabilities."""
    points, weights = np.polynomial.hermite_e.hermegauss(3)
    grid = np.stack(np.meshgrid(*[points] * dimension, indexing="ij")).reshape(dimension, -1)
    mass = np.prod(np.stack(np.meshgrid(*[weights] * dimension, indexing="ij")).reshape(dimension, -1), axis=0)
    return grid, mass / mass.sum()


def statistics(
    study: sw.Study, people: Callable[[Array], Mapping[str, Array]], dimension: int, shares: Mapping[str, float]
) -> dict[str, sw.Statistics]:
    """What each source would hold of ROWS · share rows that mirror the population."""
    grid, mass = nodes(dimension)
    columns = people(grid)
    found = {}
    for name, share in shares.items():
        source = compile_source(study, name)
        terms = np.stack(
            [
                math.prod((columns[atom] ** power for atom, power in term), start=np.ones(len(mass)))
                for term in source.terms
            ]
        )
        products = terms * mass @ terms.T
        products[0, 0] = 1.0
        n = round(ROWS * share)
        gram = n * 0.5 * (products + products.T)
        gram[0, 0] = n
        centre = dict.fromkeys(source.atoms, 0.0)
        found[name] = sw.Statistics(name, tuple(map(describe_term, source.terms)), centre, n, gram)
    return found
