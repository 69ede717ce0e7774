"""Files and folders as they are found: text beside numbers, files without rows, partitions, and what lacks a column."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import sourcewise as sw
from sourcewise.errors import ConnectorError, DataError
from sourcewise.testing.connectors import LINEAR, ROWS, assert_agree, people

PLAIN = people().select(["label", "id", "x", "z", "flag", "whole", "money"])
"""Its first column is text."""


def agrees(place: Any) -> None:
    """All rows once, in two halves, with the sums of the table in memory."""
    with sw.connect(place, seed=2) as table:
        assert table.size() == ROWS
        taken = [table.take(start, ROWS // 2, ["id"])["id"].tolist() for start in (0, ROWS // 2)]
        assert sorted(taken[0] + taken[1]) == sorted(PLAIN["id"].to_pylist())
        found = table.deliver(LINEAR, "people", 0, ROWS)
    assert found.exhausted
    assert isinstance(found.statistics, sw.Statistics)
    expected = sw.summarize(LINEAR, "people", PLAIN, found.statistics.centre)
    assert isinstance(expected, sw.Statistics)
    assert_agree(found.statistics, expected)


def test_a_csv_file_may_begin_with_a_column_of_text(tmp_path: Path) -> None:
    for name in ("rows.csv", "rows.csv.gz"):
        with pa.output_stream(str(tmp_path / name)) as sink:
            csv.write_csv(PLAIN, sink)
        agrees(tmp_path / name)


def test_a_csv_file_may_hold_text_that_is_not_utf_8_where_nobody_looks(tmp_path: Path) -> None:
    rows = b"".join(b"M\xfcller,%d,1.5\n" % k for k in range(50))
    (tmp_path / "rows.csv").write_bytes(b"name,x,z\n" + rows)
    found = sw.connect(tmp_path / "rows.csv", seed=1).take(0, 20, ["x", "z"])
    assert len(set(found["x"].tolist())) == 20


def test_the_rows_of_a_csv_file_are_counted_as_they_are_read(tmp_path: Path) -> None:
    """Blank lines, quoted line ends, a header of two lines, one column only, no end of line at the end."""
    texts = {
        "a,b\n1,2\n\n\n3,4\n": 2,
        'a,b\n1,2\n"3","4"\n5,6': 3,
        '"a\nb",b\n1,2\n': 1,
        "b\n1\n\n3\n": 3,
        "a,b\n": 0,
        "\ufeffa,b\n1,2\n": 1,
    }
    for k, (text, rows) in enumerate(texts.items()):
        path = tmp_path / f"{k}.csv"
        path.write_text(text, encoding="utf-8")
        table = sw.connect(path)
        assert table.size() == rows
        assert len(table.take(0, 100, ["b"])["b"]) == rows


def test_files_without_rows_are_part_of_a_folder(tmp_path: Path) -> None:
    for kind in ("csv", "parquet"):
        folder = tmp_path / kind
        folder.mkdir()
        for k, (start, rows) in enumerate(((0, 0), (0, 300), (300, 0), (300, 700))):
            part, path = PLAIN.slice(start, rows), folder / f"{k}.{kind}"
            (csv.write_csv if kind == "csv" else pq.write_table)(part, path)
        if kind == "csv":  # as an engine leaves them behind that had nothing to write, not even a header
            (folder / "0-none.csv").touch()
        agrees(folder)
    (tmp_path / "none.csv").touch()
    with pytest.raises(DataError, match=r"first row of '.*none.csv' is empty"):
        sw.connect(tmp_path / "none.csv").columns()


def test_files_of_a_folder_may_differ_in_order_and_types_of_columns_but_none_may_be_lacking(tmp_path: Path) -> None:
    pq.write_table(PLAIN.slice(0, 400), tmp_path / "a.parquet")
    other = PLAIN.slice(400).select(["z", "whole", "money", "x", "id", "flag"])
    other = other.set_column(1, "whole", other["whole"].cast(pa.float32()))
    pq.write_table(other, tmp_path / "b.parquet")
    agrees(tmp_path)
    pq.write_table(other.drop_columns(["x"]), tmp_path / "b.parquet")
    with pytest.raises(DataError, match=r"'people'.*b.parquet': there is no column 'x'"):
        sw.connect(tmp_path).deliver(LINEAR, "people", 0, ROWS)


def test_arrow_streams_are_read_like_arrow_files(tmp_path: Path) -> None:
    for name, made in (
        ("rows.arrow", pa.ipc.new_file),
        ("rows.arrows", pa.ipc.new_stream),
        ("rows.ipc", pa.ipc.new_stream),
    ):
        with pa.OSFile(str(tmp_path / name), "wb") as sink, made(sink, PLAIN.schema) as writer:
            writer.write_table(PLAIN, max_chunksize=100)
        agrees(tmp_path / name)


def test_folders_that_are_named_for_a_column_give_its_values(tmp_path: Path) -> None:
    """As Spark, Dask and Polars write partitions; these engines and PyArrow datasets read the same."""
    halves = {0: PLAIN.slice(0, 500), 1: PLAIN.slice(500)}
    for arm, part in halves.items():
        folder = tmp_path / "rows" / f"arm={arm}"
        folder.mkdir(parents=True)
        pq.write_table(part, folder / "rows.parquet")
    agrees(tmp_path / "rows")
    places = (
        tmp_path / "rows",
        pl.scan_parquet(tmp_path / "rows", hive_partitioning=True),
        ds.dataset(tmp_path / "rows", partitioning="hive"),
    )
    drawn = []
    for place in places:
        table = sw.connect(place, seed=3)
        assert "arm" in table.columns()
        found = table.take(100, 300, ["arm", "id"])
        drawn.append(sorted(zip(found["arm"].tolist(), found["id"].tolist(), strict=True)))
        assert table.take(0, ROWS, ["arm"])["arm"].sum() == 500
    assert drawn[0] == drawn[1] == drawn[2]


def test_values_in_the_names_of_folders_are_numbers_or_missing(tmp_path: Path) -> None:
    texts = {"site=__HIVE_DEFAULT_PARTITION__": np.nan, "site=-2.5": -2.5, "site=true": 1.0, "si%74e=7": 7.0}
    for name in texts:
        (tmp_path / name).mkdir()
        (tmp_path / name / "rows.csv").write_text("y\n1\n", encoding="utf-8")
    found = sw.connect(tmp_path).take(0, 10, ["y", "site"])["site"]
    assert np.sort(found) == pytest.approx(np.sort(list(texts.values())), abs=0, nan_ok=True)
    (tmp_path / "site=north").mkdir()
    (tmp_path / "site=north" / "rows.csv").write_text("y\n1\n", encoding="utf-8")
    assert len(sw.connect(tmp_path).take(0, 10, ["y"])["y"]) == 5
    with pytest.raises(DataError, match=r"'site' is not numeric \(type text in the name of a folder.*north"):
        sw.connect(tmp_path).take(0, 10, ["site"])


def test_what_cannot_be_read_here_says_what_can(tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text("y\n1\n", encoding="utf-16")
    with pytest.raises(DataError, match=r"UTF-16; save it as UTF-8"):
        sw.connect(tmp_path / "wide.csv").columns()
    with pytest.raises(ConnectorError, match='kind = "polars", "dask" or "spark" to read from an address'):
        sw.connect({"path": "s3://bucket/rows.parquet"})


def test_a_dataset_gives_the_rows_of_its_files_and_is_summed_as_it_is(tmp_path: Path) -> None:
    for k in range(4):
        pq.write_table(PLAIN.slice(250 * k, 250), tmp_path / f"{k}.parquet")
    data = ds.dataset(tmp_path)
    agrees(data)
    here, there = (sw.connect(place, seed=5).take(10, 90, ["id"])["id"].tolist() for place in (tmp_path, data))
    assert here == there
    whole = sw.summarize(LINEAR, "people", data)
    assert isinstance(whole, sw.Statistics)
    assert whole.n == ROWS
    (tmp_path / "2.parquet").unlink()
    with pytest.raises(DataError, match=r"the dataset cannot be read.*2\.parquet"):
        sw.summarize(LINEAR, "people", data)
