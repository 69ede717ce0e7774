"""PyArrow datasets: files on any file system that PyArrow knows, read a piece at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from sourcewise.connectors.base import Table
from sourcewise.connectors.order import Chosen, Sampling, chosen
from sourcewise.connectors.positional import content_mark, without_key
from sourcewise.statistics.cells import Chunk, check_names
from sourcewise.statistics.datasets import dataset_chunks, reading_dataset
from sourcewise.statistics.frames import Stream


class Dataset(Table):
    """A `pyarrow.dataset.Dataset`. Rows are told apart by their place in the order of its files."""

    def __init__(self, data: Any, sampling: Sampling) -> None:
        super().__init__(without_key(sampling, "a PyArrow dataset"))
        self._data = data
        self._size: int | None = None

    def columns(self) -> tuple[str, ...]:
        return tuple(self._data.schema.names)

    def size(self) -> int:
        """Counted with each fingerprint."""
        if self._size is None:
            with reading_dataset():
                self._size = int(self._data.count_rows())
        return self._size

    def fingerprint(self) -> str:
        """Of the number of rows, and of names, sizes and times of files; of the numbers where there are no files."""
        self._size = None
        facts: list[object] = [self.size(), self.columns()]
        if hasattr(self._data, "files"):
            with reading_dataset():
                found = self._data.filesystem.get_file_info(self._data.files)
            facts += [(info.path, info.size, info.mtime_ns) for info in found]
        else:
            facts.append(content_mark(self._data, self.columns()))
        mark = blake2b(repr(facts).encode(errors="surrogateescape"), digest_size=12)
        return f"dataset:{self.size()}:{mark.hexdigest()}"

    def sample(self, columns: Sequence[str], start: int, rows: int | None) -> Stream:
        check_names(self.columns(), columns)
        size = self.size()
        whole = rows is None and start == 0
        return _Rows(self._data, None if whole else chosen(self.sampling, size, start, size if rows is None else rows))

    def __repr__(self) -> str:
        return f"Dataset({type(self._data).__name__}, {len(self.columns())} columns)"


@dataclass(frozen=True, slots=True)
class _Rows(Stream):
    data: Any
    wanted: Chosen | None

    def chunks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        begin = 0
        for chunk in dataset_chunks(self.data, columns):
            rows = len(chunk[0])
            if self.wanted is None:
                yield chunk
            else:
                local = self.wanted.within(begin, begin + rows) - begin
                if local.size:
                    yield [values[local] for values in chunk]
                if self.wanted.last is not None and begin + rows > self.wanted.last:
                    return
            begin += rows
