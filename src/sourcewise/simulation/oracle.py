"""What an oracle knows: the best fixed mix at the true parameters."""

from __future__ import annotations

import numpy as np

from sourcewise.allocation.allocate import Allocation, allocate
from sourcewise.errors import SimulationError
from sourcewise.estimation.blocks import Stacking
from sourcewise.fit import fit
from sourcewise.moments.compiled import compile_source, describe_term
from sourcewise.numerics.linalg import Array
from sourcewise.policies import Fixed
from sourcewise.results import Fit
from sourcewise.simulation.worlds import Columns, World, population_of
from sourcewise.spec.study import Study
from sourcewise.statistics.features import Features, choose_centre
from sourcewise.statistics.frames import BLOCK_ROWS
from sourcewise.statistics.gram import Statistics
from sourcewise.statistics.rows import Rows

MIRRORED = 10**6
"""Rows of each source that stand for the population. A number of no consequence."""


def population_fit(world: World, study: Study, stacking: Stacking = "stacked") -> Fit:
    """What unlimited data would lead to: the truth, found from the world's population and not from its parameters."""
    columns, mass = population_of(world)
    parts = {name: _mirror(study, name, columns, mass) for name in study.sources if study.moments_of(name)}
    return fit(study, parts, stacking=stacking)


def best_fixed(world: World, study: Study, stacking: Stacking = "stacked", budget: float | None = None) -> Allocation:
    """The mix that an oracle keeps to. A budget is needed where a source has a capacity."""
    known = population_fit(world, study, stacking)
    if not (known.converged and known.target.identified):
        raise SimulationError(
            f"the world's population does not determine the target {study.target!r} ({known.status}); "
            f"do the study's moments hold in this world?"
        )
    return allocate(study, known, budget=budget)


def oracle_policy(best: Allocation) -> Fixed:
    """Six digits: the last ones depend on the number of BLAS threads, by which a kept simulation must not be told."""
    return Fixed({name: round(share, 6) for name, share in best.kappa.items()})


def _mirror(study: Study, name: str, columns: Columns, mass: Array) -> Statistics | Rows:
    """Statistics of rows that have exactly the moments of the population."""
    source = compile_source(study, name)
    values = np.stack([np.broadcast_to(np.asarray(columns[v], dtype=np.float64), mass.shape) for v in source.variables])
    if source.separable is None:
        chosen = np.random.Generator(np.random.SFC64(0)).choice(len(mass), size=2**16, p=mass / mass.sum())
        return Rows(name, source.variables, values[:, chosen])
    centre = choose_centre(source, values)
    features, gram = Features(source, centre), np.zeros((len(source.terms),) * 2)
    for first in range(0, len(mass), BLOCK_ROWS):
        terms = features(values[:, first : first + BLOCK_ROWS])
        gram += MIRRORED * (terms * mass[first : first + BLOCK_ROWS] @ terms.T)
    gram = 0.5 * (gram + gram.T)
    gram[0, 0] = MIRRORED
    return Statistics(name, tuple(map(describe_term, source.terms)), centre, MIRRORED, gram)
