"""Worlds and studies that the tests of simulations share."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import sourcewise as sw
from sourcewise.numerics.linalg import Array

IV = sw.LinearWorld({"x": {"z": 1.0, "u": 1.0}, "y": {"x": 1.0, "u": 1.0}}, {"alpha": 1.0, "beta": 1.0})
IV_STUDY = sw.Study(
    ["z*(x - alpha*z)", "z*(y - alpha*beta*z)"],
    "beta",
    {"treatment": sw.Source("z x"), "outcome": sw.Source("z y")},
)

MEANS_STUDY = sw.Study(
    ["x - a", "y - b"], "b - a", {"left": sw.Source("x", cost=1.0), "right": sw.Source("y", cost=2.0)}
)
"""The best shares of money are as sd × √price: V × cost is (1·√1 + 3·√2)²."""

MEANS = sw.LinearWorld({}, {"a": 5.0, "b": 7.0}, {"x": 1.0, "y": 9.0}, {"x": 5.0, "y": 7.0})


def people(random: np.random.Generator, rows: int) -> Mapping[str, Array]:
    """The world of MEANS as a function that other processes can import."""
    x, y = random.standard_normal((2, rows))
    return {"x": 5.0 + x, "y": 7.0 + 3.0 * y}
