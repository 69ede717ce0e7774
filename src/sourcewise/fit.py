"""`fit`: the one call from a study and its data to an estimate."""

from __future__ import annotations

import math
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, cast, get_args

import numpy as np

from sourcewise.errors import DataError, EstimationError
from sourcewise.estimation.blocks import Blocks, Stacking
from sourcewise.estimation.gmm import EFFICIENT, MODELLED, RIDGED, Scheme, Settings, estimate
from sourcewise.estimation.weights import WeightMatrix, fixed_weight, scaled_weight
from sourcewise.inference import Covariance, infer
from sourcewise.moments.base import Errors
from sourcewise.moments.compiled import CompiledStudy, compile_study
from sourcewise.numerics.linalg import Array
from sourcewise.results import Fit
from sourcewise.spec.study import WEIGHTS, Study
from sourcewise.statistics.frames import Missing
from sourcewise.statistics.summarize import evidence_of


def fit(
    study: Study,
    data: Mapping[str, object],
    *,
    stacking: Stacking = "stacked",
    weights: str | WeightMatrix | None = None,
    ridge: float = 0.0,
    first_weight: WeightMatrix | None = None,
    centred: bool = False,
    errors: Errors = "robust",
    covariance: Covariance = "robust",
    start: Mapping[str, float] | None = None,
    missing: Missing = "error",
    max_iterations: int = 100,
    seed: int = 0,
) -> Fit:
    """Estimate the target of `study` from `data`: for each source a frame, a file's path, or its `Statistics`.

    stacking: "stacked" gives every source its own copy of each moment; "pooled" averages a moment over all rows.
    weights: "two-step" (efficient, computed at a first estimate), "iterated", "cue" (continuously updated), "normal"
        (the variance that normal data with these means and covariances would have), "shrunk" (between the sample's
        variance and that, as far as the data are normal), "ml" (normal maximum likelihood), "identity", or a matrix
        (for stacked sources one a source, by name) that is used as it is; by default what the study says, which is
        "two-step" unless it was given others.
    ridge: adds this number to the diagonal of the moments' variance before it is inverted.
    first_weight: weight of the first step; the identity by default.
    centred: take the moments' variance about their sample means.
    errors: "robust"; "homoskedastic": instrument and residual of a moment are unrelated in their squares; or "normal":
        moments vary as those of normal data do.
    covariance: "robust" for any weight; "windmeijer" adds the error of the estimated weight in small samples;
        "model" trusts the weight to be the inverse of the moments' variance.
    start: starting values by parameter; they override those of the study.
    missing: "error" refuses rows with missing values, "drop" leaves them out and counts them.
    """
    if not isinstance(study, Study):
        raise EstimationError(f"fit needs a Study(...) first, not {type(study).__name__}")
    weights = study.weights if weights is None else weights
    _check_choices(stacking=stacking, errors=errors, covariance=covariance)
    _check_numbers(ridge, centred, max_iterations, seed)
    _check_combination(weights, ridge, first_weight, centred, errors, covariance)
    compiled = compile_study(study)
    gathered = _gather(study, compiled, data, missing)
    evidence = {name: part for name, (part, _) in gathered.items()}
    scheme = cast(Scheme, weights) if isinstance(weights, str) else "fixed"
    blocks = Blocks(evidence, stacking, errors, centred, len(study.moments), MODELLED.get(scheme))
    first = first_weight if isinstance(weights, str) else weights
    settings = Settings(scheme, float(ridge), first, int(max_iterations), int(seed))
    given = _starting_values(compiled, start)
    with np.errstate(all="ignore"):
        found = estimate(study, compiled, blocks, settings, given)
        efficient = scheme in EFFICIENT and ridge == 0
        step = None
        if covariance == "windmeijer":
            own = study.model is not None and first is None
            step = scaled_weight(blocks, found.first) if own else fixed_weight(blocks, first)
        inference = infer(compiled, blocks, found, covariance, step, efficient)
    described = {
        "stacking": stacking,
        "weights": scheme,
        "ridge": float(ridge),
        "centred": centred,
        "errors": errors,
        "covariance": covariance,
    }
    kept = {name: statistics for name, (_, statistics) in gathered.items()}
    return Fit(study, kept, described, compiled, blocks, found, inference, efficient)


def _gather(study: Study, compiled: CompiledStudy, data: Mapping[str, object], missing: Missing) -> dict[str, Any]:
    if not isinstance(data, Mapping) or not data:
        raise DataError("fit needs data by source: {'name of a source': frame, path or Statistics, ...}")
    for name in data:
        if name not in study.sources:
            raise DataError(f"there is no source {name!r}; the study's sources are {', '.join(study.sources)}")
        if name not in compiled.sources:
            raise DataError(f"source {name!r} computes no moment of this study; leave its data out")
    return {name: evidence_of(study, name, data[name], missing) for name in compiled.sources if name in data}


def _starting_values(compiled: CompiledStudy, start: Mapping[str, float] | None) -> Array:
    values = compiled.start.copy()
    if start is not None and not isinstance(start, Mapping):
        raise EstimationError(f"start must give values by parameter, {{'alpha': 1.0}}, not {start!r}")
    for name, value in (start or {}).items():
        if name not in compiled.parameters:
            raise EstimationError(f"start names {name!r}; the parameters are {', '.join(compiled.parameters)}")
        k = compiled.parameters.index(name)
        number = isinstance(value, Real) and math.isfinite(value)
        if not number or not compiled.lower[k] <= value <= compiled.upper[k]:
            raise EstimationError(
                f"start gives {name!r} the value {value!r}; it must be a finite number within "
                f"[{compiled.lower[k]:g}, {compiled.upper[k]:g}]"
            )
        values[k] = value
    return values[:, None]


def _check_choices(**given: str) -> None:
    allowed: dict[str, tuple[str, ...]] = {
        "stacking": get_args(Stacking),
        "errors": get_args(Errors),
        "covariance": get_args(Covariance),
    }
    for option, value in given.items():
        if value not in allowed[option]:
            choices = ", ".join(map(repr, allowed[option]))
            raise EstimationError(f"{option} must be one of {choices}, not {value!r}")


def _check_numbers(ridge: object, centred: object, max_iterations: object, seed: object) -> None:
    if isinstance(ridge, bool) or not isinstance(ridge, Real) or not 0 <= float(ridge) < math.inf:
        raise EstimationError(f"ridge must be a finite number, 0 or more, not {ridge!r}")
    if not isinstance(centred, bool):
        raise EstimationError(f"centred must be True or False, not {centred!r}")
    for option, value, least in (("max_iterations", max_iterations, 1), ("seed", seed, 0)):
        if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
            raise EstimationError(f"{option} must be a whole number, {least} or more, not {value!r}")


def _check_combination(
    weights: object, ridge: float, first_weight: object, centred: bool, errors: str, covariance: str
) -> None:
    if isinstance(weights, str) and weights not in WEIGHTS:
        raise EstimationError(f"weights must be one of {', '.join(map(repr, WEIGHTS))} or a matrix, not {weights!r}")
    if ridge and not (isinstance(weights, str) and weights in RIDGED):
        raise EstimationError(f"ridge changes the weight of weights={' and '.join(map(repr, RIDGED))} only")
    if first_weight is not None and (not isinstance(weights, str) or weights == "identity"):
        raise EstimationError("first_weight is for weights that have a second step; pass the matrix itself as weights=")
    if covariance == "windmeijer" and weights != "two-step":
        raise EstimationError("covariance='windmeijer' corrects two-step estimates; it needs weights='two-step'")
    if centred and errors == "homoskedastic":
        raise EstimationError("centred=True has no meaning with errors='homoskedastic'; choose one of them")
