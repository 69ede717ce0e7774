"""The generalised method of moments written out plainly: rows, NumPy and SciPy, one problem at a time.

It shares no code with the package. Moments are Python functions of θ that return one row of numbers a row of data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Part:
    """One source: which moments it computes, and their values (n, m) at θ."""

    positions: Sequence[int]
    moments: Callable[[Array], Array]


@dataclass(frozen=True)
class Plain:
    """Everything by its textbook formula."""

    parts: Sequence[Part]
    count: int
    pooled: bool = False
    centred: bool = False

    def tables(self, theta: Array) -> list[Array]:
        """Moments by row, one table a block; pooled, a moment is zero in rows that cannot compute it."""
        found = [part.moments(theta) for part in self.parts]
        if not self.pooled:
            return found
        padded = []
        for part, table in zip(self.parts, found, strict=True):
            wide = np.zeros((len(table), self.count))
            wide[:, part.positions] = table
            padded.append(wide)
        return [np.vstack(padded)]

    def variances(self, theta: Array) -> list[Array]:
        return [self._variance(table) for table in self.tables(theta)]

    def _variance(self, table: Array) -> Array:
        if self.centred:
            table = table - table.mean(axis=0)
        return np.asarray(table.T @ table / len(table))

    def weights(self, theta: Array, ridge: float = 0.0) -> list[Array]:
        return [np.linalg.inv(omega + ridge * np.eye(len(omega))).astype(np.float64) for omega in self.variances(theta)]

    def residual(self, theta: Array, weights: Sequence[Array]) -> Array:
        tables = self.tables(theta)
        rows = sum(map(len, tables))
        pieces = [
            np.sqrt(len(table) / rows) * np.linalg.cholesky(weight).T @ table.mean(axis=0)
            for table, weight in zip(tables, weights, strict=True)
        ]
        return np.concatenate(pieces)

    def identity(self) -> list[Array]:
        return [np.eye(table.shape[1]) for table in self.tables(np.zeros(20))]

    def solve(self, start: Array, weights: Sequence[Array]) -> Array:
        return minimum(lambda theta: self.residual(theta, weights), start)

    def two_step(self, start: Array, ridge: float = 0.0) -> Array:
        first = self.solve(start, self.identity())
        return self.solve(first, self.weights(first, ridge))

    def iterated(self, start: Array) -> Array:
        theta = self.two_step(start)
        for _ in range(300):
            last, theta = theta, self.solve(theta, self.weights(theta))
            if np.abs(theta - last).max() < 1e-13 * np.abs(theta).max():
                break
        return theta

    def updated(self, start: Array) -> Array:
        return minimum(lambda theta: self.residual(theta, self.weights(theta)), self.two_step(start))

    def slopes(self, theta: Array) -> list[Array]:
        """∂ḡ/∂θ (M, D) of each block, by central differences."""
        columns = []
        for d in range(len(theta)):
            step = np.zeros_like(theta)
            step[d] = 1e-5 * max(1.0, abs(theta[d]))
            up, down = self.tables(theta + step), self.tables(theta - step)
            columns.append([(u - v).mean(axis=0) / (2 * step[d]) for u, v in zip(up, down, strict=True)])
        return [np.column_stack(list(block)) for block in zip(*columns, strict=True)]

    def sandwich(self, theta: Array, weights: Sequence[Array]) -> Array:
        """(G'WG)⁻¹ G'WΩWG (G'WG)⁻¹ / T with G, W, Ω block by block."""
        sizes = [len(table) for table in self.tables(theta)]
        shares = [size / sum(sizes) for size in sizes]
        parts = list(zip(shares, self.slopes(theta), weights, self.variances(theta), strict=True))
        bread = np.linalg.inv(sum(k * g.T @ w @ g for k, g, w, _ in parts))
        meat = sum(k * g.T @ w @ omega @ w @ g for k, g, w, omega in parts)
        return np.asarray(bread @ meat @ bread / sum(sizes))

    def statistic(self, theta: Array, weights: Sequence[Array]) -> float:
        rows = sum(len(table) for table in self.tables(theta))
        return float(rows * np.sum(self.residual(theta, weights) ** 2))


def minimum(residual: Callable[[Array], Array], start: Array) -> Array:
    """SciPy's least squares to its last digit, twice: it stops early near a flat bottom."""
    options: Any = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-15, "x_scale": "jac", "jac": "3-point", "max_nfev": 2000}
    once = least_squares(residual, start, **options)
    return np.asarray(least_squares(residual, once.x, **options).x)
