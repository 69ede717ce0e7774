"""The only place that reads rows: tables of any kind → blocks of finite float64 numbers.

Whatever the table is, it becomes a stream of *chunks* (one real NumPy array per column, NaN where a value is
missing), and the chunks become blocks of exactly `BLOCK_ROWS` raw rows. Block boundaries therefore depend on
the row order alone, so that a Parquet file and the same frame in memory give sums equal to the last bit.

pyarrow and Narwhals are imported only when the data needs them.
"""

from __future__ import annotations

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from sourcewise.errors import DataError, SourcewiseError, safe_cause, without_secrets
from sourcewise.statistics.cells import Chunk, check_names, from_arrow, from_series, real
from sourcewise.statistics.datasets import dataset_chunks, is_dataset
from sourcewise.statistics.files import ENDINGS, read_files, table_files

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa

Missing = Literal["error", "drop"]
Block: TypeAlias = NDArray[np.float64]

MESSAGE = 300
"""Characters of an engine's own error that are passed on: Spark sends pages."""

BLOCK_ROWS = 8192
"""Rows of a block: a few columns of this length stay in the processor's second-level cache."""

ACCEPTED = (
    "a dict of column name to one-dimensional array, a pandas, Polars or PyArrow table, a PyArrow dataset, a lazy "
    f"frame, or the path of a file or folder of {', '.join(ENDINGS)}"
)


class Stream(ABC):
    """Rows that come in pieces."""

    @abstractmethod
    def chunks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        """Pieces of the table, each with one array for each of the columns asked for."""


class RowReader:
    """The rows of one source, as an iterable of float64 blocks in row order.

    Each block is C-contiguous, of shape (len(columns), at most BLOCK_ROWS), finite and the caller's to keep.
    After a full iteration `rows` is the number of rows in the blocks and `dropped` the number left out. An
    error may come after some blocks (values are counted over the whole table), so sums made of the blocks are
    good only once the iteration has ended. A table without a usable row is an error unless it may be `empty`.
    """

    def __init__(
        self,
        data: object,
        columns: Sequence[str],
        *,
        source: str,
        missing: Missing = "error",
        empty: bool = False,
    ) -> None:
        if missing not in get_args(Missing):
            raise DataError(f'missing must be "error" or "drop", not {missing!r}')
        self.columns = tuple(columns)
        self.rows = 0
        self.dropped = 0
        self._data = data
        self._source = source
        self._missing = missing
        self._empty = empty

    def __iter__(self) -> Iterator[Block]:
        self.rows = self.dropped = 0
        with naming(self._source):
            yield from self._finite(raw_blocks(self._data, self.columns))

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
        wrong = (absent, infinite, first_infinite)
        self.dropped = judge(self.columns, seen, incomplete, *wrong, missing=self._missing, empty=self._empty)


@contextmanager
def naming(source: str) -> Iterator[None]:
    """What is wrong with data is said with the name of their source."""
    try:
        yield
    except DataError as error:
        raise DataError(f"source {source!r}: {error}") from error.__cause__


def judge(
    columns: Sequence[str],
    seen: int,
    incomplete: int,
    absent: NDArray[np.int64],
    infinite: NDArray[np.int64],
    first_infinite: Mapping[int, int],
    *,
    missing: Missing,
    empty: bool,
) -> int:
    """How many rows are left out; an error where that may not be, or where a value is infinite.

    absent, infinite: counts by column; first_infinite: by its index, the first row of a column, if that is known."""
    if infinite.any():
        found = "; ".join(
            f"column {columns[j]!r} has {_count(int(infinite[j]), 'infinite value')}"
            + (f", the first in row {first_infinite[j]} (rows are counted from 1)" if j in first_infinite else "")
            for j in np.flatnonzero(infinite).tolist()
        )
        raise DataError(f"{found}. Every value must be finite: correct these rows or leave them out")
    if not seen and not empty:
        raise DataError("the table has no rows; at least one is needed")
    counts = ", ".join(f"{name}: {n}" for name, n in zip(columns, absent.tolist(), strict=True) if n)
    if incomplete and missing == "error":
        raise DataError(
            f"{incomplete} of {_count(seen, 'row')} have missing values (by column: {counts}). "
            'Fill them in, or leave these rows out with missing="drop"'
        )
    if incomplete == seen and not empty:
        raise DataError(
            f'missing="drop" leaves no rows: each of {_count(seen, "row")} has missing values (by column: {counts})'
        )
    return incomplete


def raw_blocks(data: object, columns: Sequence[str]) -> Iterator[Block]:
    """All rows of a table of any kind in blocks (columns, at most BLOCK_ROWS), NaN where a value is missing."""
    return _blocks(_chunks(data, columns), len(columns))


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
        return read_files(table_files(data), columns)
    if isinstance(data, Stream):
        return data.chunks(columns)
    if isinstance(data, Mapping):
        return _from_mapping(data, columns)
    arrow = sys.modules.get("pyarrow")  # an Arrow table cannot exist before pyarrow is loaded
    if arrow and isinstance(data, arrow.RecordBatchReader):
        return _from_batches(data.schema.names, data, columns)
    if arrow and isinstance(data, arrow.Table | arrow.RecordBatch):
        batches = data.to_batches() if isinstance(data, arrow.Table) else [data]
        return _from_batches(data.schema.names, batches, columns)
    if is_dataset(data):
        return dataset_chunks(data, columns)
    return _from_narwhals(data, columns)


def frame_columns(data: object) -> tuple[tuple[str, ...], int]:
    """Names of all columns of a table in memory, and its number of rows."""
    if isinstance(data, Mapping):
        names = tuple(data)
        if not names:
            raise DataError("the table has no columns")
        return names, int(_as_array(data[names[0]], names[0]).size)
    frame = _narwhals(data)
    return tuple(map(str, frame.columns)), len(frame)


def frame_slice(data: object, columns: Sequence[str], rows: NDArray[np.int64]) -> object:
    """These columns of these rows, in memory too."""
    if isinstance(data, Mapping):
        check_names(list(data), columns)
        arrays = {name: _as_array(data[name], name) for name in columns}
        lengths = {array.size for array in arrays.values()}
        return {name: array[rows] if len(lengths) == 1 else array for name, array in arrays.items()}
    frame = _narwhals(data)
    check_names(frame.columns, columns)
    return frame.select(list(columns))[rows.tolist() if frame.implementation.is_pyarrow() else rows].to_native()


def _narwhals(data: object) -> Any:
    import narwhals as nw

    try:
        return nw.from_native(data)
    except nw.exceptions.DuplicateError as error:
        raise DataError(f"columns must have different names: {error}") from error
    except TypeError as error:
        raise DataError(
            f"cannot read rows from an object of type {type(data).__qualname__}; pass {ACCEPTED}"
        ) from error


# --- in memory ---------------------------------------------------------------------------------------------


def _from_mapping(data: Mapping[Any, object], columns: Sequence[str]) -> Iterator[Chunk]:
    check_names(list(data), columns)
    arrays = {name: _as_array(data[name], name) for name in columns}
    lengths = {name: array.size for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name}: {n}" for name, n in lengths.items())
        raise DataError(f"the columns differ in length ({listed}); each row needs a value in every column")
    yield [real(array, name, str(array.dtype)) for name, array in arrays.items()]


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

    frame = _narwhals(data)
    if isinstance(frame, nw.LazyFrame):
        if frame.implementation.is_polars():
            yield from _from_polars(frame, columns)
            return
        frame = _collect(frame, columns)
    names = frame.columns
    if frame.implementation.is_pyarrow():
        yield from _chunks(frame.to_native(), columns)
        return
    check_names(names, columns)
    series = [frame.get_column(name) for name in columns]
    for start in range(0, len(frame), 8 * BLOCK_ROWS):
        yield [from_series(each[start : start + 8 * BLOCK_ROWS], each.name) for each in series]


def _from_batches(names: Sequence[str], batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> Iterator[Chunk]:
    check_names(names, columns)
    for batch in batches:
        yield [from_arrow(batch.column(name), name) for name in columns]


def _from_polars(frame: nw.LazyFrame[Any], columns: Sequence[str]) -> Iterator[Chunk]:
    """A stream of pieces, so that a query over more rows than memory holds can be read."""
    import narwhals as nw

    wanted: Any = _selected(frame, columns).to_native()
    with collecting():
        # until version 1.34 Polars could not hand a result over in pieces
        pieces = wanted.collect_batches() if hasattr(wanted, "collect_batches") else [wanted.collect()]
        for piece in pieces:
            yield [from_series(nw.from_native(piece[name], series_only=True), name) for name in columns]


def _selected(frame: nw.LazyFrame[Any], columns: Sequence[str]) -> nw.LazyFrame[Any]:
    with collecting():
        check_names(frame.collect_schema().names(), columns)
        return frame.select(list(columns))


def _collect(frame: nw.LazyFrame[Any], columns: Sequence[str]) -> nw.DataFrame[Any]:
    with collecting():
        return _selected(frame, columns).collect()


@contextmanager
def collecting() -> Iterator[None]:
    """The query is the user's, and each engine has its own errors."""
    try:
        yield
    except SourcewiseError:
        raise
    except Exception as error:
        said = " ".join(str(error).split("JVM stacktrace")[0].split())
        raise DataError(f"the lazy table could not be collected: {without_secrets(said)[:MESSAGE]}") from safe_cause(
            error
        )


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")
