"""Files and folders of CSV, Parquet and Arrow IPC: streamed a piece at a time, whatever their size.

A *piece* is a number of rows and their columns, or no columns where nobody needs those rows, so that a reader may skip
what it need not decode. Memory is bounded by the block sizes below; a file that would break the bound is refused.
"""

from __future__ import annotations

import csv
import glob
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from sourcewise.errors import DataError
from sourcewise.statistics.cells import Chunk, Needed, Piece, check_names, columns_of
from sourcewise.statistics.csv_files import csv_columns, csv_pieces, csv_rows, inflated, most_unpacked
from sourcewise.statistics.hive import partition_number, partition_values
from sourcewise.statistics.ipc_bounds import unpacked_bytes

T = TypeVar("T")
FileKind = Literal["csv", "parquet", "arrow"]
Positions: TypeAlias = NDArray[np.int64]
"""Numbers of rows, counted from 0 over all files, in increasing order."""


class Wanted(Protocol):
    """Some rows of a table, by their numbers."""

    @property
    def last(self) -> int | None:
        """The greatest of the numbers, if it is known."""

    def within(self, first: int, stop: int) -> Positions:
        """Those among first, …, stop − 1."""

    def any_within(self, first: int, stop: int) -> bool:
        """Whether there are any."""


PARQUET_BUFFER_BYTES = 1 << 16
"""Without a read buffer pyarrow loads whole column chunks: 1 GB for one row group of 20 million rows."""

BATCH_ROWS = 8192

IPC_FILE = b"ARROW1"
"""What an Arrow file begins with; a stream of Arrow batches does not."""

ENDINGS: dict[str, FileKind] = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrow",
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
    if len(found) > 1:  # an engine that had no rows for a part of a table may leave it without a header
        found = [p for p in found if p.stat().st_size or kind_of(p, kind) != "csv"] or found
    for file in found:
        kind_of(file, kind)
    return found


def kind_of(path: Path, kind: FileKind | None = None) -> FileKind:
    found = kind or next((k for ending, k in ENDINGS.items() if path.name.lower().endswith(ending)), None)
    if found is None:
        raise DataError(f"{str(path)!r} is of unknown kind: the name must end in {', '.join(ENDINGS)}")
    return found


def file_columns(path: Path, kind: FileKind | None = None) -> list[str]:
    """The names of all columns of one file, those that its folders are named for (year=2026) at the end."""
    own = _guarded(path, lambda: _HEADERS[kind_of(path, kind)](path))
    return [*own, *(name for name in partition_values(path) if name not in own)]


def file_rows(path: Path, kind: FileKind | None = None) -> int:
    """How many rows one file has: from its footer, or by reading all of a CSV file."""
    found = kind_of(path, kind)
    return _guarded(path, lambda: _COUNTS[found](path))


def read_files(paths: Sequence[Path], columns: Sequence[str], kind: FileKind | None = None) -> Iterator[Chunk]:
    """All rows, in the order of the files."""
    for path in paths:
        for _, chunk in file_pieces(path, columns, everything_needed, kind):
            assert chunk is not None
            yield chunk


def pick_from_files(
    paths: Sequence[Path], columns: Sequence[str], wanted: Wanted, kind: FileKind | None = None
) -> Iterator[Chunk]:
    """The wanted rows, in the order of the files; numbers past the end give nothing."""
    begin, last = 0, wanted.last
    for path in paths:
        here = begin

        def needed(start: int, stop: int, here: int = here) -> bool:
            return wanted.any_within(here + start, here + stop)

        for rows, chunk in file_pieces(path, columns, needed, kind):
            if chunk is not None:
                local = wanted.within(begin, begin + rows) - begin
                if local.size:
                    yield [values[local] for values in chunk]
            begin += rows
            if last is not None and begin > last:
                return


def everything_needed(start: int, stop: int) -> bool:
    return True


def file_pieces(path: Path, columns: Sequence[str], needed: Needed, kind: FileKind | None = None) -> Iterator[Piece]:
    """The pieces of one file, in order; whatever is wrong with it is said with its name."""
    import pyarrow as pa

    try:
        fixed = _fixed(path, columns, kind)
        own = [name for name in columns if name not in fixed]
        pieces = _READERS[kind_of(path, kind)](path, own, needed) if own else _only_counted(file_rows(path, kind))
        for rows, chunk in pieces:
            if chunk is not None and fixed:
                read = iter(chunk)
                chunk = [np.full(rows, fixed[name]) if name in fixed else next(read) for name in columns]
            yield rows, chunk
    except (pa.ArrowException, OSError, EOFError, csv.Error) as error:
        raise DataError(f"{str(path)!r} cannot be read: {error}") from error
    except DataError as error:
        if repr(str(path)) in str(error):
            raise
        raise DataError(f"{str(path)!r}: {error}") from error.__cause__


def _fixed(path: Path, columns: Sequence[str], kind: FileKind | None) -> dict[str, float]:
    """The columns that the file does not hold and its folders do, as data/year=2026/rows.parquet: one value for all."""
    values = {name: text for name, text in partition_values(path).items() if name in columns}
    if not values:
        return {}
    own = _guarded(path, lambda: _HEADERS[kind_of(path, kind)](path))
    return {name: partition_number(name, text) for name, text in values.items() if name not in own}


def _only_counted(rows: int) -> Iterator[Piece]:
    for start in range(0, rows, BATCH_ROWS):
        yield min(BATCH_ROWS, rows - start), ()


def _guarded(path: Path, ask: Callable[[], T]) -> T:
    import pyarrow as pa

    try:
        return ask()
    except (pa.ArrowException, OSError, EOFError, csv.Error) as error:
        raise DataError(f"{str(path)!r} cannot be read: {error}") from error


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
                    yield batch.num_rows, columns_of(batch, columns)
            else:
                yield stop - start, None
            start = stop


def _open_ipc(path: Path, columns: Sequence[str] | None = None) -> Any:
    """A file, not a memory map: a mapped file that somebody truncates ends the process."""
    import pyarrow as pa

    def opened(**options: Any) -> Any:
        source = pa.OSFile(str(path), "rb")
        is_file = source.read(len(IPC_FILE)) == IPC_FILE
        source.seek(0)
        if max(unpacked_bytes(path, 8 if is_file else 0), default=0) > most_unpacked(path):
            raise inflated(path)
        made = pa.ipc.IpcReadOptions(use_threads=False, **options)
        return (pa.ipc.open_file if is_file else pa.ipc.open_stream)(source, options=made)

    if columns is None:
        return opened()
    with opened() as head:
        names = head.schema.names
    check_names(names, columns)
    return opened(included_fields=[names.index(name) for name in columns])


def _ipc_batches(file: Any) -> Iterator[Any]:
    if hasattr(file, "num_record_batches"):
        return (file.get_batch(k) for k in range(file.num_record_batches))
    batches: Iterator[Any] = iter(file)
    return batches


def _ipc_columns(path: Path) -> list[str]:
    with _open_ipc(path) as file:
        return list(file.schema.names)


def _ipc_rows(path: Path) -> int:
    with _open_ipc(path, _ipc_columns(path)[:1]) as file:
        return sum(batch.num_rows for batch in _ipc_batches(file))


def _ipc_pieces(path: Path, columns: Sequence[str], needed: Needed) -> Iterator[Piece]:
    with _open_ipc(path, columns) as file:
        start = 0
        for batch in _ipc_batches(file):
            stop = start + batch.num_rows
            yield batch.num_rows, columns_of(batch, columns) if needed(start, stop) else None
            start = stop


_READERS: dict[FileKind, Callable[[Path, Sequence[str], Needed], Iterator[Piece]]] = {
    "csv": csv_pieces,
    "parquet": _parquet_pieces,
    "arrow": _ipc_pieces,
}
_HEADERS: dict[FileKind, Callable[[Path], list[str]]] = {
    "csv": csv_columns,
    "parquet": _parquet_columns,
    "arrow": _ipc_columns,
}
_COUNTS: dict[FileKind, Callable[[Path], int]] = {"csv": csv_rows, "parquet": _parquet_rows, "arrow": _ipc_rows}
