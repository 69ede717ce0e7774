"""What the estimator asks of a source's data. Nothing above this interface knows how the data are kept."""

from __future__ import annotations

from typing import Literal, Protocol, Self

from sourcewise.moments.compiled import Integers
from sourcewise.numerics.linalg import Array

Errors = Literal["robust", "homoskedastic", "normal"]
"""How the variance of a moment is estimated: as it is; as instrument² times residual², the two unrelated; or as that of
normal data with the sample's means and covariances."""

Variance = Errors | Literal["shrunk", "implied"]
"""For weights, moreover: between "robust" and "normal", as far as the data are normal; and that of normal data with the
means and covariances that the parameters imply."""


class Evidence(Protocol):
    """The data of one source for B problems at once; θ is (D, B), M counts the source's moments.

    The data of a single problem serve any number of θ.
    """

    @property
    def positions(self) -> tuple[int, ...]:
        """Which of the study's moments these are."""

    @property
    def rows(self) -> Array:
        """Rows of each problem, (B,)."""

    def mean_and_slope(self, theta: Array) -> tuple[Array, Array]:
        """ḡ (M, B) and ∂ḡ/∂θ (M, D, B)."""

    def factor(self, theta: Array, errors: Variance) -> Array:
        """A (M, K, B) with A Aᵀ = Ω, the mean of g gᵀ. With robust errors the first column is ḡ."""

    def cross(self, theta: Array, along: Array, errors: Variance) -> Array:
        """Mean of ∂g_j/∂θ_d · (gᵀ along), (M, D, B), for along (M, B)."""

    def factors(self, theta: Array, errors: Variance) -> tuple[Array, Array]:
        """A, and Ȧ (D, M, K, B) in the same basis: Ȧ_d Aᵀ is the mean of (∂g/∂θ_d) gᵀ."""

    def curvature(self, theta: Array, along: Array) -> Array:
        """Σ_j along_j ∂²ḡ_j/∂θ∂θᵀ, (D, D, B), for along (M, B)."""

    def implied_slope(self, theta: Array) -> Array:
        """∂E g/∂θ (M, D, B) for normal data under E g(θ) = 0."""

    def discrepancy(self, theta: Array) -> Array:
        """Twice the loss (B,) of normal log-likelihood per row under E g(θ) = 0, against no restriction at all."""

    def take(self, which: Integers) -> Self:
        """The problems at these positions."""
