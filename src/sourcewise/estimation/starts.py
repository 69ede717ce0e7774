"""Where a search starts: never from a truth. From the study, from a linear pass, and where neither says, at random.

The linear pass solves for parameters in the order in which the moments make them linear: with
`z*(x - alpha*z)` solved for alpha, `z*(y - alpha*beta*z)` is linear in beta. A parameter that stays out of its
reach is drawn, and the pass goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from sourcewise.estimation.blocks import Blocks
from sourcewise.estimation.graph_starts import graph_starts
from sourcewise.moments.base import Evidence
from sourcewise.moments.compiled import CompiledStudy
from sourcewise.numerics.linalg import Array, matmul, orthogonalize
from sourcewise.spec.nodes import Node, derivative, number
from sourcewise.spec.study import Study

DRAWS = 12
"""Starting points where some parameter has to be drawn."""

COLLINEAR = 0.05
"""The linear pass looks twice where a column of it is this near to a combination of the others."""


@dataclass(frozen=True, slots=True)
class Stage:
    """Solve `moments` for `parameters`, or (no moments) draw the parameter."""

    moments: tuple[int, ...]
    parameters: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Shape:
    """Which parameters a moment uses, and in which pairs it is not linear."""

    parameters: frozenset[int]
    curved: frozenset[frozenset[int]]

    def linear_in(self, unknown: frozenset[int]) -> bool:
        return not any(pair <= unknown for pair in self.curved)


@lru_cache(maxsize=128)
def plan(study: Study, known: frozenset[int], available: frozenset[int]) -> tuple[Stage, ...]:
    """Stages that give every parameter a value, using the moments that some source with data can compute."""
    shapes = {j: shape for j, shape in enumerate(_shapes(study)) if j in available}
    unknown = frozenset(range(len(study.parameters))) - known
    stages = []
    while unknown:
        stage = _solvable(shapes, unknown) or _drawn(shapes, unknown)
        stages.append(stage)
        unknown -= frozenset(stage.parameters)
    return tuple(stages)


@lru_cache(maxsize=128)
def _shapes(study: Study) -> tuple[_Shape, ...]:
    names = tuple(study.parameters)
    memo: dict[tuple[Node, str], Node] = {}
    shapes = []
    for moment in study.moments:
        used = [d for d, name in enumerate(names) if name in moment.node.symbols]
        curved = set()
        for k, d in enumerate(used):
            slope = derivative(moment.node, names[d], memo)
            curved |= {frozenset((d, e)) for e in used[k:] if derivative(slope, names[e], memo) != number(0.0)}
        shapes.append(_Shape(frozenset(used), frozenset(curved)))
    return tuple(shapes)


def _solvable(shapes: dict[int, _Shape], unknown: frozenset[int]) -> Stage | None:
    """The smallest set of unknown parameters in which enough moments are linear."""
    open_parts = {
        j: shape.parameters & unknown
        for j, shape in shapes.items()
        if shape.parameters & unknown and shape.linear_in(shape.parameters & unknown)
    }
    best: Stage | None = None
    for seed in open_parts.values():
        chosen = seed
        while True:
            inside = [j for j, part in open_parts.items() if part <= chosen and shapes[j].linear_in(chosen)]
            if len(inside) >= len(chosen) or (best and len(chosen) >= len(best.parameters)):
                break
            outside = [part for part in open_parts.values() if not part <= chosen and part & chosen]
            if not outside:
                break
            chosen |= min(outside, key=lambda part: (len(part - chosen), sorted(part)))
        enough = len(inside) >= len(chosen)
        if enough and (best is None or (len(chosen), -len(inside)) < (len(best.parameters), -len(best.moments))):
            best = Stage(tuple(inside), tuple(sorted(chosen)))
    return best


def _drawn(shapes: dict[int, _Shape], unknown: frozenset[int]) -> Stage:
    """The unknown parameter whose value would make most moments linear."""

    def curvature(d: int) -> tuple[int, int]:
        pairs = [pair for shape in shapes.values() for pair in shape.curved if d in pair and pair <= unknown]
        return len(pairs), -d

    return Stage((), (max(unknown, key=curvature),))


def starting_points(study: Study, compiled: CompiledStudy, blocks: Blocks, given: Array, seed: int) -> list[Array]:
    """Starting values (D, B) to try; `given` (D, B) holds what is known, NaN elsewhere.

    One set where nothing is drawn, DRAWS sets otherwise.
    """
    if study.model is not None:
        return graph_starts(study, compiled, blocks, given, seed)
    known = frozenset(np.flatnonzero(~np.isnan(given).any(axis=1)).tolist())
    available = frozenset(j for part in blocks.evidence.values() for j in part.positions)
    stages = plan(study, known, available)
    random = np.random.Generator(np.random.SFC64(seed))
    count = DRAWS if any(not stage.moments for stage in stages) else 1
    return [_follow(stages, compiled, blocks, given, random) for _ in range(count)]


def _follow(
    stages: tuple[Stage, ...],
    compiled: CompiledStudy,
    blocks: Blocks,
    given: Array,
    random: np.random.Generator,
) -> Array:
    theta = np.where(np.isnan(given), 0.0, given)
    sizes = [_sizes(part, theta, blocks) for part in blocks.evidence.values()]
    for stage in stages:
        chosen = list(stage.parameters)
        if stage.moments:
            theta[chosen] = _solve(stage, blocks, theta, sizes)
        else:
            theta[chosen] = _draw(compiled.lower[chosen], compiled.upper[chosen], random)[:, None]
    return np.clip(theta, compiled.lower[:, None], compiled.upper[:, None])


def _draw(lower: Array, upper: Array, random: np.random.Generator) -> Array:
    if np.isfinite(lower).all() and np.isfinite(upper).all():
        return random.uniform(lower, upper)
    value = random.normal(size=lower.shape)
    value = np.where(np.isfinite(lower) & (value < lower), lower + np.abs(value), value)
    return np.asarray(np.where(np.isfinite(upper) & (value > upper), upper - np.abs(value), value))


def _sizes(part: Evidence, theta: Array, blocks: Blocks) -> Array:
    """Typical size (M, B) of each moment in a row, where the parameters that are not known yet are zero."""
    rows = part.factor(theta, blocks.errors)
    return np.asarray(np.sqrt(np.einsum("mkb,mkb->mb", rows, rows)))


def _solve(stage: Stage, blocks: Blocks, theta: Array, sizes: list[Array]) -> Array:
    """Least squares for the stage's parameters over all copies of its moments, each in units of its own size: a moment
    that hardly has a slope has little to say."""
    chosen = list(stage.parameters)
    origin = theta.copy()
    origin[chosen] = 0.0
    tables = []
    for part, size in zip(blocks.evidence.values(), sizes, strict=True):
        local = [k for k, j in enumerate(part.positions) if j in stage.moments]
        if local:
            mean, slope = part.mean_and_slope(origin)
            table = np.concatenate([slope[local][:, chosen], mean[local][:, None]], axis=1)
            tables.append((part, local, table, size[local]))
    found, pivots = _least_squares([_in_units(table, size) for _, _, table, size in tables])
    collinear = (pivots < COLLINEAR).any(axis=0)
    if collinear.any():
        # In the moments' own spread, instruments far from 0 are not collinear any more.
        again, _ = _least_squares([_white_rows(part, local, blocks, origin, table) for part, local, table, _ in tables])
        found = np.where(collinear, again, found)
    return found


def _least_squares(tables: list[Array]) -> tuple[Array, Array]:
    """x (D, B) that brings the joined tables [A | c] nearest to A x + c = 0, and the pivots of A's columns."""
    table = np.concatenate(tables)
    table[~np.isfinite(table)] = 0.0
    triangle = orthogonalize(np.ascontiguousarray(table[:, :-1].swapaxes(0, 1)))
    shadow = np.einsum("drb,rb->db", triangle.basis, table[:, -1])
    return -matmul(triangle.inverse.swapaxes(0, 1), shadow), triangle.pivots


def _unit_rows(table: Array) -> Array:
    length = np.sqrt(np.einsum("rdb,rdb->rb", table[:, :-1], table[:, :-1]))
    return np.asarray(table * np.divide(1.0, length, out=np.zeros_like(length), where=length > 0)[:, None])


def _in_units(table: Array, size: Array) -> Array:
    known = np.isfinite(size) & (size > 0)
    return np.where(known[:, None], table / np.where(known, size, 1.0)[:, None], _unit_rows(table))


def _white_rows(part: Evidence, local: list[int], blocks: Blocks, origin: Array, table: Array) -> Array:
    """Rows in units of the moments' variance at the origin; unit rows where that has nothing to say."""
    spread = orthogonalize(part.factor(origin, blocks.errors)[local])
    white = np.sqrt(part.rows) * matmul(spread.inverse, table)
    return np.where(spread.kept[:, None], white, _unit_rows(table))
