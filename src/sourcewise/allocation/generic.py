"""What sets of sources identify at almost all parameters and populations, judged from the moments alone.

The target is identified by a set of sources when ∇f lies in the row space of the moments' mean derivative. Its rank
for structural reasons shows at any generic parameters and any generic population *in which all moments hold*. (Where
they do not hold the rank may be higher: two IHDP sources would seem to identify an effect that they do not.)

Of a causal graph the mean derivatives are polynomials in the parameters, and their rank is exact. Of moments that
were written down, parameters and populations are drawn, and the rank is that of floating-point numbers.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Protocol

import numpy as np

from sourcewise.inference import target_and_gradient
from sourcewise.moments.compiled import CompiledSource, CompiledStudy, compile_study
from sourcewise.moments.modular import ModularPoint
from sourcewise.numerics.linalg import Array, Information, information
from sourcewise.numerics.modular import Echelon, Residues, echelon
from sourcewise.spec.graph.ask import implied_by
from sourcewise.spec.graph.derive import Implied, Pair, pairs_seen
from sourcewise.spec.nodes import Node
from sourcewise.spec.study import Study

ROWS = 400
TRIES = 5


class Generic(Protocol):
    """What can be told of a study's sources before there are data."""

    exact: bool

    def identifies(self, sources: Collection[str]) -> bool:
        """Whether these sources together identify the target."""

    def determined(self, sources: Collection[str]) -> frozenset[str]:
        """The parameters that these sources together identify."""


@lru_cache(maxsize=64)
def generic(study: Study) -> Generic:
    return DrawnRank(study) if study.model is None else GraphRank.of(study)


def identifies(study: Study, sources: Collection[str]) -> bool:
    """Whether these sources together identify the target, for almost all parameters and populations."""
    return generic(study).identifies(sources)


class GraphRank:
    """Exact, for the covariances and means that a graph implies: one row each, shared by all sources that see it."""

    exact = True

    def __init__(self, implied: Implied, target: Node, observed: Mapping[str, Collection[str]]) -> None:
        self.implied = implied
        self.observed = observed
        self.names = tuple(dict.fromkeys([*implied.names(), *sorted(target.symbols)]))
        self._point = ModularPoint(self.names)
        self._gradient = self._point.gradient(target)
        self._rows: dict[Pair, list[Residues]] = {}

    @classmethod
    def of(cls, study: Study) -> GraphRank:
        assert study.model is not None
        observed = {name: source.observes for name, source in study.sources.items()}
        return cls(implied_by(study.model, observed), study.target_node, observed)

    def identifies(self, sources: Collection[str]) -> bool:
        return self.space(self.observed[name] for name in sources).holds(self._gradient)

    def determined(self, sources: Collection[str]) -> frozenset[str]:
        space = self.space(self.observed[name] for name in sources)
        return frozenset(self.names[k] for k in space.determined())

    def space(self, groups: Iterable[Collection[str]]) -> Echelon:
        """The row space of the restrictions on all pairs that are together in some group of variables."""
        pairs = pairs_seen(groups, self.implied.order)
        rows = [row for pair in pairs for row in self._of(pair)]
        return echelon(rows, len(self.names))

    def settles(self, space: Echelon) -> bool:
        return space.holds(self._gradient)

    def _of(self, pair: Pair) -> list[Residues]:
        if pair not in self._rows:
            nodes = [self.implied.covariances[pair]]
            nodes += [self.implied.means[pair[0]]] if pair[0] == pair[1] else []
            self._rows[pair] = [self._point.gradient(node) for node in nodes]
        return self._rows[pair]


class DrawnRank:
    """For moments that were written down: parameters and weighted rows are drawn, such that all moments hold."""

    exact = False

    def __init__(self, study: Study) -> None:
        self._study, self._compiled = study, compile_study(study)
        random = np.random.Generator(np.random.SFC64(0))
        draws = (_draw(study, self._compiled, random) for _ in range(TRIES))
        self._draws = [draw for draw in draws if draw is not None]

    def identifies(self, sources: Collection[str]) -> bool:
        return any(known.identifies(gradient) for known, gradient in self._known(sources))

    def determined(self, sources: Collection[str]) -> frozenset[str]:
        names = self._compiled.parameters
        axes = np.eye(len(names))
        known = [known for known, _ in self._known(sources)]
        return frozenset(
            name for name, axis in zip(names, axes, strict=True) if any(one.identifies(axis) for one in known)
        )

    def _known(self, sources: Collection[str]) -> Iterable[tuple[Information, Array]]:
        used = [name for name in self._compiled.sources if name in sources]
        for slopes, gradient in self._draws if used else ():
            yield information(np.concatenate([slopes[name] for name in used])), gradient


def _draw(
    study: Study, compiled: CompiledStudy, random: np.random.Generator
) -> tuple[Mapping[str, Array], Array] | None:
    """Mean derivatives by source and the target's gradient, at one draw; None where nothing is finite."""
    theta = np.clip(random.normal(size=len(compiled.parameters)), compiled.lower, compiled.upper)
    table = dict(zip(study.variables, _population(len(study.variables), random), strict=True))
    parts = {name: _rowwise(source, theta, table) for name, source in compiled.sources.items()}
    everything = np.concatenate([part.reshape(-1, ROWS) for both in parts.values() for part in both])
    finite = np.isfinite(everything).all(axis=0)
    if not finite.any():
        return None
    mass = _balanced(np.concatenate([moments for moments, _ in parts.values()])[:, finite])
    slopes = {name: part[1][..., finite] @ mass for name, part in parts.items()}
    gradient = target_and_gradient(compiled, theta[:, None])[1][:, 0]
    good = all(np.isfinite(part).all() for part in (*slopes.values(), gradient))
    return (slopes, gradient) if good else None


def _rowwise(source: CompiledSource, theta: Array, table: Mapping[str, Array]) -> tuple[Array, Array]:
    """Moments (M, ROWS) of each row and their derivatives (M, D, ROWS)."""
    values = source.rowwise([*theta, *(table[v] for v in source.variables)])
    rows = np.array([np.broadcast_to(value, ROWS) for value in values])
    size = len(source.moments)
    return rows[:size], rows[size:].reshape(size, len(theta), ROWS)


def _balanced(moments: Array) -> Array:
    """Weights (ROWS,), some of them negative, under which all moments (M, ROWS) have mean zero."""
    even = np.full(moments.shape[1], 1.0 / moments.shape[1])
    rules = np.concatenate([moments, np.ones_like(even)[None]])
    lack = np.append(np.zeros(len(moments)), 1.0) - rules @ even
    return np.asarray(even + rules.T @ (information(rules.T).inverse @ lack))


def _population(count: int, random: np.random.Generator) -> Array:
    """Correlated columns (count, ROWS), positive so that logarithms exist; some rows binary, for indicators' sake."""
    mixing = random.normal(size=(count, count)) / np.sqrt(count)
    smooth = np.exp(0.5 * mixing @ random.normal(size=(count, ROWS)))
    binary = (random.uniform(size=(count, ROWS)) < 0.5).astype(float)
    return np.where(random.uniform(size=ROWS) < 0.3, binary, smooth)
