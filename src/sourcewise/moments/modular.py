"""Formulas and their gradients at a random point, modulo a prime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import numpy as np

from sourcewise.numerics.modular import PRIME, Residues, residue
from sourcewise.spec.nodes import Node, Number, Product, Sum, Symbol, children

Dual = tuple[int, Residues]
"""A value, and its gradient in the parameters."""


class ModularPoint:
    """Random values of some parameters, at which formulas are evaluated with their gradients.

    Of what is no polynomial or fraction, such as exp(x), value and slope are drawn too: there its exact value could
    not be had, and only matters where formulas of several such parts cancel.
    """

    def __init__(self, parameters: Sequence[str], seed: int = 0, fixed: Mapping[str, int] | None = None) -> None:
        self.parameters = tuple(parameters)
        self._random = Random(seed)
        self._known: dict[Node, Dual] = {}
        unit = np.eye(len(self.parameters), dtype=np.int64)
        for k, name in enumerate(self.parameters):
            self._known[Symbol(name)] = self._draw(), unit[k]
        for name, value in (fixed or {}).items():
            self._known[Symbol(name)] = value, 0 * unit[0]

    def gradient(self, node: Node) -> Residues:
        return self._at(node)[1]

    def _draw(self) -> int:
        return self._random.randrange(1, PRIME)

    def _at(self, node: Node) -> Dual:
        waiting = [node]
        while waiting:
            last = waiting[-1]
            lacking = [child for child in children(last) if child not in self._known]
            if last not in self._known and not lacking:
                self._known[last] = self._value(last)
            if last in self._known:
                waiting.pop()
            waiting += lacking
        return self._known[node]

    def _value(self, node: Node) -> Dual:
        zero = np.zeros(len(self.parameters), dtype=np.int64)
        if isinstance(node, Number):
            return residue(node.value), zero
        if isinstance(node, Sum):
            value, slope = residue(node.constant), zero
            for child, coefficient in node.terms:
                share, (part, part_slope) = residue(coefficient), self._known[child]
                value, slope = (value + share * part) % PRIME, (slope + share * part_slope) % PRIME
            return value, slope
        if isinstance(node, Product) and all(exponent.denominator == 1 for _, exponent in node.factors):
            return self._product(node)
        slope = zero
        for child in children(node):
            slope = (slope + self._draw() * self._known[child][1]) % PRIME
        return self._draw(), slope

    def _product(self, node: Product) -> Dual:
        value, slope = 1, np.zeros(len(self.parameters), dtype=np.int64)
        for base, exponent in node.factors:
            part, part_slope = self._known[base]
            power = int(exponent)
            # Fermat: exponents count modulo p − 1, so a fraction is a power too.
            whole = pow(part, power % (PRIME - 1), PRIME)
            part_slope = power * pow(part, (power - 1) % (PRIME - 1), PRIME) % PRIME * part_slope % PRIME
            slope = (slope * whole + value * part_slope) % PRIME
            value = value * whole % PRIME
        return value, slope
