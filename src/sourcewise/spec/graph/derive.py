"""What a graph implies: means, covariances and effects, as nodes that share their parts.

With x = μ + B(x − μ) + ε and Cov(ε) = Φ the covariances are Σ = (I − B)⁻¹Φ(I − B)⁻ᵀ. They are built along the causal
order, one from another, and never multiplied out: a graph of 25 variables has millions of treks, and a few
thousand nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations_with_replacement

from sourcewise.spec.graph.model import Coefficient, Graph, default_names, fresh
from sourcewise.spec.nodes import ONE, ZERO, Node, add, multiply, number, subtract, symbol

Pair = tuple[str, str]


@dataclass(frozen=True, eq=False)
class Implied:
    """The moments of a graph's variables as formulas in its parameters."""

    graph: Graph
    intercepts: bool
    """Whether means are parameters; otherwise all of them are zero."""
    scaled: frozenset[str] = frozenset()
    """Latent variables that are in want of a scale: an error variance of 1, where nothing else gives them one."""

    @cached_property
    def order(self) -> dict[str, int]:
        return {node: k for k, node in enumerate(self.graph.topological_order())}

    @cached_property
    def parents(self) -> dict[str, list[tuple[str, Node]]]:
        found: dict[str, list[tuple[str, Node]]] = {node: [] for node in self.graph.nodes}
        for edge in self.graph.directed:
            found[edge.head].append((edge.tail, coefficient_node(edge.coefficient)))
        return found

    @cached_property
    def errors(self) -> dict[Pair, Node]:
        """Φ, without its zeros, in both orders."""
        found = {(node, node): coefficient_node(value) for node, value in self.variances.items()}
        for edge in self.graph.bidirected:
            value = coefficient_node(edge.coefficient)
            found |= {(edge.tail, edge.head): value, (edge.head, edge.tail): value}
        return found

    @cached_property
    def variances(self) -> dict[str, Coefficient]:
        """Of every error."""
        graph = self.graph
        usual = default_names(graph.nodes, graph.edges)
        held = {edge.tail for edge in graph.directed if not isinstance(edge.coefficient, str)}
        loose = {
            node
            for node, value in zip(graph.nodes, graph.variances, strict=True)
            if node in self.scaled and node not in held and value == usual[node, node, True]
        }
        return {
            node: 1.0 if node in loose and graph.named.count(str(value)) == 1 else value
            for node, value in zip(graph.nodes, graph.variances, strict=True)
        }

    @cached_property
    def mean_names(self) -> dict[str, str]:
        """The name of each mean that is a parameter of its own."""
        taken = {*self.graph.nodes, *self.graph.named}
        names = {}
        for node, given in zip(self.graph.nodes, self.graph.intercepts, strict=True):
            if self.intercepts and given is None and node not in self.graph.latent:
                names[node] = fresh(f"mean_{node}", taken)
                taken.add(names[node])
        return names

    @cached_property
    def means(self) -> dict[str, Node]:
        """μ. Where an intercept was given it is that of the equation; of latent variables it is 0 unless given."""
        found: dict[str, Node] = {}
        for node in self.order:
            given = self.graph.intercept(node)
            if node in self.mean_names:
                found[node] = symbol(self.mean_names[node])
            elif given is None and not self.intercepts:
                found[node] = ZERO
            else:
                terms = (multiply(value, found[cause]) for cause, value in self.parents[node])
                found[node] = add(ZERO if given is None else coefficient_node(given), *terms)
        return found

    @cached_property
    def covariances(self) -> dict[Pair, Node]:
        """Σ, in both orders."""
        found: dict[Pair, Node] = {}
        for later in self.order:
            for other in self.order:
                terms = [multiply(value, found[cause, other]) for cause, value in self.parents[later]]
                found[later, other] = found[other, later] = add(*terms, self._error_covariances[later, other])
                if other == later:
                    break
        return found

    @cached_property
    def _error_covariances(self) -> dict[Pair, Node]:
        """Cov(ε_source, x_other)."""
        found: dict[Pair, Node] = {}
        for source in self.order:
            for other in self.order:
                terms = (multiply(value, found[source, cause]) for cause, value in self.parents[other])
                found[source, other] = add(self.errors.get((source, other), ZERO), *terms)
        return found

    def effect(self, cause: str, outcome: str) -> Node:
        """The total effect: all directed paths together."""
        found: dict[str, Node] = {}
        for node in self.order:
            terms = (multiply(value, found[parent]) for parent, value in self.parents[node])
            found[node] = ONE if node == cause else add(ZERO, *terms)
        return found[outcome]

    def direct(self, cause: str, outcome: str) -> Node | None:
        """The coefficient of one edge; None where there is none."""
        return next((value for parent, value in self.parents[outcome] if parent == cause), None)

    def names(self) -> tuple[str, ...]:
        """Every parameter, in the order in which a reader meets them: edges, variances, intercepts, means."""
        values = [
            *(edge.coefficient for edge in (*self.graph.directed, *self.graph.bidirected)),
            *self.variances.values(),
            *self.graph.intercepts,
            *self.mean_names.values(),
        ]
        return tuple(dict.fromkeys(value for value in values if isinstance(value, str)))


def coefficient_node(value: Coefficient) -> Node:
    return symbol(value) if isinstance(value, str) else number(value)


def pairs_seen(observed: Iterable[Iterable[str]], order: Mapping[str, int]) -> list[Pair]:
    """Pairs (a variable with itself too) that some source sees together, causes first."""
    found: dict[Pair, None] = {}
    for names in observed:
        found |= dict.fromkeys(combinations_with_replacement(sorted(names, key=order.__getitem__), 2))
    return sorted(found, key=lambda pair: (order[pair[1]], order[pair[0]]))


def mean_restriction(implied: Implied, node: str) -> Node:
    return subtract(symbol(node), implied.means[node])


def covariance_restriction(implied: Implied, pair: Pair) -> Node:
    """About the means: with those far from 0, x_a x_b − μ_a μ_b − Σ_ab would lose its digits."""
    one, other = (mean_restriction(implied, node) for node in pair)
    return subtract(multiply(one, other), implied.covariances[pair])
