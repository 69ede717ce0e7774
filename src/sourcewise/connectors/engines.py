"""Tables of a study file that an engine opens: Polars in this process, Dask and Spark here or on a cluster."""

from __future__ import annotations

import os
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sourcewise.connectors.clusters import lazy_table
from sourcewise.connectors.lazy import LazyTable
from sourcewise.connectors.order import Sampling
from sourcewise.errors import ConnectorError
from sourcewise.statistics.files import kind_of
from sourcewise.statistics.frames import collecting

Spec = Mapping[str, object]

ENGINE_KEYS: dict[str, tuple[str, ...]] = {
    "polars": ("path",),
    "dask": ("path", "url"),
    "spark": ("path", "table", "query", "url"),
}
ENGINE_SCHEMES = {"sc": "spark", "spark": "spark", "tcp": "dask", "tls": "dask"}
"""What the beginning of a connection URL says, where no kind does."""


def engine_table(spec: Spec, base: Path | None, sampling: Sampling, kind: str) -> LazyTable:
    """The table of a spec of kind "polars", "dask" or "spark"."""
    maker = {"polars": _polars, "dask": _dask, "spark": _spark}[kind]
    with collecting():
        frame = maker(spec, base)
    found = lazy_table(frame, sampling)
    assert found is not None
    return found


def _polars(spec: Spec, base: Path | None) -> Any:
    polars = _package("polars", "polars")
    path = _path(spec, base)
    return getattr(polars, {"csv": "scan_csv", "parquet": "scan_parquet", "arrow": "scan_ipc"}[_format(path)])(path)


def _dask(spec: Spec, base: Path | None) -> Any:
    """On the cluster at `url`; otherwise wherever Dask computes in this process."""
    frames = _package("dask.dataframe", "dask")
    path, url = _path(spec, base), _text(spec, "url")
    if url is not None:
        _package("distributed", "dask").get_client(url)
    kind = _format(path)
    if kind == "arrow":
        raise ConnectorError("Dask reads CSV and Parquet files, not Arrow ones; convert them, or leave kind out")
    return frames.read_parquet(path, dtype_backend="pyarrow") if kind == "parquet" else frames.read_csv(path)


def _spark(spec: Spec, base: Path | None) -> Any:
    """Of the session of this process if there is one, else of the cluster at `url`, else of Spark in this process."""
    session = _session(_text(spec, "url"))
    given = [key for key in ("path", "table", "query") if key in spec]
    if len(given) != 1:
        raise ConnectorError(f"the data of a source in Spark need one of path, table and query, not {given or 'none'}")
    if given == ["path"]:
        path = _path(spec, base)
        kind = _format(path)
        if kind == "arrow":
            raise ConnectorError("Spark reads CSV and Parquet files, not Arrow ones; convert them, or leave kind out")
        csv = session.read.options(header=True, inferSchema=True).csv
        return session.read.parquet(path) if kind == "parquet" else csv(path)
    text = _text(spec, given[0])
    return session.table(text) if given == ["table"] else session.sql(text)


def _session(url: str | None) -> Any:
    builder = _package("pyspark.sql", "spark").SparkSession.builder
    if url is None:
        return builder.getOrCreate()
    if url.startswith("sc://"):
        if find_spec("grpc") is None:  # PySpark itself would end the process
            raise ConnectorError("a Spark Connect address needs further packages: pip install 'pyspark[connect]'")
        return builder.remote(url).getOrCreate()
    return builder.master(url).getOrCreate()


def _package(name: str, extra: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        what = f"the package {name.partition('.')[0]}, which is not installed: pip install 'sourcewise[{extra}]'"
        raise ConnectorError(f"a table of this kind needs {what} ({error})") from None


def _path(spec: Spec, base: Path | None) -> str:
    """As it is where it names a place of its own, such as s3://…; otherwise relative to the study file."""
    path = spec.get("path")
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ConnectorError(f"the data of a source need 'path' to be a path, not {path!r}")
    text = os.fspath(path)
    return text if "://" in text else str((base or Path()).absolute() / text)


def _format(path: str) -> str:
    """By the ending of the name; a folder without one is taken for Parquet, as engines write it."""
    name = Path(path.rstrip("/"))
    inner = sorted(p for p in name.iterdir() if p.name[0] not in "._") if name.is_dir() else [name]
    return kind_of(inner[0]) if inner and inner[0].suffix else "parquet"


def _text(spec: Spec, key: str) -> str | None:
    """A text of the spec; env:NAME stands for what the environment holds under that name."""
    text = spec.get(key)
    if text is None:
        return None
    if not isinstance(text, str) or not text:
        raise ConnectorError(f"the data of a source need {key!r} to be a text, not {text!r}")
    if key == "url" and text.startswith("env:"):
        name = text.removeprefix("env:")
        if name not in os.environ:
            raise ConnectorError(f"the data of a source are at {text}, but the environment has no variable {name}")
        return os.environ[name]
    return text
