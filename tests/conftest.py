"""What every test shares. Fixtures that one layer needs live beside that layer's tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servers import postgres

Database = Callable[[], str]


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the clone."""
    return Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def postgres_database() -> Iterator[Database]:
    """A function that makes an empty PostgreSQL database and returns its URL."""
    with postgres() as server:
        yield server.database


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of a store that does not exist yet, on each kind of database."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'campaigns.db'}"
    database: Database = request.getfixturevalue("postgres_database")
    return database()
