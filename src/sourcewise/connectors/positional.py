"""Tables whose rows have numbers: files and folders, and frames in memory."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

from sourcewise.connectors.base import Table
from sourcewise.connectors.order import Chosen, Sampling, chosen, positions
from sourcewise.errors import ConnectorError, DataError
from sourcewise.statistics.cells import Chunk
from sourcewise.statistics.files import (
    FileKind,
    file_columns,
    file_rows,
    pick_from_files,
    read_files,
    table_files,
)
from sourcewise.statistics.frames import Stream, frame_columns, frame_slice, raw_blocks


class Files(Table):
    """A file, or the files of a folder one after another, as one table. Rows are told apart by their place."""

    def __init__(self, path: str | os.PathLike[str], sampling: Sampling, kind: FileKind | None = None) -> None:
        super().__init__(without_key(sampling, "a file"))
        self._path = os.fspath(path)
        self._kind = kind
        self._counted: tuple[str, int] | None = None

    def columns(self) -> tuple[str, ...]:
        return tuple(file_columns(self._files()[0], self._kind))

    def size(self) -> int:
        """Counted once for each state of the files: a CSV file has to be read for it."""
        now = self.fingerprint()
        if self._counted is None or self._counted[0] != now:
            self._counted = now, sum(file_rows(path, self._kind) for path in self._files())
        return self._counted[1]

    def fingerprint(self) -> str:
        """Of names, sizes and times of the last change."""
        digest = blake2b(digest_size=12)
        for path in self._files():
            found = path.stat()
            digest.update(f"{path.name}\0{found.st_size}\0{found.st_mtime_ns}\0".encode(errors="surrogateescape"))
        return f"files:{digest.hexdigest()}"

    def sample(self, columns: Sequence[str], start: int, rows: int | None) -> Stream:
        if rows is None and start == 0:
            return _Picked(self._files(), self._kind, None)
        if self.sampling.order == "arrival" and rows is not None:  # the number of rows need not be known
            return _Picked(self._files(), self._kind, chosen(self.sampling, start + rows, start, rows))
        size = self.size()
        return _Picked(self._files(), self._kind, chosen(self.sampling, size, start, size if rows is None else rows))

    def _files(self) -> list[Path]:
        return table_files(self._path, self._kind)

    def __repr__(self) -> str:
        return f"Files({self._path!r})"


@dataclass(frozen=True, slots=True)
class _Picked(Stream):
    paths: Sequence[Path]
    kind: FileKind | None
    wanted: Chosen | None

    def chunks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        if self.wanted is None:
            return read_files(self.paths, columns, self.kind)
        return pick_from_files(self.paths, columns, self.wanted, self.kind)


class Frame(Table):
    """A frame in memory: a dict of arrays, pandas, Polars or PyArrow. Rows are told apart by their place."""

    def __init__(self, data: object, sampling: Sampling) -> None:
        super().__init__(without_key(sampling, "a frame in memory"))
        self._data = data
        self._columns, self._size = frame_columns(data)

    def columns(self) -> tuple[str, ...]:
        return self._columns

    def size(self) -> int:
        return self._size

    def fingerprint(self) -> str:
        """Of the number of rows and the values of all numeric columns: a frame may have been changed in place."""
        return f"frame:{self._size}:{content_mark(self._data, self._columns):08x}"

    def sample(self, columns: Sequence[str], start: int, rows: int | None) -> object:
        if rows is None and start == 0:
            return self._data
        wanted = positions(self.sampling, self._size, start, self._size if rows is None else rows)
        return frame_slice(self._data, columns, wanted)

    def __repr__(self) -> str:
        return f"Frame({type(self._data).__name__}, {self._size} rows)"


def content_mark(data: object, columns: Sequence[str]) -> int:
    """A checksum of all numeric columns."""
    total = 0
    for name in columns:
        try:
            for block in raw_blocks(data, [name]):
                total = zlib.crc32(block.tobytes(), total)
        except DataError:  # not a column of numbers
            total = zlib.crc32(name.encode(errors="surrogateescape"), total)
    return total


def without_key(sampling: Sampling, what: str) -> Sampling:
    if sampling.key:
        raise ConnectorError(f"the rows of {what} are told apart by their place, so it takes no key; leave key out")
    return sampling


def is_frame(data: object) -> bool:
    """Whether `frame_columns` can read it: a mapping, or an eager frame that Narwhals knows."""
    if isinstance(data, Mapping):
        return True
    import narwhals as nw

    found: Any = nw.from_native(data, pass_through=True)
    return isinstance(found, nw.DataFrame)
