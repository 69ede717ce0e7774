"""Formulas made by machine: every one is read back as it was written, or refused with a clear error."""

from __future__ import annotations

import random
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from sourcewise.errors import ExpressionError
from sourcewise.spec.expression import parse
from sourcewise.spec.nodes import (
    COMPARISONS,
    FUNCTIONS,
    Node,
    add,
    call,
    compare,
    multiply,
    number,
    power,
    scale,
    subtract,
    symbol,
    to_text,
)

NAMES = st.sampled_from(["x", "y", "z", "alpha", "beta", "E", "lambda", "_a1"])
NUMBERS = st.one_of(
    st.integers(-20, 20).map(float),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e30, max_value=1e30, allow_subnormal=False),
)
EXPONENTS = st.sampled_from([Fraction(k, d) for k in range(-4, 5) for d in (1, 2, 3)])


def _attempt(build: Callable[..., Node], *arguments: Any) -> Node:
    """What `build` gives, or a plain name where the random numbers have no finite result."""
    try:
        return build(*arguments)
    except ExpressionError:
        return symbol("x")


def _grown(inner: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    several = st.lists(inner, min_size=2, max_size=3)
    return st.one_of(
        several.map(lambda nodes: _attempt(add, *nodes)),
        several.map(lambda nodes: _attempt(multiply, *nodes)),
        st.tuples(inner, inner).map(lambda pair: _attempt(subtract, *pair)),
        st.tuples(NUMBERS, inner).map(lambda pair: _attempt(scale, *pair)),
        st.tuples(inner, EXPONENTS).map(lambda pair: _attempt(power, *pair)),
        st.tuples(st.sampled_from(FUNCTIONS), inner).map(lambda pair: _attempt(call, *pair)),
        st.tuples(st.sampled_from(COMPARISONS), inner, inner).map(lambda three: _attempt(compare, *three)),
    )


TREES = st.recursive(st.one_of(NAMES.map(symbol), NUMBERS.map(number)), _grown, max_leaves=12)


@settings(max_examples=600, derandomize=True, deadline=None, database=None)
@given(TREES)
def test_text_and_node_round_trip(node: Node) -> None:
    text = to_text(node)
    try:
        again = parse(text)
    except ExpressionError as error:
        # Nodes themselves have no limits, and a power of a power of a power can outgrow the parser's.
        assert "exponent" in str(error)  # noqa: PT017
        return
    assert again == node
    assert to_text(again) == text


ALPHABET = [
    *(
        "x",
        "y",
        "alpha",
        "phi",
        "E",
        "0",
        "1",
        "2.5",
        "1e9",
        "1e300",
        ".5",
        "64",
        "(",
        "(",
        ")",
        ")",
        "+",
        "-",
    ),
    *(
        "*",
        "/",
        "**",
        "**2",
        "**(1/2)",
        "<",
        "<=",
        "==",
        "!=",
        ">",
        " ",
        "exp(",
        "log(",
        "sqrt(",
        "abs(",
        "Phi(",
    ),
    *(
        "phi(",
        "logistic(",
        "^",
        "=",
        ",",
        "[",
        "]",
        "'",
        '"',
        ".",
        "//",
        ":",
        "lambda ",
        "__class__",
        "\\",
        "#",
    ),
    *("\n", "\x00", "\ud800", "\u202e", "\uff58", "\u03b1", "0x1", "1_0", "e", "E5", "f'", "if", "not "),
]


VALID = [
    "x + y",
    "x - y - z",
    "a*x*y/z",
    "x**-1 + x**2",
    "exp(x) + log(y)",
    "(x < 2)*y",
    "lambda*I + S",
    "z*(x - a*z)",
    "x**(1/2) + x**0.5 - sqrt(x)",
    "exp(-x**2/2)*(x > 0) + 1.5e-3",
    "logistic(a*x) - Phi(b*x)/phi(y)",
    "(x == 1)*y/2.5 - -lambda*(x != y)",
    "abs(log(x*y)**3 - E)**(-3/2)",
]
"""Texts to damage at random."""


def _soup(generator: random.Random) -> str:
    """Tokens in any order, or a good formula with a few tokens inserted, removed or repeated."""
    if generator.random() < 0.4:
        return "".join(generator.choices(ALPHABET, k=generator.randint(1, 30)))
    text = generator.choice(VALID)
    for _ in range(generator.randint(1, 3)):
        at, until = sorted(generator.choices(range(len(text) + 1), k=2))
        inserted = text[:at] + generator.choice(ALPHABET) + text[at:]
        text = generator.choice([inserted, text[:at] + text[until:], text + text[at:until]])
    return text


def test_fifty_thousand_random_texts_give_a_node_or_a_clear_error() -> None:
    generator = random.Random(20260602)
    read = 0
    for _ in range(50_000):
        text = _soup(generator)
        try:
            node = parse(text)
        except ExpressionError as error:
            lines = str(error).split("\n")
            assert len(lines) == 3, text
            assert all(line.isascii() and line.isprintable() for line in lines), text
            assert lines[2].strip() == "^", text
            assert lines[2].index("^") <= len(lines[1]), text
        else:
            read += 1
            assert all(name.isascii() and name.isidentifier() for name in node.symbols), text
    assert 5_000 < read < 45_000  # both ways out were taken often
