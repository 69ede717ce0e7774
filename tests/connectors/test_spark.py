"""PySpark frames: the suite in local mode, what leaves the cluster, and campaigns over a source in Spark."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sourcewise as sw
from connectors.clusters import check_run, study_file
from sourcewise.errors import ConnectorError, DataError
from sourcewise.testing.connectors import LINEAR, ROWS, SMOOTH, ConnectorSuite, people

pytest.importorskip("pyspark", reason="PySpark is not installed: make test-extras")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs Java, and there is none here", allow_module_level=True)

from pyspark.sql import SparkSession

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning:py4j")  # sockets to the JVM close with the process


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Small: as many tasks as there are partitions would take longer than the work."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("spark")),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    builder = SparkSession.builder.master("local[2]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    yield session
    session.stop()


class TestSpark(ConnectorSuite):
    arrival = None

    @pytest.fixture(autouse=True)
    def _session(self, spark: Any, tmp_path: Path) -> None:
        self.spark, self.folder = spark, tmp_path

    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        return sw.connect(stored(self.spark, self.folder, table), key="id", **sampling)


def stored(spark: Any, folder: Path, table: Any, files: int = 2) -> Any:
    place = folder / f"{table.num_rows}-{files}"
    place.mkdir(exist_ok=True)
    for k in range(files):
        first, last = (j * table.num_rows // files for j in (k, k + 1))
        pq.write_table(table.slice(first, last - first), place / f"{k}.parquet")
    return spark.read.parquet(str(place))


def test_only_sums_and_counts_leave_the_cluster(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that the driver of this process fetches is one row at a time, of no more than K × K numbers."""
    fetched: list[tuple[int, int]] = []
    kind = type(spark.range(1))
    to_arrow = kind.toArrow

    def watched(self: Any) -> Any:
        found = to_arrow(self)
        fetched.append(found.shape)
        return found

    def unexpected(self: Any, *_: Any) -> Any:
        raise AssertionError("rows were fetched in another way")

    monkeypatch.setattr(kind, "toArrow", watched)
    for name in ("collect", "toPandas", "toLocalIterator", "take", "head"):
        monkeypatch.setattr(kind, name, unexpected)
    connector = sw.connect(stored(spark, tmp_path, people()), key="id", seed=2)
    delivery = connector.deliver(SMOOTH, "people", 100, 700)
    assert isinstance(delivery.statistics, sw.Statistics)
    assert (delivery.statistics.n, delivery.note) == (700, "")
    terms = len(delivery.statistics.terms)
    assert fetched
    assert {rows for rows, _ in fetched} == {1}
    # sums of distinct products; and of each column how often it was missing, infinite or not to be computed
    assert max(columns for _, columns in fetched) <= terms * (terms + 1) // 2 + 3 * terms


def test_partitions_make_no_difference(spark: Any, tmp_path: Path) -> None:
    drawn = [
        set(sw.connect(stored(spark, tmp_path, people(), files), key="id", seed=5).take(100, 50, ["id"])["id"].tolist())
        for files in (1, 3)
    ]
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) == 50


def test_the_order_is_the_same_in_every_version(spark: Any, tmp_path: Path) -> None:
    """A campaign that goes on with another Spark finds its rows: these are from Spark 4.3.0."""
    found = sw.connect(stored(spark, tmp_path, people()), key="id", seed=5).take(0, 5, ["id"])["id"]
    assert sorted(found.tolist()) == FIRST


FIRST = [203.0, 212.0, 388.0, 474.0, 852.0]


def test_rows_need_a_key_that_tells_them_apart(spark: Any, tmp_path: Path) -> None:
    data = stored(spark, tmp_path, people().append_column("house", pa.array(np.arange(ROWS) // 2)))
    with pytest.raises(ConnectorError, match='say which columns tell them apart, as key = "id"'):
        sw.connect(data)
    with pytest.raises(ConnectorError, match=r"key \(house\) does not tell all rows apart"):
        sw.connect(data, key="house").deliver(LINEAR, "people", 0, 100)
    assert sw.connect(data, key=["house", "id"]).deliver(LINEAR, "people", 0, 100).stop == 100


def test_what_the_engine_says_is_short(spark: Any, tmp_path: Path) -> None:
    place = tmp_path / "gone"
    place.mkdir()
    pq.write_table(people(), place / "0.parquet")
    connector = sw.connect({"kind": "spark", "path": "gone", "key": "id"}, base=tmp_path)
    (place / "0.parquet").unlink()
    with pytest.raises(DataError) as caught:
        connector.deliver(LINEAR, "people", 0, 100)
    assert len(str(caught.value)) < 500
    with pytest.raises(DataError, match="could not be collected"):
        sw.connect({"kind": "spark", "table": "nowhere", "key": "id"})


def test_a_run_over_a_spark_source_of_a_study_file(spark: Any, tmp_path: Path) -> None:
    stored(spark, tmp_path, people(5_000), 3)
    check_run(study_file(tmp_path, '{kind = "spark", path = "5000-3", key = "id", seed = 3}'))


def test_a_table_and_a_query(spark: Any, tmp_path: Path) -> None:
    stored(spark, tmp_path, people()).createOrReplaceTempView("everybody")
    table = sw.connect({"kind": "spark", "table": "everybody", "key": "id"})
    query = sw.connect({"kind": "spark", "query": "SELECT * FROM everybody WHERE flag", "key": "id"})
    assert table.size() == ROWS
    assert query.size() == int(np.sum(people().column("flag").to_numpy(zero_copy_only=False)))
    both = [each.deliver(LINEAR, "people", 0, 300).statistics for each in (table, sw.connect(people()))]
    assert all(isinstance(each, sw.Statistics) and each.n == 300 for each in both)


@pytest.mark.skipif(find_spec("grpc") is not None, reason="what Spark Connect needs is installed")
def test_an_address_of_spark_connect_says_what_it_needs() -> None:
    with pytest.raises(ConnectorError, match=r"pip install 'pyspark\[connect\]'"):
        sw.connect({"url": "sc://localhost:1", "table": "people", "key": "id"})
