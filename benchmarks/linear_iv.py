"""The linear IV model that several benchmarks share: data, study, and the same fit by other packages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

import sourcewise as sw

Array = NDArray[np.float64]
ROWS = 1_000_000
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


def by_sourcewise(data: dict[str, Array]) -> Array:
    """Estimates of COEFFICIENTS and the standard error of the first, two-step with 2SLS as the first step."""
    Z = instruments(data)
    fit = sw.fit(study(), {"data": data}, first_weight=np.linalg.inv(Z.T @ Z / len(Z)))
    return np.array([*(fit.parameters[name].value for name in COEFFICIENTS), fit.target.stderr])


def by_linearmodels(data: dict[str, Array]) -> Array:
    from linearmodels.iv import IVGMM

    exogenous = np.column_stack([data["w"], data["v"], np.ones(len(data["y"]))])
    excluded = np.column_stack([data["z1"], data["z2"], data["z3"]])
    found = IVGMM(data["y"], exogenous, data["x"], excluded).fit()
    w, v, constant, x = found.params
    return np.array([x, w, v, constant, found.std_errors.iloc[3]])


def by_statsmodels(data: dict[str, Array]) -> Array:
    from statsmodels.sandbox.regression.gmm import LinearIVGMM

    Z = instruments(data)
    model = LinearIVGMM(data["y"], regressors(data), Z)
    found = model.fit(maxiter=2, inv_weights=Z.T @ Z / len(Z), optim_args={"disp": 0})
    return np.array([*found.params, found.bse[0]])
