"""Thousands of replications at once: the estimator that `sourcewise.fit` runs, on sums of products made in NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from replication.worlds import Array, World
from sourcewise.estimation.blocks import Blocks, Stacking
from sourcewise.estimation.gmm import Estimates, Settings, UpdatedMoments, estimate
from sourcewise.estimation.weights import fixed_weight
from sourcewise.inference import infer
from sourcewise.moments.compiled import compile_source, compile_study
from sourcewise.moments.separable import GramEvidence
from sourcewise.numerics.linalg import squared
from sourcewise.results import normal_quantile
from sourcewise.statistics.features import Features
from sourcewise.statistics.frames import BLOCK_ROWS

SEED = 2021
"""Chosen once, before the first run."""

BATCH = 500


@dataclass(frozen=True, slots=True)
class Replications:
    """What each of B replications found (B,). Those that did not converge are kept with where they ended."""

    estimate: Array
    stderr: Array
    corrected: Array
    """Standard error with Windmeijer's correction."""
    statistic: Array
    degrees: NDArray[np.int64]
    converged: NDArray[np.bool_]

    def __add__(self, other: Replications) -> Replications:
        pairs = ((getattr(self, f.name), getattr(other, f.name)) for f in fields(self))
        return Replications(*(np.concatenate(pair) for pair in pairs))


def stream(world: World, source: str, rows: int, batch: int) -> np.random.Generator:
    """Its own stream of numbers for every world, source, size in all, and batch."""
    place = list(world.study.sources).index(source)
    key = (int.from_bytes(world.name.encode(), "big"), rows, place, batch)
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence([SEED, *key])))


def deals(world: World, source: str, rows: int, count: int, batch: int) -> Iterator[tuple[int, dict[str, Array]]]:
    """What `source` gets of `count` data sets of `rows` rows in all, one after the other, so many sets at a time."""
    random = stream(world, source, rows, batch)
    share = rows // len(world.study.sources)
    together = max(1, BLOCK_ROWS // share)
    for start in range(0, count, together):
        some = min(together, count - start)
        yield some, world.deal(source, some * share, random)


def grams(world: World, source: str, rows: int, count: int, batch: int) -> Array:
    """Σ φφᵀ about zero of every data set, (count, K, K)."""
    compiled = compile_source(world.study, source)
    features = Features(compiled, dict.fromkeys(compiled.atoms, 0.0))
    parts = []
    for some, dealt in deals(world, source, rows, count, batch):
        columns = np.stack([dealt[name] for name in compiled.variables])
        total = np.zeros((some, len(compiled.terms), len(compiled.terms)))
        for first in range(0, columns.shape[1], BLOCK_ROWS):
            terms = features(columns[:, first : first + BLOCK_ROWS])
            each = terms.reshape(len(terms), some, -1).swapaxes(0, 1)
            total += each @ each.swapaxes(1, 2)
        parts.append(total)
    return np.concatenate(parts)


def frames(world: World, rows: int, count: int, batch: int) -> list[dict[str, dict[str, Array]]]:
    """The same data sets as `evidence` sums up, each as a user would hand it to `fit`."""
    sets: list[dict[str, dict[str, Array]]] = [{} for _ in range(count)]
    share = rows // len(world.study.sources)
    for source in world.study.sources:
        place = 0
        for some, dealt in deals(world, source, rows, count, batch):
            for k in range(some):
                sets[place + k][source] = {name: column[k * share : (k + 1) * share] for name, column in dealt.items()}
            place += some
    return sets


def evidence(world: World, rows: int, count: int, batch: int) -> dict[str, GramEvidence]:
    """`rows` rows dealt in equal shares to the sources, `count` times."""
    share = rows // len(world.study.sources)
    parts = {}
    for source in world.study.sources:
        compiled = compile_source(world.study, source)
        gram = grams(world, source, rows, count, batch)
        centre = np.zeros((len(compiled.atoms), 1))
        parts[source] = GramEvidence(compiled, np.full(count, float(share)), gram, centre)
    return parts


def estimates_of(world: World, blocks: Blocks) -> Estimates:
    """As `fit` runs it: no starting value is given."""
    unknown = np.full((len(world.study.parameters), len(blocks.rows)), np.nan)
    return estimate(world.study, compile_study(world.study), blocks, Settings(), unknown)


def run(world: World, blocks: Blocks) -> Replications:
    compiled = compile_study(world.study)
    found = estimates_of(world, blocks)
    plain = infer(compiled, blocks, found, "robust", None, True)
    corrected = infer(compiled, blocks, found, "windmeijer", fixed_weight(blocks, None), True)
    return Replications(plain.target, plain.stderr, corrected.stderr, plain.statistic, plain.degrees, found.converged)


def replicate(world: World, stackings: tuple[Stacking, ...], rows: int, count: int) -> dict[Stacking, Replications]:
    """`count` replications of two-step estimation; every stacking sees the same data."""
    done: dict[Stacking, Replications] = {}
    for batch, size in enumerate(_sizes(count)):
        parts = evidence(world, rows, size, batch)
        for stacking in stackings:
            more = run(world, Blocks(parts, stacking, "robust", False, len(world.study.moments)))
            done[stacking] = done[stacking] + more if stacking in done else more
    return done


def covered_by_inversion(world: World, rows: int, count: int, level: float = 0.95) -> NDArray[np.bool_]:
    """Whether the set that inverts the objective holds the truth (count,): T·Q(truth) against its quantile.

    For worlds with one parameter, where nothing is left to minimise over at a given value of the target.
    """
    truth = np.array([world.truth[name] for name in world.study.parameters])
    assert len(truth) == 1
    held = []
    for batch, size in enumerate(_sizes(count)):
        blocks = Blocks(evidence(world, rows, size, batch), "stacked", "robust", False, len(world.study.moments))
        residual, _ = UpdatedMoments(blocks).residual(np.repeat(truth[:, None], size, axis=1))
        held.append(blocks.rows * squared(residual) <= chdtri(len(residual), 1.0 - level))
    return np.concatenate(held)


def covers(estimate: Array, stderr: Array, truth: float, level: float = 0.95) -> NDArray[np.bool_]:
    """Whether each normal interval holds the truth; one without a standard error is the whole line."""
    return ~(np.abs(estimate - truth) > normal_quantile(level) * stderr)


def _sizes(count: int) -> Iterator[int]:
    for start in range(0, count, BATCH):
        yield min(BATCH, count - start)
