"""A causal graph of linear effects, checked and frozen: x = μ + B(x − μ) + ε with Cov(ε) = Φ.

A directed edge is an entry of B, a bidirected edge one of Φ off its diagonal, a node's variance one on it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from typing import NamedTuple

from sourcewise.errors import StudyError

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
MOST_NODES = 200
MOST_EDGES = 2000

Coefficient = str | float
"""A parameter's name (the same name, the same value) or a fixed number."""


@dataclass(frozen=True, slots=True)
class Edge:
    """tail → head, or tail ↔ head with the names in alphabetical order."""

    tail: str
    head: str
    bidirected: bool
    coefficient: Coefficient

    @property
    def text(self) -> str:
        return f"{self.tail} {'<->' if self.bidirected else '->'} {self.head}"


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Nodes in the order in which they were met, edges, latent nodes; of every node the variance of its error, and its
    intercept where one was given (its mean is a free parameter where none was).

    Two graphs are equal that say the same in another order.
    """

    nodes: tuple[str, ...]
    edges: tuple[Edge, ...]
    latent: frozenset[str]
    variances: tuple[Coefficient, ...]
    intercepts: tuple[Coefficient | None, ...]

    def __post_init__(self) -> None:
        _check(self)

    @property
    def directed(self) -> tuple[Edge, ...]:
        return tuple(edge for edge in self.edges if not edge.bidirected)

    @property
    def bidirected(self) -> tuple[Edge, ...]:
        return tuple(edge for edge in self.edges if edge.bidirected)

    def variance(self, node: str) -> Coefficient:
        return self.variances[self.nodes.index(node)]

    def intercept(self, node: str) -> Coefficient | None:
        return self.intercepts[self.nodes.index(node)]

    def parents(self, node: str) -> tuple[str, ...]:
        return tuple(edge.tail for edge in self.directed if edge.head == node)

    def children(self, node: str) -> tuple[str, ...]:
        return tuple(edge.head for edge in self.directed if edge.tail == node)

    def topological_order(self) -> tuple[str, ...]:
        """Causes before effects; among equals, the order of `nodes`."""
        return _sorted_by_cause(self)

    def to_text(self) -> str:
        """Arrow text from which `read_graph` restores an equal graph."""
        shared = self._shared()
        usual = {
            place: None if name in shared else name for place, name in default_names(self.nodes, self.edges).items()
        }
        lines = []
        for k, node in enumerate(self.nodes):
            said = ["latent"] if node in self.latent else []
            if self.variances[k] != usual[node, node, True]:
                said.append(f"variance={coefficient_text(self.variances[k])}")
            intercept = self.intercepts[k]
            if intercept is not None:
                said.append(f"intercept={coefficient_text(intercept)}")
            lines.append(f"{node} [{', '.join(said)}]" if said else node)
        bare = not any(line.endswith("]") for line in lines) and self._met_in_order()
        lines = [] if bare else lines
        for edge in self.edges:
            named = edge.coefficient != usual[edge.tail, edge.head, edge.bidirected]
            lines.append(f"{edge.text} [{coefficient_text(edge.coefficient)}]" if named else edge.text)
        return "; ".join(lines)

    @property
    def named(self) -> tuple[str, ...]:
        """Names of parameters, once for every place where one stands."""
        values = [*(edge.coefficient for edge in self.edges), *self.variances, *self.intercepts]
        return tuple(value for value in values if isinstance(value, str))

    def _shared(self) -> set[str]:
        return {name for name, count in Counter(self.named).items() if count > 1}

    def _met_in_order(self) -> bool:
        """Whether the edges alone name every node, in the order of `nodes`."""
        return tuple(dict.fromkeys(name for edge in self.edges for name in (edge.tail, edge.head))) == self.nodes

    def _key(self) -> tuple[object, ...]:
        nodes = frozenset(zip(self.nodes, self.variances, self.intercepts, strict=True))
        return nodes, frozenset(self.edges), self.latent

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


class Link(NamedTuple):
    """An edge as it was written: without a coefficient it gets its usual name."""

    tail: str
    head: str
    bidirected: bool
    coefficient: Coefficient | None = None


def assemble(
    nodes: Iterable[str],
    links: Iterable[Link],
    latent: Iterable[str] = (),
    variances: Mapping[str, Coefficient] | None = None,
    intercepts: Mapping[str, Coefficient] | None = None,
) -> Graph:
    """The graph of what was written, with names for whatever got none. A coefficient fixed at 0 is no edge."""
    latent, variances, intercepts = frozenset(latent), dict(variances or {}), dict(intercepts or {})
    links = list(links)
    every = tuple(dict.fromkeys([*nodes, *(name for link in links for name in link[:2])]))
    _check_size(every, links)
    for name in every:
        _check_name(name, "a variable")
    links = [_in_order(link) for link in links]
    kept = [link for link in links if link.coefficient != 0.0]
    said = [*(link.coefficient for link in links), *variances.values(), *intercepts.values()]
    usual = default_names(every, kept, [name for name in said if isinstance(name, str)])
    edges = tuple(
        Edge(*link[:3], usual[link[:3]] if link.coefficient is None else link.coefficient)
        for link in dict.fromkeys(kept)
    )
    return Graph(
        every,
        edges,
        latent,
        tuple(variances.get(node, usual[node, node, True]) for node in every),
        tuple(intercepts.get(node) for node in every),
    )


def _in_order(link: Link) -> Link:
    """Bidirected edges have no direction: their ends are put in alphabetical order."""
    tail, head, bidirected, coefficient = link
    return Link(head, tail, True, coefficient) if bidirected and tail > head else link


def default_names(
    nodes: Iterable[str], edges: Iterable[Edge | Link], reserved: Iterable[str] = ()
) -> dict[tuple[str, str, bool], str]:
    """Readable names that are no variable's, nor one another's: X_to_Y, cov_X_Y, and var_X under (X, X, True).

    They depend on what the graph says, not on the order in which it says it.
    """
    nodes = tuple(nodes)
    wanted = {(e.tail, e.head, e.bidirected) for e in edges}
    taken = {*nodes, *reserved}
    names: dict[tuple[str, str, bool], str] = {}
    for place in sorted({*wanted, *((node, node, True) for node in nodes)}):
        tail, head, bidirected = place
        usual = f"var_{tail}" if tail == head else f"cov_{tail}_{head}" if bidirected else f"{tail}_to_{head}"
        names[place] = fresh(usual, taken)
        taken.add(names[place])
    return names


def fresh(name: str, taken: Iterable[str]) -> str:
    """The name, or with a number behind it where it is taken; no longer than a name may be."""
    taken = set(taken)
    if name not in taken and len(name) <= 64:
        return name
    return next(new for k in range(2, len(taken) + 3) if (new := f"{name[:58]}_{k}") not in taken)


def coefficient_text(value: Coefficient) -> str:
    return value if isinstance(value, str) else repr(float(value))


def _check_size(nodes: Sized, edges: Sized) -> None:
    if len(nodes) > MOST_NODES:
        raise StudyError(
            f"the graph has {len(nodes):,} variables and may have {MOST_NODES}: leave out what has no part"
        )
    if len(edges) > MOST_EDGES:
        raise StudyError(f"the graph has {len(edges):,} edges and may have {MOST_EDGES:,}: leave out what has no part")


def _check_name(name: object, what: str) -> None:
    if not isinstance(name, str) or not NAME.fullmatch(name):
        raise StudyError(f"{name!r} cannot name {what}: use letters, digits and _ (not first a digit), at most 64")


def _check(graph: Graph) -> None:
    if not graph.nodes:
        raise StudyError('the graph is empty: write edges, such as "Z -> X; X -> Y"')
    _check_size(graph.nodes, graph.edges)
    known = set(graph.nodes)
    seen = set[tuple[str, str, bool]]()
    for edge in graph.edges:
        for name in (edge.tail, edge.head):
            if name not in known:
                raise StudyError(f"the edge {edge.text} names {name!r}, which is no node of the graph")
        if edge.tail == edge.head:
            raise StudyError(f"{edge.text}: a variable has no effect on itself; the graph must have no cycle")
        place = (edge.tail, edge.head, edge.bidirected)
        if place in seen:
            raise StudyError(f"the edge {edge.text} is given twice, with two coefficients; keep one")
        seen.add(place)
        _check_coefficient(edge.coefficient, edge.text, known)
    _check_nodes(graph, known)
    _sorted_by_cause(graph)


def _check_nodes(graph: Graph, known: set[str]) -> None:
    for name in sorted(graph.latent - known):
        raise StudyError(f"{name!r} is said to be latent and is no node of the graph")
    for node, variance, intercept in zip(graph.nodes, graph.variances, graph.intercepts, strict=True):
        _check_coefficient(variance, f"the variance of {node}", known)
        if not isinstance(variance, str) and variance < 0:
            raise StudyError(f"the variance of {node} is fixed at {variance!r}; a variance is 0 or more")
        if intercept is not None:
            _check_coefficient(intercept, f"the intercept of {node}", known)


def _check_coefficient(value: Coefficient, what: str, nodes: set[str]) -> None:
    if isinstance(value, str):
        _check_name(value, f"a parameter ({what})")
        if value in nodes:
            raise StudyError(f"{what}: {value!r} names a parameter here and is a variable of the graph; rename one")
    elif not math.isfinite(value):
        raise StudyError(f"{what}: a fixed coefficient must be a finite number, not {value!r}")


def _sorted_by_cause(graph: Graph) -> tuple[str, ...]:
    waiting: dict[str, set[str]] = {node: set() for node in graph.nodes}
    for edge in graph.directed:
        waiting[edge.head].add(edge.tail)
    order: list[str] = []
    while waiting:
        ready = [node for node, causes in waiting.items() if not causes]
        if not ready:
            raise StudyError(
                f"the graph has a cycle, {_cycle(waiting)}: only recursive models can be read, in which no variable "
                f"is its own cause; drop an edge, or replace it by <-> where the two share an unseen cause"
            )
        order += ready
        for node in ready:
            del waiting[node]
        for causes in waiting.values():
            causes.difference_update(ready)
    return tuple(order)


def _cycle(waiting: Mapping[str, set[str]]) -> str:
    """Every node that is left has a cause that is left: walking up the causes must come back."""
    path = [min(waiting)]
    while True:
        cause = min(waiting[path[-1]])
        if cause in path:
            found = [*path[path.index(cause) :], cause]
            return " -> ".join(reversed(found)) if len(found) <= 8 else f"of {len(found) - 1} variables"
        path.append(cause)
