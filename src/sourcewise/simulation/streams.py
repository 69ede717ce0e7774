"""One stream of rows per source and replication, and the statistics of any number of its first rows.

A policy only decides how far to read a stream, so all policies and all budgets share the rows and the data are drawn
once. Row k of replication r depends on the seed, the source, r and k alone: replications are dealt in groups of
GROUP and rows in pieces of PIECE, whatever is asked for.

Sums are kept every STRIDE rows; what lies between is summed when it is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sourcewise.errors import SimulationError
from sourcewise.moments.base import Evidence
from sourcewise.moments.compiled import CompiledSource, Integers, compile_source
from sourcewise.moments.rowwise import RowEvidence
from sourcewise.moments.separable import GramEvidence
from sourcewise.numerics.linalg import Array
from sourcewise.simulation.history import History
from sourcewise.simulation.worlds import World
from sourcewise.spec.study import NORMAL_THEORY, Study
from sourcewise.statistics.features import Features, atom_values, choose_centre
from sourcewise.statistics.frames import BLOCK_ROWS

GROUP = 64
PIECE = 128
STRIDE = 8
NEAR = 10.0
"""Up to this many standard deviations from the origin, sums of products need no centre."""

PILOT = 4096


@dataclass(frozen=True, slots=True)
class Plan:
    """How one source is simulated: which sums are kept, about which centre."""

    place: int
    source: CompiledSource
    centre: tuple[tuple[str, float], ...]
    left: tuple[int, ...]
    right: tuple[int, ...]
    """The pairs of terms whose products differ."""
    layout: NDArray[np.int64]
    """(K, K): which of the products stands where in Σ φφᵀ."""

    def numbers_per_row(self) -> float:
        """Numbers that one row of one replication keeps in memory."""
        return len(self.source.variables) + len(self.left) / STRIDE


def plan_source(world: World | History, study: Study, name: str, schemes: Collection[str] = ()) -> Plan:
    """`schemes`: how strategies weigh the moments where they do not do as the study says."""
    place = list(study.sources).index(name)
    source = compile_source(study, name)
    pilot = _pilot(world, study, source)
    if source.separable is None:
        return Plan(place, source, (), (), (), np.zeros((0, 0), dtype=np.int64))
    lean = compile_source(study, name, lean=True)
    modelled = any(scheme in NORMAL_THEORY for scheme in (study.weights, *schemes))
    if not modelled and _near_origin(lean, pilot):
        source, centre = lean, dict.fromkeys(lean.atoms, 0.0)
    else:
        centre = choose_centre(source, pilot)
    return Plan(place, source, tuple(centre.items()), *_products(source))


def _near_origin(source: CompiledSource, pilot: Array) -> bool:
    values = atom_values(source, pilot)
    return bool((np.abs(values.mean(axis=1)) <= NEAR * values.std(axis=1)).all())


def _pilot(world: World | History, study: Study, source: CompiledSource) -> Array:
    """Columns (variables, n) of some rows, which say where the centre should be."""
    if isinstance(world, History):
        return world.pilot(source.name, source.variables, PILOT)
    observes = study.sources[source.name].observes
    first, again = (
        dealt(world, np.random.Generator(np.random.SFC64(0)), PILOT, observes, source.name) for _ in range(2)
    )
    for name in observes:
        if not np.array_equal(first[name], again[name]):
            raise SimulationError(
                f"the world dealt two different {name!r} from equal generators; it must draw with the generator that "
                f"it is given, and with nothing else"
            )
    return np.stack([first[name] for name in source.variables])


def _pieces(
    world: World | History, study: Study, plan: Plan, seed: int, group: int, count: int, rows: int
) -> Iterator[Array]:
    """So many pieces (variables, PIECE, GROUP) of the rows of one group of replications."""
    source, variables = plan.source.name, plan.source.variables
    if isinstance(world, History):
        seeds = [(seed, plan.place, group * GROUP + k) for k in range(GROUP)]
        yield from world.pieces(source, variables, seeds, rows, PIECE)
        return
    random = _generator(seed, plan.place, group)
    for _ in range(count):
        columns = dealt(world, random, PIECE * GROUP, study.sources[source].observes, source)
        yield np.stack([columns[name] for name in variables]).reshape(-1, PIECE, GROUP)


def dealt(
    world: World, random: np.random.Generator, rows: int, observes: tuple[str, ...], source: str
) -> dict[str, Array]:
    """Rows of the variables that a source observes; what a user's world returns is checked here."""
    columns = world.deal(random, rows)
    if not isinstance(columns, Mapping):
        raise SimulationError(f"a world deals a dict of columns, not {type(columns).__name__}")
    found = {}
    for name in observes:
        if name not in columns:
            raise SimulationError(f"source {source!r} observes {name!r}, which the world does not deal")
        try:
            values = np.asarray(columns[name], dtype=np.float64)
        except (TypeError, ValueError):
            raise SimulationError(f"the world dealt {name!r} as something else than numbers") from None
        if values.shape != (rows,):
            raise SimulationError(
                f"the world dealt {name!r} with shape {values.shape} where {rows} rows were asked for"
            )
        if not np.isfinite(values).all():
            raise SimulationError(f"the world dealt a value of {name!r} that is not a finite number")
        found[name] = values
    return found


def _products(source: CompiledSource) -> tuple[tuple[int, ...], tuple[int, ...], NDArray[np.int64]]:
    terms = source.terms
    layout = np.zeros((len(terms), len(terms)), dtype=np.int64)
    found: dict[tuple[tuple[str, int], ...], int] = {}
    pairs: list[tuple[int, int]] = []
    for j, one in enumerate(terms):
        for k, other in enumerate(terms[: j + 1]):
            powers = dict(one)
            for atom, power in other:
                powers[atom] = powers.get(atom, 0) + power
            key = tuple(sorted(powers.items()))
            if key not in found:
                found[key] = len(pairs)
                pairs.append((j, k))
            layout[j, k] = layout[k, j] = found[key]
    return tuple(j for j, _ in pairs), tuple(k for _, k in pairs), layout


class Stream:
    """The rows of one source for consecutive replications, each (rows, replications), replications last."""

    __slots__ = ("_columns", "_features", "_plan", "_sums")

    def __init__(
        self, world: World | History, study: Study, plan: Plan, seed: int, first: int, count: int, rows: int
    ) -> None:
        """Replications first, …, first + count − 1; `first` is a multiple of GROUP."""
        pieces = max(1, -(-rows // PIECE))
        self._plan = plan
        self._features = Features(plan.source, dict(plan.centre)) if plan.left else None
        variables, groups = plan.source.variables, -(-count // GROUP)
        self._columns = np.empty((len(variables), pieces * PIECE, groups * GROUP))
        self._sums = np.zeros((len(plan.left), pieces * PIECE // STRIDE + 1, groups * GROUP))
        for group in range(groups):
            here = slice(group * GROUP, (group + 1) * GROUP)
            dealing = _pieces(world, study, plan, seed, first // GROUP + group, pieces, rows)
            for piece, columns in enumerate(dealing):
                self._columns[:, piece * PIECE : (piece + 1) * PIECE, here] = columns
                if plan.left:
                    self._keep(piece, here, columns.reshape(len(variables), -1))
        np.cumsum(self._sums, axis=1, out=self._sums)

    def _keep(self, piece: int, here: slice, columns: Array) -> None:
        assert self._features is not None
        first = piece * PIECE // STRIDE + 1
        terms = self._features(columns)
        for k, (i, j) in enumerate(zip(self._plan.left, self._plan.right, strict=True)):
            product = (terms[i] * terms[j] if j else terms[i]).reshape(PIECE // STRIDE, STRIDE, GROUP)
            product.sum(axis=1, out=self._sums[k, first : first + PIECE // STRIDE, here])

    def evidence(self, rows: Integers, replications: Integers) -> Evidence:
        """The first `rows` (B,) rows, at least one, of these replications (B,), counted from this stream's first."""
        plan = self._plan
        if not plan.left:
            tables = [self._columns[:, :n, r] for n, r in zip(rows, replications, strict=True)]
            return RowEvidence(plan.source, tables)
        sums = self._sums[:, rows // STRIDE, replications]
        rest = np.flatnonzero(rows % STRIDE)
        for start in range(0, len(rest), BLOCK_ROWS // STRIDE):
            some = rest[start : start + BLOCK_ROWS // STRIDE]
            sums[:, some] += self._remainder(rows[some], replications[some])
        centre = np.array([[value] for _, value in plan.centre])
        gram = sums[plan.layout]
        return GramEvidence(plan.source, rows.astype(np.float64), gram.transpose(2, 0, 1), centre)

    def _remainder(self, rows: Integers, replications: Integers) -> Array:
        """Sums (P, B) over the rows since the last multiple of STRIDE."""
        assert self._features is not None
        within = np.arange(STRIDE - 1)[:, None]
        wanted = rows // STRIDE * STRIDE + within
        columns = self._columns[:, np.minimum(wanted, self._columns.shape[1] - 1), replications]
        terms = self._features(columns.reshape(len(columns), -1))
        held = terms.reshape(len(terms), STRIDE - 1, -1) * (within < rows % STRIDE)
        left, right = self._plan.left, self._plan.right
        terms = terms.reshape(held.shape)
        return np.stack([np.einsum("hb,hb->b", held[i], terms[j]) for i, j in zip(left, right, strict=True)])


def _generator(seed: int, place: int, group: int) -> np.random.Generator:
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence([seed, place, group])))
