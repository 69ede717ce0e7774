"""The only place that reads rows: tables of any kind → blocks of finite float64 numbers.

Whatever the table is, it becomes a stream of *chunks* (one real NumPy array per column, NaN where a value is
missing), and the chunks become blocks of exactly `BLOCK_ROWS` raw rows. Block boundaries therefore depend on
the row order alone, so that a Parquet file and the same frame in memory give sums equal to the last bit.

pyarrow and Narwhals are imported only when the data needs them.
"""

import csv
import difflib
import io
import os
import re
import reprlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from sourcewise.errors import DataError

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa

Missing = Literal["error", "drop"]
Block: TypeAlias = NDArray[np.float64]
Chunk: TypeAlias = Sequence[NDArray[Any]]

BLOCK_ROWS = 8192
"""Rows of a block: a few columns of this length stay in the processor's second-level cache."""

CSV_BLOCK_BYTES = 1 << 20
"""A CSV row longer than this is refused, which bounds the memory that a hostile file can take."""

PARQUET_BUFFER_BYTES = 1 << 16
"""Without a read buffer pyarrow loads whole column chunks: 1 GB for one row group of 20 million rows."""

ACCEPTED = (
    "a dict of column name to one-dimensional array, a pandas, Polars or PyArrow table, "
    "or the path of a .csv, .csv.gz, .parquet or .pq file"
)


class RowReader:
    """The rows of one source, as an iterable of float64 blocks in row order.

    Each block is C-contiguous, of shape (len(columns), at most BLOCK_ROWS), finite and the caller's to keep.
    After a full iteration `rows` is the number of rows in the blocks and `dropped` the number left out. An
    error may come after some blocks (values are counted over the whole table), so sums made of the blocks are
    good only once the iteration has ended.
    """

    def __init__(self, data: object, columns: Sequence[str], *, source: str, missing: Missing = "error") -> None:
        if missing not in get_args(Missing):
            raise DataError(f'missing must be "error" or "drop", not {missing!r}')
        self.columns = tuple(columns)
        self.rows = 0
        self.dropped = 0
        self._data = data
        self._source = source
        self._missing = missing

    def __iter__(self) -> Iterator[Block]:
        self.rows = self.dropped = 0
        try:
            yield from self._finite(_blocks(_chunks(self._data, self.columns), len(self.columns)))
        except DataError as error:
            raise DataError(f"source {self._source!r}: {error}") from error.__cause__

    def _finite(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """Pass the usable rows on, count the others, and fail at the end when they may not be left out."""
        seen = incomplete = 0
        absent, infinite = (np.zeros(len(self.columns), dtype=np.int64) for _ in range(2))
        first_infinite: dict[int, int] = {}
        for block in blocks:
            start, seen = seen, seen + block.shape[1]
            if not np.isfinite(block).all():
                is_nan, is_inf = np.isnan(block), np.isinf(block)
                absent += is_nan.sum(axis=1)
                infinite += is_inf.sum(axis=1)
                for column in np.flatnonzero(is_inf.any(axis=1)).tolist():
                    first_infinite.setdefault(column, start + int(is_inf[column].argmax()) + 1)
                complete = ~is_nan.any(axis=0)
                incomplete += complete.size - int(complete.sum())
                block = np.ascontiguousarray(block[:, complete])
            usable = not first_infinite and not (incomplete and self._missing == "error")
            if usable and block.shape[1]:
                self.rows += block.shape[1]
                yield block
        self._judge(seen, incomplete, absent, infinite, first_infinite)

    def _judge(
        self,
        seen: int,
        incomplete: int,
        absent: NDArray[np.int64],
        infinite: NDArray[np.int64],
        first_infinite: Mapping[int, int],
    ) -> None:
        if first_infinite:
            found = "; ".join(
                f"column {self.columns[j]!r} has {_count(int(infinite[j]), 'infinite value')}, "
                f"the first in row {row} (rows are counted from 1)"
                for j, row in sorted(first_infinite.items())
            )
            raise DataError(f"{found}. Every value must be finite: correct these rows or leave them out")
        if not seen:
            raise DataError("the table has no rows; at least one is needed")
        counts = ", ".join(f"{name}: {n}" for name, n in zip(self.columns, absent.tolist(), strict=True) if n)
        if incomplete and self._missing == "error":
            raise DataError(
                f"{incomplete} of {_count(seen, 'row')} have missing values (by column: {counts}). "
                'Fill them in, or leave these rows out with missing="drop"'
            )
        if incomplete == seen:
            raise DataError(
                f'missing="drop" leaves no rows: each of {_count(seen, "row")} has missing values (by column: {counts})'
            )
        self.dropped = incomplete


def _blocks(chunks: Iterable[Chunk], width: int) -> Iterator[Block]:
    """Cut a stream of chunks into blocks of shape (width, BLOCK_ROWS); the last one may be shorter."""
    block, filled = np.empty((width, BLOCK_ROWS)), 0
    for chunk in chunks:
        rows, start = len(chunk[0]), 0
        while start < rows:
            take = min(BLOCK_ROWS - filled, rows - start)
            # A long double beyond the range of float64 becomes infinite here, and is reported as such.
            with np.errstate(over="ignore"):
                for row, values in zip(block, chunk, strict=True):
                    row[filled : filled + take] = values[start : start + take]
            filled, start = filled + take, start + take
            if filled == BLOCK_ROWS:
                yield block
                block, filled = np.empty((width, BLOCK_ROWS)), 0
    if filled:
        yield np.ascontiguousarray(block[:, :filled])


def _chunks(data: object, columns: Sequence[str]) -> Iterator[Chunk]:
    """The one dispatch on the kind of table."""
    if isinstance(data, str | os.PathLike):
        return _from_file(Path(data), columns)
    if isinstance(data, Mapping):
        return _from_mapping(data, columns)
    arrow = sys.modules.get("pyarrow")  # an Arrow table cannot exist before pyarrow is loaded
    if arrow and isinstance(data, arrow.RecordBatchReader):
        return _from_batches(data.schema.names, data, columns)
    if arrow and isinstance(data, arrow.Table | arrow.RecordBatch):
        batches = data.to_batches() if isinstance(data, arrow.Table) else [data]
        return _from_batches(data.schema.names, batches, columns)
    return _from_narwhals(data, columns)


# --- in memory ---------------------------------------------------------------------------------------------


def _from_mapping(data: Mapping[Any, object], columns: Sequence[str]) -> Iterator[Chunk]:
    _check_names(list(data), columns)
    arrays = {name: _as_array(data[name], name) for name in columns}
    lengths = {name: array.size for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {n}" for name, n in lengths.items())
        raise DataError(f"the columns differ in length ({listed}); each row needs a value in every column")
    yield [_real(array, name, str(array.dtype)) for name, array in arrays.items()]


def _as_array(values: object, name: str) -> NDArray[Any]:
    if isinstance(values, np.ndarray):
        array: NDArray[Any] = values  # as it is: np.asarray would lose the mask of a masked array
    else:
        try:
            array = np.asarray(values)
            if array.dtype.kind in "US" and isinstance(values, list | tuple):
                array = np.asarray(values, dtype=object)  # [1.5, "a"] must be reported for "a", not for "1.5"
        except Exception as error:  # np.asarray runs foreign code, which raises what it likes
            raise DataError(f"column {name!r} cannot be read as an array: {error}") from error
    if array.ndim != 1:
        found = f"has shape {array.shape}" if array.ndim else f"is a single {type(values).__name__}"
        raise DataError(f"column {name!r} {found}; it must be one-dimensional")
    return array


def _from_narwhals(data: object, columns: Sequence[str]) -> Iterator[Chunk]:
    import narwhals as nw

    try:
        frame: Any = nw.from_native(data)
        if isinstance(frame, nw.LazyFrame):
            frame = _collect(frame, columns)
        names = frame.columns
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"columns must have different names: {error}") from error
    except TypeError as error:
        raise DataError(
            f"cannot read rows from an object of type {type(data).__qualname__}; pass {ACCEPTED}"
        ) from error
    if frame.implementation.is_pyarrow():
        yield from _chunks(frame.to_native(), columns)
        return
    _check_names(names, columns)
    series = [frame.get_column(name) for name in columns]
    for start in range(0, len(frame), 8 * BLOCK_ROWS):
        yield [_from_series(each[start : start + 8 * BLOCK_ROWS], each.name) for each in series]


def _collect(frame: "nw.LazyFrame[Any]", columns: Sequence[str]) -> "nw.DataFrame[Any]":
    try:
        _check_names(frame.collect_schema().names(), columns)
        return frame.select(list(columns)).collect()
    except DataError:
        raise
    except Exception as error:  # the query is the user's, and each engine has its own errors
        raise DataError(f"the lazy table could not be collected: {error}") from error


def _from_series(series: "nw.Series[Any]", name: str) -> NDArray[Any]:
    import narwhals as nw

    if series.dtype in (nw.Categorical, nw.Enum):  # NumPy would see the categories, which can be numbers
        raise _not_numeric(name, str(series.dtype), series.drop_nulls().to_list()[:1])
    if series.dtype in (nw.Boolean, nw.Int128, nw.UInt128):
        series = series.cast(nw.Float64)  # to_numpy makes objects of booleans with nulls, and has no 128 bits
    return _real(series.to_numpy(), name, str(series.dtype))


def _real(values: NDArray[Any], name: str, kind: str) -> NDArray[Any]:
    """The column as real numbers of any NumPy type, NaN where a value is missing; `kind` names its type."""
    if values.dtype.kind not in "biufO":
        raise _not_numeric(name, kind, values[:1].astype(str).tolist())
    if isinstance(values, np.ma.MaskedArray):
        gap: Any = None if values.dtype.kind == "O" else np.nan
        values = np.where(np.ma.getmaskarray(values), gap, np.ma.getdata(values))
    if values.dtype.kind == "O":
        return np.fromiter((_as_float(entry, name) for entry in values), np.float64, count=len(values))
    return values


def _as_float(entry: object, name: str) -> float:
    if entry is None or type(entry).__name__ == "NAType":  # pandas.NA, without importing pandas
        return np.nan
    if not isinstance(entry, Real | Decimal | np.bool_):
        raise _not_numeric(name, type(entry).__name__, [entry])
    try:
        return float(entry)
    except OverflowError:  # an integer beyond the range of float64
        return np.inf
    except ValueError:  # a signalling NaN
        return np.nan


# --- Arrow and files ---------------------------------------------------------------------------------------


def _from_batches(names: Sequence[str], batches: "Iterable[pa.RecordBatch]", columns: Sequence[str]) -> Iterator[Chunk]:
    _check_names(names, columns)
    for batch in batches:
        yield [_from_arrow(batch.column(name), name) for name in columns]


def _from_arrow(values: "pa.Array", name: str) -> NDArray[Any]:
    import pyarrow as pa

    kind = values.type
    if pa.types.is_decimal(kind):
        # Arrow's own cast of decimals to float64 is not correctly rounded; by way of text it is.
        values = values.cast(pa.string()).cast(pa.float64())
    elif pa.types.is_boolean(kind) or pa.types.is_null(kind):
        values = values.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise _not_numeric(name, str(kind), values.drop_null()[:1].to_pylist())
    array: NDArray[Any] = values.to_numpy(zero_copy_only=False)  # copies only where there are nulls
    return array


def _from_file(path: Path, columns: Sequence[str]) -> Iterator[Chunk]:
    readers = {".csv": _from_csv, ".csv.gz": _from_csv, ".parquet": _from_parquet, ".pq": _from_parquet}
    reader = next((read for ending, read in readers.items() if path.name.lower().endswith(ending)), None)
    try:
        if path.is_dir():
            raise DataError(f"{str(path)!r} is a directory; pass the path of one file")
        if not path.is_file():
            raise DataError(f"there is no file {str(path)!r}")
    except OSError as error:
        raise DataError(f"{str(path)!r} cannot be opened: {error}") from error
    if reader is None:
        raise DataError(f"{str(path)!r} is of unknown kind: the name must end in {', '.join(readers)}")
    import pyarrow as pa

    try:
        yield from reader(path, columns)
    except (pa.ArrowException, OSError, csv.Error) as error:
        raise DataError(f"{str(path)!r} cannot be read: {error}") from error


def _from_parquet(path: Path, columns: Sequence[str]) -> Iterator[Chunk]:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False, buffer_size=PARQUET_BUFFER_BYTES) as file:
        names = file.schema_arrow.names
        _check_names(names, columns)
        # pyarrow takes a name as a path into nested columns: batches may hold more columns than asked for.
        batches = file.iter_batches(batch_size=BLOCK_ROWS, columns=list(columns), use_threads=False)
        yield from _from_batches(names, batches, columns)


def _from_csv(path: Path, columns: Sequence[str]) -> Iterator[Chunk]:
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, open_csv

    names = _csv_header(path)
    _check_names(names, columns)
    read = ReadOptions(use_threads=False, block_size=CSV_BLOCK_BYTES)
    # In a table of one column an empty line is a missing value, not a blank line.
    parse = ParseOptions(newlines_in_values=True, ignore_empty_lines=len(names) > 1)
    try:
        with open_csv(path, read, parse, ConvertOptions(include_columns=list(columns))) as head:
            inferred = head.schema
        # Types are inferred from the first block only. Numbers of any kind are read as float64, so that
        # whole numbers or empty cells at the top do not refuse the decimals further down.
        types = {field.name: field.type if pa.types.is_boolean(field.type) else pa.float64() for field in inferred}
        convert = ConvertOptions(include_columns=list(columns), column_types=types)
        with open_csv(path, read, parse, convert) as reader:
            yield from _from_batches(columns, reader, columns)
    except pa.ArrowInvalid as error:
        raise _csv_error(error, path, names) from error


def _csv_header(path: Path) -> list[str]:
    """All column names. Asked for them, pyarrow would convert every column: 1 GB for 100,000 of them."""
    import pyarrow as pa

    with pa.input_stream(str(path)) as stream:
        text = stream.read(CSV_BLOCK_BYTES).decode("utf-8-sig", errors="surrogateescape")
    names = next(csv.reader(io.StringIO(text, newline="")), None)
    if not names:
        raise DataError(f"the first row of {str(path)!r} is empty; it must hold the names of the columns")
    return names


def _csv_error(error: "pa.ArrowInvalid", path: Path, names: Sequence[str]) -> DataError:
    """What pyarrow found wrong, in terms of the user's file; `names` are all columns of the file."""
    text = str(error)
    if "straddling" in text:
        limit = f"a row of {str(path)!r} is longer than {CSV_BLOCK_BYTES >> 20} MB"
        return DataError(f"{limit}; look for a quotation mark that is never closed, or a giant field")
    pattern = r"column #(\d+): (?:Row #(\d+): )?CSV conversion error to (\w+): invalid value '(.*)'"
    found = re.search(pattern, text, re.DOTALL)
    if found is None:
        return DataError(f"{str(path)!r} cannot be read: {text}")
    row = f" in row {found[2]} of the file, where row 1 is the header" if found[2] else ""
    kind = "boolean at first, but not" if found[3] == "bool" else "text"
    what = _not_numeric(names[int(found[1])], f"{kind}{row}", [found[4]])
    return DataError(f"{what}. Missing cells are empty, NA, NaN or null")


# --- shared messages ---------------------------------------------------------------------------------------


def _check_names(names: Sequence[Any], columns: Sequence[str]) -> None:
    counts = Counter(names)
    for name in columns:
        if counts[name] > 1:
            raise DataError(f"{counts[name]} columns are named {name!r}; rename them so that one is left")
    lacking = [name for name in columns if name not in counts]
    if lacking:
        close = difflib.get_close_matches(lacking[0], [str(name) for name in names], n=1)
        hint = f" Did you mean {close[0]!r} instead of {lacking[0]!r}?" if close else ""
        shown = ", ".join(repr(name) for name in names[:20]) + (", ..." if len(names) > 20 else "")
        wanted = ", ".join(repr(name) for name in lacking)
        raise DataError(f"there is no column {wanted}; the columns are {shown or 'none'}.{hint}")


def _not_numeric(name: str, kind: str, examples: Sequence[object]) -> DataError:
    shown = f", for example {reprlib.repr(examples[0])}" if examples else ""
    return DataError(
        f"column {name!r} is not numeric (type {kind}{shown}). Only numbers and booleans can be used: "
        "turn it into numbers first"
    )


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")
