"""An estimate may depend on what the data say, and on nothing else.

Not on the order of rows, the batches in which they came, the order of moments and sources, the names and units of
variables, or the kind of table. Differences are judged in the units that matter: estimates by their standard error,
covariances as correlations, J beside 1 + J.

Where only rounding differs (order, batches, names), it is a few eps times the condition of the moments, about 1e-14;
ROUNDING leaves it room. Units are harder. First, the identity as first weight compares moments of different units, so
an over-identified two-step estimate rightly depends on them; iterated weights do not, and just-identified moments
leave the weight nothing to say. Second, iterating stops at changes below 1e-8 of the noise, so two iterations agree
to a small multiple of that: UNITS (measured: 3e-9, and 1e-10 where nothing is iterated). Third, the instrument of a
slope loses digits far from its origin; the test of that says how many.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sourcewise as sw
from strategies import Array

Data = dict[str, dict[str, Array]]

ROUNDING = 1e-12
UNITS = 1e-8
ROWS = 500

few = settings(max_examples=12, derandomize=True, deadline=None)
seeds = st.integers(0, 2**32 - 1)

OVERIDENTIFIED = [
    "x - c - alpha*z",
    "z*(x - c - alpha*z)",
    "w*(x - c - alpha*z)",
    "y - d - alpha*beta*z",
    "z*(y - d - alpha*beta*z)",
    "w*(y - d - alpha*beta*z)",
]
EXACT = [moment for moment in OVERIDENTIFIED if not moment.startswith("w")]
SOURCES = {"registry": sw.Source("z w x", cost=1.0), "survey": sw.Source("w y z", cost=3.0)}
STUDIES = {
    "exactly identified": sw.Study(EXACT, "beta", SOURCES),
    "over-identified": sw.Study(OVERIDENTIFIED, "beta", SOURCES),
}
SCORE = sw.Study(["v - logistic(a + b*z)", "z*(v - logistic(a + b*z))"], "b", {"only": sw.Source("v z")})
both_studies = pytest.mark.parametrize("study", STUDIES.values(), ids=STUDIES)


def data(seed: int, rows: int = ROWS) -> Data:
    """Two samples of one population, in which x depends on z, and y on x."""
    rng = np.random.default_rng(seed)
    frames = {}
    for name in SOURCES:
        z, w, u, e, f = rng.normal(size=(5, rows))
        x = 2.0 + z + u + e
        seen = {"x": x, "y": 1.0 + 0.5 * x + u + f, "z": z + 0.3 * w, "w": w}
        frames[name] = {variable: seen[variable] for variable in SOURCES[name].observes}
    return frames


def changed(frames: Data, change: Callable[[dict[str, Array]], dict[str, Array]]) -> Data:
    return {name: change(frame) for name, frame in frames.items()}


def difference(found: sw.Fit, expected: sw.Fit, units: Mapping[str, float] | None = None) -> float:
    """The largest difference of two fits in estimates, standard errors, covariances and J.

    `units` names the parameters to compare and what one unit of each in `expected` is in `found`; all as they are
    by default.
    """
    assert found.converged
    assert expected.converged
    names = list(units or expected.parameters)
    unit = np.array([(units or {}).get(name, 1.0) for name in names])
    value, other = (np.array([fit.parameters[name].value for name in names]) for fit in (found, expected))
    places = [[list(fit.parameters).index(name) for name in names] for fit in (found, expected)]
    covariance = found.covariance[np.ix_(places[0], places[0])] / np.outer(unit, unit)
    wanted = expected.covariance[np.ix_(places[1], places[1])]
    stderr = np.sqrt(np.diag(wanted))
    target = units[expected.target.name] if units else 1.0
    return max(
        float(np.max(np.abs(value / unit - other) / stderr)),
        float(np.max(np.abs(covariance - wanted) / np.outer(stderr, stderr))),
        abs(found.target.value / target - expected.target.value) / expected.target.stderr,
        abs(found.target.stderr / abs(target) / expected.target.stderr - 1),
        abs(found.overid.statistic - expected.overid.statistic) / (1 + expected.overid.statistic),
    )


@both_studies
@few
@given(seed=seeds)
def test_row_order(study: sw.Study, seed: int) -> None:
    frames = data(seed)
    rng = np.random.default_rng(seed)

    def shuffled(frame: dict[str, Array]) -> dict[str, Array]:
        order = rng.permutation(ROWS)
        return {name: values[order] for name, values in frame.items()}

    assert difference(sw.fit(study, changed(frames, shuffled)), sw.fit(study, frames)) < ROUNDING


@few
@given(seed=seeds)
def test_row_order_of_rows_that_are_kept(seed: int) -> None:
    rng = np.random.default_rng(seed)
    z = rng.normal(size=ROWS)
    v = (rng.random(ROWS) < 1 / (1 + np.exp(-z))).astype(float)
    order = rng.permutation(ROWS)
    expected = sw.fit(SCORE, {"only": {"v": v, "z": z}})
    assert difference(sw.fit(SCORE, {"only": {"v": v[order], "z": z[order]}}), expected) < ROUNDING
    halves = [sw.summarize(SCORE, "only", {"v": v[part], "z": z[part]}) for part in (order[:99], order[99:])]
    merged: Any = halves[1]
    assert difference(sw.fit(SCORE, {"only": merged + halves[0]}), expected) < ROUNDING


def test_row_order_where_the_first_rows_are_not_like_the_others() -> None:
    """Sorted rows put the centre, which the first 8192 rows choose, far out in a tail."""
    study = STUDIES["over-identified"]
    frames = data(1, rows=20_000)

    def ordered(frame: dict[str, Array]) -> dict[str, Array]:
        order = np.argsort(frame["z"])
        return {name: values[order] for name, values in frame.items()}

    assert difference(sw.fit(study, changed(frames, ordered)), sw.fit(study, frames)) < ROUNDING


@both_studies
@few
@given(seed=seeds, cuts=st.lists(st.integers(1, ROWS - 1), unique=True, min_size=1, max_size=12), choices=st.randoms())
def test_batches_and_the_tree_in_which_they_merge(
    study: sw.Study, seed: int, cuts: list[int], choices: random.Random
) -> None:
    frames = data(seed)
    merged: dict[str, Any] = {}
    for source, frame in frames.items():
        edges = [0, *sorted(cuts), ROWS]
        centre: Any = None
        parts: list[Any] = []
        for low, high in pairwise(edges):
            batch = {name: values[low:high] for name, values in frame.items()}
            parts.append(sw.summarize(study, source, batch, centre=centre))
            centre = parts[0].centre
        while len(parts) > 1:
            left, right = (parts.pop(choices.randrange(len(parts))) for _ in range(2))
            parts.append(left + right)
        merged[source] = parts[0]
    assert difference(sw.fit(study, merged), sw.fit(study, frames)) < ROUNDING


UNIT_OF: dict[str, Callable[[float], dict[str, float]]] = {
    "x": lambda scale: {"alpha": scale, "beta": 1 / scale},
    "y": lambda scale: {"alpha": 1.0, "beta": scale},
    "z": lambda scale: {"alpha": 1 / scale, "beta": 1.0},
    "w": lambda scale: {"alpha": 1.0, "beta": 1.0},
}
"""What the slopes become when a variable is multiplied. Shifts are the intercepts' business alone."""


def measured(frames: Data, variable: str, scale: float, shift: float) -> Data:
    """One variable in other units; its standard deviation is between 1 and 2 before."""

    def change(frame: dict[str, Array]) -> dict[str, Array]:
        return {**frame, variable: scale * (frame[variable] + shift)} if variable in frame else frame

    return changed(frames, change)


def weights_for(study: sw.Study) -> Any:
    return "iterated" if study is STUDIES["over-identified"] else "two-step"


scales = st.sampled_from([1.0, -1.0, 1e-6, 1e6, 3.7])


@both_studies
@pytest.mark.parametrize("variable", ["x", "y", "w"])
@settings(max_examples=8, derandomize=True, deadline=None)
@given(seed=seeds, scale=scales, shift=st.sampled_from([0.0, -1.0, 1e3, 1e6, -1e6]))
def test_units_of_a_variable(study: sw.Study, variable: str, seed: int, scale: float, shift: float) -> None:
    """Multiplied by anything, and shifted by up to a million standard deviations."""
    frames, weights = data(seed), weights_for(study)
    found = sw.fit(study, measured(frames, variable, scale, shift), weights=weights)
    assert difference(found, sw.fit(study, frames, weights=weights), UNIT_OF[variable](scale)) < UNITS


@few
@given(seed=seeds, scale=scales)
def test_scale_of_the_instrument_in_every_moment(seed: int, scale: float) -> None:
    study, frames = STUDIES["exactly identified"], data(seed)
    found = sw.fit(study, measured(frames, "z", scale, 0.0))
    assert difference(found, sw.fit(study, frames), UNIT_OF["z"](scale)) < UNITS


LOST = pytest.mark.xfail(reason="iterated weights never settle: rounding moves the whitened moments more", strict=True)


@pytest.mark.parametrize(
    ("kind", "seed", "scale", "shift"),
    [
        ("exactly identified", 3, 1.0, 1e3),
        ("exactly identified", 3, 1e6, -1e4),
        ("exactly identified", 3, 1.0, 1e6),
        ("over-identified", 3, 1e6, 0.0),
        ("over-identified", 835105715, 1e-6, 0.0),
        ("over-identified", 3, 1.0, 1e3),
        pytest.param("over-identified", 3, 1.0, 1e6, marks=LOST),
    ],
)
def test_an_instrument_far_from_its_origin(kind: str, seed: int, scale: float, shift: float) -> None:
    """The slope of z*(x - c - alpha*z) holds E z² = s² + Var z, whose rounding hides eps s² of the variance."""
    study, frames = STUDIES[kind], data(seed)
    weights = weights_for(study)
    found = sw.fit(study, measured(frames, "z", scale, shift), weights=weights, max_iterations=20)
    expected = sw.fit(study, frames, weights=weights)
    assert difference(found, expected, UNIT_OF["z"](scale)) < UNITS + 1e-15 * shift**2


@few
@given(seed=seeds, choices=st.randoms())
def test_order_of_moments_and_sources(seed: int, choices: random.Random) -> None:
    frames = data(seed)
    moments, names = list(OVERIDENTIFIED), list(SOURCES)
    choices.shuffle(moments)
    choices.shuffle(names)
    study = sw.Study(moments, "beta", {name: SOURCES[name] for name in names})
    expected = STUDIES["over-identified"]
    weights: Any
    for weights in ("two-step", "iterated"):
        found = sw.fit(study, {name: frames[name] for name in reversed(names)}, weights=weights)
        bound = ROUNDING if weights == "two-step" else 1e-7
        assert difference(found, sw.fit(expected, frames, weights=weights)) < bound


NAMES = ["a", "E", "I", "exponent", "lambda", "x1", "_", "Z", "alpha_", "y"]


@few
@given(seed=seeds, chosen=st.permutations(NAMES))
def test_names_of_variables(seed: int, chosen: list[str]) -> None:
    """Terms are sorted by name, so other names add the same numbers up in another order."""
    frames = data(seed)
    renamed = dict(zip("xyzw", chosen, strict=False))
    moments = ["".join(renamed.get(letter, letter) for letter in text.replace("alpha", "A")) for text in OVERIDENTIFIED]
    sources = {name: sw.Source([renamed[v] for v in source.observes], source.cost) for name, source in SOURCES.items()}
    study = sw.Study([text.replace("A", "alpha") for text in moments], "beta", sources)
    found = sw.fit(study, changed(frames, lambda frame: {renamed[name]: values for name, values in frame.items()}))
    assert difference(found, sw.fit(STUDIES["over-identified"], frames)) < ROUNDING


@both_studies
@few
@given(seed=seeds)
def test_one_source_is_the_same_stacked_and_pooled(study: sw.Study, seed: int) -> None:
    alone = sw.Study([moment.expr for moment in study.moments], "beta", {"only": sw.Source("x y z w")})
    frames = data(seed)
    frame = {"only": {**frames["registry"], "y": frames["survey"]["y"]}}
    weights: Any
    for weights in ("two-step", "iterated", "cue", "identity"):
        stacked, pooled = (sw.fit(alone, frame, stacking=s, weights=weights) for s in ("stacked", "pooled"))
        assert difference(pooled, stacked) < (ROUNDING if weights in ("two-step", "identity") else 1e-7)


def bits(fit: sw.Fit) -> bytes:
    """Everything that a fit found, to the last bit."""
    numbers = [fit.target.value, fit.target.stderr, fit.overid.statistic, *(p.value for p in fit.parameters.values())]
    return np.array([*numbers, *fit.covariance.ravel()]).tobytes()


def parquet(frame: dict[str, Array], directory: Path) -> Path:
    path = directory / f"{'-'.join(frame)}.parquet"
    pq.write_table(pa.table(frame), path, row_group_size=3333)
    return path


KINDS: dict[str, Callable[[dict[str, Array], Path], object]] = {
    "Parquet": parquet,
    "Parquet path as text": lambda frame, directory: str(parquet(frame, directory)),
    "pandas": lambda frame, _: pd.DataFrame(frame),
    "pandas, rows labelled": lambda frame, _: pd.DataFrame(frame, index=np.arange(20_000)[::-1]),
    "Polars": lambda frame, _: pl.DataFrame(frame),
    "lazy Polars": lambda frame, _: pl.DataFrame(frame).lazy(),
    "PyArrow": lambda frame, _: pa.table(frame),
    "columns in another order": lambda frame, _: dict(reversed(frame.items())),
    "more columns": lambda frame, _: {"more": frame["z"], **frame},
    "lists": lambda frame, _: {name: values.tolist() for name, values in frame.items()},
}


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_kind_of_table_gives_the_same_bits(kind: Callable[..., object], tmp_path: Path) -> None:
    """Blocks of rows are cut alike whatever the table is, so even rounding is the same."""
    frames = data(2, rows=20_000)
    study = STUDIES["over-identified"]
    found = sw.fit(study, {name: kind(frame, tmp_path) for name, frame in frames.items()})
    assert bits(found) == bits(sw.fit(study, frames))
