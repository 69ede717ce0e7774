"""Evaluates nodes on numbers or arrays: a flat list of instructions, run by a loop. No code is generated."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from sourcewise.spec.nodes import Call, Compare, Node, Number, Product, Sum, Symbol, children

Value = Any  # a number or an array: the loop is the same for both
Instruction = Callable[[list[Value]], Value]

_COMPARE: dict[str, Callable[[Value, Value], Value]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}


class Program:
    """Values of `outputs` at given values of the symbols `inputs`; equal parts are computed once."""

    __slots__ = ("_instructions", "_outputs", "inputs")

    def __init__(self, inputs: Sequence[str], outputs: Sequence[Node]) -> None:
        self.inputs = tuple(inputs)
        slots: dict[Node, int] = {Symbol(name): k for k, name in enumerate(self.inputs)}
        self._instructions: list[Instruction] = []
        for node in _in_order(outputs, slots):
            self._instructions.append(_instruction(node, slots))
            slots[node] = len(slots)
        self._outputs = [slots[node] for node in outputs]

    def __call__(self, values: Sequence[Value]) -> list[Value]:
        """One value an output. Overflow and domain errors give inf and nan, for the caller to judge."""
        held = list(values)
        with np.errstate(all="ignore"):
            for instruction in self._instructions:
                held.append(instruction(held))
        return [held[k] for k in self._outputs]


def _in_order(outputs: Sequence[Node], known: dict[Node, int]) -> list[Node]:
    """Every node below `outputs` that is not an input, children first (no recursion: derivatives are deep)."""
    ordered: dict[Node, None] = {}
    stack = [(node, False) for node in reversed(outputs)]
    while stack:
        node, ready = stack.pop()
        if node in ordered or node in known:
            continue
        if ready:
            ordered[node] = None
        else:
            stack.append((node, True))
            stack.extend((child, False) for child in children(node))
    return list(ordered)


def _instruction(node: Node, slots: dict[Node, int]) -> Instruction:
    if isinstance(node, Number):
        value = np.float64(node.value)
        return lambda held: value
    if isinstance(node, Sum):
        return _sum(node.constant, [(slots[child], c) for child, c in node.terms])
    if isinstance(node, Product):
        if all(exponent == 1 for _, exponent in node.factors):
            return _plain_product([slots[base] for base, _ in node.factors])
        return _product([_power(slots[base], exponent) for base, exponent in node.factors])
    if isinstance(node, Call):
        function, k = _FUNCTIONS[node.function], slots[node.argument]
        return lambda held: function(held[k])
    if isinstance(node, Compare):
        compare, left, right = _COMPARE[node.operator], slots[node.left], slots[node.right]
        return lambda held: compare(held[left], held[right]) * 1.0
    assert isinstance(node, Symbol)
    raise KeyError(node.name)


def _sum(constant: float, terms: list[tuple[int, float]]) -> Instruction:
    first, c0 = terms[0]

    def run(held: list[Value]) -> Value:
        total = held[first] if c0 == 1.0 else c0 * held[first]
        for k, c in terms[1:]:
            if c == 1.0:
                total = total + held[k]
            elif c == -1.0:
                total = total - held[k]
            else:
                total = total + c * held[k]
        return total + constant if constant else total

    return run


def _plain_product(factors: list[int]) -> Instruction:
    """Without a function for each factor: derivatives of a graph hold a hundred thousand of them."""
    if len(factors) == 2:
        left, right = factors
        return lambda held: held[left] * held[right]
    first, rest = factors[0], factors[1:]

    def run(held: list[Value]) -> Value:
        total = held[first]
        for k in rest:
            total = total * held[k]
        return total

    return run


def _product(factors: list[Instruction]) -> Instruction:
    first, rest = factors[0], factors[1:]

    def run(held: list[Value]) -> Value:
        total = first(held)
        for factor in rest:
            total = total * factor(held)
        return total

    return run


def _power(k: int, exponent: Fraction) -> Instruction:
    if exponent == 1:
        return lambda held: held[k]
    if exponent == 2:
        return lambda held: held[k] * held[k]
    if exponent == 3:
        return lambda held: held[k] * held[k] * held[k]
    if exponent == -1:
        return lambda held: np.divide(1.0, held[k])  # not Python's division, which raises at zero
    if exponent == -2:
        return lambda held: np.divide(1.0, held[k] * held[k])  # a general power takes ten times as long
    if exponent == Fraction(1, 2):
        return lambda held: np.sqrt(held[k])
    power = float(exponent)
    return lambda held: np.float_power(held[k], power)


def _logistic(x: Value) -> Value:
    # exp of a negative number only: no overflow, and full relative accuracy in both tails
    tail = np.exp(-np.abs(x))
    return np.where(x >= 0, 1.0, tail) / (1.0 + tail)


def _normal_cdf(x: Value) -> Value:
    from scipy.special import ndtr  # loaded by the studies that need it

    return ndtr(x)


_FUNCTIONS: dict[str, Callable[[Value], Value]] = {
    "exp": np.exp,
    "log": np.log,
    "abs": np.abs,
    "logistic": _logistic,
    "Phi": _normal_cdf,
    "phi": lambda x: np.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi),
}
