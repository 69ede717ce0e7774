"""Whatever a graph is written in, read into a `Graph`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from numbers import Real
from typing import TYPE_CHECKING, Any

from sourcewise.errors import StudyError, at
from sourcewise.spec.graph.arrows import read_arrows
from sourcewise.spec.graph.lavaan import is_lavaan, read_lavaan
from sourcewise.spec.graph.model import MOST_EDGES, MOST_NODES, Coefficient, Graph, Link, assemble

if TYPE_CHECKING:
    from networkx import DiGraph

LONGEST = 200_000
"""Characters of a graph's text."""
_GML = re.compile(r"\s*(?:Creator\b[^\n]*\n\s*)?graph\s*\[\s*\w+\s+\w")
NO = (False, "no", "false", "No", "False")


def read_graph(given: object) -> Graph:
    """A graph from arrow text, DOT, dagitty, lavaan syntax, a networkx graph, or a `Graph` as it is."""
    with at("graph"):
        if isinstance(given, Graph):
            return given
        if isinstance(given, str):
            return _from_text(given)
        if hasattr(given, "is_directed") and hasattr(given, "edges") and hasattr(given, "nodes"):
            return _from_networkx(given)
        raise StudyError(
            f'a graph is a text such as "Z -> X; X -> Y; X <-> Y" or a networkx.DiGraph, not {type(given).__name__}'
        )


def _from_text(text: str) -> Graph:
    if len(text) > LONGEST:
        raise StudyError(f"the graph's text has {len(text):,} characters and may have {LONGEST:,}")
    if _GML.match(text):
        raise StudyError("this is GML: read it by networkx.parse_gml, and hand in what that returns")
    return read_lavaan(text) if is_lavaan(text) else read_arrows(text)


def _from_networkx(given: DiGraph[Any]) -> Graph:
    """Edges may carry `coefficient` (a name or a number) and `bidirected`; nodes `latent` (or observed=False),
    `variance` and `intercept`."""
    if not given.is_directed():
        raise StudyError("a graph from networkx must be directed: use networkx.DiGraph (or MultiDiGraph)")
    if len(given) > MOST_NODES or given.number_of_edges() > 2 * MOST_EDGES:
        raise StudyError(
            f"the graph has {len(given):,} nodes and {given.number_of_edges():,} edges; "
            f"{MOST_NODES} and {MOST_EDGES:,} can be read"
        )
    said: Mapping[str, Mapping[str, Any]] = dict(given.nodes(data=True))
    latent = [node for node, data in said.items() if data.get("latent") or data.get("observed", True) in NO]
    return assemble(
        said,
        _links(given),
        latent,
        {node: _value(data["variance"]) for node, data in said.items() if "variance" in data},
        {node: _value(data["intercept"]) for node, data in said.items() if "intercept" in data},
    )


def _links(given: DiGraph[Any]) -> Iterator[Link]:
    for tail, head, data in given.edges(data=True):
        coefficient = data.get("coefficient")
        way = str(data.get("dir", "forward")).strip('"')
        if way not in ("forward", "back", "both"):
            raise StudyError(f"the edge {tail} -> {head} has dir={way[:80]!r}: write forward, back or both")
        ends = (head, tail) if way == "back" else (tail, head)
        both = bool(data.get("bidirected")) or way == "both"
        yield Link(*ends, both, None if coefficient is None else _value(coefficient))


def _value(value: object) -> Coefficient:
    if isinstance(value, str):
        return value
    if isinstance(value, Real) and not isinstance(value, bool):
        return float(value)
    raise StudyError(f"a coefficient is a parameter's name or a number, not {value!r}")
