"""Evidence from rows, for moments in which data and parameters cannot be told apart (a logit score, say)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Self

import numpy as np

from sourcewise.errors import EstimationError
from sourcewise.moments.base import Variance
from sourcewise.moments.compiled import CompiledSource, Integers
from sourcewise.numerics.linalg import Array, gram_factor

BLOCK = 8192
"""Rows at a time: intermediate columns stay in cache."""


class RowEvidence:
    """The rows of one source: an array (variables, n) for each of B problems."""

    def __init__(self, source: CompiledSource, tables: Sequence[Array]) -> None:
        self._source = source
        self._tables = tables
        self.rows = np.array([table.shape[1] for table in tables], dtype=np.float64)

    @property
    def positions(self) -> tuple[int, ...]:
        return self._source.moments

    def take(self, which: Integers) -> Self:
        if len(self._tables) == 1:
            return self
        return type(self)(self._source, [self._tables[b] for b in which])

    def mean_and_slope(self, theta: Array) -> tuple[Array, Array]:
        size, dimension = len(self.positions), theta.shape[0]
        means = self._means(theta, lambda block, b: block.sum(axis=1))
        return means[:size], means[size:].reshape(size, dimension, -1)

    def cross(self, theta: Array, along: Array, errors: Variance) -> Array:
        self._refuse_model(errors)
        size = len(self.positions)
        means = self._means(theta, lambda block, b: block[size:] @ (along[:, b] @ block[:size]))
        return means.reshape(size, *theta.shape)

    def curvature(self, theta: Array, along: Array) -> Array:
        """From differences of exact slopes."""
        here = self.mean_and_slope(theta)[1]
        found = []
        for d in range(len(theta)):
            moved = theta.copy()
            moved[d] += 1e-6 * (1.0 + np.abs(theta[d]))
            change = (self.mean_and_slope(moved)[1] - here) / (moved[d] - theta[d])
            found.append(np.einsum("jdb,jb->db", change, along))
        both = np.stack(found)
        return np.asarray(0.5 * (both + both.swapaxes(0, 1)))

    def factor(self, theta: Array, errors: Variance) -> Array:
        return self._rows(theta, errors, len(self.positions))

    def factors(self, theta: Array, errors: Variance) -> tuple[Array, Array]:
        size, dimension = len(self.positions), theta.shape[0]
        rows = self._rows(theta, errors, size * (1 + dimension))
        slopes = rows[size:].reshape(size, dimension, *rows.shape[1:])
        return rows[:size], slopes.swapaxes(0, 1)

    def _rows(self, theta: Array, errors: Variance, count: int) -> Array:
        """Factor (count, count + 1, B) of the mean products of the first `count` formulas; first column the means."""
        self._refuse_model(errors)

        def products(block: Array, _: int) -> Array:
            table = np.vstack([np.ones(block.shape[1]), block[:count]])
            return np.asarray(table @ table.T)

        return gram_factor(np.moveaxis(self._means(theta, products), -1, 0))[1:]

    def _means(self, theta: Array, total: Callable[[Array, int], Array]) -> Array:
        """Mean over rows of what `total` sums over a block, for each θ: (..., B)."""
        found = []
        for b in range(theta.shape[1]):
            problem = b if len(self._tables) > 1 else 0
            sums = sum(total(block, b) for block in self._blocks(problem, theta[:, b]))
            found.append(sums / self.rows[problem])
        return np.stack(found, axis=-1)

    def implied_slope(self, theta: Array) -> Array:
        self._refuse_model("implied")
        return self.mean_and_slope(theta)[1]

    def discrepancy(self, theta: Array) -> Array:
        self._refuse_model("implied")
        return np.full(theta.shape[1], np.nan)

    def _refuse_model(self, errors: Variance) -> None:
        if errors != "robust":
            what = "errors='homoskedastic'" if errors == "homoskedastic" else "normal theory"
            raise EstimationError(
                f"{what} needs moments in which data and parameters separate; source {self._source.name!r} has others, "
                f"so use errors='robust' and weights='two-step'"
            )

    def _blocks(self, problem: int, theta: Array) -> Iterator[Array]:
        """Moments, then their derivatives (moment-major), of up to BLOCK rows at a time: (M + M D, rows)."""
        table = self._tables[problem]
        for start in range(0, table.shape[1], BLOCK):
            columns = table[:, start : start + BLOCK]
            values = self._source.rowwise([*theta, *columns])
            yield np.vstack([np.broadcast_to(value, columns.shape[1:]) for value in values])
