"""The famous strategies, by graphical criteria: why an effect is identified, in words that many readers know.

They explain and do not decide: the rank of the moments' derivatives does, and an effect can be identified by
restrictions that have no name. A strategy counts when every covariance that it needs is seen by some source.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, product
from typing import TYPE_CHECKING, Any

from sourcewise.spec.graph.model import Graph

if TYPE_CHECKING:
    from networkx import DiGraph

MOST_MEDIATORS = 3
MOST_VARIABLES = 60
"""Larger graphs are not searched for names."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A named way to the effect, the variables that it turns on, and the sources that see what it needs together."""

    name: str
    variables: tuple[str, ...]
    given: tuple[str, ...]
    sources: tuple[str, ...]

    def __str__(self) -> str:
        given = f" given {', '.join(self.given)}" if self.given else ""
        through = f" {', '.join(self.variables)}" if self.variables else ""
        return f"{self.name}{through}{given} (seen by {', '.join(self.sources)})"


def strategies(graph: Graph, cause: str, outcome: str, sources: Mapping[str, Sequence[str]]) -> tuple[Strategy, ...]:
    """Strategies for the total effect of one variable on another, the plainest first, one of a name."""
    if len(graph.nodes) > MOST_VARIABLES:
        return ()
    view = _View(graph, cause, outcome, {name: frozenset(observed) for name, observed in sources.items()})
    found: dict[str, Strategy] = {}
    for strategy in (*view.back_door(), *view.instruments(), *view.front_door(), *view.two_steps()):
        found.setdefault(strategy.name, strategy)
    return tuple(found.values())


class _View:
    """A graph as networkx sees it, hidden causes written out, with what the sources see."""

    def __init__(self, graph: Graph, cause: str, outcome: str, sources: Mapping[str, frozenset[str]]) -> None:
        import networkx as nx

        self.graph, self.cause, self.outcome, self.sources = graph, cause, outcome, sources
        self.dag: DiGraph[Any] = nx.DiGraph()
        self.dag.add_nodes_from(graph.nodes)
        self.dag.add_edges_from((edge.tail, edge.head) for edge in graph.directed)
        for k, edge in enumerate(graph.bidirected):
            self.dag.add_edges_from([((k, "hidden"), edge.tail), ((k, "hidden"), edge.head)])
        self.descendants = nx.descendants(self.dag, cause) | {cause}
        self.seen = [v for v in graph.nodes if any(v in observed for observed in sources.values())]
        self.cut = self._without_effects_of(cause)

    def back_door(self) -> Iterator[Strategy]:
        """Variables that block every path into the cause: a regression on them and the cause gives the effect."""
        among = [v for v in self.seen if v not in self.descendants and v != self.outcome]
        ends = [self.cause, self.outcome]
        if not self._together(ends):
            return
        for group in self._joint(among, ends):
            chosen = self._blocking(self.cut, self.cause, self.outcome, group)
            if chosen is not None:
                name = "back-door adjustment for" if chosen else "plain regression: nothing confounds the effect"
                yield Strategy(name, tuple(chosen), (), self._shown([*ends, *chosen]))
                return

    def instruments(self) -> Iterator[Strategy]:
        """Variables that move the cause and reach the outcome by no other way, perhaps given others."""
        found = []
        for z in self.seen:
            if z in self.descendants or z == self.outcome:
                continue
            if not (self._together([z, self.cause]) and self._together([z, self.outcome])):
                continue
            among = [v for v in self.seen if v not in self.descendants and v not in (z, self.outcome)]
            given = self._conditions(z, among)
            if given is None:
                continue
            apart = not given and not any({z, self.cause, self.outcome} <= seen for seen in self.sources.values())
            name = "conditional instrument" if given else "two-sample instrument" if apart else "instrument"
            fixed = [z, *given]
            needed = [*combinations(fixed, 2), *product(fixed, [self.cause, self.outcome])]
            found.append(Strategy(name, (z,), tuple(given), self._shown_pairs(needed)))
        yield from sorted(found, key=lambda strategy: len(strategy.given))

    def _conditions(self, z: str, among: list[str]) -> list[str] | None:
        """What has to be held fixed for z to be an instrument; None if nothing makes it one."""
        for group in self._joint(among, [z, self.cause, self.outcome]):
            given = self._blocking(self.cut, z, self.outcome, group)
            if given is not None and not self._separated(self.dag, z, self.cause, given):
                return given
        return None

    def front_door(self) -> Iterator[Strategy]:
        """Mediators that carry the whole effect and are not confounded themselves."""
        ends = [self.cause, self.outcome]
        if not self._together(ends):
            return
        for size in range(1, MOST_MEDIATORS + 1):
            for mediators in combinations(self._carriers(), size):
                if self._together([*ends, *mediators]) and self._is_front_door(mediators):
                    yield Strategy("front door through", mediators, (), self._shown([*ends, *mediators]))
                    return

    def two_steps(self) -> Iterator[Strategy]:
        """A mediator that carries the whole effect: the effect on it times its own effect, perhaps from two samples."""
        for mediator in self._carriers():
            if not self._intercepted([mediator]):
                continue
            steps = [
                _View(self.graph, *ends, self.sources) for ends in ((self.cause, mediator), (mediator, self.outcome))
            ]
            ways = [next(chain(step.back_door(), step.instruments()), None) for step in steps]
            if all(ways):
                used = {name for way in ways if way for name in way.sources}
                yield Strategy("two steps through", (mediator,), (), tuple(n for n in self.sources if n in used))
                return

    def _carriers(self) -> list[str]:
        """Variables on directed paths from the cause to the outcome that some source sees."""
        import networkx as nx

        carriers = nx.ancestors(self.dag, self.outcome) & (self.descendants - {self.cause})
        return [v for v in self.seen if v in carriers]

    def _intercepted(self, mediators: Sequence[str]) -> bool:
        import networkx as nx

        rest = self.dag.copy()
        rest.remove_nodes_from(mediators)
        return not nx.has_path(rest, self.cause, self.outcome)

    def _is_front_door(self, mediators: tuple[str, ...]) -> bool:
        import networkx as nx

        if not self._intercepted(mediators):
            return False
        if not all(self._separated(self.cut, self.cause, m, []) for m in mediators):
            return False
        silent = self._without_effects_of(*mediators)
        return bool(nx.is_d_separator(silent, set(mediators), {self.outcome}, {self.cause}))

    def _without_effects_of(self, *nodes: str) -> DiGraph[Any]:
        cut = self.dag.copy()
        cut.remove_edges_from([edge for node in nodes for edge in self.dag.out_edges(node)])
        return cut

    def _separated(self, graph: DiGraph[Any], one: str, other: str, given: Iterable[str]) -> bool:
        import networkx as nx

        return bool(nx.is_d_separator(graph, {one}, {other}, set(given)))

    def _blocking(self, graph: DiGraph[Any], one: str, other: str, among: Sequence[str]) -> list[str] | None:
        """A least set that separates two variables. If any does, those that are causes of either one do."""
        import networkx as nx

        causes = nx.ancestors(graph, one) | nx.ancestors(graph, other)
        chosen = [v for v in among if v in causes and v not in (one, other)]
        if not self._separated(graph, one, other, chosen):
            return None
        for v in list(chosen):
            without = [w for w in chosen if w != v]
            if self._separated(graph, one, other, without):
                chosen = without
        return chosen

    def _joint(self, among: Sequence[str], ends: Sequence[str]) -> Iterator[list[str]]:
        """Groups of variables of which each pair, and each with the ends, is seen together: what one source sees, and
        what can be put together from several."""
        fitting = [v for v in among if all(self._together([v, end]) for end in ends)]
        yield []
        for observed in self.sources.values():
            yield [v for v in fitting if v in observed]
        pieced: list[str] = []
        for v in fitting:
            pieced += [v] if self._together([*pieced, v]) else []
        yield pieced

    def _together(self, names: Sequence[str]) -> bool:
        """Whether every pair is seen by some source."""
        if len(names) == 1:
            return names[0] in self.seen
        return all(any({a, b} <= seen for seen in self.sources.values()) for a, b in combinations(names, 2))

    def _shown(self, names: Sequence[str]) -> tuple[str, ...]:
        return self._shown_pairs(list(combinations(names, 2)))

    def _shown_pairs(self, pairs: Sequence[tuple[str, str]]) -> tuple[str, ...]:
        """Few sources that see all these pairs."""
        left, chosen = {frozenset(pair) for pair in pairs}, list[str]()
        while left:
            counts = {name: sum(pair <= seen for pair in left) for name, seen in self.sources.items()}
            best = max(counts, key=lambda name: counts[name])
            chosen.append(best)
            left = {pair for pair in left if not pair <= self.sources[best]}
        return tuple(name for name in self.sources if name in chosen)
