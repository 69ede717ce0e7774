"""No password or token of an address is printed, kept, logged or raised, whatever went wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest
from typer.testing import CliRunner

import sourcewise as sw
from connectors.clusters import study_file
from connectors.tables import postgres_table
from sourcewise.cli.app import app
from sourcewise.errors import SourcewiseError, safe_cause, without_secrets
from sourcewise.testing.connectors import people

PASSWORD = "hunter2"
HERE = f"postgresql://ann:{PASSWORD}@127.0.0.1:1/x"

SPECS: list[dict[str, Any]] = [
    {"url": HERE, "table": "people"},
    {"url": HERE, "tabel": "people"},
    {"url": f"postgresql://ann:{PASSWORD}@[bad/x", "table": "people"},
    {"url": f"postgresql://ann@127.0.0.1:1/x?password={PASSWORD}", "table": "people"},
    {"url": f"{HERE}?nosuch=1", "table": "people"},
    {"url": f"mysql://ann:{PASSWORD}@h/x", "table": "people"},
    {"url": f"host=h password={PASSWORD}", "table": "people"},
    {"url": PASSWORD, "table": "people"},
    {"kind": "postgres", "url": f"host=h password={PASSWORD}", "table": "people"},
    {"url": f"duckdb://ann:{PASSWORD}@x", "table": "people"},
    {"kind": "duckdb", "query": f"ATTACH 'postgresql://ann:{PASSWORD}@h' AS p", "key": "id"},
    {"kind": "duckdb", "query": f"SELECT * FROM 'https://ann:{PASSWORD}@h/a.csv'", "key": "id"},
    {"kind": "polars", "path": f"s3x://key:{PASSWORD}@bucket/rows.parquet"},
    {"path": f"https://ann:{PASSWORD}@h/a.csv"},
]


@pytest.mark.parametrize("spec", SPECS, ids=range(len(SPECS)))
def test_no_error_of_a_connector_shows_a_password(spec: dict[str, Any]) -> None:
    def look() -> None:
        table = sw.connect(spec)
        assert PASSWORD not in repr(table)
        table.columns()

    with pytest.raises(SourcewiseError) as caught:
        look()
    shown = [str(error) for error in chain(caught.value)]
    assert not any(PASSWORD in text for text in shown), shown


def chain(error: BaseException | None) -> list[BaseException]:
    """What a traceback shows."""
    if error is None:
        return []
    return [error, *chain(error.__cause__ or (None if error.__suppress_context__ else error.__context__))]


def test_an_address_of_dask_shows_no_password() -> None:
    pytest.importorskip("distributed")
    with pytest.raises(SourcewiseError) as caught:
        sw.connect({"kind": "dask", "url": f"tcp://ann:{PASSWORD}@127.0.0.1:1", "path": "rows.parquet"})
    assert not any(PASSWORD in str(error) for error in chain(caught.value))


def test_a_study_file_with_a_password_is_quoted_without_it(
    postgres_database: Callable[[], str], tmp_path: Path
) -> None:
    """Errors show the line of the study file that they are about. Store and report have nothing of it either."""
    url = postgres_database()
    postgres_table(url, people(4_000))
    with psycopg.connect(url, autocommit=True) as connection:
        name = f"ann{url.rpartition('/')[2][:12]}".replace("-", "")
        connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD '{PASSWORD}'")
        connection.execute(f"GRANT SELECT ON people4000 TO {name}")
    address = url.replace("postgres:@", f"{name}:{PASSWORD}@")
    assert PASSWORD in address
    runner, store, report = CliRunner(), tmp_path / "people.db", tmp_path / "report.html"
    calls = {
        f'{{url = "{address}", table = "nowhere"}}': "does not exist",
        f'{{url = "{address}", tabel = "people4000"}}': "no key 'tabel'",
        f'{{url = "{address}", query = "SELECT id FROM people4000", key = "id"}}': "which its data do not have",
        f'{{url = "{address}", query = "SELECT * FROM people4000"}}': "has no primary key",
        f'{{url = "{address}", table = "people4000"}}': "Report",
    }
    said = ""
    for data, expected in calls.items():
        study = study_file(tmp_path, data)
        for path in tmp_path.glob("people.db*"):
            path.unlink()
        found = runner.invoke(app, ["run", str(study), "--store", str(store), "--report", str(report)])
        text = found.output + ("" if found.exception is None else str(found.exception))
        assert expected in text
        assert PASSWORD not in text
        said += text
    assert "…@" in said
    for path in (report, *tmp_path.glob("people.db*")):
        assert PASSWORD.encode() not in path.read_bytes()


def test_a_store_with_a_password_is_named_without_it(postgres_database: Callable[[], str], tmp_path: Path) -> None:
    study = study_file(tmp_path, '{path = "rows.csv"}')
    address = postgres_database().replace("postgres:@", f"postgres:{PASSWORD}@")
    assert PASSWORD in address
    found = CliRunner().invoke(app, ["create", str(study), "--store", address])
    assert found.exit_code == 0, found.output
    assert "is in postgresql://" in found.output
    assert PASSWORD not in found.output


def test_what_is_hidden_and_what_is_not() -> None:
    hidden = (
        "postgresql://ann:p@ss/w:rd@h/x",
        "https:/ann:pass@h",
        "invalid address 'ann:pass@127.0.0.1:1'",
        "sc://h:1/;token=pass;user_id=ann",
        "https://h/rows.parquet?X-Amz-Signature=pass&X-Amz-Credential=pass",
        "host=h PASSWORD=pass",
    )
    for text in hidden:
        shown = without_secrets(text)
        assert "pass" not in shown
        assert "p@ss" not in shown
        assert "w:rd" not in shown
        assert "…" in shown
    plain = (
        "postgresql://user@host/name",
        "the address is postgresql://db.example.org:5432/survey",
        'say which columns tell them apart, as key = "id"',
        "Write to ann@example.org: she knows",
        "tcp://127.0.0.1:8786",
    )
    assert [without_secrets(text) for text in plain] == list(plain)
    assert safe_cause(ValueError("ann:pass@h")) is None
    harmless = ValueError("no")
    assert safe_cause(harmless) is harmless
