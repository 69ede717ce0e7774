"""The suite that is shipped for connectors, on each of ours."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import sourcewise as sw
from connectors.tables import duckdb_file, postgres_table
from sourcewise.errors import ConnectorError
from sourcewise.testing.connectors import LINEAR, ConnectorSuite, people


class Placed(ConnectorSuite):
    """Connectors to files in a folder of their own for each test."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def place(self, name: str) -> Path:
        """The same path for the same table would have the same time of change."""
        return self.folder / name


class TestParquet(Placed):
    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        path = self.place(f"{table.num_rows}.parquet")
        if not path.exists():
            pq.write_table(table, path, row_group_size=64)
        return sw.connect({"path": path.name, **sampling}, base=self.folder)


class TestArrow(Placed):
    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        path = self.place(f"{table.num_rows}.arrow")
        if not path.exists():
            with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table, max_chunksize=100)
        return sw.connect(path, **sampling)


class TestCsv(Placed):
    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        path = self.place(f"{table.num_rows}.csv")
        if not path.exists():
            csv.write_csv(table, path)
        return sw.connect(str(path), **sampling)


class TestFolderOfCompressedCsv(Placed):
    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        path = self.place(str(table.num_rows))
        if not path.exists():
            path.mkdir()
            (path / "_SUCCESS").touch()
            for k, start in enumerate(range(0, table.num_rows, 300)):
                with pa.CompressedOutputStream(str(path / f"part-{k}.csv.gz"), "gzip") as sink:
                    csv.write_csv(table.slice(start, 300), sink)
        return sw.connect({"kind": "csv", "path": str(path), **sampling})


class TestDictOfArrays(ConnectorSuite):
    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        data = {name: table.column(name).to_pylist() for name in table.column_names}
        return sw.connect(data, **sampling)


class TestPandas(ConnectorSuite):
    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        return sw.connect(table.to_pandas(), **sampling)


class TestPandasArrow(ConnectorSuite):
    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        return sw.connect(table.to_pandas(types_mapper=pd.ArrowDtype), **sampling)


class TestPolars(ConnectorSuite):
    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        frame = pl.from_arrow(table)
        return sw.connect(frame, **sampling)


class TestPyArrow(ConnectorSuite):
    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        return sw.connect(table, **sampling)


class TestPyArrowDataset(Placed):
    """Of files in folders of their own, as another engine partitions them."""

    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        folder = self.place(str(table.num_rows))
        if not folder.exists():
            for k, start in enumerate(range(0, table.num_rows, 300)):
                (folder / f"part={k}").mkdir(parents=True)
                pq.write_table(table.slice(start, 300), folder / f"part={k}" / "rows.parquet", row_group_size=64)
        return sw.connect(ds.dataset(folder, partitioning="hive"), **sampling)


class TestPyArrowDatasetInMemory(ConnectorSuite):
    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        return sw.connect(ds.dataset(table), **sampling)


class TestLazyPolars(ConnectorSuite):
    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        return sw.connect(frame.lazy(), **sampling)


class TestScannedPolars(Placed):
    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        path = self.place(f"{table.num_rows}.parquet")
        if not path.exists():
            pq.write_table(table, path, row_group_size=64)
        return sw.connect(pl.scan_parquet(path), **sampling)


class TestLazyPolarsByKey(ConnectorSuite):
    arrival = False

    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        return sw.connect(frame.lazy(), key="id", **sampling)

    def test_a_key_that_rows_share_is_refused(self) -> None:
        """They could be sorted otherwise the next time, and then some would be used twice."""
        frame = pl.from_arrow(people())
        assert isinstance(frame, pl.DataFrame)
        for key, gaps in (("house", pl.col("id") // 2), ("late", pl.when(pl.col("id") > 20).then("id"))):
            lazy = frame.with_columns(gaps.alias(key)).lazy()
            with pytest.raises(ConnectorError, match=rf"key \({key}\) does not tell all rows apart"):
                sw.connect(lazy, key=key).deliver(LINEAR, "people", 0, 10)
            assert sw.connect(lazy, key=[key, "id"]).deliver(LINEAR, "people", 0, 10).stop == 10


class TestDuckDBTable(Placed):
    """Rows told apart by their number."""

    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        return sw.connect(
            {"kind": "duckdb", "path": str(duckdb_file(self.folder, table)), "table": "people", **sampling}
        )


class TestDuckDBQuery(Placed):
    arrival = False

    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        path = duckdb_file(self.folder, table)
        query = "SELECT * FROM people WHERE id > 0 -- a comment at the end"
        return sw.connect(
            {"kind": "duckdb", "path": path.name, "query": query, "key": "id", **sampling}, base=self.folder
        )


class TestDuckDBOverParquet(Placed):
    arrival = False

    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        folder = self.folder / str(table.num_rows)
        folder.mkdir(exist_ok=True)
        pq.write_table(table, folder / "part.parquet")
        query = f"SELECT * FROM '{table.num_rows}/*.parquet';"
        return sw.connect({"kind": "duckdb", "query": query, "key": ["flag", "id"], **sampling}, base=self.folder)

    def test_arrival_order_is_that_of_the_table(self) -> None:
        """The key begins with another column than in the suite."""


class TestDuckDBRelation(ConnectorSuite):
    arrival = False

    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        return sw.connect(duckdb.connect().from_arrow(table), key="id", **sampling)


class TestPostgresTable(ConnectorSuite):
    arrival = False

    @pytest.fixture(autouse=True)
    def _database(self, postgres_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.url = postgres_database()
        monkeypatch.setenv("SURVEY_DB", self.url + "&password=secret")

    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        name = postgres_table(self.url, table)
        return sw.connect({"kind": "postgres", "url": "env:SURVEY_DB", "table": f"public.{name}", **sampling})


class TestPostgresQuery(TestPostgresTable):
    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        query = f"SELECT * FROM {postgres_table(self.url, table)} WHERE label LIKE '%o%'; -- of all"
        return sw.connect({"url": self.url, "query": query.replace(";", ""), "key": ["id"], **sampling})
