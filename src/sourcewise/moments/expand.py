"""Splits a moment into what depends on data and what does not: g(x; θ) = Σ_k C_k(θ, s) φ_k(x − s).

The expansion is about symbolic centres: a variable x becomes `@x + u`, so the coefficient of a term is a
formula in the parameters and the centres that keeps the shape in which the user wrote the moment. That is
what saves the digits at a mean of 10⁶; see section 2 of the method page.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from sourcewise.errors import StudyError
from sourcewise.spec.nodes import (
    ONE,
    Call,
    Compare,
    Node,
    Product,
    Sum,
    Symbol,
    add,
    multiply,
    number,
    power,
    scale,
    symbol,
    to_text,
)

MAX_TERMS = 500
"""Data terms that one moment may expand to."""

MAX_DEGREE = 16
"""Powers of data that one term may multiply up to."""

Monomial = tuple[tuple[str, int], ...]
"""Powers of centred atoms by the atom's text, sorted; () is the constant term."""

Polynomial = dict[Monomial, Node]

CENTRE = "@"


class NotSeparableError(Exception):
    """Parameters and data cannot be told apart; caught where the moment is compiled."""


def centre_symbol(atom: str) -> Symbol:
    return symbol(CENTRE + atom)


def expand(node: Node, variables: frozenset[str], atoms: dict[str, Node], centred: bool = True) -> Polynomial:
    """The node as a polynomial in centred atoms; the atoms it meets are added to `atoms`.

    An atom is a variable, or a non-polynomial function of variables alone such as `exp(x)` or `(x > 0)`,
    which is centred like a variable. Not `centred`: about the origin, which leaves fewer terms.
    """
    if not node.symbols & variables:
        return {(): node}
    if isinstance(node, Symbol):
        return _atom(node, atoms, centred)
    if isinstance(node, Sum):
        parts: list[tuple[Polynomial, float]] = [({(): number(node.constant)}, 1.0)]
        parts += [(expand(child, variables, atoms, centred), c) for child, c in node.terms]
        return _add(parts)
    if isinstance(node, Product):
        result: Polynomial = {(): ONE}
        for base, exponent in node.factors:
            result = _multiply(result, _expand_power(base, exponent, variables, atoms, centred))
        return result
    assert isinstance(node, Call | Compare)
    return _whole(node, variables, atoms, centred)


def _expand_power(
    base: Node, exponent: Fraction, variables: frozenset[str], atoms: dict[str, Node], centred: bool
) -> Polynomial:
    if not base.symbols & variables:
        return {(): power(base, exponent)}
    if exponent.denominator != 1 or exponent < 0:
        return _whole(power(base, exponent), variables, atoms, centred)
    part = expand(base, variables, atoms, centred)
    result = part
    for _ in range(int(exponent) - 1):
        result = _multiply(result, part)
    return result


def _whole(node: Node, variables: frozenset[str], atoms: dict[str, Node], centred: bool) -> Polynomial:
    if node.symbols <= variables:
        return _atom(node, atoms, centred)
    raise NotSeparableError(to_text(node))


def _atom(node: Node, atoms: dict[str, Node], centred: bool) -> Polynomial:
    text = to_text(node)
    atoms[text] = node
    here: Polynomial = {((text, 1),): ONE}
    return {(): centre_symbol(text), **here} if centred else here


def _add(parts: Iterable[tuple[Polynomial, float]]) -> Polynomial:
    collected: dict[Monomial, list[Node]] = {}
    for polynomial, coefficient in parts:
        for monomial, node in polynomial.items():
            collected.setdefault(monomial, []).append(scale(coefficient, node))
    return _without_zeros({monomial: add(*nodes) for monomial, nodes in collected.items()})


def _multiply(left: Polynomial, right: Polynomial) -> Polynomial:
    if len(left) == 1 and () in left:
        return {m: multiply(left[()], node) for m, node in right.items()}
    collected: dict[Monomial, list[Node]] = {}
    for a, node_a in left.items():
        for b, node_b in right.items():
            collected.setdefault(_merge(a, b), []).append(multiply(node_a, node_b))
            if len(collected) > MAX_TERMS:
                raise StudyError(
                    f"a moment expands to more than {MAX_TERMS} data terms; lower its powers, or split it in two"
                )
    return _without_zeros({monomial: add(*nodes) for monomial, nodes in collected.items()})


def _merge(left: Monomial, right: Monomial) -> Monomial:
    powers = dict(left)
    for atom, exponent in right:
        powers[atom] = powers.get(atom, 0) + exponent
    if sum(powers.values()) > MAX_DEGREE:
        raise StudyError(f"a moment multiplies data up to a power above {MAX_DEGREE}; lower its powers")
    return tuple(sorted(powers.items()))


def _without_zeros(polynomial: Polynomial) -> Polynomial:
    kept = {monomial: node for monomial, node in polynomial.items() if node != number(0.0)}
    return kept or {(): number(0.0)}
