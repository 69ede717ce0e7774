"""The models of the agreement matrix: data, moments, and the weights that other programs use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.sandbox.regression.tests as statsmodels_tests
from linearmodels.datasets import card as card_data
from linearmodels.datasets import mroz as mroz_data
from numpy.typing import NDArray

import sourcewise as sw

Array = NDArray[np.float64]
DATA = Path(__file__).resolve().parent / "data"


def inverse(matrix: Array) -> Array:
    return np.linalg.inv(matrix).astype(np.float64)


def one_source(frame: pd.DataFrame, moments: list[str], target: str) -> sw.Study:
    """A study whose only source, "data", observes every column of `frame`."""
    return sw.Study(moments=moments, target=target, sources={"data": sw.Source(list(frame.columns), cost=1.0)})


@dataclass(frozen=True, slots=True, eq=False)
class LinearModel:
    """An outcome on endogenous and exogenous regressors; every equation has an intercept.

    The target is the coefficient of the first endogenous regressor.
    """

    frame: pd.DataFrame
    outcome: str
    endogenous: tuple[str, ...]
    exogenous: tuple[str, ...]
    excluded: tuple[str, ...]

    @property
    def coefficients(self) -> tuple[str, ...]:
        """The parameters, in the order of the columns of `X`."""
        return tuple(f"b_{name}" for name in (*self.endogenous, *self.exogenous, "const"))

    def study(self) -> sw.Study:
        terms = " - ".join(f"b_{name}*{name}" for name in (*self.endogenous, *self.exogenous))
        residual = f"{self.outcome} - {terms} - b_const"
        moments = [f"{z}*({residual})" for z in (*self.excluded, *self.exogenous)]
        return one_source(self.frame, [*moments, residual], f"b_{self.endogenous[0]}")

    @property
    def y(self) -> Array:
        return self.frame[self.outcome].to_numpy(np.float64)

    @property
    def X(self) -> Array:
        """Regressors (n × D): endogenous, exogenous, intercept."""
        return self._with_intercept((*self.endogenous, *self.exogenous))

    @property
    def Z(self) -> Array:
        """Instruments (n × M) in the order of the study's moments."""
        return self._with_intercept((*self.excluded, *self.exogenous))

    def _with_intercept(self, names: tuple[str, ...]) -> Array:
        return np.column_stack([self.frame[list(names)].to_numpy(np.float64), np.ones(len(self.frame))])

    def first_weight(self) -> Array:
        """(Z'Z/n)⁻¹: with it, one step of GMM is two-stage least squares."""
        return inverse(self.Z.T @ self.Z / len(self.frame))

    def classical_weight(self, coefficients: Array) -> Array:
        """(σ̂² Z'Z/n)⁻¹ with σ̂² = e'e/n: with it, J is Sargan's statistic."""
        residual = self.y - self.X @ coefficients
        return self.first_weight() / float(residual @ residual / len(self.frame))

    def partialled_out(self) -> LinearModel:
        """The same target with the exogenous regressors and the intercept projected off every other column.

        The intercept that `study` adds is then zero in the data, so use `reduced_study` with the result.
        """
        kept = [self.outcome, *self.endogenous, *self.excluded]
        exogenous = self._with_intercept(self.exogenous)
        values = self.frame[kept].to_numpy(np.float64)
        left = values - exogenous @ np.linalg.lstsq(exogenous, values, rcond=None)[0]
        return LinearModel(pd.DataFrame(left, columns=kept), self.outcome, self.endogenous, (), self.excluded)

    def reduced_study(self) -> sw.Study:
        """One parameter, and one moment for each excluded instrument; for a model that is partialled out."""
        (x,) = self.endogenous
        return one_source(self.frame, [f"{z}*({self.outcome} - b_{x}*{x})" for z in self.excluded], f"b_{x}")


@cache
def griliches() -> LinearModel:
    """Griliches (1976): log wage on schooling and IQ, year dummies, four excluded instruments."""
    raw = pd.read_stata(os.path.join(os.path.dirname(statsmodels_tests.__file__), "griliches76.dta"))
    years = {f"year_{year}": (raw["year"] == year).astype(np.float64) for year in (67, 68, 69, 70, 71, 73)}
    exogenous = ("expr", "tenure", "rns", "smsa")
    excluded = ("med", "kww", "age", "mrt")
    # The file stores single precision; what Stata computed with is its exact conversion to double.
    frame = raw[["lw", "s", "iq", *exogenous, *excluded]].astype(np.float64).assign(**years)
    return LinearModel(frame, "lw", ("s", "iq"), (*exogenous, *years), excluded)


@cache
def card(*excluded: str) -> LinearModel:
    """Card (1995): log wage on education; college nearby as the excluded instruments."""
    regions = tuple(f"reg66{i}" for i in range(2, 10))
    exogenous = ("exper", "expersq", "black", "smsa", "south", "smsa66", *regions)
    frame = card_data.load()[["lwage", "educ", *exogenous, *excluded]].astype(np.float64)
    return LinearModel(frame, "lwage", ("educ",), exogenous, excluded)


@cache
def mroz() -> LinearModel:
    """Mroz: the 428 working women's log wage on education; their parents' education as instruments."""
    raw = mroz_data.load()
    exogenous, excluded = ("exper", "expersq"), ("motheduc", "fatheduc")
    columns = ["lwage", "educ", *exogenous, *excluded]
    frame = raw.loc[raw["inlf"] == 1, columns].astype(np.float64).reset_index(drop=True)
    return LinearModel(frame, "lwage", ("educ",), exogenous, excluded)


@cache
def euler() -> tuple[pd.DataFrame, Array, list[str]]:
    """Hansen and Singleton's Euler equation: the data, the instruments (n × 5) and the moments.

    Instruments are a constant and two lags of consumption growth and of the return. The exponent is α − 1.
    """
    series = pd.read_csv(DATA / "hall.csv").rename(columns={"consrat": "c", "ewr": "r"})
    lags = {f"{name}{k}": series[name].shift(k) for name in ("c", "r") for k in (1, 2)}
    frame = series.assign(**lags).dropna().reset_index(drop=True)
    error = "delta*r*exp((alpha - 1)*log(c)) - 1"
    instruments = np.column_stack([np.ones(len(frame)), frame[list(lags)].to_numpy(np.float64)])
    return frame, instruments, [error, *(f"{name}*({error})" for name in lags)]
