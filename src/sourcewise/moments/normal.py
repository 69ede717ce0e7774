"""What the variance of moments would be if the data were normal, and how far the data say that they are not.

Data terms are products of at most two atoms u = m + A z, z standard normal. In the orthonormal Hermite functions 1,
z_i, z_i z_j and (z_i² − 1)/√2 such a term is a short row of numbers, and the mean product of two terms is the product
of their rows: Isserlis' theorem without its sums over pairings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from sourcewise.moments.expand import Monomial
from sourcewise.numerics.linalg import Array, gram_factor, matmul, orthogonalize, solve_lower

PASSES = 50
"""Towards the implied normal law; one where the moments fix all means and covariances, a few more where not."""


@dataclass(frozen=True, slots=True)
class Hermite:
    """Data terms sorted by degree: the constant, then p atoms, then products of two (further ones are left out)."""

    atoms: int
    left: NDArray[np.int64]
    right: NDArray[np.int64]
    """Atoms of each product, as places among the atoms."""

    @classmethod
    def of(cls, terms: Sequence[Monomial]) -> Self:
        names = [term[0][0] for term in terms if degree(term) == 1]
        place = {name: k for k, name in enumerate(names)}
        pairs = [[place[atom] for atom, power in term for _ in range(power)] for term in terms if degree(term) == 2]
        left, right = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
        return cls(len(names), left, right)

    def root(self, mean: Array, factor: Array) -> Array:
        """L (1 + p + products, 1 + p + p(p+1)/2, B) with L Lᵀ the mean products of terms whose atoms are normal with
        `mean` m (p, B) and `factor` A (p, p, B) of their variance."""
        p, a, b = self.atoms, self.left, self.right
        first, second = np.triu_indices(p)
        weight = np.where(first == second, np.sqrt(0.5), 1.0)[:, None]
        root = np.zeros((1 + p + len(a), 1 + p + len(first), mean.shape[-1]))
        root[0, 0] = 1.0
        root[1 : 1 + p, 0], root[1 : 1 + p, 1 : 1 + p] = mean, factor
        root[1 + p :, 0] = mean[a] * mean[b] + np.einsum("qib,qib->qb", factor[a], factor[b])
        root[1 + p :, 1 : 1 + p] = mean[a][:, None] * factor[b] + mean[b][:, None] * factor[a]
        root[1 + p :, 1 + p :] = factor[a][:, first] * factor[b][:, second]
        root[1 + p :, 1 + p :] += factor[a][:, second] * factor[b][:, first]
        root[1 + p :, 1 + p :] *= weight
        return root

    def parts(self, rows: Array) -> tuple[Array, Array]:
        """Rows (M, p + p(p+1)/2, B) of coefficients as l (M, p, B) and symmetric Q (M, p, p, B): the functions
        lᵀz + zᵀQz − tr Q."""
        p = self.atoms
        first, second = np.triu_indices(p)
        quadratic = np.zeros((len(rows), p, p, rows.shape[-1]))
        half = rows[:, p:] * np.where(first == second, np.sqrt(0.5), 0.5)[:, None]
        quadratic[:, first, second] = quadratic[:, second, first] = half
        return rows[:, :p], quadratic


def degree(term: Monomial) -> int:
    return sum(power for _, power in term)


def fourth_moment(linear: Array, quadratic: Array) -> Array:
    """E‖w‖⁴ (B,) of uncorrelated w_m = l_mᵀz + zᵀQ_m z − tr Q_m of unit variance (or 0).

    E w_m² w_n² = 1 + 2 δ_mn + κ(w_m, w_m, w_n, w_n), a cumulant that is a sum of traces of products of four."""
    rank = np.einsum("mib,mib->b", linear, linear) + 2.0 * np.einsum("mijb,mijb->b", quadratic, quadratic)
    squares = np.einsum("mijb,mjkb->ikb", quadratic, quadratic)
    bent = np.einsum("mijb,mjb->ib", quadratic, linear)
    mixed = np.einsum("mib,mjkb->ijkb", linear, quadratic)
    found = rank**2 + 2.0 * rank + 32.0 * np.einsum("ijb,jib->b", squares, squares)
    found += 16.0 * np.einsum("ib,ib->b", bent, bent)
    found += 16.0 * np.einsum("mib,ijb,mjb->b", linear, squares, linear, optimize=True)
    found += 16.0 * np.einsum("ijkb,kijb->b", mixed, mixed)
    for row in quadratic.swapaxes(0, 1):  # all of Σ_m Q_m,ij Q_m,kl at once would be p⁴ numbers
        table = np.einsum("mjb,mklb->jklb", row, quadratic)
        found += 16.0 * np.einsum("jklb,ljkb->b", table, table)
    return np.asarray(found)


def shrinkage(terms: Hermite, sample: Array, normal: Array, rows: Array) -> Array:
    """λ (B,) in [0, 1]: how much of (1 − λ)·sample + λ·normal theory should be normal theory.

    `sample` and `normal` hold rows of the non-constant terms whose products are the two variances, `rows` is n. As
    Ledoit and Wolf (2004) shrink a covariance matrix: λ is the variance of the sample's entries over their squared
    distance from normal theory, in the coordinates in which normal theory is the identity. That variance takes eighth
    moments of the data, which no statistics hold; they are those of normal data, for the size of variance that the
    sample shows. So λ is near 1 until fourth moments differ from normal theory by more than chance alone would
    explain, and falls like 1/n after that.
    """
    axes = orthogonalize(normal)
    white = matmul(axes.inverse, sample)
    products = np.einsum("jkb,lkb->jlb", white, white)
    rank, size = axes.rank, np.einsum("jjb->b", products)
    distance = np.einsum("jlb,jlb->b", products, products) - 2.0 * size + rank
    spread = (fourth_moment(*terms.parts(axes.basis)) - rank) * (size / np.maximum(rank, 1)) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        share = spread / (rows * distance)
    return np.asarray(np.where(distance > 0, np.clip(share, 0.0, 1.0), 1.0))


@dataclass(frozen=True, slots=True)
class Implied:
    """The normal law nearest to the sample's under E g = 0, where the sample's has mean 0 and variance 1.

    `mean` is (p, B), `factor` (p, p, B) of its variance; where there is no such law, `exists` (B,) is False."""

    mean: Array
    factor: Array
    exists: NDArray[np.bool_]

    def discrepancy(self) -> Array:
        """Twice its divergence from the sample's law (B,): log |T| + tr T⁻¹ − p + mᵀT⁻¹m; infinite if there is none."""
        size = len(self.mean)
        eye = np.broadcast_to(np.eye(size)[..., None], self.factor.shape)
        inverse, mean = solve_lower(self.factor, eye), solve_lower(self.factor, self.mean)
        logs = 2.0 * np.log(np.einsum("iib->ib", self.factor)).sum(axis=0)
        found = logs + np.einsum("ijb,ijb->b", inverse, inverse) - size + np.einsum("ib,ib->b", mean, mean)
        return np.where(self.exists, np.maximum(found, 0.0), np.inf)


def implied(terms: Hermite, coefficients: Array, moments: Array, mean: Array, factor: Array) -> Implied:
    """The law under which C(θ)φ has expectation 0, for C (M, K, B) and its sample means ḡ = C φ̄ (M, B).

    Means of normal data answer to ḡ as in a regression, φ* = φ̄ − Cov(φ, g) Var(g)⁻¹ ḡ, with (co)variances of the law
    that is sought: a fixed point, reached at once where the moments leave no mean or covariance free.
    """
    p, batch = terms.atoms, moments.shape[1]
    one = np.broadcast_to(np.eye(p)[..., None], (p, p, batch))
    at, spread, exists = np.zeros((p, batch)), one, np.ones(batch, dtype=bool)
    for _ in range(PASSES):
        root = terms.root(mean + matmul(factor, at), matmul(factor, spread))
        axes = orthogonalize(matmul(coefficients, root[:, 1:]))
        shift = np.einsum("mkb,mb->kb", axes.basis, matmul(axes.inverse, moments))
        linear, quadratic = terms.parts(shift[None])
        # the sample, then the new law, in coordinates in which the last law is standard
        back, place = solve_lower(spread, one), -solve_lower(spread, at)
        second = np.einsum("ijb,kjb->ikb", back, back) + place[:, None] * place - 2.0 * quadratic[0]
        place = place - linear[0]
        last, at = at, at + matmul(spread, place)
        variance = matmul(matmul(spread, second - place[:, None] * place), spread.swapaxes(0, 1))
        before, spread = spread, gram_factor(np.moveaxis(0.5 * (variance + variance.swapaxes(0, 1)), -1, 0))
        exists &= np.isfinite(variance).all(axis=(0, 1)) & (np.einsum("iib->ib", spread) > 0).all(axis=0)
        at, spread = np.where(exists, at, 0.0), np.where(exists, spread, one)
        if axes.kept.all() and len(axes.kept) == len(shift):
            break
        if max(np.abs(at - last).max(), np.abs(spread - before).max()) <= 1e-12:
            break
    return Implied(at, spread, exists)
