"""What nodes are worth at a point, computed in the plainest way there is."""

from __future__ import annotations

import cmath
import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from sourcewise.spec.nodes import Call, Compare, Node, Number, Product, Sum, Symbol

Evaluate = Callable[[Node, Mapping[str, Any]], Any]


def _logistic(x: complex) -> complex:
    return 1 / (1 + cmath.exp(-x))


def _normal_distribution(x: complex) -> complex:
    """Φ of a real, continued to x + ih by its first-order term: all that a tiny complex step needs."""
    real = 0.5 * math.erfc(-x.real / math.sqrt(2))
    return complex(real, x.imag * _normal_density(complex(x.real)).real)


def _normal_density(x: complex) -> complex:
    return cmath.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _absolute(x: complex) -> complex:
    return x if x.real > 0 else -x


FUNCTIONS: dict[str, Callable[[complex], complex]] = {
    "exp": cmath.exp,
    "log": cmath.log,
    "abs": _absolute,
    "logistic": _logistic,
    "Phi": _normal_distribution,
    "phi": _normal_density,
}
COMPARISONS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


def _evaluate(node: Node, at: Mapping[str, complex]) -> complex:
    match node:
        case Number(value=value):
            return complex(value)
        case Symbol(name=name):
            return complex(at[name])
        case Sum(constant=constant, terms=terms):
            return constant + sum(c * _evaluate(term, at) for term, c in terms)
        case Product(factors=factors):
            powers = (_evaluate(b, at) ** (int(e) if e.denominator == 1 else float(e)) for b, e in factors)
            return math.prod(powers, start=complex(1))
        case Call(function=function, argument=argument):
            return FUNCTIONS[function](_evaluate(argument, at))
        case Compare(operator=sign, left=left, right=right):
            return complex(COMPARISONS[sign](_evaluate(left, at).real, _evaluate(right, at).real))
    raise AssertionError(f"a node of no known kind: {type(node)}")


@pytest.fixture(scope="session")
def evaluate() -> Evaluate:
    """A function of a node and a point {name: number}; complex arithmetic throughout, for complex steps."""
    return _evaluate
