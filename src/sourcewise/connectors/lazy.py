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
from sourcewise.connectors.order import GOLDEN, SLACK, Sampling, hash_bounds, mixed, seed_start
from sourcewise.errors import ConnectorError
from sourcewise.moments.compiled import CompiledSource
from sourcewise.statistics.cells import Chunk, check_names
from sourcewise.statistics.frames import Missing, collecting, raw_blocks
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
        import narwhals as nw

        return self._ordered().filter((nw.col(ORDER) >= bounds[0]) & (nw.col(ORDER) <= bounds[1]))

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
            frame = self._hashes(0).filter(_between(low - FLIP, high - FLIP))
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


class PolarsTable(Placed):
    """A lazy Polars frame, read as a stream. With a key, it is sorted by that first."""

    def __init__(self, data: object, sampling: Sampling) -> None:
        super().__init__(data, sampling)
        if sampling.key:
            self._lazy = Lazy(
                self._lazy.frame.sort([self._lazy.place(name) for name in sampling.key]), self._lazy.names
            )

    def _places(self) -> nw.LazyFrame[Any]:
        import narwhals as nw

        frame: Any = self._lazy.frame.to_native()
        return _narwhals(frame.with_row_index(ORDER)).with_columns(nw.col(ORDER).cast(nw.Int64))

    def _hashes(self, seed: int) -> nw.LazyFrame[Any]:
        import narwhals as nw

        pl: Any = nw.get_native_namespace(self._lazy.frame)

        def whole(value: int) -> Any:
            return pl.lit(value, dtype=pl.UInt64)

        frame: Any = self._places().to_native()
        value = mixed(pl.col(ORDER).cast(pl.UInt64) * whole(GOLDEN) + whole(seed_start(seed)), whole)
        return _narwhals(frame.with_columns((value ^ whole(FLIP)).reinterpret(signed=True).alias(ORDER)))

    def _data(self, frame: nw.LazyFrame[Any], columns: Sequence[str]) -> object:
        """Under their own names: these rows are read here, and messages name columns."""
        import narwhals as nw

        return frame.select([nw.col(self._lazy.place(name)).alias(name) for name in columns]).to_native()


class DaskTable(Placed):
    """A Dask frame whose partitions come in the same order, with the same rows, whenever it is computed."""

    def _places(self) -> nw.LazyFrame[Any]:
        frame: Any = self._lazy.frame.to_native()
        frame = frame.assign(**{ORDER: np.int64(1)})
        return _narwhals(frame.assign(**{ORDER: frame[ORDER].cumsum() - 1}))

    def _hashes(self, seed: int) -> nw.LazyFrame[Any]:
        return _dask_hashes(self._places(), seed)


def _dask_hashes(frame: nw.LazyFrame[Any], seed: int) -> nw.LazyFrame[Any]:
    """The numbers in the column ORDER, hashed."""
    native: Any = frame.to_native()
    value = mixed(native[ORDER].astype("uint64") * np.uint64(GOLDEN) + np.uint64(seed_start(seed)), np.uint64)
    return _narwhals(native.assign(**{ORDER: (value ^ np.uint64(FLIP)).astype("int64")}))


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
            raise ConnectorError(
                f"the key ({', '.join(self.sampling.key)}) does not tell all rows apart, so rows that share it would "
                f"always be drawn together: name further columns in key, until no two rows are alike in them"
            )
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
            self._known[rank] = self._smallest(frame.filter(_between(low, high)), rank + 1 - below["below"])
        return self._known[rank]

    def _smallest(self, frame: nw.LazyFrame[Any], count: int) -> int:
        """The last of the smallest numbers of a frame."""
        import narwhals as nw

        near = frame.select(ORDER).top_k(count, by=ORDER, reverse=True)
        return int(answer(near.select(found=nw.col(ORDER).max()))["found"])


class DaskKeyed(Keyed):
    """A Dask frame whose rows may come in another order the next time."""

    WHAT = "a Dask frame with a key"

    def _ordered(self) -> nw.LazyFrame[Any]:
        import narwhals as nw

        pd: Any = nw.Implementation.PANDAS.to_native_namespace()
        native: Any = self._lazy.frame.to_native()
        key = native[[self._lazy.place(name) for name in self.sampling.key]]
        hashed = key.map_partitions(pd.util.hash_pandas_object, index=False, meta=(None, "uint64"))
        return _dask_hashes(_narwhals(native.assign(**{ORDER: hashed})), self.sampling.seed)

    def _smallest(self, frame: nw.LazyFrame[Any], count: int) -> int:
        native: Any = frame.to_native()
        with collecting():  # Dask's own, as its optimizer takes the one of Narwhals for that of a series
            return int(native[ORDER].nsmallest(count).max().compute())


class SparkTable(Keyed):
    """A PySpark frame, or one of Spark Connect."""

    WHAT = "a Spark frame"

    def _ordered(self) -> nw.LazyFrame[Any]:
        from pyspark.sql import functions as sql

        native: Any = self._lazy.frame.to_native()
        key = [sql.col(self._lazy.place(name)) for name in self.sampling.key]
        seed = sql.lit(self.sampling.seed).cast("long")
        return _narwhals(native.withColumn(ORDER, sql.xxhash64(seed, *key)))


def _narwhals(native: object) -> nw.LazyFrame[Any]:
    import narwhals as nw

    frame: nw.LazyFrame[Any] = nw.from_native(native)
    return frame


def _between(low: int, high: int) -> nw.Expr:
    import narwhals as nw

    return (nw.col(ORDER) >= low) & (nw.col(ORDER) <= high)


def _at(share: float) -> int:
    """The number below which this share of all numbers lies."""
    return int(min(max(share, 0.0), 1.0) * (2**64 - 2**11)) - FLIP


def lazy_table(data: object, sampling: Sampling) -> LazyTable | None:
    """The table of a lazy frame; None for anything else."""
    import narwhals as nw

    found: Any = nw.from_native(data, pass_through=True)
    if not isinstance(found, nw.LazyFrame):
        return None
    engine = found.implementation
    if engine.is_polars():
        return PolarsTable(data, sampling)
    if engine.is_dask():
        return (DaskKeyed if sampling.key else DaskTable)(data, sampling)
    if engine.is_pyspark() or engine.is_pyspark_connect():
        with collecting():
            return SparkTable(data, sampling)
    return None
