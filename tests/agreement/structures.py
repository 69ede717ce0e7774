"""Covariance structures: latent variables, their indicators, and the weights of SEM programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pandas as pd

import sourcewise as sw
from agreement.models import DATA, Array, inverse, one_source


@dataclass(frozen=True, slots=True, eq=False)
class Structure:
    """Latent variables in causal order, their indicators, regressions among them, and residual covariances.

    `frame` holds the indicators about their sample means. A latent variable's first indicator has loading 1.
    Latent variables without a regression covary freely. The moments are x_a·x_b − Σ_ab(θ) for a ≤ b.
    """

    frame: pd.DataFrame
    indicators: Mapping[str, tuple[str, ...]]
    target: str
    regressions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    residuals: frozenset[frozenset[str]] = frozenset()

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Positions (a, b), a ≤ b, in the order of the moments."""
        size = len(self.frame.columns)
        return [(a, b) for a in range(size) for b in range(a, size)]

    def study(self) -> sw.Study:
        latent = self._latent_covariances()
        of = {x: f for f, names in self.indicators.items() for x in names}
        names = list(self.frame.columns)
        moments = []
        for a, b in self.pairs:
            x, w = names[a], names[b]
            loadings = [f"l_{v}" for v in (x, w) if v != self.indicators[of[v]][0]]
            implied = "*".join([*loadings, f"({latent[of[x], of[w]]})"])
            own = x == w or frozenset((x, w)) in self.residuals
            moments.append(f"{x}*{w} - {implied}" + (f" - e_{x}_{w}" if own else ""))
        return one_source(self.frame, moments, self.target)

    def _latent_covariances(self) -> dict[tuple[str, str], str]:
        """The covariance of every pair of latent variables as an expression, built along the causal order."""
        cov: dict[tuple[str, str], str] = {}
        for position, f in enumerate(self.indicators):
            causes = self.regressions.get(f, ())
            for g in list(self.indicators)[:position]:
                through = " + ".join(f"r_{f}_{c}*({cov[c, g]})" for c in causes)
                cov[f, g] = cov[g, f] = through or f"p_{g}_{f}"
            own = [f"r_{f}_{c}*({cov[c, f]})" for c in causes]
            cov[f, f] = " + ".join([*own, f"p_{f}"])
        return cov

    def sample(self) -> Array:
        """The sample covariance, divided by n."""
        x = self.frame.to_numpy(np.float64)
        return np.asarray(x.T @ x / len(x))

    def implied(self, values: Mapping[str, float]) -> Array:
        """Σ(θ) by matrices, without the expressions of `study`."""
        latents, names = list(self.indicators), list(self.frame.columns)
        loading = np.zeros((len(names), len(latents)))
        for j, f in enumerate(latents):
            for x in self.indicators[f]:
                loading[names.index(x), j] = values.get(f"l_{x}", 1.0)
        effect = np.array([[values.get(f"r_{f}_{c}", 0.0) for c in latents] for f in latents])
        shock = np.array([[values.get(f"p_{f}_{g}", 0.0) for g in latents] for f in latents])
        shock = shock + shock.T + np.diag([values[f"p_{f}"] for f in latents])
        error = np.array([[values.get(f"e_{x}_{w}", 0.0) for w in names] for x in names])
        error = error + error.T - np.diag(np.diag(error))
        total = loading @ np.linalg.inv(np.eye(len(latents)) - effect)
        return np.asarray(total @ shock @ total.T + error)

    def start(self) -> dict[str, float]:
        """Half of each variance is noise, every loading is 1, nothing covaries: no estimate is put in."""
        variance = dict(zip(self.frame.columns, np.diag(self.sample()), strict=True))
        values = dict.fromkeys(self.study().parameters, 0.0)
        values |= {name: 1.0 for name in values if name.startswith("l_")}
        values |= {f"e_{x}_{x}": 0.5 * v for x, v in variance.items()}
        return values | {f"p_{f}": 0.5 * variance[names[0]] for f, names in self.indicators.items()}

    def normal_weight(self, covariance: Array) -> Array:
        """The inverse of the variance that x_a·x_b would have if x were normal with this covariance."""
        a, b = np.array(self.pairs).T
        c = covariance
        return inverse(c[np.ix_(a, a)] * c[np.ix_(b, b)] + c[np.ix_(a, b)] * c[np.ix_(b, a)])

    def empirical_weight(self) -> Array:
        """The inverse of the variance that x_a·x_b has in the sample: Browne's distribution-free weight."""
        a, b = np.array(self.pairs).T
        x = self.frame.to_numpy(np.float64)
        return inverse(np.cov((x[:, a] * x[:, b]).T, bias=True))

    def likelihood_ratio(self, values: Mapping[str, float]) -> float:
        """n times the maximum-likelihood discrepancy, the chi-square that lavaan prints for ML."""
        sample, implied = self.sample(), self.implied(values)
        logs = np.linalg.slogdet(implied)[1] - np.linalg.slogdet(sample)[1]
        gap = logs + np.trace(sample @ np.linalg.inv(implied)) - len(sample)
        return float(len(self.frame) * gap)


def _centred(name: str) -> pd.DataFrame:
    frame = pd.read_csv(DATA / name).astype(np.float64)
    return frame - frame.mean()


@cache
def ability() -> Structure:
    """Holzinger and Swineford: three correlated factors with three tests each."""
    tests = {"visual": ("x1", "x2", "x3"), "textual": ("x4", "x5", "x6"), "speed": ("x7", "x8", "x9")}
    return Structure(_centred("ability.csv"), tests, target="l_x2")


@cache
def democracy() -> Structure:
    """Bollen: industrialisation 1960 → democracy 1960 → democracy 1965, with six residual covariances."""
    indicators = {
        "ind60": ("x1", "x2", "x3"),
        "dem60": ("y1", "y2", "y3", "y4"),
        "dem65": ("y5", "y6", "y7", "y8"),
    }
    pairs = ("y1 y5", "y2 y4", "y2 y6", "y3 y7", "y4 y8", "y6 y8")
    return Structure(
        _centred("democracy.csv"),
        indicators,
        target="r_dem60_ind60",
        regressions={"dem60": ("ind60",), "dem65": ("ind60", "dem60")},
        residuals=frozenset(frozenset(pair.split()) for pair in pairs),
    )
