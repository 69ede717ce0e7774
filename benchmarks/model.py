"""The linear IV model that two benchmarks share: data, study, and the stopwatch."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

import sourcewise as sw

Array = NDArray[np.float64]
ROWS = 1_000_000
Result = tuple[str, str, str]
"""What was measured, the figure, the bar."""
COEFFICIENTS = ("b_x", "b_w", "b_v", "b_0")


def simulate(rows: int, seed: int = 0) -> dict[str, Array]:
    """One endogenous regressor (x), two exogenous (w, v), three excluded instruments; heteroskedastic errors."""
    random = np.random.default_rng(seed)
    w, v, z1, z2, z3, u, e, f = random.standard_normal((8, rows))
    x = 0.4 * z1 + 0.3 * z2 + 0.2 * z3 + 0.5 * w + u + e
    y = 1.0 + 0.8 * x - 0.5 * w + 0.3 * v + u + (1.0 + 0.3 * z1 * z1) * f
    return {"y": y, "x": x, "w": w, "v": v, "z1": z1, "z2": z2, "z3": z3}


def study() -> sw.Study:
    residual = "y - b_x*x - b_w*w - b_v*v - b_0"
    moments = [f"{z}*({residual})" for z in ("z1", "z2", "z3", "w", "v")]
    source = sw.Source("y x w v z1 z2 z3", cost=1.0)
    return sw.Study(moments=[*moments, residual], target="b_x", sources={"data": source})


def regressors(data: dict[str, Array]) -> Array:
    return np.column_stack([data["x"], data["w"], data["v"], np.ones(len(data["y"]))])


def instruments(data: dict[str, Array]) -> Array:
    return np.column_stack([data[name] for name in ("z1", "z2", "z3", "w", "v")] + [np.ones(len(data["y"]))])


def cpu_seconds(task: Callable[[], object], repeats: int) -> float:
    """CPU time of the fastest of several runs: what the machine does besides can only add to it."""
    best = float("inf")
    for _ in range(repeats):
        began = time.process_time()
        task()
        best = min(best, time.process_time() - began)
    return best
