"""How each engine numbers its rows: Polars, Dask and Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sourcewise.connectors.lazy import FLIP, ORDER, Keyed, LazyTable, Placed, narwhals_of, not_apart
from sourcewise.connectors.order import GOLDEN, Sampling, mixed, seed_start
from sourcewise.statistics.frames import collecting
from sourcewise.statistics.lazy import Lazy, answer

if TYPE_CHECKING:
    import narwhals as nw


class PolarsTable(Placed):
    """A lazy Polars frame, read as a stream. With a key, it is sorted by that first."""

    def __init__(self, data: object, sampling: Sampling) -> None:
        super().__init__(data, sampling)
        if sampling.key:
            self._lazy = Lazy(
                self._lazy.frame.sort([self._lazy.place(name) for name in sampling.key]), self._lazy.names
            )

    def fingerprint(self) -> str:
        found = super().fingerprint()
        if self.sampling.key:  # rows that share a key may be sorted otherwise the next time
            import narwhals as nw

            key = self._lazy.frame.select([self._lazy.place(name) for name in self.sampling.key])
            different = int(answer(key.unique().select(size=nw.len()))["size"])
            if different < self.size():
                raise not_apart(self.sampling.key, "have no order that stays")
        return found

    def _places(self) -> nw.LazyFrame[Any]:
        import narwhals as nw

        frame: Any = self._lazy.frame.to_native()
        return narwhals_of(frame.with_row_index(ORDER)).with_columns(nw.col(ORDER).cast(nw.Int64))

    def _hashes(self, seed: int) -> nw.LazyFrame[Any]:
        import narwhals as nw

        pl: Any = nw.get_native_namespace(self._lazy.frame)

        def whole(value: int) -> Any:
            return pl.lit(value, dtype=pl.UInt64)

        frame: Any = self._places().to_native()
        value = mixed(pl.col(ORDER).cast(pl.UInt64) * whole(GOLDEN) + whole(seed_start(seed)), whole)
        return narwhals_of(frame.with_columns((value ^ whole(FLIP)).reinterpret(signed=True).alias(ORDER)))

    def _data(self, frame: nw.LazyFrame[Any], columns: Sequence[str]) -> object:
        """Under their own names: these rows are read here, and messages name columns."""
        import narwhals as nw

        return frame.select([nw.col(self._lazy.place(name)).alias(name) for name in columns]).to_native()


class DaskTable(Placed):
    """A Dask frame whose partitions come in the same order, with the same rows, whenever it is computed."""

    def _places(self) -> nw.LazyFrame[Any]:
        frame: Any = self._lazy.frame.to_native()
        frame = frame.assign(**{ORDER: np.int64(1)})
        return narwhals_of(frame.assign(**{ORDER: frame[ORDER].cumsum() - 1}))

    def _hashes(self, seed: int) -> nw.LazyFrame[Any]:
        return _dask_hashes(self._places(), seed)


def _dask_hashes(frame: nw.LazyFrame[Any], seed: int) -> nw.LazyFrame[Any]:
    """The numbers in the column ORDER, hashed."""
    native: Any = frame.to_native()
    value = mixed(native[ORDER].astype("uint64") * np.uint64(GOLDEN) + np.uint64(seed_start(seed)), np.uint64)
    return narwhals_of(native.assign(**{ORDER: (value ^ np.uint64(FLIP)).astype("int64")}))


class DaskKeyed(Keyed):
    """A Dask frame whose rows may come in another order the next time."""

    WHAT = "a Dask frame with a key"

    def _ordered(self) -> nw.LazyFrame[Any]:
        import narwhals as nw

        pd: Any = nw.Implementation.PANDAS.to_native_namespace()
        native: Any = self._lazy.frame.to_native()
        key = native[[self._lazy.place(name) for name in self.sampling.key]]
        hashed = key.map_partitions(pd.util.hash_pandas_object, index=False, meta=(None, "uint64"))
        return _dask_hashes(narwhals_of(native.assign(**{ORDER: hashed})), self.sampling.seed)

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
        return narwhals_of(native.withColumn(ORDER, sql.xxhash64(seed, *key)))


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
