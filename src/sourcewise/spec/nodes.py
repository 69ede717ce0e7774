"""Formulas as small immutable graphs: what the parser builds, and what moments expand and differentiate.

A node is known by a digest of its structure, so `x*z` and `z*x` are equal, equal parts are computed once,
and nothing depends on the order in which a process happened to build things. Sums and products are kept
in a canonical form (like terms collected, numbers folded) but are never multiplied out: at a mean of 10⁶,
`(x - mu)*(y - nu)` keeps its digits and its expansion does not.

No text is ever executed here or anywhere else: nodes come from the parser's own tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from fractions import Fraction
from hashlib import blake2b

from sourcewise.errors import ExpressionError

FUNCTIONS = ("exp", "log", "sqrt", "abs", "logistic", "Phi", "phi")
MOVING_FACTORS = 24
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")


@dataclass(frozen=True, slots=True, eq=False)
class Node:
    """Base of all nodes. Equal structure means equal node."""

    digest: bytes = field(init=False, repr=False)
    symbols: frozenset[str] = field(init=False, repr=False)

    def __hash__(self) -> int:
        return hash(self.digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.digest == other.digest

    def __str__(self) -> str:
        return to_text(self)

    def _seal(self, label: str, children: Iterable[Node]) -> None:
        children = tuple(children)
        parts = b"".join(child.digest for child in children)
        object.__setattr__(self, "digest", blake2b(label.encode() + parts, digest_size=16).digest())
        object.__setattr__(self, "symbols", frozenset().union(*(child.symbols for child in children)))


@dataclass(frozen=True, slots=True, eq=False)
class Number(Node):
    value: float

    def __post_init__(self) -> None:
        if not math.isfinite(self.value):
            raise ExpressionError("a number in the expression is too large for floating-point arithmetic")
        self._seal(f"number {self.value.hex()}", ())


@dataclass(frozen=True, slots=True, eq=False)
class Symbol(Node):
    """A named quantity: a variable, a parameter, or (its name starts with @) a centre."""

    name: str

    def __post_init__(self) -> None:
        self._seal(f"symbol {self.name}", ())
        object.__setattr__(self, "symbols", frozenset((self.name,)))


@dataclass(frozen=True, slots=True, eq=False)
class Sum(Node):
    """constant + Σ coefficient · node."""

    constant: float
    terms: tuple[tuple[Node, float], ...]

    def __post_init__(self) -> None:
        label = " ".join(["sum", self.constant.hex(), *(c.hex() for _, c in self.terms)])
        self._seal(label, (node for node, _ in self.terms))


@dataclass(frozen=True, slots=True, eq=False)
class Product(Node):
    """Π node ** exponent, without a numeric factor (a `Sum` of one term carries that)."""

    factors: tuple[tuple[Node, Fraction], ...]

    def __post_init__(self) -> None:
        label = " ".join(["product", *(str(e) for _, e in self.factors)])
        self._seal(label, (node for node, _ in self.factors))


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    """One of FUNCTIONS (but sqrt, which is a power) at a node."""

    function: str
    argument: Node

    def __post_init__(self) -> None:
        self._seal(f"call {self.function}", (self.argument,))


@dataclass(frozen=True, slots=True, eq=False)
class Compare(Node):
    """1 where `left operator right` holds, else 0."""

    operator: str
    left: Node
    right: Node

    def __post_init__(self) -> None:
        self._seal(f"compare {self.operator}", (self.left, self.right))


ZERO, ONE = Number(0.0), Number(1.0)


def symbol(name: str) -> Symbol:
    return Symbol(name)


def number(value: float) -> Number:
    return Number(float(value) + 0.0)  # + 0.0: one zero, not two


def _order(item: tuple[Node, object]) -> tuple[int, str | bytes]:
    node = item[0]
    return (0, node.name) if isinstance(node, Symbol) else (1, node.digest)


def _linear(node: Node) -> tuple[float, tuple[tuple[Node, float], ...]]:
    """The node as constant and terms."""
    if isinstance(node, Number):
        return node.value, ()
    if isinstance(node, Sum):
        return node.constant, node.terms
    return 0.0, ((node, 1.0),)


def _sum(constant: float, terms: dict[Node, float]) -> Node:
    kept = sorted(((n, c) for n, c in terms.items() if c != 0.0), key=_order)
    if not kept:
        return number(constant)
    if constant == 0.0 and len(kept) == 1 and kept[0][1] == 1.0:
        return kept[0][0]
    if not all(math.isfinite(c) for c in (constant, *(c for _, c in kept))):
        raise ExpressionError("a number in the expression is too large for floating-point arithmetic")
    return Sum(constant + 0.0, tuple(kept))


def add(*nodes: Node) -> Node:
    constant = 0.0
    terms: dict[Node, float] = {}
    for node in nodes:
        part, more = _linear(node)
        constant += part
        for child, coefficient in more:
            terms[child] = terms.get(child, 0.0) + coefficient
    return _sum(constant, terms)


def scale(coefficient: float, node: Node) -> Node:
    if coefficient == 1.0:  # most often: every node is in the form that would come out
        return node
    constant, terms = _linear(node)
    return _sum(coefficient * constant, {n: coefficient * c for n, c in terms})


def subtract(left: Node, right: Node) -> Node:
    return add(left, scale(-1.0, right))


def factored(node: Node) -> tuple[float, tuple[tuple[Node, Fraction], ...]]:
    """The node as a number times powers of nodes; a proper sum is a single factor."""
    if isinstance(node, Number):
        return node.value, ()
    if isinstance(node, Sum) and node.constant == 0.0 and len(node.terms) == 1:
        inner, coefficient = node.terms[0]
        return coefficient, factored(inner)[1]
    if isinstance(node, Product):
        return 1.0, node.factors
    return 1.0, ((node, Fraction(1)),)


def multiply(*nodes: Node) -> Node:
    coefficient = 1.0
    factors: dict[Node, Fraction] = {}
    for node in nodes:
        part, more = factored(node)
        coefficient *= part
        for base, exponent in more:
            factors[base] = factors.get(base, Fraction(0)) + exponent
    if coefficient == 0.0:
        return ZERO
    return scale(coefficient, _product(factors))


def _product(factors: dict[Node, Fraction]) -> Node:
    kept = sorted(((b, e) for b, e in factors.items() if e != 0), key=_order)
    # √(xy)·√(xy) is x·y again: a product under a whole power is taken apart, or equal nodes would differ.
    if any(e.denominator == 1 and factored(b)[1] != ((b, Fraction(1)),) for b, e in kept):
        whole = [power(b, e) for b, e in kept if e.denominator == 1]
        return multiply(*whole, *(Product(((b, e),)) for b, e in kept if e.denominator != 1))
    if not kept:
        return ONE
    return kept[0][0] if len(kept) == 1 and kept[0][1] == 1 else Product(tuple(kept))


def power(base: Node, exponent: Fraction | int) -> Node:
    exponent = Fraction(exponent)
    if exponent == 0:
        return ONE
    if exponent == 1:
        return base
    if isinstance(base, Number):
        return number(_number_power(base.value, exponent))
    if exponent.denominator == 1:  # (x y)² = x² y² holds for whole exponents only
        coefficient, factors = factored(base)
        factor = _number_power(coefficient, exponent)
        return scale(factor, _product({b: e * exponent for b, e in factors}))
    return Product(((base, exponent),))


def _number_power(value: float, exponent: Fraction) -> float:
    try:
        result = value ** (int(exponent) if exponent.denominator == 1 else float(exponent))
    except (OverflowError, ZeroDivisionError):
        result = math.nan
    if isinstance(result, complex) or not math.isfinite(result):
        raise ExpressionError(f"({value:g}) ** ({exponent}) is not a finite real number")
    return result


def call(function: str, argument: Node) -> Node:
    if function == "sqrt":
        return power(argument, Fraction(1, 2))
    if isinstance(argument, Number):
        try:
            return number(CONSTANT_FUNCTIONS[function](argument.value))
        except (OverflowError, ValueError):
            raise ExpressionError(f"{function}({argument.value:g}) is not a finite real number") from None
    return Call(function, argument)


def compare(operator: str, left: Node, right: Node) -> Node:
    return Compare(operator, left, right)


def _logistic(x: float) -> float:
    return 1.0 / (1.0 + math.exp(-x)) if x >= 0 else math.exp(x) / (1.0 + math.exp(x))


CONSTANT_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "exp": math.exp,
    "log": math.log,
    "abs": abs,
    "logistic": _logistic,
    "Phi": lambda x: 0.5 * math.erfc(-x / math.sqrt(2.0)),
    "phi": lambda x: math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi),
}


def children(node: Node) -> Iterator[Node]:
    if isinstance(node, Sum):
        yield from (n for n, _ in node.terms)
    elif isinstance(node, Product):
        yield from (n for n, _ in node.factors)
    elif isinstance(node, Call):
        yield node.argument
    elif isinstance(node, Compare):
        yield from (node.left, node.right)


def derivative(node: Node, name: str, memo: dict[tuple[Node, str], Node] | None = None) -> Node:
    """∂ node / ∂ name. A comparison counts as flat. Pass one `memo` for many calls to share the work."""
    if name not in node.symbols:
        return ZERO
    memo = {} if memo is None else memo
    waiting = [node]
    while waiting:  # no recursion: what a graph implies is deeper than any text may be
        last = waiting[-1]
        lacking = [] if (last, name) in memo else _lacking(last, name, memo)
        if lacking:
            waiting += lacking
            continue
        if (last, name) not in memo:
            memo[last, name] = _derivative(last, lambda child: memo[child, name] if name in child.symbols else ZERO)
        waiting.pop()
    return memo[node, name]


def _lacking(node: Node, name: str, memo: dict[tuple[Node, str], Node]) -> list[Node]:
    return [child for child in children(node) if name in child.symbols and (child, name) not in memo]


def _derivative(node: Node, inner: Callable[[Node], Node]) -> Node:
    if isinstance(node, Symbol):
        return ONE
    if isinstance(node, Sum):
        return add(*(scale(coefficient, inner(child)) for child, coefficient in node.terms))
    if isinstance(node, Product):
        return _product_slope(node, inner)
    if isinstance(node, Call):
        return multiply(_call_slope(node), inner(node.argument))
    return ZERO


def _product_slope(node: Product, inner: Callable[[Node], Node]) -> Node:
    moving = [(k, slope) for k, (base, _) in enumerate(node.factors) if (slope := inner(base)) != ZERO]
    if len(moving) > MOVING_FACTORS:  # a second derivative takes time in the cube of this
        raise ExpressionError(
            f"a product of {len(moving)} factors that move together is too long to differentiate "
            f"(the limit is {MOVING_FACTORS}): multiply constants out, or write powers"
        )
    parts = []
    for k, slope in moving:
        base, exponent = node.factors[k]
        rest = [b if e == 1 else power(b, e) for i, (b, e) in enumerate(node.factors) if i != k]
        if exponent != 1:
            rest.append(scale(float(exponent), power(base, exponent - 1)))
        parts.append(multiply(slope, *rest))
    return add(*parts)


def _call_slope(node: Call) -> Node:
    x = node.argument
    match node.function:
        case "exp":
            return node
        case "log":
            return power(x, -1)
        case "abs":
            return subtract(compare(">", x, ZERO), compare("<", x, ZERO))
        case "logistic":
            return multiply(node, call("logistic", scale(-1.0, x)))
        case "Phi":
            return call("phi", x)
        case _:  # phi
            return scale(-1.0, multiply(x, node))


def to_text(node: Node) -> str:
    """The node in the grammar of the parser: `parse(to_text(node)) == node`."""
    if isinstance(node, Number):
        return _number_text(node.value)
    if isinstance(node, Symbol):
        return node.name
    if isinstance(node, Call):
        return f"{node.function}({to_text(node.argument)})"
    if isinstance(node, Compare):
        return f"({to_text(node.left)} {node.operator} {to_text(node.right)})"
    if isinstance(node, Product):
        return "*".join(_power_text(base, exponent) for base, exponent in node.factors)
    assert isinstance(node, Sum)
    parts = [] if node.constant == 0.0 else [_number_text(node.constant)]
    for child, coefficient in node.terms:
        text = to_text(child)
        if coefficient not in (1.0, -1.0):
            text = f"{_number_text(abs(coefficient))}*{text}"
        parts.append(f"- {text}" if coefficient < 0 else (f"+ {text}" if parts else text))
    joined = " ".join(parts)
    return "-" + joined[2:] if joined.startswith("- ") else joined


def _number_text(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _power_text(base: Node, exponent: Fraction) -> str:
    bare = isinstance(base, Symbol | Call | Compare) or (isinstance(base, Number) and base.value >= 0)
    text = to_text(base) if bare else f"({to_text(base)})"
    if exponent == 1:
        return text
    plain = exponent.denominator == 1 and exponent > 0
    return f"{text}**{exponent}" if plain else f"{text}**({exponent})"
