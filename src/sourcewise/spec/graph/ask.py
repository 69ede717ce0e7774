"""What is asked of a graph, and the study that follows from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Self, cast, get_args

from sourcewise.errors import StudyError, at
from sourcewise.spec.graph.derive import Implied, Pair, covariance_restriction, mean_restriction, pairs_seen
from sourcewise.spec.graph.lavaan import definitions
from sourcewise.spec.graph.model import Graph
from sourcewise.spec.graph.project import project
from sourcewise.spec.graph.read import read_graph
from sourcewise.spec.graph.target import spelled_out, target_node
from sourcewise.spec.nodes import ZERO, Node, Sum
from sourcewise.spec.rewrite import text_within

Latent = Literal["keep", "project"]
LONGEST_TEXT = 80
"""Characters of a mean or covariance that is shown as a formula."""


@dataclass(frozen=True, slots=True)
class GraphModel:
    """A graph with what was asked of it: enough to derive its study, whatever the sources are."""

    graph: Graph
    target: str
    intercepts: bool = True
    latent: Latent = "keep"
    text: str = field(default="", compare=False, repr=False)
    """The graph as it was written."""

    @classmethod
    def read(cls, graph: object, target: str, intercepts: object = True, latent: object = "keep") -> Self:
        if isinstance(graph, GraphModel):
            return replace(graph, target=target)  # type: ignore[return-value]
        if not isinstance(intercepts, bool):
            raise StudyError(f"intercepts must be True or False, not {intercepts!r}")
        if latent not in get_args(Latent):
            raise StudyError(f"latent must be one of {', '.join(map(repr, get_args(Latent)))}, not {latent!r}")
        found = read_graph(graph)
        if not intercepts and any(value is not None for value in found.intercepts):
            raise StudyError("the graph gives intercepts, and intercepts=False leaves them out; drop one of the two")
        text = graph if isinstance(graph, str) else found.to_text()
        with at("target"):
            target = cast(str, spelled_out(target, definitions(text)))
        return cls(found, target, intercepts, cast(Latent, latent), text)

    def seen_by(self, sources: Mapping[str, Sequence[str]]) -> Graph:
        """The graph in which exactly the variables that no source observes are latent, or are no more."""
        graph = self.graph
        for name, observed in sources.items():
            for variable in observed:
                with at("sources", name, "observes"):
                    _check_observed(graph, name, variable)
        seen = {variable for observed in sources.values() for variable in observed}
        hidden = frozenset(graph.nodes) - seen
        return project(graph, hidden) if self.latent == "project" else replace(graph, latent=hidden)


@dataclass(frozen=True, slots=True)
class Derived:
    """Moments with their texts, the target, parameters in order, and those that are variances."""

    moments: list[tuple[Node, str]]
    target: Node
    parameters: tuple[str, ...]
    variances: frozenset[str]


def derive(model: GraphModel, sources: Mapping[str, Sequence[str]]) -> Derived:
    implied = implied_by(model, sources)
    target = target_node(implied, model.target)
    means, pairs = restrictions(implied, sources.values())
    moments = [(mean_restriction(implied, name), _centred(implied, name)) for name in means]
    moments += [(covariance_restriction(implied, pair), _about(implied, pair)) for pair in pairs]
    used = target.symbols.union(*(node.symbols for node, _ in moments))
    variances = frozenset(value for value in implied.variances.values() if isinstance(value, str))
    names = tuple(name for name in implied.names() if name in used)
    return Derived(moments, target, names, variances & used)


def implied_by(model: GraphModel, sources: Mapping[str, Sequence[str]]) -> Implied:
    return Implied(model.seen_by(sources), model.intercepts, model.graph.latent)


def restrictions(implied: Implied, observed: Iterable[Sequence[str]]) -> tuple[list[str], list[Pair]]:
    """Variables of which the mean, and pairs of which the covariance, is a moment, in the order of the moments."""
    pairs = pairs_seen(observed, implied.order)
    return [one for one, other in pairs if one == other and implied.intercepts], pairs


def _centred(implied: Implied, name: str) -> str:
    mean = implied.means[name]
    return name if mean == ZERO else f"{name} - {_shown(mean) or f'mean of {name}'}"


def _about(implied: Implied, pair: Pair) -> str:
    """The restriction on a covariance as a reader would write it; the covariance by its name where it is long."""
    parts = [_centred(implied, name) for name in pair]
    parts = [part if part in pair else f"({part})" for part in parts]
    square = pair[0] == pair[1]
    name = f"variance of {pair[0]}" if square else f"covariance of {pair[0]} and {pair[1]}"
    formula = implied.covariances[pair]
    product = f"{parts[0]}**2" if square else "*".join(parts)
    return product if formula == ZERO else f"{product} - {_shown(formula) or name}"


def _shown(node: Node) -> str | None:
    """The formula in parentheses where it needs them; None where it is too long to be read."""
    text = text_within(node, LONGEST_TEXT)
    return f"({text})" if text is not None and isinstance(node, Sum) else text


def _check_observed(graph: Graph, source: str, variable: str) -> None:
    if variable not in graph.nodes:
        known = ", ".join(graph.nodes[:20]) + (", ..." if len(graph.nodes) > 20 else "")
        raise StudyError(
            f"source {source!r} observes {variable!r}, which is no variable of the graph ({known}); leave it out, or "
            f"add it to the graph"
        )
    if variable in graph.latent:
        raise StudyError(f"source {source!r} observes {variable!r}, which the graph says is latent; change one of them")
