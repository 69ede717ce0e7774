"""Latent variables projected out: what remains says the same of effects and confounding among the others.

A path through a latent variable becomes an edge, a latent common cause a bidirected edge. The coefficients of these
are free, so that restrictions which the latent variable puts on several of them together are given up.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from sourcewise.spec.graph.model import Edge, Graph, Link, assemble, default_names

Place = tuple[str, str, bool]


def project(graph: Graph, hidden: Iterable[str]) -> Graph:
    """The graph over the variables that are not hidden."""
    gone = frozenset(hidden)
    if not gone:
        return graph
    edges: dict[Place, Edge | None] = {(e.tail, e.head, e.bidirected): e for e in graph.edges}
    disturbed = set[str]()
    for node in graph.topological_order():
        if node in gone:
            disturbed |= _bypass(node, edges)
    kept = [node for node in graph.nodes if node not in gone]
    links = [Link(*place, None if edge is None else edge.coefficient) for place, edge in edges.items()]
    usual = default_names(graph.nodes, graph.edges)
    free = {node for node in kept if node in disturbed or graph.variance(node) == usual[node, node, True]}
    variances = {node: graph.variance(node) for node in kept if node not in free}
    intercepts = {node: value for node in kept if (value := graph.intercept(node)) is not None}
    return assemble(kept, links, graph.latent - gone, variances, intercepts)


def _bypass(node: str, edges: dict[Place, Edge | None]) -> set[str]:
    """Replace the node by edges around it; returns the variables whose errors it was a part of.

    None stands for a new edge, and for one whose coefficient is no longer the one that was named."""
    causes = [tail for tail, head, both in edges if head == node and not both]
    effects = [head for tail, head, both in edges if tail == node and not both]
    mates = [tail if head == node else head for tail, head, both in edges if both and node in (tail, head)]
    for place in [place for place in edges if node in place[:2]]:
        del edges[place]
    for effect in effects:
        edges |= {(cause, effect, False): None for cause in causes}
        edges |= {_mutual(mate, effect): None for mate in mates if mate != effect}
    edges |= {_mutual(*pair): None for pair in combinations(effects, 2)}
    return set(effects)


def _mutual(one: str, other: str) -> Place:
    return min(one, other), max(one, other), True
