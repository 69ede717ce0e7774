"""What is particular to databases: keys, changes, what a query may do, what is said of failures."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from threading import Timer
from typing import Any

import duckdb
import numpy as np
import psycopg
import pyarrow as pa
import pytest

import sourcewise as sw
from connectors.tables import duckdb_file, postgres_table
from sourcewise.testing.connectors import HOSTILE, LINEAR, ROWS, SMOOTH, assert_agree, people

Place = Callable[..., sw.Connector]


@pytest.fixture(params=["duckdb", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """A function that puts a table into a database and connects to it."""
    if request.param == "duckdb":

        def connect(table: Any, **spec: Any) -> sw.Connector:
            path = duckdb_file(tmp_path, table)
            return sw.connect({"kind": "duckdb", "path": str(path), "table": "people", "key": "id", **spec})
    else:
        url = request.getfixturevalue("postgres_database")()

        def connect(table: Any, **spec: Any) -> sw.Connector:
            return sw.connect({"url": url, "table": postgres_table(url, table), "key": "id", **spec})

    return connect


# --- one order in every engine ---------------------------------------------------------------------------------------


def test_the_order_is_the_same_in_both_databases_and_for_ever(
    tmp_path: Path, postgres_database: Callable[[], str]
) -> None:
    """Of MD5 of seed and key, written here in Python."""
    from hashlib import md5

    ids = [int(k) for k in people().column("id").to_pylist()]
    expected = sorted(ids, key=lambda k: md5(f"5:{k}".encode()).hexdigest())[100:140]
    url = postgres_database()
    for spec in (
        {"kind": "duckdb", "path": str(duckdb_file(tmp_path, people())), "table": "people"},
        {"url": url, "table": postgres_table(url, people())},
    ):
        found = sw.connect({**spec, "key": "id", "seed": 5}).take(100, 40, ["id"])["id"]
        assert set(found.tolist()) == set(expected)


def test_engines_agree_about_the_same_rows(tmp_path: Path, postgres_database: Callable[[], str]) -> None:
    url = postgres_database()
    there = sw.connect({"url": url, "table": postgres_table(url, people())})
    here = sw.connect({"kind": "duckdb", "path": str(duckdb_file(tmp_path, people())), "table": "people", "key": "id"})
    for study in (LINEAR, SMOOTH):
        first = there.deliver(study, "people", 0, 300).statistics
        assert isinstance(first, sw.Statistics)
        again = here.deliver(study, "people", 0, 300, first.centre).statistics
        assert isinstance(again, sw.Statistics)
        assert_agree(first, again)


def test_arrival_order_under_a_declared_version_reads_its_own_rows_only(place: Place, monkeypatch: Any) -> None:
    found = place(people(), order="arrival", version="2026-03")
    monkeypatch.setattr("sourcewise.connectors.database.Snapshot.survey", None)
    last = found.deliver(LINEAR, "people", 0, 990)
    assert (last.stop, last.exhausted) == (990, False)
    last = found.deliver(LINEAR, "people", 990, 20)
    assert (last.stop, last.exhausted) == (ROWS, True)


# --- what is in the rows ---------------------------------------------------------------------------------------------

PAIR = sw.Study(["x - a"], "a", {"people": sw.Source("x id")})


def numbers(values: list[Any], kind: Any = None) -> Any:
    return pa.table({"id": pa.array(range(len(values))), "x": pa.array(values, kind)})


def test_functions_of_data_are_those_of_numpy(place: Place) -> None:
    study = sw.Study(
        [
            "logistic(x) - a",
            "phi(x)*exp(-x) - b",
            "sqrt(abs(x))*log(1 + x**2) - c",
            "(x >= 0)*x**5 - d",
            "1/(2 + x*x) - e",
        ],
        "a",
        {"people": sw.Source("x id")},
    )
    table = numbers([-800.0, -30.0, -1.5, 0.0, 0.25, 7.0, 40.0, 750.0])
    found = sw.summarize(study, "people", place(table.slice(1, 6)))
    assert isinstance(found, sw.Statistics)
    expected = sw.summarize(study, "people", table.slice(1, 6), found.centre)
    assert isinstance(expected, sw.Statistics)
    assert_agree(found, expected)


def test_what_sql_has_no_words_for_is_read_and_said(postgres_database: Callable[[], str]) -> None:
    url = postgres_database()
    study = sw.Study(["Phi(x - 1e6) - a"], "a", {"people": sw.Source("x id")})
    found = sw.connect({"url": url, "table": postgres_table(url, people())}).deliver(study, "people", 0, 50)
    assert "Phi has no words in SQL" in found.note
    assert isinstance(found.statistics, sw.Statistics)
    assert found.statistics.n == 50


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([1.0, float("inf"), 2.0], "column 'x' has 1 infinite value"),
        ([1.0, None, float("nan")], "2 of 3 rows have missing values"),
        ([1e200, -1e200, 3.0], "too large to be multiplied"),
        (["1", "2", "three"], "'x' is not numeric"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_alike(place: Place, values: list[Any], message: str) -> None:
    with pytest.raises(sw.DataError, match=message):
        place(numbers(values)).deliver(PAIR, "people", 0, 3)


def test_a_function_without_a_value_is_refused_alike(place: Place) -> None:
    for formula in ("log(x)", "1/x", "sqrt(x - 1)", "exp(1000*x)"):
        study = sw.Study([f"{formula} - a"], "a", {"people": sw.Source("x id")})
        with pytest.raises(sw.DataError, match="is not a finite number in some rows"):
            place(numbers([0.0, 2.0, 3.0])).deliver(study, "people", 0, 3)


def test_tiny_numbers_are_no_error_beside_others(place: Place) -> None:
    values = [1e-200, 0.0, 1.0, -1.0]
    found = sw.summarize(PAIR, "people", place(numbers(values)))
    assert isinstance(found, sw.Statistics)
    expected = sw.summarize(PAIR, "people", numbers(values), found.centre)
    assert isinstance(expected, sw.Statistics)
    assert_agree(found, expected)


def test_decimals_keep_their_digits(place: Place) -> None:
    values = [Decimal("1000000.01"), Decimal("1000000.02"), Decimal("999999.98")]
    found = sw.summarize(PAIR, "people", place(numbers(values, pa.decimal128(20, 2))))
    assert isinstance(found, sw.Statistics)
    # about the centre, the sum keeps what the last decimal says
    assert found.centre["x"] * 3 + found.gram[0, 1] == pytest.approx(3000000.01, abs=1e-9)


# --- what tells rows apart -------------------------------------------------------------------------------------------


def test_a_key_must_tell_rows_apart(place: Place) -> None:
    with pytest.raises(sw.ConnectorError, match="the same in several rows"):
        place(people(), key="flag").take(0, 10, ["x"])
    with pytest.raises(sw.ConnectorError, match="the same in several rows"):
        place(people(), key="flag", order="arrival").take(0, 10, ["x"])
    with pytest.raises(sw.ConnectorError, match="does not tell rows apart reliably"):
        place(people(), key="x").take(0, 10, ["x"])
    with pytest.raises(sw.DataError, match="no column 'nobody'"):
        place(people(), key="nobody").take(0, 10, ["x"])
    gaps = pa.table({"id": pa.array([1, None, 3]), "x": pa.array([1.0, 2.0, 3.0])})
    if "DuckDB" in repr(place(people())):
        with pytest.raises(sw.ConnectorError, match="is empty in some rows"):
            place(gaps).take(0, 2, ["x"])


def test_keys_of_several_columns_and_texts(place: Place) -> None:
    found = place(people(), key=["label", "flag"])
    first, second = (set(found.take(start, 500, ["id"])["id"].tolist()) for start in (0, 500))
    assert len(first) == len(second) == 500
    assert not first & second


def test_a_duckdb_table_from_which_rows_were_deleted_has_all_the_others(tmp_path: Path) -> None:
    path = duckdb_file(tmp_path, people())
    before = sw.connect({"path": str(path), "table": "people"}).fingerprint()
    with duckdb.connect(str(path)) as connection:
        connection.execute("DELETE FROM people WHERE id % 3 = 0")
        left = connection.execute("SELECT count(*) FROM people").fetchall()[0][0]
    found = sw.connect({"path": str(path), "table": "people"})
    assert found.fingerprint() != before
    drawn = [found.take(start, 100, ["id"])["id"] for start in range(0, ROWS, 100)]
    ids = np.concatenate(drawn)
    assert len(ids) == len(set(ids.tolist())) == left
    assert (ids % 3 != 0).all()


# --- tables that change ----------------------------------------------------------------------------------------------


def test_every_change_of_keys_is_noticed(tmp_path: Path, postgres_database: Callable[[], str]) -> None:
    path, url = duckdb_file(tmp_path, people()), postgres_database()
    name = postgres_table(url, people())
    cases: list[tuple[dict[str, Any], Callable[[str], object]]] = [
        ({"path": str(path), "table": "people", "key": "id"}, lambda text: run_duckdb(path, text)),
        ({"url": url, "table": name}, lambda text: run_postgres(url, text.replace("people", name))),
    ]
    for spec, execute in cases:
        marks = [sw.connect(spec).fingerprint()]
        for statement in (
            "UPDATE people SET id = 5000 WHERE id = 10",
            "DELETE FROM people WHERE id = 11",
            "INSERT INTO people (id, x, label) VALUES (11000, 1, '')",
        ):
            execute(statement)
            marks.append(sw.connect(spec).fingerprint())
        assert len(set(marks)) == 4
        execute("UPDATE people SET x = 3 WHERE id = 12")  # the ranks are what they were
        assert sw.connect(spec).fingerprint() == marks[-1]


def test_without_a_key_a_changed_value_is_a_changed_table(tmp_path: Path) -> None:
    path = duckdb_file(tmp_path, people())
    spec = {"path": str(path), "table": "people"}
    before = sw.connect(spec).fingerprint()
    assert sw.connect(spec).fingerprint() == before
    run_duckdb(path, "UPDATE people SET whole = whole + 1 WHERE id = 12")
    assert sw.connect(spec).fingerprint() != before
    run_duckdb(path, "CREATE TABLE other AS SELECT 1 AS x")
    known = sw.connect(spec).fingerprint()
    run_duckdb(path, "CREATE TABLE another AS SELECT 1 AS x")  # is not this table
    assert sw.connect(spec).fingerprint() == known


def run_duckdb(path: Path, statement: str) -> None:
    with duckdb.connect(str(path)) as connection:
        connection.execute(statement)


def run_postgres(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())


# --- what a query may do ---------------------------------------------------------------------------------------------


def test_a_duckdb_query_reads_below_its_folder_and_changes_nothing(tmp_path: Path, monkeypatch: Any) -> None:
    path = duckdb_file(tmp_path, people())
    inner = tmp_path / "inner"
    inner.mkdir()
    secret = tmp_path / "secret.csv"
    secret.write_text("id\n1\n", encoding="utf-8")
    monkeypatch.chdir(inner)
    size = path.stat().st_size
    for query, said in (
        (f"SELECT * FROM '{secret}'", "disabled by configuration"),
        ("SELECT * FROM '../secret.csv'", "disabled by configuration"),
        ("SELECT * FROM 'https://example.org/rows.csv'", "DuckDB says"),
        ("SELECT * FROM people; DROP TABLE people", "must be one SELECT"),
        ("DROP TABLE people", "must be one SELECT"),
        (f"COPY people TO '{inner}/out.csv'", "must be one SELECT"),
        ("SELECT 1) AS r; DROP TABLE people; --", "DuckDB says"),
        ("SELECT * FROM people WHERE (", "DuckDB says"),
        ("", "must be a SELECT"),
    ):
        with pytest.raises(sw.ConnectorError, match=said):
            sw.connect({"kind": "duckdb", "path": str(path), "query": query, "key": "id"}, base=inner).columns()
    assert list(inner.iterdir()) == []
    assert path.stat().st_size == size
    assert sw.connect({"path": str(path), "table": "people"}).size() == ROWS


def test_a_postgres_query_changes_nothing(postgres_database: Callable[[], str]) -> None:
    url = postgres_database()
    name = postgres_table(url, people())
    for query, said in (
        (f"SELECT 1 AS id) AS r; COMMIT; DROP TABLE {name}; SELECT * FROM (SELECT 1 AS id", "multiple commands"),
        (f"WITH gone AS (DELETE FROM {name} RETURNING *) SELECT * FROM gone", "PostgreSQL says"),
        (f"DROP TABLE {name}", "syntax error"),
        ("SELECT CAST(lo_create(0) AS bigint) AS id", "read-only transaction"),
        ("SELECT 1 FROM nowhere", "does not exist"),
    ):
        found = sw.connect({"url": url, "query": query, "key": "id"})
        with pytest.raises(sw.ConnectorError, match=said):
            found.take(0, 1, ["id"])
    assert sw.connect({"url": url, "table": name}).size() == ROWS


def test_names_are_only_names(tmp_path: Path, postgres_database: Callable[[], str]) -> None:
    """Tables too; the suite has a column."""
    path, url = tmp_path / "hostile.duckdb", postgres_database()
    quoted = '"' + HOSTILE.replace('"', '""') + '"'
    create = f"CREATE TABLE {quoted} AS SELECT 1 AS id, 2.5 AS x"
    run_duckdb(path, create)
    run_postgres(url, create)
    for spec in ({"path": str(path)}, {"url": url}):
        table = sw.connect({**spec, "table": HOSTILE, "key": "id"})
        assert table.take(0, 1, ["x"])["x"].tolist() == [2.5]


# --- what is said of failures ----------------------------------------------------------------------------------------


def test_no_message_shows_a_password(monkeypatch: Any) -> None:
    address = "postgresql://ann:secret@127.0.0.1:1/none?connect_timeout=2"
    monkeypatch.setenv("SURVEY_DB", address)
    for url in (address, "env:SURVEY_DB", address.replace("postgresql", "postgres")):
        found = sw.connect({"url": url, "table": "people"})
        assert "secret" not in repr(found)
        with pytest.raises(sw.ConnectorError, match="cannot be reached") as caught:
            found.columns()
        assert "secret" not in str(caught.value)
    for url in (
        "postgresql://ann:secret@[host/none",
        "postgresql://ann:secret@host/none?nonsense=1",
        "mysql://u:secret@h",
    ):
        with pytest.raises(sw.ConnectorError) as caught:
            sw.connect({"url": url, "table": "people"})
        assert "secret" not in str(caught.value)


def test_what_is_declared_wrongly_is_said(tmp_path: Path) -> None:
    path = duckdb_file(tmp_path, people())
    for spec, said in (
        ({"kind": "postgres", "table": "people"}, "need url"),
        ({"url": "env:NO_SUCH_VARIABLE", "table": "people"}, "'NO_SUCH_VARIABLE'.* is not set"),
        ({"url": "postgresql://h/d"}, "either table or query"),
        ({"url": "postgresql://h/d", "table": "a", "query": "SELECT 1"}, "either table or query"),
        ({"url": "mysql://h/d", "table": "a"}, "url begins with"),
        ({"path": str(path), "kind": "duckdb"}, "either table or query"),
        ({"table": "people"}, "give its path"),
        ({"path": str(path), "table": "people", "port": 1}, "has no key 'port'"),
        ({"path": str(path), "table": 7, "kind": "duckdb"}, "name of a table"),
    ):
        with pytest.raises(sw.ConnectorError, match=said):
            sw.connect(spec)
    with pytest.raises(sw.ConnectorError, match="no database file"):
        sw.connect({"path": str(tmp_path / "none.duckdb"), "table": "people"}).columns()
    (tmp_path / "text.duckdb").write_text("no database", encoding="utf-8")
    with pytest.raises(sw.ConnectorError, match="DuckDB says"):
        sw.connect({"path": str(tmp_path / "text.duckdb"), "table": "people"}).columns()
    with pytest.raises(sw.ConnectorError, match="DuckDB says"):
        sw.connect({"path": str(path), "table": "nobody"}).columns()
    with pytest.raises(sw.ConnectorError, match="say which columns"):
        sw.connect({"path": str(path), "query": "SELECT * FROM people"}).size()


def test_a_connection_that_is_lost_midway_is_said(postgres_database: Callable[[], str]) -> None:
    """Somebody ends our session while it sums."""
    url = postgres_database()
    postgres_table(url, people())
    slow = "SELECT id, x, z, flag, whole, money, (pg_sleep(0.01) IS NULL) AS slept FROM people1000"
    found = sw.connect({"url": url, "query": slow, "key": "id"})
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'sourcewise'"
    timer = Timer(1.0, run_postgres, (url, end))
    timer.start()
    study = sw.Study(["slept*(x - a)"], "a", {"people": sw.Source("x slept")})
    with pytest.raises(sw.ConnectorError, match="the connection was lost"):
        found.deliver(study, "people", 0, 500)
    timer.join()
    assert found.take(0, 2, ["id"])["id"].size == 2
