"""The values of a column as real numbers of any NumPy type, NaN where one is missing; and what is said of others."""

from __future__ import annotations

import difflib
import reprlib
from collections import Counter
from collections.abc import Callable, Sequence
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sourcewise.errors import DataError

if TYPE_CHECKING:
    import narwhals as nw
    import pyarrow as pa

Chunk: TypeAlias = Sequence[NDArray[Any]]
"""Some rows: one array a column."""

Piece: TypeAlias = tuple[int, Chunk | None]
"""A number of rows, and their columns if anybody needs them."""

Needed: TypeAlias = Callable[[int, int], bool]
"""Whether anybody needs a row from `start` up to `stop`."""


def columns_of(batch: pa.RecordBatch, columns: Sequence[str]) -> Chunk:
    return [from_arrow(batch.column(name), name) for name in columns]


def from_series(series: nw.Series[Any], name: str) -> NDArray[Any]:
    import narwhals as nw

    if series.dtype in (nw.Categorical, nw.Enum):  # NumPy would see the categories, which can be numbers
        raise not_numeric(name, str(series.dtype), series.drop_nulls().to_list()[:1])
    if series.dtype in (nw.Boolean, nw.Int128, nw.UInt128):
        series = series.cast(nw.Float64)  # to_numpy makes objects of booleans with nulls, and has no 128 bits
    return real(series.to_numpy(), name, str(series.dtype))


def real(values: NDArray[Any], name: str, kind: str) -> NDArray[Any]:
    """The column as real numbers of any NumPy type, NaN where a value is missing; `kind` names its type."""
    if values.dtype.kind not in "biufO":
        raise not_numeric(name, kind, values[:1].astype(str).tolist())
    if isinstance(values, np.ma.MaskedArray):
        gap: Any = None if values.dtype.kind == "O" else np.nan
        values = np.where(np.ma.getmaskarray(values), gap, np.ma.getdata(values))
    if values.dtype.kind == "O":
        return np.fromiter((_as_float(entry, name) for entry in values), np.float64, count=len(values))
    return values


def _as_float(entry: object, name: str) -> float:
    if entry is None or type(entry).__name__ == "NAType":  # pandas.NA, without importing pandas
        return np.nan
    if not isinstance(entry, Real | Decimal | np.bool_):
        raise not_numeric(name, type(entry).__name__, [entry])
    try:
        return float(entry)
    except OverflowError:  # an integer beyond the range of float64
        return np.inf
    except ValueError:  # a signalling NaN
        return np.nan


def from_arrow(values: pa.Array, name: str) -> NDArray[Any]:
    import pyarrow as pa

    kind = values.type
    if pa.types.is_decimal(kind):
        # Arrow's own cast of decimals to float64 is not correctly rounded; by way of text it is.
        values = values.cast(pa.string()).cast(pa.float64())
    elif pa.types.is_boolean(kind) or pa.types.is_null(kind):
        values = values.cast(pa.float64())
    elif not (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
        raise not_numeric(name, str(kind), values.drop_null()[:1].to_pylist())
    if values.null_count:
        values = values.cast(pa.float64(), safe=False).fill_null(np.nan)
    array: NDArray[Any] = np.from_dlpack(values)  # to_numpy would import pandas, for longer than many a table takes
    return array


def check_names(names: Sequence[Any], columns: Sequence[str]) -> None:
    counts = Counter(names)
    for name in columns:
        if counts[name] > 1:
            raise DataError(f"{counts[name]} columns are named {name!r}; rename them so that one is left")
    lacking = [name for name in columns if name not in counts]
    if lacking:
        close = difflib.get_close_matches(lacking[0], [str(name) for name in names], n=1)
        hint = f" Did you mean {close[0]!r} instead of {lacking[0]!r}?" if close else ""
        shown = ", ".join(map(reprlib.repr, names[:20])) + (", ..." if len(names) > 20 else "")
        wanted = ", ".join(repr(name) for name in lacking)
        raise DataError(f"there is no column {wanted}; the columns are {shown or 'none'}.{hint}")


def not_numeric(name: str, kind: str, examples: Sequence[object]) -> DataError:
    shown = f", for example {reprlib.repr(examples[0])}" if examples else ""
    return DataError(
        f"column {name!r} is not numeric (type {kind}{shown}). Only numbers and booleans can be used: "
        "turn it into numbers first"
    )
