"""Files and folders of CSV, Parquet and Arrow IPC: streamed a piece at a time, whatever their size.

A *piece* is a number of rows and their columns, or no columns where nobody needs those rows, so that a reader may skip
what it need not decode. Memory is bounded by the block sizes below; a file that would break the bound is refused.
"""

from __future__ import annotations

import csv
import glob
import io
import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from sourcewise.errors import DataError
from sourcewise.statistics.cells import Chunk, check_names, from_arrow, not_numeric

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
FileKind = Literal["csv", "parquet", "arrow"]
Piece: TypeAlias = tuple[int, Chunk | None]
Needed: TypeAlias = Callable[[int, int], bool]
"""Whether anybody needs a row from `start` up to `stop`."""

Positions: TypeAlias = NDArray[np.int64]
"""Numbers of rows, counted from 0 over all files, in increasing order."""

CSV_BLOCK_BYTES = 1 << 20
"""A CSV row longer than this is refused, which bounds the memory that a hostile file can take."""

PARQUET_BUFFER_BYTES = 1 << 16
"""Without a read buffer pyarrow loads whole column chunks: 1 GB for one row group of 20 million rows."""

BATCH_ROWS = 8192

INFLATION, INFLATION_FREE = 200, 1 << 26
"""A gzip file may unpack to this many times its size (numbers pack 2 to 10 times); the first 64 MB are free."""

ENDINGS: dict[str, FileKind] = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}


def table_files(path: str | os.PathLike[str], kind: FileKind | None = None) -> list[Path]:
    """The files of a table: one file, all files below a folder, or those that a pattern such as data/*.csv names.

    They come in the order of their names. Names that begin with . or _ are notes of other software, and left out.
    """
    place = Path(path)
    try:
        if place.is_dir():
            inner = sorted(p for p in place.rglob("*") if p.is_file())
            found = [p for p in inner if not any(part[0] in "._" for part in p.relative_to(place).parts)]
        elif place.is_file():
            found = [place]
        else:
            found = [Path(p) for p in sorted(glob.glob(str(place), recursive=True)) if Path(p).is_file()]
            if not found:
                raise DataError(f"there is no file {str(place)!r}")
    except (OSError, ValueError) as error:
        raise DataError(f"{str(place)!r} cannot be opened: {error}") from error
    if not found:
        raise DataError(f"the folder {str(place)!r} holds no files")
    for file in found:
        kind_of(file, kind)
    return found


def kind_of(path: Path, kind: FileKind | None = None) -> FileKind:
    found = kind or next((k for ending, k in ENDINGS.items() if path.name.lower().endswith(ending)), None)
    if found is None:
        raise DataError(f"{str(path)!r} is of unknown kind: the name must end in {', '.join(ENDINGS)}")
    return found


def file_columns(path: Path, kind: FileKind | None = None) -> list[str]:
    """The names of all columns of one file."""
    return _guarded(path, lambda: _HEADERS[kind_of(path, kind)](path))


def file_rows(path: Path, kind: FileKind | None = None) -> int:
    """How many rows one file has: from its footer, or by reading all of a CSV file."""
    found = kind_of(path, kind)
    if found == "csv":
        return sum(rows for rows, _ in file_pieces(path, [file_columns(path, kind)[0]], nothing_needed, kind))
    return _guarded(path, lambda: _parquet_rows(path) if found == "parquet" else _ipc_rows(path))


def read_files(paths: Sequence[Path], columns: Sequence[str], kind: FileKind | None = None) -> Iterator[Chunk]:
    """All rows, in the order of the files."""
    for path in paths:
        for _, chunk in file_pieces(path, columns, everything_needed, kind):
            assert chunk is not None
            yield chunk


def pick_from_files(
    paths: Sequence[Path], columns: Sequence[str], wanted: Positions, kind: FileKind | None = None
) -> Iterator[Chunk]:
    """The rows at the wanted positions, in that order; positions past the end give nothing."""
    begin = 0
    for path in paths:
        here = begin

        def needed(start: int, stop: int, here: int = here) -> bool:
            return bool(np.diff(np.searchsorted(wanted, [here + start, here + stop]))[0])

        for rows, chunk in file_pieces(path, columns, needed, kind):
            first, last = np.searchsorted(wanted, [begin, begin + rows])
            if chunk is not None and last > first:
                local = wanted[first:last] - begin
                yield [values[local] for values in chunk]
            begin += rows
            if not wanted.size or begin > wanted[-1]:
                return


def everything_needed(start: int, stop: int) -> bool:
    return True


def nothing_needed(start: int, stop: int) -> bool:
    return False


def file_pieces(path: Path, columns: Sequence[str], needed: Needed, kind: FileKind | None = None) -> Iterator[Piece]:
    """The pieces of one file, in order; whatever is wrong with it is said with its name."""
    import pyarrow as pa

    reader = _READERS[kind_of(path, kind)]
    try:
        yield from reader(path, columns, needed)
    except (pa.ArrowException, OSError, EOFError, csv.Error) as error:
        raise DataError(f"{str(path)!r} cannot be read: {error}") from error


def _guarded(path: Path, ask: Callable[[], T]) -> T:
    import pyarrow as pa

    try:
        return ask()
    except (pa.ArrowException, OSError, EOFError, csv.Error) as error:
        raise DataError(f"{str(path)!r} cannot be read: {error}") from error


def _cells(batch: pa.RecordBatch, columns: Sequence[str]) -> Chunk:
    return [from_arrow(batch.column(name), name) for name in columns]


# --- Parquet and Arrow ---------------------------------------------------------------------------------------


def _open_parquet(path: Path) -> Any:
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, pre_buffer=False, buffer_size=PARQUET_BUFFER_BYTES)


def _parquet_columns(path: Path) -> list[str]:
    with _open_parquet(path) as file:
        return list(file.schema_arrow.names)


def _parquet_rows(path: Path) -> int:
    with _open_parquet(path) as file:
        return int(file.metadata.num_rows)


def _parquet_pieces(path: Path, columns: Sequence[str], needed: Needed) -> Iterator[Piece]:
    with _open_parquet(path) as file:
        check_names(file.schema_arrow.names, columns)
        start = 0
        for group in range(file.num_row_groups):
            stop = start + file.metadata.row_group(group).num_rows
            if needed(start, stop):
                # pyarrow takes a name as a path into nested columns: batches may hold more columns than asked for.
                batches = file.iter_batches(BATCH_ROWS, [group], list(columns), use_threads=False)
                for batch in batches:
                    yield batch.num_rows, _cells(batch, columns)
            else:
                yield stop - start, None
            start = stop


def _open_ipc(path: Path, columns: Sequence[str] | None = None) -> Any:
    """A file, not a memory map: a mapped file that somebody truncates ends the process."""
    import pyarrow as pa

    source = pa.OSFile(str(path), "rb")
    if columns is None:
        return pa.ipc.open_file(source)
    names = pa.ipc.open_file(source).schema.names
    check_names(names, columns)
    fields = [names.index(name) for name in columns]
    return pa.ipc.open_file(source, options=pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False))


def _ipc_columns(path: Path) -> list[str]:
    return list(_open_ipc(path).schema.names)


def _ipc_rows(path: Path) -> int:
    with _open_ipc(path) as file:
        return sum(file.get_batch(k).num_rows for k in range(file.num_record_batches))


def _ipc_pieces(path: Path, columns: Sequence[str], needed: Needed) -> Iterator[Piece]:
    with _open_ipc(path, columns) as file:
        start = 0
        for k in range(file.num_record_batches):
            batch = file.get_batch(k)
            stop = start + batch.num_rows
            yield batch.num_rows, _cells(batch, columns) if needed(start, stop) else None
            start = stop


# --- CSV -----------------------------------------------------------------------------------------------------


def _csv_pieces(path: Path, columns: Sequence[str], needed: Needed) -> Iterator[Piece]:
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, open_csv

    names = _csv_columns(path)
    check_names(names, columns)
    read = ReadOptions(use_threads=False, block_size=CSV_BLOCK_BYTES)
    # In a table of one column an empty line is a missing value, not a blank line.
    parse = ParseOptions(newlines_in_values=True, ignore_empty_lines=len(names) > 1)
    try:
        with _unpacked(path) as stream, open_csv(stream, read, parse, ConvertOptions(include_columns=columns)) as head:
            inferred = head.schema
        # Types are inferred from the first block only. Numbers of any kind are read as float64, so that
        # whole numbers or empty cells at the top do not refuse the decimals further down.
        types = {field.name: field.type if pa.types.is_boolean(field.type) else pa.float64() for field in inferred}
        convert = ConvertOptions(include_columns=columns, column_types=types)
        with _unpacked(path) as stream, open_csv(stream, read, parse, convert) as reader:
            start = 0
            for batch in reader:
                stop = start + batch.num_rows
                yield batch.num_rows, _cells(batch, columns) if needed(start, stop) else None
                start = stop
    except pa.ArrowInvalid as error:
        raise _csv_error(error, path, names) from error


def _unpacked(path: Path) -> Any:
    """The text of a CSV file as a stream."""
    import pyarrow as pa

    if not path.name.lower().endswith(".gz"):
        return pa.OSFile(str(path), "rb")
    return pa.PythonFile(_Bounded(path), mode="r")


class _Bounded(io.RawIOBase):
    """An unpacked gzip file that stops when it has grown beyond all measure."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self._path = path
        self._stream: IO[bytes] = pa.CompressedInputStream(pa.OSFile(str(path), "rb"), "gzip")
        self._most = INFLATION * path.stat().st_size + INFLATION_FREE
        self._given = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        part = self._stream.read(size if size >= 0 else CSV_BLOCK_BYTES)
        self._given += len(part)
        if self._given > self._most:
            raise DataError(
                f"{str(self._path)!r} unpacks to more than {INFLATION} times its size, as a file made to fill memory "
                f"does; if it is meant, unpack it first"
            )
        return part

    def close(self) -> None:
        self._stream.close()
        super().close()


def _csv_columns(path: Path) -> list[str]:
    """All column names. Asked for them, pyarrow would convert every column: 1 GB for 100,000 of them."""
    with _unpacked(path) as stream:
        text = stream.read(CSV_BLOCK_BYTES).decode("utf-8-sig", errors="surrogateescape")
    names = next(csv.reader(io.StringIO(text, newline="")), None)
    if not names:
        raise DataError(f"the first row of {str(path)!r} is empty; it must hold the names of the columns")
    return names


def _csv_error(error: pa.ArrowInvalid, path: Path, names: Sequence[str]) -> DataError:
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
    what = not_numeric(names[int(found[1])], f"{kind}{row}", [found[4]])
    return DataError(f"{what}. Missing cells are empty, NA, NaN or null")


_READERS: dict[FileKind, Callable[[Path, Sequence[str], Needed], Iterator[Piece]]] = {
    "csv": _csv_pieces,
    "parquet": _parquet_pieces,
    "arrow": _ipc_pieces,
}
_HEADERS: dict[FileKind, Callable[[Path], list[str]]] = {
    "csv": _csv_columns,
    "parquet": _parquet_columns,
    "arrow": _ipc_columns,
}
