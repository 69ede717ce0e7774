"""Statistics and rows of a small study, for tests of what is kept of data."""

from __future__ import annotations

from typing import Any

import numpy as np

import sourcewise as sw
from strategies import Array

STUDY = sw.Study(
    ["z*(x - a*z)", "x**2 - b*z**2"],
    "a",
    {"first": sw.Source("z x"), "second": sw.Source("x z"), "other": sw.Source("y z")},
)
SCORE = sw.Study(["x*(y - logistic(b*x))"], "b", {"first": sw.Source("x y"), "second": sw.Source("x y")})


def rows(count: int = 40, seed: int = 3) -> dict[str, Array]:
    x, z = np.random.default_rng(seed).normal(size=(2, count))
    return {"x": x, "z": z}


def summed(data: object = None, source: str = "first", study: sw.Study = STUDY, **options: Any) -> sw.Statistics:
    found = sw.summarize(study, source, rows() if data is None else data, **options)
    assert isinstance(found, sw.Statistics)
    return found


def kept(count: int = 40, source: str = "first") -> sw.Rows:
    data = {"x": rows(count)["x"], "y": (rows(count)["z"] > 0).astype(float)}
    found = sw.summarize(SCORE, source, data)
    assert isinstance(found, sw.Rows)
    return found


def assert_same(left: sw.Statistics, right: sw.Statistics) -> None:
    """Equal in every field and every bit."""
    assert (left.source, left.terms, left.n, left.dropped) == (right.source, right.terms, right.n, right.dropped)
    assert list(left.centre.items()) == list(right.centre.items())
    assert left.gram.tobytes() == right.gram.tobytes()
