"""A campaign over two DuckDB tables and a folder of Parquet files, killed and stopped on its way: as in one go."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import pytest

import sourcewise as sw
from sourcewise.records import CampaignRecord, plain

STUDY = """
target = "t"
moments = ["z - m", "x - a - p*(z - m)", "(z - m)*(x - a - p*(z - m))",
           "y - b - p*t*(z - m)", "(z - m)*(y - b - p*t*(z - m))"]
budget = {budget}
policy = {{kind = "etg", batch = [0.1, 0.4, 0.7, 1.0]}}

[sources.first]
observes = ["z", "x"]
data = {{path = "rows.duckdb", table = "first", seed = 1}}

[sources.second]
observes = ["z", "y"]
cost = 1.5
data = {{path = "rows.duckdb", query = "SELECT * FROM second WHERE z IS NOT NULL", key = "id", missing = "drop"}}

[sources.both]
observes = ["z", "x", "y"]
cost = 8
data = {{path = "both"}}
"""

WORLD = """
SELECT range AS id, 1e3 + a AS z, 500 + 0.5*a + h + b AS x, 1000 + 2*(0.5*a + h + b) - 1.5*h + c AS y FROM (
    SELECT range, {normal} AS a, {normal} AS b, {normal} AS c, {normal} AS h FROM range({rows}))
"""
NORMAL = "sqrt(-2*ln(1 - random()))*cos(2*pi()*random())"

WATCH = """
import sys, sourcewise
def watch(status):
    print(sum(source.rows for source in status.sources), flush=True)
sourcewise.run(sys.argv[1], sys.argv[2], watch=watch)
"""


def build(folder: Path, rows: int) -> None:
    """`rows` in all: 40 % in each DuckDB table, 20 % in five Parquet files; some values of y are missing."""
    with duckdb.connect(str(folder / "rows.duckdb")) as connection:
        connection.execute("SET enable_progress_bar = false")
        connection.execute("SET threads = 1")
        connection.execute("SELECT setseed(0.25)")
        world = WORLD.replace("{normal}", NORMAL)
        for name in ("first", "second"):
            connection.execute(f"CREATE TABLE {name} AS {world.format(rows=rows * 2 // 5)}")
        connection.execute("UPDATE second SET y = NULL WHERE id % 50 = 7")
        (folder / "both").mkdir()
        for k in range(5):
            path = folder / "both" / f"part-{k}.parquet"
            connection.execute(f"COPY ({world.format(rows=rows // 25)}) TO '{path}' (FORMAT parquet)")
    (folder / "study.toml").write_text(STUDY.format(budget=rows * 0.6), encoding="utf-8")


def stopped(folder: Path, store: Path, how: int, lines: int) -> int:
    """Run in another process, and end it by this signal once it has said so many lines; how it ended."""
    call = [sys.executable, "-c", WATCH, str(folder / "study.toml"), str(store)]
    with subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        assert child.stdout is not None
        for _ in range(lines):
            if not child.stdout.readline():
                break
        os.kill(child.pid, how)
        child.stdout.read()
    return child.returncode


def facts(record: CampaignRecord) -> dict[str, Any]:
    found = plain(record)
    return {key: found[key] for key in ("state", "sources", "money")}


def check(folder: Path, rows: int) -> None:
    build(folder, rows)
    whole = sw.run(folder / "study.toml", folder / "whole.db")
    assert whole.state == "over"
    assert whole.current is not None
    assert whole.current.value is not None
    assert whole.current.stderr is not None
    assert abs(whole.current.value - 2.0) < 4 * whole.current.stderr
    parts = folder / "parts.db"
    ends = [stopped(folder, parts, how, lines) for how, lines in ((9, 2), (2, 3), (9, 1), (2, 2))]
    assert ends[0] == -signal.SIGKILL
    record = sw.run(folder / "study.toml", parts)
    assert facts(record) == facts(whole)
    assert record.current is not None
    # rows that are read again after an interruption may be summed in another order
    assert record.current.value == pytest.approx(whole.current.value, rel=1e-12)
    assert record.current.stderr == pytest.approx(whole.current.stderr, rel=1e-10)


def test_a_campaign_over_databases_and_files_that_is_stopped_comes_to_the_same_end(tmp_path: Path) -> None:
    check(tmp_path, 10_000)


@pytest.mark.slow
def test_so_does_one_over_ten_million_rows(tmp_path: Path) -> None:
    check(tmp_path, 10_000_000)
