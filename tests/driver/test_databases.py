"""Campaigns whose rows are on a server: neither a lost connection nor a changed table loses what was counted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

import sourcewise as sw
from sourcewise.connectors.postgres import PostgresSession

STUDY = """
target = "b - a"
moments = ["x - a", "y - b"]
budget = 300
policy = {kind = "etg", batch = 0.25}
[sources.left]
observes = ["x"]
data = {url = "env:SURVEY_DB", table = "people"}
[sources.right]
observes = ["y"]
data = {url = "env:SURVEY_DB", query = "SELECT * FROM people WHERE y IS NOT NULL", key = "id"}
"""


@pytest.fixture
def url(postgres_database: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> str:
    address = postgres_database()
    with psycopg.connect(address) as connection:
        connection.execute("CREATE TABLE people (id integer PRIMARY KEY, x double precision, y numeric)")
        connection.execute("INSERT INTO people SELECT k, k % 17, (k * k) % 23 FROM generate_series(1, 1000) AS k")
    monkeypatch.setenv("SURVEY_DB", address + "&password=secret")
    return address


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY, encoding="utf-8")
    return path


def test_a_lost_connection_ends_a_run_that_goes_on_later(
    url: str, study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sessions are ended by the server at the 1st, 12th, 23rd, … statement."""
    whole = sw.run(study, tmp_path / "whole.db")
    answer, said = PostgresSession.answer, 0

    def failing(self: PostgresSession, statement: str) -> list[tuple[Any, ...]]:
        nonlocal said
        said += 1
        if said % 11 == 1:
            with psycopg.connect(url, autocommit=True) as other:
                other.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sourcewise'"
                )
        return answer(self, statement)

    monkeypatch.setattr(PostgresSession, "answer", failing)
    lost: list[str] = []
    while len(lost) < 50:
        try:
            parts = sw.run(study, tmp_path / "parts.db")
            break
        except sw.ConnectorError as error:
            lost.append(str(error))
    assert len(lost) > 2
    assert all("connection was lost" in message and "secret" not in message for message in lost)
    assert {s.name: s.rows for s in parts.sources} == {s.name: s.rows for s in whole.sources}
    assert parts.current is not None
    assert whole.current is not None
    assert parts.current.value == pytest.approx(whole.current.value, rel=1e-12)


def test_a_table_that_changes_between_rounds_ends_the_run_and_loses_nothing(
    url: str, study: Path, tmp_path: Path
) -> None:
    before = sw.run(study, tmp_path / "store.db", rounds=1)
    with psycopg.connect(url) as connection:
        connection.execute("DELETE FROM people WHERE id = 500")
    with pytest.raises(sw.ConnectorError, match=r"'left'.* has changed since rows were taken"):
        sw.run(study, tmp_path / "store.db")
    after = sw.Campaign.open(tmp_path / "store.db").record()
    assert [batch.rows for batch in after.batches] == [batch.rows for batch in before.batches]
    with psycopg.connect(url) as connection:
        connection.execute("INSERT INTO people VALUES (500, 7, 13)")
    assert sw.run(study, tmp_path / "store.db").state == "over"
