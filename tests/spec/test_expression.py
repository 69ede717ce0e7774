"""Formulas are read as Python reads them, and what cannot be read is shown where it stands."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import pytest

from sourcewise.errors import ExpressionError, SourcewiseError
from sourcewise.spec.expression import LIMITS, parse
from sourcewise.spec.nodes import (
    Compare,
    Node,
    Symbol,
    multiply,
    power,
    scale,
    symbol,
)

Evaluate = Callable[[Node, Mapping[str, Any]], Any]


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _distribution(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


def _density(x: float) -> float:
    return math.exp(-x * x / 2) / math.sqrt(2 * math.pi)


GOOD: list[tuple[str, Callable[..., float]]] = [
    ("3", lambda **_: 3.0),
    ("1.5e-3 + .5 + 2. + 1E2 + 007", lambda **_: 0.0015 + 0.5 + 2 + 100 + 7),
    ("z*(x - a*z)", lambda x, a, z, **_: z * (x - a * z)),
    ("z*(y - a*b*z)", lambda y, a, b, z, **_: z * (y - a * b * z)),
    ("x - y - z", lambda x, y, z, **_: x - y - z),
    ("x - (y - z)", lambda x, y, z, **_: x - (y - z)),
    ("x/y/z", lambda x, y, z, **_: x / y / z),
    ("x/(y/z)", lambda x, y, z, **_: x / (y / z)),
    ("x/y*z", lambda x, y, z, **_: x / y * z),
    ("2/3*x - x*2/3 + 2*x/3", lambda x, **_: 2 / 3 * x),
    ("-x**2", lambda x, **_: -(x**2)),
    ("(-x)**2", lambda x, **_: x**2),
    ("--x + -+-x - -x", lambda x, **_: 3 * x),
    ("x*-y", lambda x, y, **_: -x * y),
    ("2**-2*x", lambda x, **_: 0.25 * x),
    ("x**-1 + x**(-2)", lambda x, **_: x**-1 + x**-2),
    ("x**2**3", lambda x, **_: x**8),
    ("(x**2)**3", lambda x, **_: x**6),
    ("x**(1/2) + x**0.5 - sqrt(x)", lambda x, **_: math.sqrt(x)),
    ("x**(-3/2)", lambda x, **_: x**-1.5),
    ("x**(1/3)*x**(2/3)", lambda x, **_: x),
    ("x**(5/3)", lambda x, **_: x ** (5 / 3)),
    ("x**(1 + 1)", lambda x, **_: x**2),
    ("sqrt(x*y)**3*sqrt(x*y)*z", lambda x, y, z, **_: (x * y) ** 2 * z),
    ("(2*x*y)**3/x", lambda x, y, **_: 8 * x**2 * y**3),
    ("exp(x - y)*log(z) + abs(x - y)", lambda x, y, z, **_: math.exp(x - y) * math.log(z) + abs(x - y)),
    ("logistic(a + b*x)", lambda x, a, b, **_: _logistic(a + b * x)),
    ("Phi(x - y) + phi (x*y)", lambda x, y, **_: _distribution(x - y) + _density(x * y)),
    ("exp(0) + log(1) + logistic(0) + Phi(0) + abs(-2)", lambda **_: 1 + 0 + 0.5 + 0.5 + 2),
    ("x*y*exp(a*log(x))", lambda x, y, a, **_: x * y * x**a),
    ("x + 1 < y + z", lambda x, y, z, **_: float(x + 1 < y + z)),
    ("(x > y) - (x <= y)*(z >= a)", lambda x, y, z, a, **_: (x > y) - (x <= y) * (z >= a)),
    ("(x == x)*(x != y)*y", lambda y, **_: y),
    ("exp(x > y)", lambda x, y, **_: math.exp(x > y)),
    ("\t( x\n+ y ) * z\r\n", lambda x, y, z, **_: (x + y) * z),
    ("(x - 1)*(x + 1) - x*x + 1", lambda **_: 0.0),
    ("((((x))))", lambda x, **_: x),
]


@pytest.mark.parametrize(("text", "meant"), GOOD)
def test_reads_as_python_reads(text: str, meant: Callable[..., float], evaluate: Evaluate) -> None:
    node = parse(text)
    generator = random.Random(20260601)
    for _ in range(25):
        at = {name: generator.uniform(0.3, 2.5) for name in "xyzab"}
        # Arguments are of order one: the two orders of arithmetic differ by a few rounding errors, no more.
        assert evaluate(node, at) == pytest.approx(meant(**at), rel=1e-12, abs=1e-12)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "E",
            "I",
            "S",
            "N",
            "Q",
            "beta",
            "gamma",
            "lambda",
            "pi",
            "phi",
            "Phi",
            "exp",
            "log",
            "sqrt",
            "abs",
        ),
        *("logistic", "None", "True", "if", "import", "__import__", "__class__", "_", "e", "j", "nan", "inf"),
        "x" * LIMITS.name,
    ],
)
def test_names_are_only_names(name: str) -> None:
    assert parse(name) == symbol(name)
    assert parse(f"2*{name} - 1").symbols == {name}


def test_exponents_stay_exact() -> None:
    x = symbol("x")
    assert parse("x**(1/3)") == power(x, Fraction(1, 3))
    assert parse("x**(5/3)") == power(x, Fraction(5, 3))
    assert parse("x**(-63/64)") == power(x, Fraction(-63, 64))
    assert parse("x**0.015625") == power(x, Fraction(1, 64))


def test_equal_formulas_are_equal_nodes() -> None:
    assert parse("z*x + y*2") == parse("y + x*z + y")
    assert parse("x - y") != parse("y - x")
    assert parse("sqrt(x*y)*sqrt(x*y)*z") == parse("x*y*z")
    assert parse("sqrt(4*x)**4") == parse("16*x**2")


FAULTS: list[tuple[str, int, str]] = [
    ("", 0, "the expression is empty"),
    ("   ", 0, "the expression is empty"),
    ("z*(x - alpha z)", 13, "expected an operator before 'z'"),
    ("2x", 1, "expected an operator before 'x': write 2*x"),
    ("y + 2.5(x)", 7, "expected an operator before '(': write 2.5*(...)"),
    ("(a)(b)", 3, "expected an operator before '('"),
    ("1 2", 2, "expected an operator before '2'"),
    ("b*alpha(x)", 2, "'alpha' is not a function: write alpha*(...) to multiply"),
    ("exp x", 4, "expected an operator before 'x': write exp(x)"),
    ("x and y", 2, "(a > 0)*(b > 0)"),
    ("x or y", 2, "((a > 0) + (b > 0) > 0)"),
    ("not x", 4, "1 - (a > 0)"),
    ("x if y", 2, "x*(a > 0)"),
    ("x^2", 1, "'^' is not an operator: write **"),
    ("a = b", 2, "write == to compare"),
    ("a =< b", 2, "write == to compare"),
    ("a ! b", 2, "write !="),
    ("a & b", 2, "multiply the conditions"),
    ("a | b", 2, "for 'or'"),
    ("~a", 0, "for 'not'"),
    ("a // b", 2, "write / to divide"),
    ("a % b", 2, "'%' is not an operator"),
    ("a @ b", 2, "write * to multiply"),
    ("exp(x, y)", 5, "functions take one argument"),
    ("x.y", 1, "a dot belongs inside a number only"),
    ("x[0]", 1, "only round parentheses group"),
    ("{x}", 0, "only round parentheses group"),
    ("x + 'a'", 4, "text in quotes"),
    ("x: y", 1, "a colon has no place"),
    ("x; y", 1, "';' has no place in an expression"),
    ("x # y", 2, "'#' has no place in an expression"),
    ("x <", 3, "the expression ends where"),
    ("x +  ", 3, "the expression ends where"),
    ("x**", 3, "the expression ends where"),
    ("x*/y", 2, "expected a number, a name or '(' before '/'"),
    ("x***2", 3, "expected a number, a name or '(' before '*'"),
    ("x + )", 4, "expected a number, a name or '(' before ')'"),
    ("x*()", 2, "the parentheses are empty"),
    ("exp()", 3, "the parentheses are empty"),
    ("y*((x)", 2, "this parenthesis is never closed"),
    ("y*x) + 1", 3, "this parenthesis was never opened"),
    ("a < b < c", 6, "comparisons cannot be chained"),
    ("phi(x)*phi", 7, "used both as a name and as a function"),
    ("phi*phi(x)", 4, "used both as a name and as a function"),
    ("x**a", 3, "write exp(a*log(x))"),
    ("x**(1 < 2)", 3, "an exponent is a constant"),
    ("x**65", 3, "an exponent of 65"),
    ("x**-64.5", 3, "an exponent of -64.5"),
    ("x**0.333", 3, "whole numbers or fractions (such as 1/3)"),
    ("x**1e-300", 3, "whole numbers or fractions"),
    ("x**(1/65)", 3, "with a denominator up to 64"),
    ("(x**8)**9", 6, "multiply to an exponent of 72"),
    ("y + x**40*z*x**40", 11, "multiply to an exponent of 80"),
    ("x**(1/63)*x**(1/64)", 9, "multiply to an exponent of 127/4032"),
    ("9**9**9**9", 6, "an exponent of 3.8742e+08"),
    ("x/0", 1, "division by zero"),
    ("x/(y - y)", 1, "division by zero"),
    ("0**-1", 1, "is not a finite real number"),
    ("x + (-8)**(1/3)", 8, "(-8) ** (1/3) is not a finite real number"),
    ("1 + log(0)", 4, "log(0) is not a finite real number"),
    ("exp(1000)", 0, "exp(1000) is not a finite real number"),
    ("x + 1e309", 4, "too large"),
    ("x + 1e-400", 4, "too small"),
    ("1e308*10*x", 5, "too large"),
    ("x + 1e308 + y + 1e308", 14, "too large"),
    ("2*1e308/1e-10", 7, "too large"),
    ("0x1F", 0, "only decimal numbers"),
    ("0b1", 0, "only decimal numbers"),
    ("1_000", 1, "no _"),
    ("1.2.3", 3, "one decimal point"),
    ("x" * 65, 0, "a name of 65 characters"),
]


@pytest.mark.parametrize(("text", "place", "message"), FAULTS)
def test_shows_the_place_of_a_fault(text: str, place: int, message: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    headline, shown, caret = str(caught.value).split("\n")
    assert headline.startswith(f'in "{text}": ')
    assert message in headline
    assert shown == f"  {text}"
    assert caret == "  " + " " * place + "^"
    assert isinstance(caught.value, SourcewiseError)


def test_the_whole_message() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("z*(x - alpha z)")
    assert str(caught.value) == (
        "in \"z*(x - alpha z)\": expected an operator before 'z'\n  z*(x - alpha z)\n               ^"
    )


@pytest.mark.parametrize("fault_at", [0, 100, 1000, 1900, 1999])
def test_a_long_text_is_shown_through_a_window(fault_at: int) -> None:
    text = "a+" * 1000
    text = text[:fault_at] + "$" + text[fault_at + 1 :]
    # Keep the count of nodes out of the way: what comes before the fault is one long run of spaces.
    text = " " * fault_at + text[fault_at:]
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    _, shown, caret = str(caught.value).split("\n")
    assert len(shown) <= 80
    assert shown[caret.index("^")] == "$"
    assert shown.startswith("  ...") == (fault_at > 72)
    assert shown.endswith("...") == (fault_at < 1950)


@pytest.mark.parametrize(
    ("character", "said"),
    [
        ("\uff58", "U+FF58 FULLWIDTH LATIN SMALL LETTER X"),
        ("\u03b1", "U+03B1 GREEK SMALL LETTER ALPHA has no place in an expression: write its name"),
        ("\u2212", "U+2212 MINUS SIGN has no place in an expression: write -"),
        ("\u00b2", "U+00B2 SUPERSCRIPT TWO has no place in an expression: write **2"),
        ("\u0661", "U+0661 ARABIC-INDIC DIGIT ONE"),
        ("\u202e", "U+202E RIGHT-TO-LEFT OVERRIDE"),
        ("\u2066", "U+2066 LEFT-TO-RIGHT ISOLATE"),
        ("\u200b", "U+200B ZERO WIDTH SPACE"),
        ("\ufeff", "U+FEFF ZERO WIDTH NO-BREAK SPACE"),
        ("\u00a0", "U+00A0 NO-BREAK SPACE"),
        ("\x00", "U+0000 (a control character)"),
        ("\x0b", "U+000B (a control character)"),
        ("\x7f", "U+007F (a control character)"),
        ("\ud800", "U+D800 (not a character)"),
        ("\U0010ffff", "U+10FFFF (not a character)"),
        ("\U0001d465", "U+1D465 MATHEMATICAL ITALIC SMALL X"),
    ],
)
def test_names_foreign_characters_and_never_repeats_them(character: str, said: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(f"x{character} + 1")
    message = str(caught.value)
    assert said in message
    assert message.replace("\n", "").isascii()
    assert message.replace("\n", "").isprintable()
    _, shown, caret = message.split("\n")
    assert shown[caret.index("^")] == "\\"


def test_an_escape_before_the_place_moves_the_caret_along() -> None:
    # The window of a text that is too long may hold anything before the place it points at.
    with pytest.raises(ExpressionError) as caught:
        parse("\u202e" * 2100)
    _, shown, caret = str(caught.value).split("\n")
    assert (caret.index("^") - len("  ...")) % len("\\u202e") == 0
    assert shown[caret.index("^") :].startswith("\\u202e")


@pytest.mark.parametrize("value", [None, 3, 2.5, b"x", ["x"], symbol("x")])
def test_only_text_is_an_expression(value: Any) -> None:
    with pytest.raises(ExpressionError, match=f"not one of type {type(value).__name__}"):
        parse(value)


def test_limits_are_where_they_are_said_to_be() -> None:
    assert parse("x" + " " * (LIMITS.characters - 1)) == symbol("x")
    with pytest.raises(ExpressionError, match="2049 characters and may have 2048"):
        parse("x" + " " * LIMITS.characters)
    assert parse("(" * LIMITS.depth + "x" + ")" * LIMITS.depth) == symbol("x")
    with pytest.raises(ExpressionError, match="nested more than 50 deep"):
        parse("exp(" * (LIMITS.depth + 1) + "x" + ")" * (LIMITS.depth + 1))
    assert parse("x" + "+x" * 249) == scale(250.0, symbol("x"))  # 250 names and 249 operators
    with pytest.raises(ExpressionError, match="more than 500 numbers, names and operators"):
        parse("x" + "+x" * 250)
    assert parse("x**64/y**64") == multiply(power(symbol("x"), 64), power(symbol("y"), -64))


def test_a_comparison_keeps_its_sides() -> None:
    node = parse("x + 1 <= y*2")
    assert isinstance(node, Compare)
    assert (node.operator, node.left, node.right) == ("<=", parse("x + 1"), parse("2*y"))
    assert isinstance(parse("x"), Symbol)
