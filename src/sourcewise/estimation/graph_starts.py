"""Where a search over the coefficients of a causal graph starts: from the data's own covariances, cause by cause.

Along the causal order the covariances of a variable with all earlier ones are linear in its own coefficients. So
every equation is solved by least squares over the covariances that were seen, given those before it; the error's
variance is what is left. A latent variable is stood for by an indicator with a fixed loading. What no covariance
determines gets a middling value in units of the data, and then other values are tried as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from sourcewise.estimation.blocks import Blocks
from sourcewise.moments.compiled import CompiledStudy
from sourcewise.numerics.linalg import Array, matmul, orthogonalize
from sourcewise.spec.graph.ask import implied_by, restrictions
from sourcewise.spec.graph.derive import Implied, Pair
from sourcewise.spec.graph.model import Coefficient
from sourcewise.spec.study import Study

TRIES = 5
"""Starting points where the covariances leave some coefficient open."""
MIDDLING = 0.5
"""A standardised coefficient of which nothing is known."""
LEAST_ERROR = 0.05
"""Share of a variable's variance that its error has at least, at the start."""
SHARED = 0.5
"""Share of an indicator's variance that its latent variable has, at the start."""
RIDGE = 1e-4
"""Equations that lack a covariance are solved for small coefficients: this, squared, of a standardised variance."""
SILENT = 1e-8


@dataclass(frozen=True, slots=True)
class Shape:
    """A graph by positions in its causal order."""

    implied: Implied
    order: tuple[str, ...]
    means: tuple[int, ...]
    """Which variable's mean each of the first moments is about."""
    pairs: tuple[tuple[int, int], ...]
    """Which pair's covariance each of the rest is about."""
    causes: tuple[tuple[tuple[int, Coefficient], ...], ...]
    mates: tuple[tuple[tuple[int, Coefficient], ...], ...]
    """Earlier variables whose errors are related to this one's."""
    errors: tuple[Coefficient, ...]
    markers: dict[int, tuple[int, float]]
    """Of a latent variable, an observed effect with a fixed coefficient."""


@lru_cache(maxsize=64)
def shape_of(study: Study) -> Shape:
    assert study.model is not None
    implied = implied_by(study.model, {name: source.observes for name, source in study.sources.items()})
    graph, place = implied.graph, implied.order
    means, pairs = restrictions(implied, [source.observes for source in study.sources.values()])
    causes: list[list[tuple[int, Coefficient]]] = [[] for _ in place]
    mates: list[list[tuple[int, Coefficient]]] = [[] for _ in place]
    markers: dict[int, tuple[int, float]] = {}
    for edge in graph.edges:
        tail, head = place[edge.tail], place[edge.head]
        if edge.bidirected:
            mates[max(tail, head)].append((min(tail, head), edge.coefficient))
            continue
        causes[head].append((tail, edge.coefficient))
        if edge.tail in graph.latent and edge.head not in graph.latent and not isinstance(edge.coefficient, str):
            markers.setdefault(tail, (head, float(edge.coefficient)))
    return Shape(
        implied,
        tuple(place),
        tuple(place[name] for name in means),
        tuple((place[one], place[other]) for one, other in pairs),
        tuple(map(tuple, causes)),
        tuple(map(tuple, mates)),
        tuple(implied.variances[name] for name in place),
        markers,
    )


def graph_starts(study: Study, compiled: CompiledStudy, blocks: Blocks, given: Array, seed: int) -> list[Array]:
    """Starting values (D, B) to try; `given` (D, B) holds what is known, NaN elsewhere."""
    shape = shape_of(study)
    walk = _observe(shape, compiled, blocks, given)
    random = np.random.Generator(np.random.SFC64(seed))
    first, open_ones = _start(shape, walk, None)
    starts = [first, *(_start(shape, walk, random)[0] for _ in range(TRIES - 1 if open_ones else 0))]
    return [np.clip(start, compiled.lower[:, None], compiled.upper[:, None]) for start in starts]


@dataclass(slots=True)
class _Walk:
    """What was observed, and what is known so far: means (n, B), effects T, covariances Σ and errors Φ (n, n, B)."""

    places: dict[str, int]
    theta: Array
    known: set[str]
    seen: dict[Pair | tuple[int, int], Array]
    average: dict[int, Array]
    scale: Array
    total: Array = field(init=False)
    cov: Array = field(init=False)
    phi: Array = field(init=False)

    def __post_init__(self) -> None:
        size, batch = self.scale.shape
        self.total, self.cov, self.phi = (np.zeros((size, size, batch)) for _ in range(3))

    def value(self, coefficient: Coefficient) -> Array:
        """(B,)"""
        if isinstance(coefficient, str):
            return self.theta[self.places[coefficient]] if coefficient in self.places else np.zeros(self.theta.shape[1])
        return np.full(self.theta.shape[1], float(coefficient))

    def is_open(self, coefficient: Coefficient) -> bool:
        return isinstance(coefficient, str) and coefficient not in self.known

    def learn(self, name: Coefficient, value: Array) -> None:
        assert isinstance(name, str)
        self.known.add(name)
        if name in self.places:
            self.theta[self.places[name]] = value


def _observe(shape: Shape, compiled: CompiledStudy, blocks: Blocks, given: Array) -> _Walk:
    """The data's means and covariances, from what the moments are at means and errors of zero."""
    theta = np.where(np.isnan(given), 0.0, given)
    places = {name: k for k, name in enumerate(compiled.parameters)}
    known = {name for name, k in places.items() if not np.isnan(given[k]).any()}
    walk = _Walk(places, theta, known, {}, {}, np.ones((len(shape.order), theta.shape[1])))
    moments = _pooled(blocks, theta)
    for j, v in enumerate(shape.means):
        if j in moments:
            walk.average[v] = moments[j] + _means(shape, walk)[v]
    _set_means(shape, walk)
    moments, implied = _pooled(blocks, walk.theta), _covariances(shape, walk)
    for j, pair in enumerate(shape.pairs, len(shape.means)):
        if j in moments:
            walk.seen[pair] = walk.seen[pair[::-1]] = moments[j] + implied[pair]
    _stand_in(shape, walk)
    return walk


def _pooled(blocks: Blocks, theta: Array) -> dict[int, Array]:
    """By moment, its mean over the rows of all sources that compute it."""
    total: dict[int, Array] = {}
    rows: dict[int, Array] = {}
    for part in blocks.evidence.values():
        for j, value in zip(part.positions, part.mean_and_slope(theta)[0], strict=True):
            total[j] = total.get(j, 0.0) + part.rows * value
            rows[j] = rows.get(j, 0.0) + part.rows
    return {j: value / rows[j] for j, value in total.items()}


def _means(shape: Shape, walk: _Walk) -> Array:
    found = np.zeros((len(shape.order), walk.theta.shape[1]))
    for v, name in enumerate(shape.order):
        own = shape.implied.mean_names.get(name)
        intercept = shape.implied.graph.intercept(name)
        if own is not None:
            found[v] = walk.value(own)
        elif intercept is not None:
            found[v] = walk.value(intercept)
        if own is None and shape.implied.intercepts:
            found[v] += sum(walk.value(b) * found[cause] for cause, b in shape.causes[v])
    return found


def _set_means(shape: Shape, walk: _Walk) -> None:
    """Means, or intercepts that lead to them with the coefficients as they are."""
    for v, name in enumerate(shape.order):
        intercept = shape.implied.mean_names.get(name) or shape.implied.graph.intercept(name)
        if v in walk.average and isinstance(intercept, str) and intercept not in walk.known:
            gap = walk.average[v] - _means(shape, walk)[v]
            if intercept in walk.places:
                walk.theta[walk.places[intercept]] += gap


def _covariances(shape: Shape, walk: _Walk) -> Array:
    size, batch = walk.scale.shape
    total, phi = np.zeros((size, size, batch)), np.zeros((size, size, batch))
    for v in range(size):
        total[v, v] = 1.0
        for cause, b in shape.causes[v]:
            total[v] += walk.value(b) * total[cause]
        phi[v, v] = walk.value(shape.errors[v])
        for mate, b in shape.mates[v]:
            phi[v, mate] = phi[mate, v] = walk.value(b)
    return np.asarray(np.einsum("vub,uwb,xwb->vxb", total, phi, total, optimize=True))


def _stand_in(shape: Shape, walk: _Walk) -> None:
    """Covariances of latent variables from those of their markers; the scale of every variable."""
    own = dict(walk.seen)
    shown = {v: (v, 1.0) for v in range(len(shape.order)) if (v, v) in own}
    shown |= {v: (m, b) for v, (m, b) in shape.markers.items() if (m, m) in own and b}
    for v, (m, b) in shown.items():
        for w, (k, c) in shown.items():
            if (v, w) != (m, k) and m != k and (m, k) in own:
                walk.seen[v, w] = own[m, k] / (b * c)
        if v != m:
            walk.seen[v, v] = SHARED * own[m, m] / b**2
    for v, error in enumerate(shape.errors):
        variance = walk.seen.get((v, v))
        if variance is None or v in shape.markers:
            fixed = not isinstance(error, str) and not shape.causes[v]
            variance = walk.value(error) if fixed or variance is None else variance
        walk.scale[v] = np.sqrt(np.where(variance > 0, variance, 1.0))


def _start(shape: Shape, observed: _Walk, random: np.random.Generator | None) -> tuple[Array, bool]:
    """Starting values (D, B), and whether some had to be made up."""
    walk = _Walk(
        observed.places, observed.theta.copy(), set(observed.known), observed.seen, observed.average, observed.scale
    )
    open_ones = False
    for v in range(len(shape.order)):
        open_ones |= _equation(shape, walk, v, random)
        _settle(shape, walk, v)
    _set_means(shape, walk)
    return walk.theta, open_ones


def _equation(shape: Shape, walk: _Walk, v: int, random: np.random.Generator | None) -> bool:
    """Solve for the open coefficients of one variable; True if the data say nothing of some effect."""
    rows = [w for w in range(v) if (v, w) in walk.seen]
    columns: dict[str, Array] = {}
    units: dict[str, Array] = {}
    rest = np.array([walk.seen[v, w] for w in rows]).reshape(len(rows), walk.theta.shape[1])
    terms = [(b, walk.cov[cause, rows], walk.scale[v] / walk.scale[cause]) for cause, b in shape.causes[v]]
    effects = {b for b, _, _ in terms}
    terms += [(b, walk.total[rows, mate], walk.scale[v] * walk.scale[mate]) for mate, b in shape.mates[v]]
    for b, column, unit in terms:
        if isinstance(b, str) and walk.is_open(b):
            columns[b] = columns.get(b, 0.0) + column
            units.setdefault(b, unit)
        else:
            rest = rest - walk.value(b) * column
    if not columns:
        return False
    lengths = (walk.scale[v] * walk.scale[rows])[:, None]
    table = np.stack([columns[b] * units[b] for b in columns], axis=1) / lengths
    found = _ridge(table, rest / lengths[:, 0])
    silent = (np.abs(table).max(axis=0, initial=0.0) < SILENT).all(axis=-1)
    guessed = False
    for k, b in enumerate(columns):
        if silent[k] and b in effects:
            found[k] = MIDDLING if random is None else random.uniform(-1.0, 1.0)
            guessed = True
        walk.learn(b, found[k] * units[b])
    return guessed


def _ridge(table: Array, rest: Array) -> Array:
    """x (D, B) that brings A x near to the rest, for A (R, D, B)."""
    size = table.shape[1]
    eye = np.broadcast_to(RIDGE * np.eye(size)[..., None], (size, size, table.shape[2]))
    columns = np.ascontiguousarray(np.concatenate([table, eye]).swapaxes(0, 1))
    triangle = orthogonalize(columns)
    shadow = np.einsum("drb,rb->db", triangle.basis[:, : len(rest)], rest)
    return matmul(triangle.inverse.swapaxes(0, 1), shadow)


def _settle(shape: Shape, walk: _Walk, v: int) -> None:
    """The error's variance, and what follows for the covariances with earlier variables."""
    earlier = slice(0, v)
    walk.total[v, v] = 1.0
    for cause, b in shape.causes[v]:
        walk.total[v] += walk.value(b) * walk.total[cause]
        walk.cov[v, earlier] += walk.value(b) * walk.cov[cause, earlier]
    for mate, b in shape.mates[v]:
        walk.phi[v, mate] = walk.phi[mate, v] = walk.value(b)
        walk.cov[v, earlier] += walk.value(b) * walk.total[earlier, mate]
    walk.cov[earlier, v] = walk.cov[v, earlier]
    rest = sum((walk.value(b) * walk.cov[cause, v] for cause, b in shape.causes[v]), np.zeros(walk.theta.shape[1]))
    rest = rest + (walk.total[v, earlier] * walk.phi[v, earlier]).sum(axis=0)
    if walk.is_open(shape.errors[v]):
        whole = walk.seen.get((v, v), walk.scale[v] ** 2)
        walk.learn(shape.errors[v], np.maximum(whole - rest, LEAST_ERROR * whole))
    walk.phi[v, v] = walk.value(shape.errors[v])
    walk.cov[v, v] = rest + walk.phi[v, v]
