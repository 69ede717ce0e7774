"""Tables that an engine answers for: lazy Polars frames, and Dask and PySpark frames on a cluster.

Each row gets one whole number by which it is ordered, computed by the engine. The next rows are those whose number lies
between two bounds, so nothing is sorted or brought together, and how the table is divided makes no difference.

Where rows have a place (Polars, Dask) the number is that of `order.row_hash`, or the place itself for "arrival" order:
the same seed takes the same rows from a file, from a frame in memory and from these. Where they have none (PySpark), or
may be in another place tomorrow, it is a hash of the columns that tell rows apart, the key.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from sourcewise.connectors.base import Table
from sourcewise.connectors.order import SLACK, Sampling, hash_bounds
from sourcewise.errors import ConnectorError
from sourcewise.moments.compiled import CompiledSource
from sourcewise.statistics.cells import Chunk, check_names
from sourcewise.statistics.frames import Missing, raw_blocks
from sourcewise.statistics.lazy import Lazy, answer
from sourcewise.statistics.summarize import Summable, Summary, measure_there

if TYPE_CHECKING:
    import narwhals as nw

ORDER = "sourcewise_order"
"""The column of numbers: as signed 64-bit integers, which every engine has, in the order of unsigned ones."""

FLIP = 1 << 63
PROBE = 64
"""Rows that a fingerprint looks at: if a tenth of the rows moved, they all look the same in one case of a thousand."""

PROBED_COLUMNS = 32

Bounds = tuple[int, int]
"""The first and the last number of some rows."""


class LazyTable(Table):
    """The base: how rows are numbered is said by each engine."""

    def __init__(self, data: object, sampling: Sampling) -> None:
        super().__init__(sampling)
        self._kind = type(data).__module__.partition(".")[0]
        self._lazy = Lazy.of(data)
        self._size: int | None = None

    @abstractmethod
    def _ordered(self) -> nw.LazyFrame[Any]:
        """The frame with its column of numbers."""

    @abstractmethod
    def _bounds(self, start: int, stop: int) -> Bounds:
        """Of the rows of ranks start < stop ≤ size."""

    def columns(self) -> tuple[str, ...]:
        return self._lazy.names

    def size(self) -> int:
        """Counted with each fingerprint."""
        if self._size is None:
            import narwhals as nw

            self._size = int(answer(self._lazy.frame.select(size=nw.len()))["size"])
        return self._size

    def sample(self, columns: Sequence[str], start: int, rows: int | None) -> object:
        check_names(self._lazy.names, columns)
        size = self.size()
        stop = size if rows is None else min(start + rows, size)
        if (start, stop) == (0, size):
            return self._data(self._lazy.frame, columns)
        bounds = self._bounds(start, stop) if start < stop else (0, -1)
        return self._data(self._within(bounds), columns)

    def _within(self, bounds: Bounds) -> nw.LazyFrame[Any]:
        return self._ordered().filter(between(*bounds))

    def _data(self, frame: nw.LazyFrame[Any], columns: Sequence[str]) -> object:
        return _There(Lazy(frame, self._lazy.names))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._kind}, {len(self._lazy.names)} columns)"


@dataclass(frozen=True, slots=True)
class _There(Summable):
    """Rows that are summed where they are."""

    lazy: Lazy

    def measure(
        self, source: CompiledSource, centre: Mapping[str, float] | None, missing: Missing, *, empty: bool = False
    ) -> Summary:
        return measure_there(source, self.lazy, centre, missing, empty=empty)

    def chunks(self, columns: Sequence[str]) -> Iterator[Chunk]:
        return (list(block) for block in raw_blocks(self.lazy.rows(columns), columns))


# --- rows with a place -----------------------------------------------------------------------------------------------


class Placed(LazyTable):
    """Rows are told apart by their place."""

    @abstractmethod
    def _places(self) -> nw.LazyFrame[Any]:
        """The frame with the numbers 0, 1, 2, … of its rows."""

    @abstractmethod
    def _hashes(self, seed: int) -> nw.LazyFrame[Any]:
        """The frame with `order.row_hash` of these numbers."""

    def fingerprint(self) -> str:
        """Of the number of rows, and the numeric columns of some rows from all over the table."""
        self._size = None
        size, digest = self.size(), blake2b(digest_size=12)
        schema = self._lazy.frame.collect_schema()
        numeric = [name for k, name in enumerate(self._lazy.names) if schema[f"c{k}"].is_numeric()][:PROBED_COLUMNS]
        if size and numeric:
            low, high = hash_bounds(0, size, 0, min(PROBE, size))
            frame = self._hashes(0).filter(between(low - FLIP, high - FLIP))
            rows = self._data(frame, numeric)
            for block in raw_blocks(rows, numeric):
                digest.update(block.tobytes())
        digest.update(repr((size, self._lazy.names)).encode(errors="surrogateescape"))
        return f"{self._kind}:{size}:{digest.hexdigest()}"

    def _ordered(self) -> nw.LazyFrame[Any]:
        return self._places() if self.sampling.order == "arrival" else self._hashes(self.sampling.seed)

    def _bounds(self, start: int, stop: int) -> Bounds:
        if self.sampling.order == "arrival":
            return start, stop - 1
        low, high = hash_bounds(self.sampling.seed, self.size(), start, stop)
        return low - FLIP, high - FLIP


# --- rows without a place --------------------------------------------------------------------------------------------


class Keyed(LazyTable):
    """Rows are told apart by a key, and ordered by its hash; bounds are found by counting."""

    def __init__(self, data: object, sampling: Sampling) -> None:
        if not sampling.key:
            raise ConnectorError(
                f"the rows of {type(self).WHAT} have no place of their own: say which columns tell them apart, as "
                f'key = "id" or key = ["household", "person"]'
            )
        if sampling.order == "arrival":
            raise ConnectorError(
                f'the rows of {type(self).WHAT} come in no order of their own, so order = "arrival" is not to be had; '
                f'order = "random" takes them by a hash of the key'
            )
        super().__init__(data, sampling)
        check_names(self._lazy.names, sampling.key)
        self._known: dict[int, int] = {}

    WHAT = "this table"

    def fingerprint(self) -> str:
        """Of the number of rows and their keys."""
        import narwhals as nw

        low = (nw.col(ORDER) % 2**31).cast(nw.Int64).sum().alias("low")  # does not overflow up to 4e9 rows
        found = answer(self._ordered().select(low, size=nw.len()))
        self._size = int(found["size"])
        mark = blake2b(repr((found["low"], self._lazy.names)).encode(errors="surrogateescape"), digest_size=12)
        now = f"{self._kind}:{self._size}:{mark.hexdigest()}"
        self._known = {}
        return now

    def _bounds(self, start: int, stop: int) -> Bounds:
        import narwhals as nw

        bounds = self._number(start), self._number(stop - 1)
        found = answer(self._within(bounds).select(rows=nw.len(), keys=nw.col(ORDER).n_unique()))
        if (found["rows"], found["keys"]) != (stop - start, stop - start):
            raise not_apart(self.sampling.key, "would always be drawn together")
        return bounds

    def _number(self, rank: int) -> int:
        """The number of the row of this rank: the smallest few of those near the place where it must be."""
        import narwhals as nw

        if rank not in self._known:
            size, place = self.size(), nw.col(ORDER)
            margin = SLACK * np.sqrt(size) + SLACK**2
            low, high = (_at((rank + side * margin) / size) for side in (-1, 1))
            frame = self._ordered()
            counts = frame.select(below=(place < low).cast(nw.Int64).sum(), upto=(place <= high).cast(nw.Int64).sum())
            below = answer(counts)
            if not below["below"] <= rank < below["upto"]:  # a key of few values, which is refused by who asked
                low, high, below = -FLIP, FLIP - 1, {"below": 0}
            self._known[rank] = self._smallest(frame.filter(between(low, high)), rank + 1 - below["below"])
        return self._known[rank]

    def _smallest(self, frame: nw.LazyFrame[Any], count: int) -> int:
        """The last of the smallest numbers of a frame."""
        import narwhals as nw

        near = frame.select(ORDER).top_k(count, by=ORDER, reverse=True)
        return int(answer(near.select(found=nw.col(ORDER).max()))["found"])


def not_apart(key: Sequence[str], harm: str) -> ConnectorError:
    return ConnectorError(
        f"the key ({', '.join(key)}) does not tell all rows apart, so rows that share it {harm}: name further columns "
        f"in key, until no two rows are alike in them"
    )


def narwhals_of(native: object) -> nw.LazyFrame[Any]:
    import narwhals as nw

    frame: nw.LazyFrame[Any] = nw.from_native(native)
    return frame


def between(low: int, high: int) -> nw.Expr:
    import narwhals as nw

    return (nw.col(ORDER) >= low) & (nw.col(ORDER) <= high)


def _at(share: float) -> int:
    """The number below which this share of all numbers lies."""
    return int(min(max(share, 0.0), 1.0) * (2**64 - 2**11)) - FLIP
