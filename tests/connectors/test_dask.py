"""Dask frames: the suite, in this process and on a cluster of two workers, and what leaves the workers."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

import sourcewise as sw
from sourcewise.testing.connectors import ConnectorSuite

dask = pytest.importorskip("dask")
frames = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")


def frame(table: Any, partitions: int = 3) -> Any:
    return frames.from_pandas(table.to_pandas(types_mapper=pd.ArrowDtype), npartitions=partitions)


class TestDask(ConnectorSuite):
    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        return sw.connect(frame(table), **sampling)


class TestDaskByKey(ConnectorSuite):
    arrival = None

    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        return sw.connect(frame(table), key="id", **sampling)
