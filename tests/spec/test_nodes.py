"""The graph under a formula: canonical, independent of the process, and differentiated correctly."""

from __future__ import annotations

import dataclasses
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import pytest
import sympy

from sourcewise.errors import ExpressionError
from sourcewise.spec.expression import LIMITS, parse
from sourcewise.spec.nodes import (
    ONE,
    ZERO,
    Call,
    Compare,
    Node,
    Number,
    Product,
    Sum,
    Symbol,
    add,
    call,
    children,
    compare,
    derivative,
    multiply,
    number,
    power,
    scale,
    subtract,
    symbol,
    to_text,
)

Evaluate = Callable[[Node, Mapping[str, Any]], Any]
SYMPY = {name: sympy.Symbol(name, positive=True) for name in "xyz"}
RELATIONS = {"<": sympy.Lt, "<=": sympy.Le, ">": sympy.Gt, ">=": sympy.Ge, "==": sympy.Eq, "!=": sympy.Ne}


def as_sympy(node: Node) -> Any:
    """The same formula as a SymPy object, built from the nodes and never from text."""
    match node:
        case Number(value=value):
            return sympy.Rational(value)
        case Symbol(name=name):
            return SYMPY[name]
        case Sum(constant=constant, terms=terms):
            return sympy.Add(sympy.Rational(constant), *(sympy.Rational(c) * as_sympy(t) for t, c in terms))
        case Product(factors=factors):
            return sympy.Mul(*(as_sympy(b) ** sympy.Rational(e.numerator, e.denominator) for b, e in factors))
        case Compare(operator=sign, left=left, right=right):
            return sympy.Piecewise((1, RELATIONS[sign](as_sympy(left), as_sympy(right))), (0, True))
        case Call(function=function, argument=argument):
            return _sympy_call(function, as_sympy(argument))
    raise AssertionError(f"a node of no known kind: {type(node)}")


def _sympy_call(function: str, at: Any) -> Any:
    match function:
        case "logistic":
            return 1 / (1 + sympy.exp(-at))
        case "Phi":
            return (1 + sympy.erf(at / sympy.sqrt(2))) / 2
        case "phi":
            return sympy.exp(-(at**2) / 2) / sympy.sqrt(2 * sympy.pi)
        case "abs":
            return sympy.Abs(at)
        case _:
            return {"exp": sympy.exp, "log": sympy.log}[function](at)


FORMULAS = [
    "x", "7", "y", "x*y", "x*x*x", "3*x**2 - 2*x + y", "z*(y - x*z)", "(x + y)**3*(x - z)**2", "x/y",
    "(x + y)/(x*z)", "x**-2*y**(1/3)", "(x + y)**(-3/2)", "sqrt(x*y)", "sqrt(x*y)**3*z",
    "(x**(1/2) + y)**(2/3)", "exp(x*y - z)", "log(x + y**2)*x", "abs(x - y)",
    "abs(y - x)*abs(x - z)*x", "abs(x*y - 1)**3", "logistic(x - 2*y)", "logistic(x)*logistic(-x)",
    "Phi(x - y)", "phi(x - y)*x", "Phi(x*z)*phi(y)/Phi(y)", "x*exp(-exp(-x*y))", "(x > y)*x**2",
    "x*(x <= z) + y*(x != z)", "exp((x < y)*x)", "(x + y)*(y + z)*(z + x)", "exp(y*log(x))",
    "log(1 + exp(x*log(y) - z/3))", "x**(1/3)*(1 + x)**(1/3)", "phi(phi(x))", "Phi(Phi(x*y))",
    "log(logistic(x - z))",
]  # fmt: skip


def _random_formula(generator: random.Random, depth: int) -> Node:
    """A formula that is finite and smooth enough at positive points: roots and logarithms see 1 + u² only."""
    if depth == 0:
        return generator.choice([*map(symbol, "xyz"), number(generator.choice([-1.5, 0.25, 2.0]))])
    inner = _random_formula(generator, depth - 1)
    other = _random_formula(generator, generator.randrange(depth))
    positive = add(ONE, power(inner, 2))
    match generator.randrange(8):
        case 0:
            return add(inner, scale(generator.choice([-1.0, 0.5, 3.0]), other))
        case 1 | 2:
            return multiply(inner, other)
        case 3:
            return power(positive, Fraction(generator.choice(["1/2", "-3/2", "2/3", "-1", "-2"])))
        case 4:
            return call("log", positive)
        case 5:
            return call(generator.choice(["logistic", "Phi", "phi"]), inner)
        case 6:
            return call("exp", call("logistic", inner))
        case _:
            return subtract(power(inner, 2), other)


def _cases() -> list[Node]:
    generator = random.Random(20260603)
    return [*map(parse, FORMULAS), *(_random_formula(generator, 3) for _ in range(40))]


def _points(count: int) -> list[dict[str, float]]:
    generator = random.Random(20260604)
    return [{name: generator.uniform(0.4, 1.9) for name in "xyz"} for _ in range(count)]


@pytest.mark.parametrize("node", _cases(), ids=str)
def test_derivative_is_that_of_sympy(node: Node) -> None:
    for name in ("x", "y"):
        ours, theirs = as_sympy(derivative(node, name)), sympy.diff(as_sympy(node), SYMPY[name])
        for at in _points(2):
            exact = {SYMPY[n]: sympy.Rational(v) for n, v in at.items()}
            ours_there, theirs_there = (sympy.N(d.subs(exact), 30) for d in (ours, theirs))
            # 30 digits on both sides; what is left is the rounding of coefficients such as 2/3 to doubles.
            assert abs(ours_there - theirs_there) <= 1e-14 * (1 + abs(theirs_there))


@pytest.mark.parametrize("node", _cases(), ids=str)
def test_derivatives_agree_with_complex_steps(node: Node, evaluate: Evaluate) -> None:
    step = 1e-30  # no difference is taken, so nothing cancels: the slope is as exact as the value
    memo: dict[tuple[Node, str], Node] = {}
    slopes = {name: derivative(node, name, memo) for name in "xyz"}
    for at in _points(5):
        for name, slope in slopes.items():
            stepped = evaluate(node, {**at, name: at[name] + 1j * step}).imag / step
            assert evaluate(slope, at).real == pytest.approx(stepped, rel=1e-11, abs=1e-12)
        curvature = derivative(slopes["x"], "y", memo)
        stepped = evaluate(slopes["x"], {**at, "y": at["y"] + 1j * step}).imag / step
        assert evaluate(curvature, at).real == pytest.approx(stepped, rel=1e-10, abs=1e-11)


def test_second_derivatives_commute(evaluate: Evaluate) -> None:
    node = parse("x**3*exp(x*y)*logistic(y - x)")
    one, other = (derivative(derivative(node, a), b) for a, b in ("xy", "yx"))
    for at in _points(10):
        assert evaluate(one, at).real == pytest.approx(evaluate(other, at).real, rel=1e-11)


def test_slopes_of_what_does_not_move() -> None:
    assert derivative(parse("x*exp(y)"), "z") == ZERO
    assert derivative(parse("(x > y)"), "x") == ZERO
    assert derivative(parse("x"), "x") == ONE
    assert derivative(parse("abs(x)"), "x") == parse("(x > 0) - (x < 0)")


@pytest.mark.parametrize(
    ("one", "same"),
    [
        ("x*z", "z*x"),
        ("x + y + 1", "1 + y + x"),
        ("x + x", "2*x"),
        ("x - x", "0"),
        ("x/x", "1"),
        ("2*(x + y)", "2*x + 2*y"),
        ("(x*y)**2", "x**2*y**2"),
        ("(3*x)**-1", "x**-1*3**-1"),
        ("sqrt(x)", "x**(1/2)"),
        ("sqrt(x)**2", "x"),
        ("sqrt(x)*sqrt(x)*y", "x*y"),
        ("sqrt(x*y)*sqrt(x*y)*z", "x*y*z"),
        ("sqrt(x*y)**6", "x**3*y**3"),
        ("sqrt(4*x)**4", "16*x**2"),
        ("sqrt(x*y)*sqrt(x*y)/y", "x"),
        ("(x*y)**(1/3)*(x*y)**(2/3)*x", "x**2*y"),
        ("0*exp(x)", "0"),
        ("-0*x + -0", "0"),
        ("exp(x)*exp(x)", "exp(x)**2"),
        ("x**0", "1"),
    ],
)
def test_one_form_for_equal_formulas(one: str, same: str) -> None:
    assert parse(one) == parse(same)
    assert hash(parse(one)) == hash(parse(same))
    assert to_text(parse(one)) == to_text(parse(same))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x - y", "y - x"),
        ("x**2", "x**3"),
        ("x**2*y", "x*y**2"),
        ("2*x + y", "x + 2*y"),
        ("x < y", "y < x"),
        ("x < y", "x <= y"),
        ("exp(x)", "log(x)"),
        ("exp(x)", "exp*x"),
        ("sqrt(x**2)", "x"),
        ("abs(x)", "x"),
        ("sqrt(x*y)", "sqrt(x)*sqrt(y)"),
        ("1", "x"),
    ],
)
def test_different_formulas_are_different_nodes(one: str, other: str) -> None:
    assert parse(one) != parse(other)


def test_products_of_sums_are_not_multiplied_out(evaluate: Evaluate) -> None:
    node = parse("(x - 1000000)*(y - 1000000)")
    assert isinstance(node, Product)
    # The expansion would lose 12 of its 16 digits here.
    at = {"x": 1e6 + 0.125, "y": 1e6 - 0.25}
    assert evaluate(node, at).real == -0.03125


def test_nodes_are_frozen_and_list_their_parts() -> None:
    node = parse("2*x + exp(y)*z**2 + (a < b)")
    assert node.symbols == {"x", "y", "z", "a", "b"}
    assert {to_text(child) for child in children(node)} == {"x", "z**2*exp(y)", "(a < b)"}
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(node, "constant", 1.0)  # noqa: B010
    assert node != "2*x"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: number(float("inf")), "too large"),
        (lambda: number(float("nan")), "too large"),
        (lambda: scale(1e200, scale(1e200, symbol("x"))), "too large"),
        (lambda: add(number(1e308), number(1e308), symbol("x")), "too large"),
        (lambda: multiply(number(1e200), number(1e200)), "too large"),
        (lambda: power(number(0.0), -1), "not a finite real number"),
        (lambda: power(number(-8.0), Fraction(1, 3)), r"\(-8\) \*\* \(1/3\) is not"),
        (lambda: power(scale(1e200, symbol("x")), 2), "not a finite real number"),
        (lambda: call("exp", number(1000.0)), r"exp\(1000\) is not"),
        (lambda: call("log", number(-1.0)), r"log\(-1\) is not"),
        (lambda: call("sqrt", number(-1.0)), "not a finite real number"),
    ],
)
def test_what_is_no_number_is_refused(build: Callable[[], Node], message: str) -> None:
    with pytest.raises(ExpressionError, match=message):
        build()


def test_nothing_depends_on_the_hash_seed() -> None:
    program = (
        "from sourcewise.spec.expression import parse; from sourcewise.spec.nodes import derivative; "
        "n = parse('exp(x*y)*(y + z*w) + log(a + b*c)*(c < d) + phi(e - f)'); "
        "print(n, n.digest.hex(), derivative(n, 'y'), derivative(n, 'c').digest.hex())"
    )
    printed = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "2")
    }
    assert len(printed) == 1
    assert "exp(x*y)" in printed.pop()


def _graph_size(node: Node) -> int:
    seen: set[Node] = set()
    todo = [node]
    while todo:
        part = todo.pop()
        if part not in seen:
            seen.add(part)
            todo.extend(children(part))
    return len(seen)


def test_shared_parts_are_differentiated_once() -> None:
    # As text, this formula would have 3⁶⁰ names, and so would its derivative.
    node: Node = symbol("x")
    for _ in range(60):
        node = add(call("exp", multiply(node, node)), node)
    started = time.process_time()
    slope = derivative(node, "x")
    assert time.process_time() - started < 0.5
    assert _graph_size(slope) < 1000


def test_a_product_too_long_to_differentiate_says_so() -> None:
    node = parse("*".join(f"(x + {k})" for k in range(1, 26)))
    with pytest.raises(ExpressionError, match=r"product of 25 factors .*the limit is 24"):
        derivative(node, "x")
    assert derivative(parse("x*" + "*".join(f"a{k}" for k in range(200))), "x").symbols == {f"a{k}" for k in range(200)}


def test_the_deepest_formula_has_second_derivatives() -> None:
    # One level of text makes a sum, a product and a call; Python's stack must hold all of them twice over.
    text = "1 + x*exp(" * LIMITS.depth + "x" + ")" * LIMITS.depth
    slope = derivative(parse(text), "x")
    curvature = derivative(slope, "x")
    assert curvature.symbols == {"x"}
    assert _graph_size(curvature) < 20_000
    assert isinstance(compare("<", slope, curvature), Compare)
