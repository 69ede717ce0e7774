"""Stores to test on: SQLite in a temporary directory, PostgreSQL on a server that is started once a session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage.servers import postgres

Database = Callable[[], str]


@pytest.fixture(scope="session")
def postgres_database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with postgres(tmp_path_factory.mktemp("pg")) as database:
        yield database


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store that does not exist yet, on each kind of database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'campaigns.db'}"
    database: Database = request.getfixturevalue("postgres_database")
    return database()
