"""From what a study file says of a source's data, or from a frame or table in Python, to a connector."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from sourcewise.connectors.base import Connector, Table
from sourcewise.connectors.clusters import lazy_table
from sourcewise.connectors.datasets import Dataset
from sourcewise.connectors.duck import DuckFile, DuckRelation, is_relation
from sourcewise.connectors.engines import ENGINE_KEYS, ENGINE_SCHEMES, engine_table
from sourcewise.connectors.order import SAMPLING_KEYS, Sampling, read_sampling
from sourcewise.connectors.positional import Files, Frame, is_frame
from sourcewise.connectors.postgres import Postgres
from sourcewise.errors import ConnectorError
from sourcewise.statistics.datasets import is_dataset

Spec = Mapping[str, object]

FILE_KINDS = ("csv", "parquet", "arrow")
SCHEMES = {"postgresql": "postgres", "postgres": "postgres", "env": "postgres", "duckdb": "duckdb", **ENGINE_SCHEMES}


def connect(spec: object, *, base: str | os.PathLike[str] | None = None, **sampling: Any) -> Connector:
    """A connector to a table.

    `spec` is the data table of a source in a study file, such as {"path": "rows.parquet", "seed": 1} or {"kind":
    "postgres", "url": "env:SURVEY_DB", "table": "people"}; or the path of a file or folder; or a dict of arrays, a
    pandas, Polars, PyArrow, Dask or PySpark frame, a PyArrow dataset, or a DuckDB relation. Paths are relative to
    `base`. How rows are drawn (order, seed, key, missing, version) is said in the spec, or here for anything else.
    """
    if isinstance(spec, Table):
        return spec
    if isinstance(spec, str | os.PathLike):
        spec = {"url" if isinstance(spec, str) and "://" in spec else "path": spec}
    if is_spec(spec):
        assert isinstance(spec, Mapping)
        table = {**spec, **sampling}
        return _from_spec(table, None if base is None else Path(base))
    unknown = set(sampling) - set(SAMPLING_KEYS)
    if unknown:
        raise ConnectorError(f"there is no option {', '.join(sorted(unknown))}; there are {', '.join(SAMPLING_KEYS)}")
    return _from_object(spec, read_sampling(sampling))


def is_spec(spec: object) -> bool:
    """Whether a mapping describes a table; otherwise it is a dict of arrays, a table itself."""
    return isinstance(spec, Mapping) and any(
        isinstance(spec.get(key), str | os.PathLike) for key in ("kind", "path", "url", "table", "query")
    )


def _from_object(data: object, sampling: Sampling) -> Connector:
    if is_relation(data):
        return DuckRelation(data, sampling)
    if is_dataset(data):
        return Dataset(data, sampling)
    if is_frame(data):
        return Frame(data, sampling)
    found = lazy_table(data, sampling)
    if found is not None:
        return found
    raise ConnectorError(f"cannot connect to an object of type {type(data).__qualname__}")


def _from_spec(spec: Spec, base: Path | None) -> Connector:
    kind = _kind(spec)
    if kind not in _MAKERS:
        raise ConnectorError(f"there is no kind of table {kind!r}; there are {', '.join(_MAKERS)}")
    make, own = _MAKERS[kind]
    allowed = ("kind", *own, *SAMPLING_KEYS)
    for key in spec:
        if key not in allowed:
            raise ConnectorError(f"a table of kind {kind!r} has no key {key!r}; it may have {', '.join(allowed)}")
    return make(spec, base, read_sampling(spec))


def _kind(spec: Spec) -> str:
    kind = spec.get("kind")
    if kind is not None:
        return kind if isinstance(kind, str) else repr(kind)
    url = spec.get("url")
    if url is None:
        return "duckdb" if "query" in spec or "table" in spec else "file"
    scheme = str(url).partition(":")[0]
    if scheme not in SCHEMES:  # what stands there may be a password, so it is not shown
        raise ConnectorError(f"url begins with {', '.join(f'{each}:' for each in SCHEMES)}; or say the kind of table")
    return SCHEMES[scheme]


def _files(spec: Spec, base: Path | None, sampling: Sampling) -> Connector:
    kind: Any = spec.get("kind")
    if "://" in str(spec.get("path")):
        raise ConnectorError(
            'files are read from this machine; say kind = "polars", "dask" or "spark" to read from an address'
        )
    return Files(located(spec, "path", base), sampling, kind if kind in FILE_KINDS else None)


def _duckdb(spec: Spec, base: Path | None, sampling: Sampling) -> Connector:
    """`url` = duckdb:///rows.duckdb is another way to say `path`."""
    url = spec.get("url")
    if isinstance(url, str) and url.startswith("duckdb:///") and "path" not in spec:
        spec = {**spec, "path": url.removeprefix("duckdb:///")}
    elif url is not None:
        raise ConnectorError("the address of a DuckDB database is duckdb:///FILE; or give its path")
    path = located(spec, "path", base) if "path" in spec else None
    table, query = (spec.get(key) for key in ("table", "query"))
    return DuckFile(path, base or Path(), table, query, sampling)


def _postgres(spec: Spec, base: Path | None, sampling: Sampling) -> Connector:
    return Postgres(spec.get("url"), spec.get("table"), spec.get("query"), sampling)


def _engine(spec: Spec, base: Path | None, sampling: Sampling) -> Connector:
    return engine_table(spec, base, sampling, _kind(spec))


def located(spec: Spec, key: str, base: Path | None) -> Path:
    """A path of the spec, relative to `base`."""
    path = spec.get(key)
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ConnectorError(f"the data of a source need {key!r} to be a path, not {path!r}")
    return (base or Path()) / path


Maker = Callable[[Spec, Path | None, Sampling], Connector]

_MAKERS: dict[str, tuple[Maker, tuple[str, ...]]] = {
    "file": (_files, ("path",)),
    **dict.fromkeys(FILE_KINDS, (_files, ("path",))),
    **{kind: (_engine, keys) for kind, keys in ENGINE_KEYS.items()},
    "duckdb": (_duckdb, ("path", "url", "table", "query")),
    "postgres": (_postgres, ("url", "table", "query")),
}
