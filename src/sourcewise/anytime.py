"""Intervals that hold at all looks together: asymptotic confidence sequences (Waudby-Smith, Arbour, Sinha, Kennedy and
Ramdas 2021, after Robbins 1970), for an estimate from sources that are asked in a changing mix.

For t rows of variance σ² the sequence is θ̂ ± σ √[2(tρ² + 1)/(t²ρ²) · log(√(tρ² + 1)/α)]. A campaign has no single t: a
row of one source says more than a row of another, prices differ, and the mix moves. What takes the place of t/σ² is
the *information* I = 1/s², where s is the standard error of the target: with x = ρ²σ²·I the margin is

    s √[(x + 1)/x · log((x + 1)/α²)]

and x is all that depends on the clock. Why information is the right clock: write M_k for the information matrix of all
rows at look k, Σ n_i I_i. The error of the efficient estimate is ∇fᵀM_k⁻¹S_k with a score S_k of variance M_k, so for
looks j < k

    Cov(f̂_j, f̂_k) = ∇fᵀ M_j⁻¹ Cov(S_j, S_k) M_k⁻¹ ∇f = ∇fᵀ M_k⁻¹ ∇f = Var(f̂_k)      (Cov(S_j, S_k) = M_j)

*whatever the mixes were*. (f̂ − f)/s² therefore has the covariances of a Brownian motion at time I, for which Robbins'
mixture boundary is exact. Rows or money as the clock would need σ² to stay what it is, which it does not while the mix
goes from equal to best. Mixes chosen from the data make M_k random; by Proposition 2 of the paper κ converges, what
depends on the data vanishes beside M_k, and the statement stays true asymptotically. For a weight that is not efficient
the argument needs the mix to settle.

ρ is fixed before looking by `tightest_at`, the standard error at which the sequence is to be at its tightest, relative
to the interval for one look. A campaign stores it once and no amendment changes it.
"""

from __future__ import annotations

import math

from sourcewise.errors import EstimationError


def anytime_margin(stderr: float, tightest_at: float, level: float = 0.95) -> float:
    """Half the width of the interval at a look with this standard error."""
    if isinstance(level, bool) or not isinstance(level, int | float) or not 0.5 <= level < 1:
        raise EstimationError(f"an anytime interval's level must be 0.5 or more and below 1, not {level!r}")
    if isinstance(tightest_at, bool) or not isinstance(tightest_at, int | float) or not 0 < tightest_at < math.inf:
        raise EstimationError(f"tightest_at must be a standard error, finite and above 0, not {tightest_at!r}")
    if not 0 <= stderr < math.inf:
        return math.inf
    alpha = 1.0 - level
    x = best_clock(alpha) * (tightest_at / stderr) ** 2 if stderr > 0 else math.inf
    if not math.isfinite(x):
        return 0.0
    # With next to no information beside what is planned, (x + 1)/x overflows before the margin matters.
    return math.inf if x < 1e-300 else stderr * math.sqrt((x + 1.0) / x * (math.log1p(x) - 2.0 * math.log(alpha)))


def tightest_for(width: float, level: float = 0.95) -> float:
    """The standard error at which an anytime interval has this width, when it is to be at its tightest just there."""
    return 0.5 * width / anytime_margin(1.0, 1.0, level)


def best_clock(alpha: float) -> float:
    """The x at which the sequence is tightest, by the paper's formula: within 10⁻⁷ of the least margin for α ≤ 0.1."""
    from scipy.special import lambertw

    return float(-lambertw(-(alpha**2) * math.exp(alpha**2 - 1.0), -1).real - 1.0)
