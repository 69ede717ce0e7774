"""How the moments of several sources become the blocks of one objective.

*Stacked*: every source keeps its own copy of each moment it computes; sources are independent, so the weight is
block diagonal, one block a source. *Pooled* (the paper's): one block of M moments averaged over all rows, a moment
that a source cannot compute counting as zero in its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, Self

import numpy as np

from sourcewise.moments.base import Evidence, Variance
from sourcewise.moments.compiled import Integers
from sourcewise.numerics.linalg import DEPENDENT, Array

Stacking = Literal["stacked", "pooled"]


@dataclass(frozen=True, slots=True)
class Blocks:
    """The objective Σ_b mass_b · ḡ_bᵀ W_b ḡ_b over blocks b; masses (B,) are shares of rows."""

    evidence: Mapping[str, Evidence]
    stacking: Stacking
    errors: Variance
    centred: bool
    moments: int
    """Moments of the study, M."""
    weighing: Variance | None = None
    """The variance that weights invert, where it is not the one that standard errors are computed from."""

    @property
    def rows(self) -> Array:
        """T (B,)."""
        return np.asarray(sum(part.rows for part in self.evidence.values()))

    @property
    def names(self) -> tuple[str, ...]:
        """What each block is called: its source, or "all" when pooled."""
        return tuple(self.evidence) if self.stacking == "stacked" else ("all",)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Moments of each block."""
        if self.stacking == "pooled":
            return (self.moments,)
        return tuple(len(part.positions) for part in self.evidence.values())

    @property
    def weighed(self) -> Self:
        """The same moments with the variance that weights and designs see: about the mean where it is a model's."""
        return self if self.weighing is None else replace(self, errors=self.weighing, centred=True, weighing=None)

    @property
    def masses(self) -> list[Array]:
        total = self.rows
        if self.stacking == "pooled":
            return [np.ones_like(total)]
        return [part.rows / total for part in self.evidence.values()]

    def means_and_slopes(self, theta: Array) -> list[tuple[Array, Array]]:
        """ḡ_b (M_b, B) and ∂ḡ_b/∂θ (M_b, D, B)."""
        parts = [part.mean_and_slope(theta) for part in self.evidence.values()]
        if self.stacking == "stacked":
            return parts
        mean = np.zeros((self.moments, theta.shape[1]))
        slope = np.zeros((self.moments, *theta.shape))
        for part, (g, dg) in zip(self.evidence.values(), parts, strict=True):
            share = part.rows / self.rows
            places = list(part.positions)
            mean[places] += share * g
            slope[places] += share * dg
        return [(mean, slope)]

    def curvature(self, theta: Array, along: list[Array]) -> Array:
        """Σ along_b,j ∂²ḡ_b,j/∂θ∂θᵀ (D, D, B)."""
        if self.stacking == "stacked":
            parts = (part.curvature(theta, v) for part, v in zip(self.evidence.values(), along, strict=True))
            return np.asarray(sum(parts))
        total = self.rows
        shares = ((part, part.rows / total * along[0][list(part.positions)]) for part in self.evidence.values())
        return np.asarray(sum(part.curvature(theta, v) for part, v in shares))

    def factors(self, theta: Array) -> list[Array]:
        """A_b (M_b, K_b, B) with A_b A_bᵀ = Ω_b, about the mean if `centred`."""
        parts = [part.factor(theta, self.errors) for part in self.evidence.values()]
        if self.stacking == "stacked":
            return [_about_mean(part) if self.centred else part for part in parts]
        return [self._pool(parts)]

    def crosses(self, theta: Array, along: list[Array]) -> list[Array]:
        """Mean of ∂g/∂θ_d · (gᵀ along_b) (M_b, D, B), about the means if `centred`."""
        if self.stacking == "stacked":
            found = [part.cross(theta, v, self.errors) for part, v in zip(self.evidence.values(), along, strict=True)]
        else:
            total = np.zeros((self.moments, *theta.shape))
            for part in self.evidence.values():
                places = list(part.positions)
                total[places] += part.rows / self.rows * part.cross(theta, along[0][places], self.errors)
            found = [total]
        if self.centred:
            means = self.means_and_slopes(theta)
            found = [
                cross - slope * np.einsum("mb,mb->b", mean, v)
                for cross, (mean, slope), v in zip(found, means, along, strict=True)
            ]
        return found

    def factors_and_slopes(self, theta: Array) -> list[tuple[Array, Array]]:
        """A_b and Ȧ_b (D, M_b, K_b, B), where Ȧ_b,d A_bᵀ is the mean product of ∂g/∂θ_d and g."""
        parts = [part.factors(theta, self.errors) for part in self.evidence.values()]
        if self.stacking == "stacked":
            return [(a[:, 1:], slope[:, :, 1:]) if self.centred else (a, slope) for a, slope in parts]
        slopes = [self._pool([slope[d] for _, slope in parts]) for d in range(theta.shape[0])]
        return [(self._pool([a for a, _ in parts]), np.stack(slopes))]

    def _pool(self, parts: list[Array]) -> Array:
        """Sources side by side: their columns are independent pieces of the pooled variance."""
        columns = []
        roots = [np.sqrt(part.rows / self.rows) for part in self.evidence.values()]
        for part, root, rows in zip(self.evidence.values(), roots, parts, strict=True):
            spread = np.zeros((self.moments, *rows.shape[1:]))
            spread[list(part.positions)] = root * rows
            columns.append(spread)
        if self.centred:  # take the mean out of the first columns, which hold √κ_i ḡ_i
            firsts = np.stack([column[:, 0] for column in columns], axis=1)
            shares = np.stack(roots)
            mean = np.einsum("msb,sb->mb", firsts, shares)
            for k, column in enumerate(columns):
                column[:, 0] -= mean * shares[k]
            return _without_constants(np.concatenate(columns, axis=1), mean)
        return np.concatenate(columns, axis=1)

    def take(self, which: Integers) -> Self:
        """The problems at these positions."""
        narrowed = {name: part.take(which) for name, part in self.evidence.items()}
        return replace(self, evidence=narrowed)


def _about_mean(rows: Array) -> Array:
    """A factor (M, K, B) without its first column, which holds the means."""
    return _without_constants(rows[:, 1:], rows[:, 0])


def _without_constants(rows: Array, mean: Array) -> Array:
    """Exact zeros for a moment that is the same in all rows: what is left of it there are rounding errors, and their
    inverse would be a weight beyond all others."""
    with np.errstate(invalid="ignore"):
        constant = np.einsum("mkb,mkb->mb", rows, rows) <= (DEPENDENT * mean) ** 2
    return np.where(constant[:, None], 0.0, rows) if constant.any() else rows
