"""`sourcewise summarize` where the rows are in a table: the one of the study file, or of a file that says where."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

import sourcewise as sw
from sourcewise.cli.app import app

STUDY = """
target = "a"
moments = ["z*(x - a*z)"]

[sources.people]
observes = ["z", "x"]
DATA
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    z = 1e6 + rng.standard_normal(1_000)
    rows = pa.table({"id": np.arange(1_000), "z": z, "x": z / 2 + rng.standard_normal(1_000)})
    pq.write_table(rows, tmp_path / "rows.parquet")
    with duckdb.connect(str(tmp_path / "rows.duckdb")) as connection:
        connection.execute(f"CREATE TABLE people AS SELECT * FROM '{tmp_path / 'rows.parquet'}'")
    data = 'data = {path = "rows.duckdb", table = "people", key = "id", seed = 4}'
    (tmp_path / "study.toml").write_text(STUDY.replace("DATA", data))
    (tmp_path / "bare.toml").write_text(STUDY.replace("DATA", ""))
    (tmp_path / "people.toml").write_text('path = "rows.duckdb"\ntable = "people"\nkey = "id"\nseed = 4\n')
    return tmp_path


def summarized(*arguments: object) -> dict[str, Any]:
    found = CliRunner().invoke(app, ["summarize", *map(str, arguments)])
    assert found.exit_code == 0, found.exception
    plain: dict[str, Any] = json.loads(found.stdout)
    return plain


def test_rows_are_where_the_study_file_or_another_file_says(folder: Path) -> None:
    (folder / "rows").mkdir()
    (folder / "rows" / "a.parquet").write_bytes((folder / "rows.parquet").read_bytes())
    bare = folder / "bare.toml"
    places: list[tuple[object, ...]] = [(folder / "study.toml", "people")]
    places += [(bare, "people", folder / name) for name in ("people.toml", "rows.parquet", "rows")]
    found = [summarized(*place) for place in places]
    assert [each["n"] for each in found] == [1_000] * 4
    assert found[1] == found[0]
    assert found[3] == found[2]
    assert np.allclose(found[2]["gram"], found[0]["gram"], rtol=1e-12)


def test_the_next_rows_are_those_that_a_campaign_would_take(folder: Path) -> None:
    """None twice, and the last ones are fewer than asked for, which is said."""
    study = sw.StudyFile.read(folder / "study.toml").study
    table = sw.connect({"path": "rows.duckdb", "table": "people", "key": "id", "seed": 4}, base=folder)
    for after, rows in ((0, 300), (300, 500), (800, 500)):
        found = summarized(folder / "study.toml", "people", "--rows", rows, "--after", after)
        expected = table.deliver(study, "people", after, rows).statistics
        assert isinstance(expected, sw.Statistics)
        assert found == json.loads(expected.to_json())
    said = CliRunner().invoke(app, ["summarize", str(folder / "study.toml"), "people", "--rows", "9", "--after", "995"])
    assert "The table ran out: these are 5 rows, not 9." in said.stderr
    none = CliRunner().invoke(
        app, ["summarize", str(folder / "study.toml"), "people", "--rows", "9", "--after", "1000"]
    )
    assert "has no usable rows after the first 1,000" in str(none.exception)


def test_rows_that_are_nowhere_are_asked_for(folder: Path) -> None:
    found = CliRunner().invoke(app, ["summarize", str(folder / "bare.toml"), "people"])
    assert "does not say where the rows of source 'people' are: name a FILE" in str(found.exception)
