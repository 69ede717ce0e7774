"""What the batches of an Arrow file unpack to, read from their headers before anything is unpacked.

PyArrow unpacks a batch whole, and 70 kB can hold 2 GB of zeros. The headers are FlatBuffers; of them this reads only
the few numbers that it needs.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import IO

MARK = b"\xff\xff\xff\xff"
HEADER = 1 << 26
"""Bytes of a header that are looked at; those of a thousand columns take 100 kB."""

DICTIONARY, BATCH = 2, 3


def unpacked_bytes(path: Path, skip: int) -> Iterator[int]:
    """Of each packed batch the bytes that its buffers say they unpack to. `skip`: where the first message begins.

    Ends early where the file is not what it should be, which PyArrow then says."""
    with path.open("rb") as file:
        file.seek(skip)
        try:
            yield from _messages(file)
        except (struct.error, OverflowError, OSError, ValueError):
            return


def _messages(file: IO[bytes]) -> Iterator[int]:
    while (start := file.read(8))[:4] == MARK and len(start) == 8:
        size = _number("<i", start, 4)
        if not 0 < size <= HEADER:
            return
        header = file.read(size)
        body = file.tell()
        message = _number("<I", header, 0)
        kind, content, length = (_field(header, message, k) for k in (1, 2, 3))
        if kind and content and header[kind] in (DICTIONARY, BATCH):
            batch = _inner(header, content)
            inside = _field(header, batch, 1)
            yield _unpacked(
                file, header, _inner(header, inside) if inside and header[kind] == DICTIONARY else batch, body
            )
        file.seek(body + (_number("<q", header, length) if length else 0))


def _unpacked(file: IO[bytes], header: bytes, batch: int, body: int) -> int:
    """A packed buffer begins with its length when unpacked, or −1 where it is not packed after all."""
    buffers, packed = _field(header, batch, 2), _field(header, batch, 3)
    if not buffers or not packed:
        return 0
    vector, total = _inner(header, buffers), 0
    for k in range(_number("<I", header, vector)):
        offset, length = struct.unpack_from("<qq", header, vector + 4 + 16 * k)
        if length >= 8:
            file.seek(body + offset)
            total += max(_number("<q", file.read(8), 0), 0)
    return total


def _field(header: bytes, table: int, index: int) -> int:
    """The place of a field of a FlatBuffers table; 0 if it is not there."""
    columns = table - _number("<i", header, table)
    place = 4 + 2 * index
    offset = _number("<H", header, columns + place) if place < _number("<H", header, columns) else 0
    return table + offset if offset else 0


def _inner(header: bytes, place: int) -> int:
    """What an offset leads to."""
    return place + _number("<I", header, place)


def _number(kind: str, text: bytes, place: int) -> int:
    return int(struct.unpack_from(kind, text, place)[0])
