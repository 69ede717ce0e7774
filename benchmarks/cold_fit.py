"""From 10⁶ rows to two-step robust estimates, against other packages. The estimates have to be the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

import sourcewise as sw
from model import COEFFICIENTS, ROWS, Array, Result, cpu_seconds, instruments, regressors, simulate, study

Fitter = Callable[[dict[str, Array]], Array]


def by_sourcewise(data: dict[str, Array]) -> Array:
    """Estimates of COEFFICIENTS and the standard error of the first; two-stage least squares as the first step."""
    Z = instruments(data)
    weight: Array = np.linalg.inv(Z.T @ Z / len(Z)).astype(np.float64)
    fit = sw.fit(study(), {"data": data}, first_weight=weight)
    return np.array([*(fit.parameters[name].value for name in COEFFICIENTS), fit.target.stderr])


def by_linearmodels(data: dict[str, Array]) -> Array:
    from linearmodels.iv import IVGMM

    exogenous = np.column_stack([data["w"], data["v"], np.ones(len(data["y"]))])
    excluded = np.column_stack([data["z1"], data["z2"], data["z3"]])
    found = IVGMM(data["y"], exogenous, data["x"], excluded).fit()
    w, v, constant, x = found.params
    return np.array([x, w, v, constant, found.std_errors.iloc[3]])


def by_statsmodels(data: dict[str, Array], kind: str) -> Array:
    from statsmodels.sandbox.regression import gmm

    Z = instruments(data)
    model = getattr(gmm, kind)(data["y"], regressors(data), Z)
    found = model.fit(maxiter=2, inv_weights=Z.T @ Z / len(Z), optim_args={"disp": 0})
    return np.array([*found.params, found.bse[0]])


FITTERS: Mapping[str, tuple[Fitter, int, float]] = {
    "linearmodels IVGMM": (by_linearmodels, 2, 1e-8),
    "statsmodels IVGMM": (partial(by_statsmodels, kind="IVGMM"), 1, 1e-4),  # as near as its optimiser comes
    "statsmodels LinearIVGMM": (partial(by_statsmodels, kind="LinearIVGMM"), 3, 1e-8),
}


def seconds_of_others(data: dict[str, Array], expected: Array) -> dict[str, float]:
    """CPU seconds by package, once it is certain that all found the same."""
    seconds = {}
    for name, (fitter, repeats, tolerance) in FITTERS.items():
        np.testing.assert_allclose(fitter(data), expected, rtol=tolerance, err_msg=name)
        seconds[name] = cpu_seconds(partial(fitter, data), repeats)
    return seconds


def run() -> list[Result]:
    data = simulate(ROWS)
    expected = by_sourcewise(data)  # also loads, compiles and remembers what only the first fit has to
    ours = cpu_seconds(lambda: sw.fit(study(), {"data": data}).target.stderr, 5)
    rows = [(f"cold fit of {ROWS:,} rows", f"{1e3 * ours:.0f} ms", "")]
    for name, seconds in seconds_of_others(data, expected).items():
        rows.append((f"… {name} takes", f"{seconds / ours:.1f} × as long ({seconds:.2f} s)", "≥ 10"))
    return rows
