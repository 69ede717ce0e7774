"""The half-trek criterion of Foygel, Draisma and Drton (2012, Annals of Statistics 40): paths in the graph, no algebra.

A linear model is identified at almost all parameters if its variables can be solved for one after another
(Theorem 1), and infinitely many parameters agree with its covariances if no choice of sets fits together (Theorem 2).
Between the two the criterion is silent.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import combinations
from typing import Any

import networkx as nx

from sourcewise.spec.graph.model import Graph


def verdict(graph: Graph) -> bool | None:
    """Whether all coefficients are identified when every variable is seen; None where the criterion is silent."""
    mixed = _Mixed(graph)
    if mixed.solvable():
        return True
    return None if mixed.families_exist() else False


class _Mixed:
    def __init__(self, graph: Graph) -> None:
        self.nodes = graph.nodes
        self.parents = {v: graph.parents(v) for v in graph.nodes}
        self.arrows = [(edge.tail, edge.head) for edge in graph.directed]
        self.siblings: dict[str, set[str]] = {v: set() for v in graph.nodes}
        for edge in graph.bidirected:
            self.siblings[edge.tail].add(edge.head)
            self.siblings[edge.head].add(edge.tail)
        self.below = nx.DiGraph(self.arrows)
        self.below.add_nodes_from(graph.nodes)

    def reached(self, v: str) -> set[str]:
        """By a half-trek from v: along arrows, after one step to a sibling or none."""
        starts = {v} | self.siblings[v]
        return starts.union(*(nx.descendants(self.below, start) for start in starts))

    def linked(self, sources: Collection[str], v: str) -> bool:
        """Whether half-treks without sided intersection lead from some of the sources to all causes of v."""
        flow: Any = nx.DiGraph()
        flow.add_nodes_from(["from", "to"])
        for w in self.nodes:  # a variable has a left and a right copy, and each lies on one half-trek at most
            flow.add_edge((w, "right in"), (w, "right out"), capacity=1)
        for w in sources:
            flow.add_edge("from", (w, "left"), capacity=1)
            for u in {w} | self.siblings[w]:
                flow.add_edge((w, "left"), (u, "right in"), capacity=1)
        for tail, head in self.arrows:
            flow.add_edge((tail, "right out"), (head, "right in"), capacity=1)
        for cause in self.parents[v]:
            flow.add_edge((cause, "right out"), "to", capacity=1)
        return bool(nx.maximum_flow_value(flow, "from", "to") == len(self.parents[v]))

    def solvable(self) -> bool:
        solved = {v for v in self.nodes if not self.parents[v]}
        while True:
            new = [v for v in self.nodes if v not in solved and self.linked(self._allowed(v, solved), v)]
            if not new:
                return len(solved) == len(self.nodes)
            solved |= set(new)

    def _allowed(self, v: str, solved: set[str]) -> set[str]:
        return (solved | (set(self.nodes) - self.reached(v))) - {v} - self.siblings[v]

    def families_exist(self) -> bool:
        """Sets Y_v, one for each v, that satisfy the criterion, and never v in Y_w together with w in Y_v."""
        choices = {v: list(self._sets(v)) for v in self.nodes}
        return self._fits(choices, {})

    def _sets(self, v: str) -> Iterator[frozenset[str]]:
        others = [w for w in self.nodes if w != v and w not in self.siblings[v]]
        for some in combinations(others, len(self.parents[v])):
            if self.linked(some, v):
                yield frozenset(some)

    def _fits(self, choices: dict[str, list[frozenset[str]]], taken: dict[str, frozenset[str]]) -> bool:
        rest = [v for v in self.nodes if v not in taken]
        if not rest:
            return True
        v = rest[0]
        return any(
            self._fits(choices, {**taken, v: some})
            for some in choices[v]
            if not any(v in taken[w] for w in some if w in taken)
        )
