"""Random formulas that know their own text, value and size, for property tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

Array = NDArray[np.float64]
Values = Mapping[str, Any]

VARIABLES = ("x", "y", "z")
PARAMETERS = ("a", "b")


@dataclass(frozen=True)
class Formula:
    """A node of a formula over VARIABLES and PARAMETERS."""

    text: str
    kind: str
    parts: tuple[Formula, ...] = ()
    number: int = 0

    def value(self, at: Values) -> Any:
        """What the formula is worth where each name has a number or an array."""
        return self._fold(at, negative=-1.0)

    def size(self, at: Values) -> Any:
        """The same with every term counted as positive: rounding errors are a small multiple of eps times this.

        `at` gives the size of each name.
        """
        return self._fold(at, negative=1.0)

    def _fold(self, at: Values, negative: float) -> Any:
        parts = [part._fold(at, negative) for part in self.parts]
        match self.kind:
            case "name":
                return at[self.text]
            case "number":
                return np.float64(self.number)
            case "+":
                return parts[0] + parts[1]
            case "-":
                return parts[0] + negative * parts[1]
            case "*":
                return parts[0] * parts[1]
            case "**":
                return parts[0] ** self.number
        raise AssertionError(self.kind)


ATOMS = ("exp(x)", "(1/z)", "(x > 0)", "abs(y)", "sqrt(z)", "log(z)")
"""Functions of data alone; z is to be positive."""


def atom_values(x: Array, y: Array, z: Array) -> dict[str, Array]:
    """What variables and ATOMS are worth in each row."""
    return {
        "x": x,
        "y": y,
        "z": z,
        "exp(x)": np.exp(x),
        "(1/z)": 1 / z,
        "(x > 0)": (x > 0).astype(float),
        "abs(y)": np.abs(y),
        "sqrt(z)": np.sqrt(z),
        "log(z)": np.log(z),
    }


def _join(sign: str) -> Any:
    return lambda pair: Formula(f"({pair[0].text} {sign} {pair[1].text})", sign, pair)


def _raise(pair: tuple[Formula, int]) -> Formula:
    return Formula(f"({pair[0].text})**{pair[1]}", "**", (pair[0],), pair[1])


def formulas() -> st.SearchStrategy[Formula]:
    """Polynomials in parameters, variables and ATOMS, written in every shape."""
    name = st.sampled_from([*VARIABLES, *PARAMETERS, *ATOMS]).map(lambda text: Formula(text, "name"))
    constant = st.integers(1, 5).map(lambda value: Formula(str(value), "number", number=value))

    def grow(inner: st.SearchStrategy[Formula]) -> st.SearchStrategy[Formula]:
        pair = st.tuples(inner, inner)
        power = st.tuples(inner, st.integers(2, 3)).map(_raise)
        return st.one_of(pair.map(_join("+")), pair.map(_join("-")), pair.map(_join("*")), power)

    return st.recursive(st.one_of(name, name, constant), grow, max_leaves=7)
