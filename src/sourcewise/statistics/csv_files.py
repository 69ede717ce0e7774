"""CSV files, packed or not, as a stream of pieces whose size is bounded whatever the file holds."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from sourcewise.errors import DataError
from sourcewise.statistics.cells import Needed, Piece, check_names, columns_of, not_numeric

if TYPE_CHECKING:
    import pyarrow as pa

CSV_BLOCK_BYTES = 1 << 20
"""A CSV row longer than this is refused, which bounds the memory that a hostile file can take."""

INFLATION, INFLATION_FREE = 200, 1 << 26
"""A gzip file, or a batch of a packed Arrow file, may unpack to this many times the size of the file (numbers pack 2 to
10 times); the first 64 MB are free."""


def csv_pieces(path: Path, columns: Sequence[str], needed: Needed) -> Iterator[Piece]:
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, open_csv

    names = csv_columns(path)
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
                yield batch.num_rows, columns_of(batch, columns) if needed(start, stop) else None
                start = stop
    except pa.ArrowInvalid as error:
        raise _csv_error(error, path, names) from error


def csv_rows(path: Path) -> int:
    """By reading all of it, but no cell as a number: the columns that nobody asked for may hold anything."""
    import pyarrow as pa
    from pyarrow.csv import ConvertOptions, ParseOptions, ReadOptions, open_csv

    names = csv_columns(path)
    read = ReadOptions(use_threads=False, block_size=CSV_BLOCK_BYTES, autogenerate_column_names=True)
    parse = ParseOptions(newlines_in_values=True, ignore_empty_lines=len(names) > 1)
    convert = ConvertOptions(check_utf8=False, include_columns=["f0"], column_types={"f0": pa.binary()})
    try:
        with _unpacked(path) as stream, open_csv(stream, read, parse, convert) as reader:
            return sum(int(batch.num_rows) for batch in reader) - 1
    except pa.ArrowInvalid as error:
        raise _csv_error(error, path, names) from error


def _unpacked(path: Path) -> Any:
    """The text of a CSV file as a stream."""
    import pyarrow as pa

    if not path.name.lower().endswith(".gz"):
        return pa.OSFile(str(path), "rb")
    return pa.PythonFile(_Bounded(path), mode="r")


def most_unpacked(path: Path) -> int:
    """Bytes that a packed file may unpack to."""
    return INFLATION * path.stat().st_size + INFLATION_FREE


def inflated(path: Path) -> DataError:
    return DataError(
        f"{str(path)!r} unpacks to more than {INFLATION} times its size, as a file made to fill memory does; if it is "
        f"meant, unpack it first"
    )


class _Bounded(io.RawIOBase):
    """An unpacked gzip file that stops when it has grown beyond all measure."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        self._path = path
        self._stream: IO[bytes] = pa.CompressedInputStream(pa.OSFile(str(path), "rb"), "gzip")
        self._most = most_unpacked(path)
        self._given = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        part = self._stream.read(size if size >= 0 else CSV_BLOCK_BYTES)
        self._given += len(part)
        if self._given > self._most:
            raise inflated(self._path)
        return part

    def close(self) -> None:
        self._stream.close()
        super().close()


def csv_columns(path: Path) -> list[str]:
    """All column names. Asked for them, pyarrow would convert every column: 1 GB for 100,000 of them."""
    with _unpacked(path) as stream:
        start = bytes(stream.read(CSV_BLOCK_BYTES))
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        raise DataError(f"{str(path)!r} is text in UTF-16; save it as UTF-8")
    text = start.decode("utf-8-sig", errors="surrogateescape")
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
