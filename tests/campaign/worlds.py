"""Studies and rows for the campaign tests. Rows are whole numbers, so that sums are exact in any order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import sourcewise as sw

Rows = dict[str, NDArray[np.float64]]

MOMENTS = ["z*(x - alpha*z)", "z*(y - alpha*beta*z)"]


def study(**options: float | int | None) -> sw.Study:
    """Two-sample instrument; `options` are the capacity of the registry, or prices."""
    registry = sw.Source("z x", float(options.get("registry") or 1.0), _whole(options.get("capacity")))
    return sw.Study(
        MOMENTS, "beta", {"registry": registry, "survey": sw.Source("z y", float(options.get("survey") or 3.0))}
    )


def _whole(value: float | int | None) -> int | None:
    return None if value is None else int(value)


def logistic() -> sw.Study:
    """A source whose moments need the rows themselves."""
    sources = {"clinic": sw.Source("x y", 2.0), "panel": sw.Source("x", 1.0)}
    return sw.Study(["y - logistic(a + b*x)", "x*(y - logistic(a + b*x))", "x - m"], "b*m", sources)


def people(n: int, seed: int, centre: float = 0.0) -> Rows:
    """Everything about n people, in whole numbers."""
    random = np.random.Generator(np.random.SFC64(seed))
    z, u, a, b = random.integers(-9, 10, (4, n)).astype(float)
    x = z + u + a + centre
    return {"z": z, "x": x, "y": x - centre + u + b}


def deal(spec: sw.Study, source: str, n: int, seed: int) -> Rows:
    everything = people(n, seed)
    if spec.target == "b*m":
        everything["x"], everything["y"] = everything["z"] / 8, (everything["y"] > 0).astype(float)
    return {name: everything[name] for name in spec.sources[source].observes}
