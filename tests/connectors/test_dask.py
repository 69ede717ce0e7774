"""Dask frames: the suite, in this process and on a cluster of two workers, and what leaves the workers."""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import sourcewise as sw
from connectors.clusters import check_run, study_file
from sourcewise.errors import ConnectorError, DataError
from sourcewise.testing.connectors import LINEAR, ROWS, SMOOTH, ConnectorSuite, assert_agree, people

dask = pytest.importorskip("dask")
frames = pytest.importorskip("dask.dataframe")
distributed = pytest.importorskip("distributed")

# Dask 2026.8 calls pandas 3.1 in a way that pandas is about to take away
pytestmark = pytest.mark.filterwarnings("ignore:The inplace keyword in DataFrame")


def frame(table: Any, partitions: int = 3) -> Any:
    return frames.from_pandas(table.to_pandas(types_mapper=pd.ArrowDtype), npartitions=partitions)


class TestDask(ConnectorSuite):
    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        return sw.connect(frame(table), **sampling)


class TestDaskByKey(ConnectorSuite):
    arrival = None

    def connector(self, table: Any, **sampling: Any) -> sw.Connector:
        return sw.connect(frame(table), key="id", **sampling)


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=40) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_a_cluster_of_two_workers_gives_the_same_statistics(client: Any) -> None:
    table = people(20_000)
    here = sw.connect(table, seed=2)
    for connector in (sw.connect(frame(table, 7), seed=2), sw.connect(frame(table, 4), seed=2)):
        for study in (LINEAR, SMOOTH):
            there = connector.deliver(study, "people", 5_000, 3_000)
            assert isinstance(there.statistics, sw.Statistics)
            same = here.deliver(study, "people", 5_000, 3_000, there.statistics.centre)
            assert isinstance(same.statistics, sw.Statistics)
            assert_agree(there.statistics, same.statistics)
    assert len(client.scheduler_info()["workers"]) == 2


def test_only_sums_and_counts_leave_the_workers(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that the client fetches: for 7 partitions, less than one column of the rows that were summed."""
    fetched: list[int] = []
    gather = distributed.Client.gather

    def watched(self: Any, futures: Any, *args: Any, **more: Any) -> Any:
        found = gather(self, futures, *args, **more)
        if not inspect.isawaitable(found):
            fetched.append(len(pickle.dumps(found)))
        return found

    monkeypatch.setattr(distributed.Client, "gather", watched)
    table = people(50_000)
    for sampling in ({}, {"key": "id"}):
        fetched.clear()
        # held by the workers: rows that this process sent there are not asked for again
        connector = sw.connect(frame(table, 7).persist(), seed=2, **sampling)
        delivery = connector.deliver(LINEAR, "people", 0, 40_000)
        assert isinstance(delivery.statistics, sw.Statistics)
        assert (delivery.statistics.n, delivery.note) == (40_000, "")
        sums = 8 * len(delivery.statistics.terms) ** 2
        assert fetched
        assert sum(fetched) < 7 * (sums + 2_000) + 20_000 < 8 * 40_000


def test_a_key_that_does_not_tell_rows_apart_is_refused() -> None:
    table = people().append_column("house", pa.array(np.arange(ROWS) // 2))
    connector = sw.connect(frame(table), key="house")
    with pytest.raises(ConnectorError, match=r"key \(house\) does not tell all rows apart"):
        connector.deliver(LINEAR, "people", 0, 100)


def test_partitions_make_no_difference() -> None:
    each: tuple[dict[str, Any], ...] = ({}, {"key": ["id"]}, {"key": ["label", "id"]})
    for sampling in each:
        drawn = [
            set(sw.connect(frame(people(), count), seed=5, **sampling).take(100, 50, ["id"])["id"].tolist())
            for count in (1, 3, 8)
        ]
        assert drawn[0] == drawn[1] == drawn[2]
        assert len(drawn[0]) == 50


def test_places_give_the_rows_of_a_frame_in_memory() -> None:
    for order in ("random", "arrival"):
        drawn = [
            set(sw.connect(data, seed=5, order=order).take(100, 50, ["id"])["id"].tolist())
            for data in (people(), frame(people()))
        ]
        assert drawn[0] == drawn[1]


def test_formulas_that_the_engine_cannot_compute_name_the_source() -> None:
    study = sw.Study(["1/flag - a"], "a", {"people": sw.Source("flag")})
    with pytest.raises(DataError, match=r"'people'.*flag\*\*\(-1\) is not a finite number"):
        sw.summarize(study, "people", frame(people()))


def test_a_run_over_a_dask_source_of_a_study_file(tmp_path: Path) -> None:
    frame(people(5_000)).to_parquet(tmp_path / "people")
    check_run(study_file(tmp_path, '{kind = "dask", path = "people", seed = 3}'))


def test_a_run_on_a_cluster_by_its_address(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame(people(5_000)).to_parquet(tmp_path / "people")
    monkeypatch.setenv("CLUSTER", client.scheduler.address)
    connector = sw.connect({"kind": "dask", "url": "env:CLUSTER", "path": "people"}, base=tmp_path)
    assert connector.deliver(LINEAR, "people", 0, 100).stop == 100
    connector = sw.connect({"url": client.scheduler.address, "path": "people"}, base=tmp_path)
    assert connector.deliver(LINEAR, "people", 0, 100).stop == 100
