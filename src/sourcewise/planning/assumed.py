"""The fit that an assumed world leads to: what endlessly many rows of it would say, found without drawing them."""

from __future__ import annotations

import numpy as np

from sourcewise.errors import AllocationError, SourcewiseError
from sourcewise.fit import fit
from sourcewise.moments.compiled import CompiledSource, compile_study
from sourcewise.results import Fit
from sourcewise.simulation.worlds import Points, World, population_of
from sourcewise.spec.study import Study
from sourcewise.statistics.features import Features, choose_centre
from sourcewise.statistics.gram import Statistics
from sourcewise.statistics.rows import Rows

ROWS = 10**6
"""Of each source, for a fit that mirrors the world. Plans use variances of one row, which do not depend on it."""
DRAWN = 2**16
"""Rows that stand for the world where moments need rows."""


def fit_of_world(study: Study, world: World) -> Fit:
    """The estimate at the world's own distribution: its parameters are the true ones, its variances exact."""
    points = population_of(world)
    random = np.random.Generator(np.random.SFC64(0))
    data: dict[str, Statistics | Rows] = {}
    for name, source in compile_study(study).sources.items():
        if source.separable is not None:
            data[name] = _mirror(source, points)
        else:
            columns = world.deal(random, DRAWN)
            data[name] = Rows(name, source.variables, np.stack([columns[v] for v in source.variables]))
    try:
        found = fit(study, data)
    except SourcewiseError as error:
        raise AllocationError(f"the world of this study cannot be planned with: {error}") from error
    if not found.converged:
        raise AllocationError(f"the study cannot be estimated even from the whole world: {found.status}")
    return found


def _mirror(source: CompiledSource, points: Points) -> Statistics:
    columns, mass = points
    table = np.array([columns[name] for name in source.variables])
    centre = choose_centre(source, table)
    size = len(source.terms)
    gram = np.zeros((size, size))
    features = Features(source, centre)
    for start in range(0, table.shape[1], 8192):
        terms = features(table[:, start : start + 8192])
        gram += terms * mass[start : start + 8192] @ terms.T
    gram = 0.5 * ROWS * (gram + gram.T)
    gram[0, 0] = ROWS
    return Statistics(source.name, source.labels, centre, ROWS, gram)
