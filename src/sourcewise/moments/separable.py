"""Evidence from sums of products alone: ḡ, Ω and their derivatives without touching a row again."""

from __future__ import annotations

from functools import cached_property
from typing import Any, Self

import numpy as np

from sourcewise.errors import EstimationError
from sourcewise.moments.base import Variance
from sourcewise.moments.compiled import Coefficients, CompiledSource, Integers
from sourcewise.moments.normal import Hermite, Implied, degree, implied, shrinkage
from sourcewise.numerics.linalg import ROUNDING, Array, gram_factor, matmul, orthogonalize


class GramEvidence:
    """n and P = Σ φφᵀ of one source about fixed centres, for B problems."""

    def __init__(self, source: CompiledSource, rows: Array, gram: Array, centre: Array) -> None:
        """rows (B,), gram (B, K, K), centre (atoms, B) or (atoms, 1)."""
        assert source.separable is not None
        self._source = source
        self._forms = source.separable
        self._whole = gram
        self._which: Integers | None = None
        self._centre = centre
        self._seen: tuple[bytes, tuple[Array, Array]] = b"", (rows, rows)
        self.rows = rows

    @property
    def positions(self) -> tuple[int, ...]:
        return self._source.moments

    @cached_property
    def _gram(self) -> Array:
        """P (B, K, K), by far the largest of all: a search, which narrows its problems at every step, never asks."""
        return self._whole if self._which is None else self._whole[self._which]

    @cached_property
    def _means(self) -> Array:
        """φ̄ (K, B)."""
        return np.ascontiguousarray((self._gram[:, 0, :] / self.rows[:, None]).T)

    @cached_property
    def _root(self) -> Array:
        """L (K, K, B) with L Lᵀ = P/n; its first column is φ̄."""
        return gram_factor(self._gram / self.rows[:, None, None])

    @cached_property
    def _products(self) -> Array:
        """P/n (K, K, B)."""
        return np.moveaxis(self._gram / self.rows[:, None, None], 0, -1)

    @cached_property
    def _normal_terms(self) -> Hermite:
        forms, terms = self._forms.moments, self._source.terms
        for k in np.unique(forms.term):
            if degree(terms[k]) > 2:
                raise EstimationError(
                    f"normal theory needs moments that multiply at most two data terms; source {self._source.name!r} "
                    f"has {self._source.labels[k]}, so use weights='two-step' and errors='robust'"
                )
        return Hermite.of(terms)

    @cached_property
    def _normal_root(self) -> Array:
        """L (K, W, B) as `_root`, for normal data of the same means and covariances."""
        count = self._normal_terms.atoms
        return self._pad(self._normal_terms.root(*self._normal_law(count)))

    @cached_property
    def _shrunk_root(self) -> Array:
        """L (K, K, B) as `_root`, for the mixture of the two that `shrinkage` says."""
        terms, sample, normal = self._normal_terms, self._root, self._normal_root
        used = np.setdiff1d(np.unique(self._forms.moments.term), [0])
        used = np.union1d(used, np.arange(1, 1 + terms.atoms))
        share = shrinkage(terms, sample[used, 1:], normal[used, 1:], self.rows)
        parts = (np.sqrt(1.0 - share) * sample[:, 1:], np.sqrt(share) * normal[:, 1:])
        both = np.concatenate([self._means[:, None], *parts], axis=1)
        return gram_factor(np.einsum("jkb,lkb->bjl", both, both))

    def _normal_law(self, count: int) -> tuple[Array, Array]:
        """Means (p, B) of the atoms and a factor (p, p, B) of their variance: the first rows of a triangular root."""
        return self._root[1 : 1 + count, 0], self._root[1 : 1 + count, 1 : 1 + count]

    def _pad(self, root: Array) -> Array:
        """Rows of zeros for terms above degree 2, which no moment uses."""
        return np.pad(root, ((0, len(self._root) - len(root)), (0, 0), (0, 0)))

    def _root_of(self, errors: Variance) -> Array:
        match errors:
            case "normal":
                return self._normal_root
            case "shrunk":
                return self._shrunk_root
            case _:
                return self._root

    def _products_of(self, errors: Variance) -> Array:
        """L Lᵀ (K, K, B)."""
        if errors in ("robust", "homoskedastic"):
            return self._products
        root = self._root_of(errors)
        return np.asarray(np.einsum("jkb,lkb->jlb", root, root))

    def _implied(self, theta: Array) -> Implied:
        terms, mean = self._normal_terms, self.mean_and_slope(theta)[0]
        dense = self._dense(self._forms.moments, theta)[:, : 1 + terms.atoms + len(terms.left)]
        return implied(terms, dense, mean, *self._normal_law(terms.atoms))

    def _implied_root(self, theta: Array) -> Array:
        """L (K, W, B) as `_root`, for normal data under E g(θ) = 0."""
        law, (mean, factor) = self._implied(theta), self._normal_law(self._normal_terms.atoms)
        root = self._normal_terms.root(mean + matmul(factor, law.mean), matmul(factor, law.factor))
        return self._pad(root)

    def implied_slope(self, theta: Array) -> Array:
        forms, means = self._forms.moments, self._implied_root(theta)[:, 0]
        products = _stack(forms.slopes(self._inputs(theta)), theta.shape[1])
        products *= means[forms.both_terms]
        return _sums(forms, products, theta.shape[0])[1]

    def discrepancy(self, theta: Array) -> Array:
        return self._implied(theta).discrepancy()

    def take(self, which: Integers) -> Self:
        if len(self.rows) == 1:
            return self
        centre = self._centre if self._centre.shape[1] == 1 else self._centre[:, which]
        taken = type(self)(self._source, self.rows[which], self._whole, centre)
        taken._which = which if self._which is None else self._which[which]
        taken.__dict__["_means"] = np.take(self._means, which, axis=1)
        return taken

    def _inputs(self, theta: Array) -> list[Any]:
        """Scalars for one problem, arrays for many: the programs take both."""
        if theta.shape[1] == 1 and self._centre.shape[1] == 1:
            return [*theta[:, 0].tolist(), *self._centre[:, 0].tolist()]
        centres = self._centre[:, 0] if self._centre.shape[1] == 1 else self._centre
        return [*theta, *centres]

    def mean_and_slope(self, theta: Array) -> tuple[Array, Array]:
        # A fit of one problem asks again where its last search ended, a few times over.
        key = theta.tobytes() if theta.shape[1] == 1 else b""
        if key and key == self._seen[0]:
            return self._seen[1]
        forms = self._forms.moments
        products = _stack(forms.slopes(self._inputs(theta)), theta.shape[1])
        products *= self._means[forms.both_terms]
        found = _sums(forms, products, theta.shape[0])
        if key:
            self._seen = key, found
        return found

    def factor(self, theta: Array, errors: Variance) -> Array:
        if errors == "homoskedastic":
            halves = (self._forms.instrument, self._forms.residual)
            parts = (self._value_rows(part, theta, self._root) for part in halves)
            return _pair_columns(*(_narrow(part) for part in parts))
        if errors == "implied":
            return matmul(self._dense(self._forms.moments, theta), self._implied_root(theta))
        return self._value_rows(self._forms.moments, theta, self._root_of(errors))

    def cross(self, theta: Array, along: Array, errors: Variance) -> Array:
        second, forms = self._products_of(errors), self._forms.moments
        if errors == "homoskedastic":
            forms = self._forms.residual
            left = self._dense(self._forms.instrument, theta)
            pairs = np.einsum("jkb,mkb->jmb", matmul(left, second), left) * along  # E[q qᵀ]
            sums = np.einsum("jmb,mkb->jkb", pairs, self._dense(forms, theta))
            means = matmul(sums, second)[forms.slope_row, forms.slope_term]
        else:
            sums = np.einsum("mb,mkb->kb", along, self._dense(forms, theta))
            means = matmul(second, sums)[forms.slope_term]
        products = _stack(forms.slopes(self._inputs(theta)), theta.shape[1])
        products[len(forms.row) :] *= means
        return _sums(forms, products, theta.shape[0])[1]

    def curvature(self, theta: Array, along: Array) -> Array:
        bends = self._forms.moments.bends
        found = np.zeros((len(theta), *theta.shape))
        if len(bends.row):
            entries = _stack(bends.values(self._inputs(theta)), theta.shape[1])
            entries *= self._means[bends.term] * along[bends.row]
            sums = np.add.reduceat(entries, bends.starts, axis=0)
            found[bends.first, bends.second] = found[bends.second, bends.first] = sums
        return found

    def factors(self, theta: Array, errors: Variance) -> tuple[Array, Array]:
        if errors == "homoskedastic":
            left = _narrow(self._value_rows(self._forms.instrument, theta, self._root))
            right, slopes = self._all_rows(self._forms.residual, theta, self._root)
            both = _narrow(np.concatenate([right[None], slopes]).reshape(-1, *right.shape[1:]))
            parts = [_pair_columns(left, part) for part in both.reshape(-1, right.shape[0], *both.shape[1:])]
            return parts[0], np.stack(parts[1:])
        return self._all_rows(self._forms.moments, theta, self._root_of(errors))

    def _dense(self, forms: Coefficients, theta: Array) -> Array:
        """C (M, K, B)."""
        dense = np.zeros((*forms.shape, theta.shape[1]))
        dense[forms.row, forms.term] = _stack(forms.values(self._inputs(theta)), theta.shape[1])
        return dense

    def _value_rows(self, forms: Coefficients, theta: Array, root: Array) -> Array:
        """C L (M, K, B), exact zeros for a moment that neither the rows nor the parameters move, as when the column
        that all its terms share is zero in every row: its rounding errors would be inverted to a weight."""
        dense = self._dense(forms, theta)
        rows = matmul(dense, root)
        size = np.einsum("mkb,kb->mb", np.abs(dense), np.sqrt(np.einsum("kjb,kjb->kb", root, root)))
        faint = np.einsum("mkb,mkb->mb", rows, rows) <= (ROUNDING * size) ** 2
        if faint.any() and forms is self._forms.moments:
            pull = np.abs(self.mean_and_slope(theta)[1] * theta).sum(axis=1)
            rows[np.broadcast_to((faint & (pull <= ROUNDING * size))[:, None], rows.shape)] = 0.0
        return rows

    def _all_rows(self, forms: Coefficients, theta: Array, root: Array) -> tuple[Array, Array]:
        """C L (M, K, B) and (∂C/∂θ) L (D, M, K, B)."""
        dimension, batch = theta.shape
        entries = _stack(forms.slopes(self._inputs(theta)), batch)
        dense = np.zeros((1 + dimension, *forms.shape, batch))
        count = len(forms.row)
        dense[0, forms.row, forms.term] = entries[:count]
        dense[1 + forms.slope_parameter, forms.slope_row, forms.slope_term] = entries[count:]
        rows = matmul(dense.reshape(-1, forms.shape[1], batch), root)
        rows = rows.reshape(1 + dimension, forms.shape[0], *rows.shape[1:])
        return rows[0], rows[1:]


def _stack(values: list[Any], batch: int) -> Array:
    """Scalars and (B,) arrays as the rows of one array."""
    if batch == 1:
        return np.array(values, dtype=np.float64).reshape(len(values), 1)
    out = np.empty((len(values), batch))
    for k, value in enumerate(values):
        out[k] = value
    return out


def _sums(forms: Coefficients, products: Array, dimension: int) -> tuple[Array, Array]:
    """Products (entries of C, then of ∂C/∂θ) summed over data terms: (M, B) and (M, D, B)."""
    size, batch = forms.shape[0], products.shape[1]
    sums = np.zeros((size * (1 + dimension), batch))
    sums[forms.places] = np.add.reduceat(products, forms.starts, axis=0)
    return sums[:size], sums[size:].reshape(size, dimension, batch)


def _narrow(rows: Array) -> Array:
    """Rows with the same products among each other in no more columns than there are rows (or were columns)."""
    if rows.shape[0] >= rows.shape[1]:
        return rows
    basis = orthogonalize(rows).basis
    return np.stack([np.einsum("kb,mkb->mb", axis, rows) for axis in basis], axis=1)


def _pair_columns(left: Array, right: Array) -> Array:
    """Row-wise Kronecker product: its Gram matrix is the entrywise product of the two Gram matrices."""
    pairs = left[:, :, None] * right[:, None]
    return pairs.reshape(left.shape[0], -1, left.shape[2])
