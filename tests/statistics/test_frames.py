"""Rows of every kind of table become the same blocks, and every bad table is refused with advice."""

import datetime
import gzip
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from sourcewise.errors import DataError
from sourcewise.statistics.csv_files import CSV_BLOCK_BYTES
from sourcewise.statistics.frames import BLOCK_ROWS, Missing, RowReader

ROWS = 2 * BLOCK_ROWS + 77
LIMIT = 150_000  # kilobytes beyond the imports, half of them pyarrow's own pools
WEIRD = 'ärger; "x.y" --'
COLUMNS = ("flag", WEIRD, "whole")


def table() -> dict[str, NDArray[Any]]:
    """Three numeric columns of different types, and a text column that nobody asks for."""
    rng = np.random.default_rng(20)
    return {
        "label": np.array(["one, two", "three"] * ROWS)[:ROWS],
        "whole": rng.integers(-(2**50), 2**50, ROWS),
        "flag": rng.random(ROWS) < 0.5,
        WEIRD: rng.normal(size=ROWS) * 10.0 ** rng.integers(-300, 300, ROWS),
    }


def nullable(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.astype({"whole": "Int64", "flag": "boolean", WEIRD: "Float64"})


def written(data: pa.Table, path: Path) -> Path:
    """`path` after the table has been written to it, in the way its name asks for."""
    if path.suffix in (".parquet", ".pq"):
        pq.write_table(data, path, row_group_size=1000)
    else:
        text = data.to_pandas().to_csv(index=False)
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


KINDS: dict[str, Callable[[dict[str, NDArray[Any]], Path], object]] = {
    "lists": lambda data, _: {name: values.tolist() for name, values in data.items()},
    "objects": lambda data, _: {name: values.astype(object) for name, values in data.items()},
    "series": lambda data, _: {name: pd.Series(values) for name, values in data.items()},
    "pandas": lambda data, _: pd.DataFrame(data, index=np.arange(ROWS)[::-1]),
    "pandas nullable": lambda data, _: nullable(pd.DataFrame(data)),
    "pandas arrow": lambda data, _: pa.table(data).to_pandas(types_mapper=pd.ArrowDtype),
    "pandas objects": lambda data, _: pd.DataFrame(data).astype(object),
    "polars": lambda data, _: pl.DataFrame(data),
    "polars lazy": lambda data, _: pl.LazyFrame(data),
    "arrow": lambda data, _: pa.table(data),
    "arrow in pieces": lambda data, _: pa.concat_tables([pa.table(data)[:9000], pa.table(data)[9000:]]),
    "arrow batch": lambda data, _: pa.RecordBatch.from_pydict(data),
    "arrow reader": lambda data, _: pa.table(data).to_reader(max_chunksize=5000),
    "csv": lambda data, folder: written(pa.table(data), folder / "rows.csv"),
    "csv as text": lambda data, folder: str(written(pa.table(data), folder / "ROWS.CSV")),
    "csv.gz": lambda data, folder: written(pa.table(data), folder / "rows.csv.gz"),
    "parquet": lambda data, folder: written(pa.table(data), folder / "rows.parquet"),
    "pq": lambda data, folder: written(pa.table(data), folder / "rows.pq"),
}


def read(data: object, *columns: str, missing: Missing = "error") -> NDArray[np.float64]:
    return np.concatenate(list(RowReader(data, columns, source="s", missing=missing)), axis=1)


def read_in_a_fresh_process(path: Path, *columns: str) -> tuple[int, int]:
    """The number of rows, and by how many kilobytes reading raised the peak of memory above the imports.

    The peak is Linux's VmHWM: `ru_maxrss` starts at the size of the process that called fork.
    """
    if not Path("/proc/self/status").exists():
        pytest.skip("the peak of memory is known on Linux only")
    program = (
        "import re, sys; from sourcewise.statistics.frames import RowReader\n"
        "import pyarrow.csv, pyarrow.parquet; reader = RowReader(sys.argv[1], sys.argv[2:], source='s')\n"
        "peak = lambda: int(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])\n"
        "before = peak()\n"
        "for _ in reader: pass\n"
        "print(reader.rows, peak() - before)"
    )
    command = [sys.executable, "-c", program, str(path), *columns]
    rows, kilobytes = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return int(rows), int(kilobytes)


def refusal(data: object, *columns: str, missing: Missing = "error") -> str:
    with pytest.raises(DataError) as caught:
        list(RowReader(data, columns or ("x",), source="s", missing=missing))
    message = str(caught.value)
    assert message.startswith("source 's': ")
    return message


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_gives_the_same_blocks(kind: str, tmp_path: Path) -> None:
    data = table()
    reader = RowReader(KINDS[kind](data, tmp_path), COLUMNS, source="s")
    blocks = list(reader)
    assert [block.shape for block in blocks] == [(3, BLOCK_ROWS), (3, BLOCK_ROWS), (3, 77)]
    assert all(block.dtype == np.float64 and block.flags.c_contiguous for block in blocks)
    expected = np.stack([data[name].astype(np.float64) for name in COLUMNS])
    assert np.concatenate(blocks, axis=1).tobytes() == expected.tobytes()
    assert (reader.rows, reader.dropped) == (ROWS, 0)


def gapped(data: dict[str, NDArray[Any]]) -> tuple[pa.Table, NDArray[np.bool_]]:
    """The table with nulls in every column and NaN in one, and which rows are complete."""
    rows = np.arange(ROWS)
    nulls = {"whole": rows % 5 == 3, "flag": rows == ROWS - 1, WEIRD: rows == 0, "label": rows < 0}
    data = data | {WEIRD: np.where(rows == 1, np.nan, data[WEIRD])}
    columns = {name: pa.array(values, mask=nulls[name]) for name, values in data.items()}
    return pa.table(columns), (rows % 5 != 3) & (rows > 1) & (rows < ROWS - 1)


GAPPED: dict[str, Callable[[pa.Table, Path], object]] = {
    "dict": lambda data, _: data.to_pydict(),
    "pandas": lambda data, _: data.to_pandas(),
    "pandas nullable": lambda data, _: nullable(data.to_pandas(types_mapper=pd.ArrowDtype)),
    "pandas arrow": lambda data, _: data.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas objects": lambda data, _: pd.DataFrame(data.to_pydict(), dtype=object),
    "polars": lambda data, _: pl.DataFrame(data),
    "polars lazy": lambda data, _: pl.LazyFrame(data.to_pydict()),
    "arrow": lambda data, _: data,
    "csv.gz": lambda data, folder: written(data, folder / "rows.csv.gz"),
    "parquet": lambda data, folder: written(data, folder / "rows.parquet"),
}


@pytest.mark.parametrize("kind", GAPPED)
def test_incomplete_rows_are_counted_or_dropped(kind: str, tmp_path: Path) -> None:
    data, complete = gapped(table() | {"whole": np.arange(ROWS)})
    source = GAPPED[kind](data, tmp_path)
    reader = RowReader(source, COLUMNS, source="s", missing="drop")
    blocks = np.concatenate(list(reader), axis=1)
    expected = np.stack([data[name].to_numpy()[complete].astype(np.float64) for name in COLUMNS])
    assert blocks.tobytes() == expected.tobytes()
    dropped = ROWS - int(complete.sum())
    assert (reader.rows, reader.dropped) == (ROWS - dropped, dropped)
    message = refusal(source, *COLUMNS)
    assert f"{dropped} of {ROWS} rows have missing values" in message
    assert f"(by column: flag: 1, {WEIRD}: 2, whole: {ROWS // 5})" in message
    assert 'missing="drop"' in message


def test_plain_arrays_are_read_without_a_data_frame_package() -> None:
    program = (
        "import sys, numpy as np; from sourcewise.statistics.frames import RowReader\n"
        "assert next(iter(RowReader({'x': np.ones(3)}, ['x'], source='s'))).shape == (1, 3)\n"
        "assert not {'pandas', 'polars', 'pyarrow', 'narwhals'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_reader_starts_afresh_and_its_blocks_may_be_kept() -> None:
    reader = RowReader({"x": [1.0, None, 3.0]}, ["x"], source="s", missing="drop")
    first, second = next(iter(reader)), next(iter(reader))
    first[:] = 0.0
    assert second.tolist() == [[1.0, 3.0]]
    list(reader)
    assert (reader.rows, reader.dropped) == (2, 1)


@pytest.mark.parametrize(
    "values",
    [
        [1, None, True, 2.5],
        (1, np.nan, np.True_, Decimal("2.5")),
        np.ma.masked_array([1.0, 99.0, 1.0, 2.5], [False, True, False, False]),
        np.ma.masked_array(np.array([1, "?", 1, 2.5], dtype=object), [False, True, False, False]),
        np.array([1, np.nan, 1, 2.5], dtype=">f4"),
        np.array([1, 0, np.nan, 0, 1, 0, 2.5], dtype=np.longdouble)[::2],
        [1.0, Decimal("sNaN"), 1.0, 2.5],
        pd.Series([1, pd.NA, True, 2.5], dtype=object),
        pl.Series([1.0, None, 1.0, 2.5]),
        pa.array([1.0, None, 1.0, 2.5]),
    ],
)
def test_what_a_dict_may_hold(values: object) -> None:
    assert read({"x": values}, "x", missing="drop").tolist() == [[1.0, 1.0, 2.5]]


def test_numbers_that_float64_cannot_hold_exactly(tmp_path: Path) -> None:
    """Integers beyond 2**53 and decimals are rounded to the nearest float64, whoever holds them."""
    big = [2**60 + 1, 2**53 + 1, -(2**62) - 12345]
    cents = [Decimal(f"{n}.{n % 97:06d}") for n in (839203, 17, 512399)]
    data = pa.table({"big": big, "cents": pa.array(cents, pa.decimal128(20, 6))})
    pq.write_table(data, tmp_path / "rows.pq")
    expected = [[float(value) for value in big], [float(value) for value in cents]]
    arrow_backed = data.to_pandas(types_mapper=pd.ArrowDtype)
    tables = [data, pl.DataFrame({"big": big, "cents": cents}), arrow_backed, tmp_path / "rows.pq"]
    for each in [{"big": big, "cents": cents}, *tables]:
        assert read(each, "big", "cents").tolist() == expected


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"x": ["1.5", "b"]}, ["'x'", "type str, for example '1.5'"]),
        ({"x": [1.5, "b"]}, ["'x'", "type str, for example 'b'"]),
        ({"x": np.array(["a"])}, ["'x'", "type <U1, for example 'a'"]),
        ({"x": np.array([1 + 2j])}, ["type complex128, for example '(1+2j)'"]),
        ({"x": [1j, None]}, ["type complex, for example 1j"]),
        ({"x": [datetime.date(2020, 1, 2)]}, ["type date, for example datetime.date(2020, 1, 2)"]),
        ({"x": np.array(["2020-01-02"], dtype="M8[ns]")}, ["type datetime64[ns], for example '2020-01-02"]),
        ({"x": 3}, ["single int"]),
        ({"x": "abc"}, ["single str"]),
        ({"x": np.ones((2, 3))}, ["shape (2, 3)"]),
        ({"x": [[1], [2, 3]]}, ["cannot be read as an array"]),
        ({"x": []}, ["no rows"]),
        (pd.DataFrame({"x": ["a" * 100]}), ["type str, for example 'aaaa", "..."]),
        (pd.DataFrame({"x": pd.Series([1, "b"], dtype=object)}), ["type str, for example 'b'"]),
        (pd.DataFrame({"x": pd.Categorical([7, 8])}), ["type Categorical, for example 7"]),
        (pd.DataFrame({"x": pd.to_datetime(["2020-01-02"])}), ["type Datetime", "2020-01-02"]),
        (pd.DataFrame({"x": [1j]}), ["'1j'"]),
        (pd.DataFrame([[1, 2]], columns=["x", "x"]), ["different names"]),
        (pl.DataFrame({"x": [None, "b"]}), ["type str, for example 'b'"]),
        (pl.DataFrame({"x": ["b"]}, schema={"x": pl.Categorical}), ["type Categorical, for example 'b'"]),
        (pl.DataFrame({"x": [datetime.date(2020, 1, 2)]}), ["type Date", "2020-01-02"]),
        (pl.LazyFrame({"x": [1]}).select(pl.col("y")), ["could not be collected"]),
        (pl.LazyFrame({"y": [1]}), ["no column 'x'; the columns are 'y'"]),
        (pl.DataFrame({"x": []}), ["no rows"]),
        (pa.table({"x": [None, "b"]}), ["type string, for example 'b'"]),
        (pa.table({"x": [[1]]}), ["type list<"]),
        (pa.table([[1], [2]], names=["x", "x"]), ["2 columns are named 'x'"]),
        (pa.table({"x": pa.nulls(2)}), ["2 of 2 rows have missing values (by column: x: 2)"]),
        (np.ones((3, 2)), ["from an object of type ndarray;", "a dict of column name", ".parquet"]),
        (pd.Series([1.0], name="x"), ["of type Series;"]),
        (None, ["of type NoneType;"]),
        ("nowhere/rows.csv", ["there is no file 'nowhere/rows.csv'"]),
        ("rows\0.csv", ["there is no file"]),
        ("a" * 5000 + ".csv", ["cannot be opened"]),
    ],
)
def test_bad_tables_are_refused_with_what_was_found(data: object, words: list[str]) -> None:
    message = refusal(data)
    assert [word for word in words if word not in message] == []


@pytest.mark.parametrize("kind", ["dict", "pandas", "polars", "arrow", "csv", "parquet"])
def test_bad_values_and_names_in_every_kind_of_table(kind: str, tmp_path: Path) -> None:
    make: dict[str, Callable[[Any], object]] = {
        "dict": dict,
        "pandas": pd.DataFrame,
        "polars": pl.DataFrame,
        "arrow": pa.table,
        "csv": lambda data: written(pa.table(data), tmp_path / "rows.csv"),
        "parquet": lambda data: written(pa.table(data), tmp_path / "rows.parquet"),
    }
    values = np.ones(ROWS)
    values[[9000, 9005]] = -np.inf, np.inf
    message = refusal(make[kind]({"x": np.ones(ROWS), "y": values}), "x", "y", missing="drop")
    assert "column 'y' has 2 infinite values, the first in row 9001 (rows are counted from 1)" in message
    nothing = make[kind]({"x": np.ones(0), "y": np.ones(0)})
    assert "no rows" in refusal(nothing)
    gaps = make[kind]({"x": [np.nan, 1.0], "y": [1.0, np.nan]})
    assert '"drop" leaves no rows' in refusal(gaps, "x", "y", missing="drop")
    message = refusal(make[kind]({"income": [1.0], "age": [2.0]}), "incom", "weight", "age")
    assert "there is no column 'incom', 'weight'; the columns are 'income', 'age'." in message
    assert "Did you mean 'income' instead of 'incom'?" in message


def test_columns_of_different_length_and_numbers_beyond_float64() -> None:
    assert "differ in length (x: 2, y: 3)" in refusal({"x": [1, 2], "y": [1, 2, 3]}, "x", "y")
    assert "'x' has 1 infinite value, the first in row 2" in refusal({"x": [1, 10**400]})
    assert "'x' has 1 infinite value" in refusal({"x": np.array(["1e4000"]).astype(np.longdouble)})
    with pytest.raises(DataError, match='missing must be "error" or "drop", not \'ignore\''):
        RowReader({"x": [1.0]}, ["x"], source="s", missing="ignore")  # type: ignore[arg-type]


CELLS_OF_ONE_BLOCK = "1,true,\n" * (CSV_BLOCK_BYTES // 8 + 10)


@pytest.mark.parametrize(
    ("text", "expected", "dropped"),
    [
        ('b,x\n0,"1.5"\n1, 2 \n"a\nb",.5\n', [1.5, 2.0, 0.5], 0),
        ('b,x\n0,\n1,NA\n2,nan\n3,null\n4,""\n5,7\n', [7.0], 5),
        ("x\n1\n\n3\n", [1.0, 3.0], 1),
        ("\ufeffx,b\r\ntrue,1\r\nFalse,2\r\n\r\n", [1.0, 0.0], 0),
    ],
)
def test_cells_of_a_csv_file(text: str, expected: list[float], dropped: int, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(text.encode())
    reader = RowReader(path, ["x"], source="s", missing="drop")
    assert np.concatenate(list(reader), axis=1).tolist() == [expected]
    assert reader.dropped == dropped


def test_a_csv_column_may_change_its_looks_after_the_first_block(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("x,flag,late\n" + CELLS_OF_ONE_BLOCK + "2.5,false,1e3\n")
    assert read(path, "late", "flag", "x", missing="drop").tolist() == [[1000.0], [0.0], [2.5]]
    path.write_text("x,flag,late\n" + CELLS_OF_ONE_BLOCK + "2.5,7,soon\n")
    assert "type boolean at first, but not in row" in refusal(path, "flag")
    row = CELLS_OF_ONE_BLOCK.count("\n") + 2
    message = refusal(path, "late", missing="drop")
    assert f"'late' is not numeric (type text in row {row} of the file, where row 1 is the header" in message
    assert "for example 'soon'" in message


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("rows.csv", b"", ["the first row of", "is empty; it must hold the names"]),
        ("rows.csv", b"z" * 3 * CSV_BLOCK_BYTES, ["cannot be read: field larger than field limit"]),
        ("rows.csv", b"x,y\n", ["no rows"]),
        ("rows.csv", b"x,x\n1,2\n", ["2 columns are named 'x'"]),
        ("rows.csv", b"y,x\n1,2\n3\n", ["Expected 2 columns, got 1"]),
        ("rows.csv", b"y,x\n1,2\n3,1e400\n", ["1 infinite value"]),
        ("rows.csv", b"x;y\n1;2\n", ["the columns are 'x;y'"]),
        (
            "rows.csv",
            b'y,x\n1,"2,5"\n',
            ["for example '2,5'", "row 2 of the file", "Missing cells are empty"],
        ),
        ("rows.csv", b"\xfe\xfe,y\n1,2\n", ["no column 'x'"]),
        ("rows.csv", b"\xff\xfey\0", ["in UTF-16; save it as UTF-8"]),
        ("rows.csv", b'y,x\n1,"' + b"9" * 3 * CSV_BLOCK_BYTES, ["longer than 1 MB", "quotation mark"]),
        ("rows.csv.gz", gzip.compress(b"y,x\n1," + b"9" * 3 * CSV_BLOCK_BYTES, mtime=0), ["longer than 1 MB"]),
        ("rows.csv.gz", b"x\n1\n", ["cannot be read"]),
        ("rows.csv.gz", gzip.compress(b"x\n" + b"1\n2\n" * 999, mtime=0)[:-20], ["cannot be read"]),
        ("rows.parquet", b"PAR1 but no Parquet", ["cannot be read"]),
        ("rows.parquet", b"", ["cannot be read"]),
        ("rows.xlsx", b"", ["unknown kind", ".csv, .csv.gz, .parquet, .pq"]),
    ],
)
def test_bad_files_are_refused(name: str, content: bytes, words: list[str], tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    message = refusal(path)
    assert [word for word in words if word not in message] == []


def test_columns_that_are_not_asked_for_cost_little(tmp_path: Path) -> None:
    """Two of 100,000 columns of a CSV file take 110 MB; with all columns converted it would be 900."""
    path = tmp_path / "rows.csv"
    path.write_text(",".join(f"c{n}" for n in range(100_000)) + "\n" + ",".join(["1"] * 100_000) + "\n")
    rows, kilobytes = read_in_a_fresh_process(path, "c7", "c99999")
    assert rows == 1
    assert kilobytes < LIMIT


def test_a_directory_and_damaged_or_nested_parquet_files(tmp_path: Path) -> None:
    folder = tmp_path / "rows.parquet"
    folder.mkdir()
    assert "holds no files" in refusal(folder)
    path = tmp_path / "rows.pq"
    pq.write_table(pa.table({"x": np.arange(5.0), "x.y": np.ones(5), "z": [{"x": 1}] * 5}), path)
    assert read(path, "x.y", "x").tolist() == [[1.0] * 5, [0.0, 1.0, 2.0, 3.0, 4.0]]
    assert "type struct<" in refusal(path, "z")
    pq.write_table(pa.table({"x": np.random.default_rng(1).normal(size=5000)}), path)
    damaged = bytearray(path.read_bytes())
    damaged[4:40] = bytes(36)
    path.write_bytes(damaged)
    assert "cannot be read" in refusal(path)


def test_parquet_is_streamed(tmp_path: Path) -> None:
    """Three million rows in one row group: streamed they take 80 MB, by pyarrow's defaults 220."""
    path = tmp_path / "rows.parquet"
    values = np.random.default_rng(2).normal(size=3_000_000)
    pq.write_table(pa.table(dict.fromkeys("abcdef", values)), path, row_group_size=values.size)
    rows, kilobytes = read_in_a_fresh_process(path, *"abcdef")
    assert rows == values.size
    assert kilobytes < LIMIT
