"""Nodes with parts replaced, and the texts of nodes that may be too long to have one."""

from __future__ import annotations

from collections.abc import Mapping

from sourcewise.spec.nodes import (
    Call,
    Compare,
    Node,
    Product,
    Sum,
    Symbol,
    add,
    call,
    children,
    compare,
    multiply,
    number,
    power,
    scale,
    to_text,
)


def substitute(node: Node, values: Mapping[str, Node]) -> Node:
    """The node with other nodes in the place of symbols. As deep as a text may be."""
    if not node.symbols & values.keys():
        return node
    if isinstance(node, Symbol):
        return values[node.name]
    if isinstance(node, Sum):
        return add(number(node.constant), *(scale(c, substitute(child, values)) for child, c in node.terms))
    if isinstance(node, Product):
        return multiply(*(power(substitute(base, values), exponent) for base, exponent in node.factors))
    if isinstance(node, Call):
        return call(node.function, substitute(node.argument, values))
    assert isinstance(node, Compare)
    return compare(node.operator, substitute(node.left, values), substitute(node.right, values))


def text_within(node: Node, limit: int) -> str | None:
    """`to_text`, or None where it would take more than about `limit` characters: shared parts are written out anew
    wherever they stand, so a small graph of nodes can have an endless text."""
    sizes: dict[Node, int] = {}
    waiting = [node]
    while waiting:
        last = waiting[-1]
        lacking = [child for child in children(last) if child not in sizes]
        if lacking:
            waiting += lacking
            continue
        own = len(last.name) if isinstance(last, Symbol) else 6
        sizes[last] = own + sum(3 + sizes[child] for child in children(last))
        waiting.pop()
    return to_text(node) if sizes[node] <= limit else None
