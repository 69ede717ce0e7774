"""A study for campaigns over one table of the conformance suite, and one in a file here."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq

import sourcewise as sw
from sourcewise.testing.connectors import people

STUDY = """
name = "people"
target = "a"
moments = ["z - m", "(z - m)*(x - c - a*z)", "x - c - a*z"]
budget = 3_000

[parameters]
a = {{start = 0.0}}

[policy]
kind = "etg"
batch = 0.5

[sources.people]
observes = ["x", "z"]
cost = 1.0
data = {there}

[sources.few]
observes = ["x", "z"]
cost = 4.0
data = {{path = "few.parquet", seed = 3}}
"""


def study_file(folder: Path, there: str) -> Path:
    """A study whose source `people` is there, and whose other source has too few rows."""
    pq.write_table(people(100, 6), folder / "few.parquet")
    path = folder / "study.toml"
    path.write_text(STUDY.format(there=there))
    return path


def check_run(study: Path) -> None:
    """To the end in one go, and with an interruption after the first round: the same rows and the same estimate."""
    whole = sw.run(study, study.parent / "whole.db")
    sw.run(study, study.parent / "parts.db", rounds=1)
    part = sw.run(study, study.parent / "parts.db")
    for record in (whole, part):
        assert record.current is not None
        assert {source.name: source.rows for source in record.sources}["people"] > 1_000
    assert whole.current is not None
    assert part.current is not None
    assert part.current.value == whole.current.value
    assert whole.current.value is not None
    assert whole.current.stderr is not None
    # a regression of people() with a slope of 0.5; five standard errors
    assert abs(whole.current.value - 0.5) < 5 * whole.current.stderr
