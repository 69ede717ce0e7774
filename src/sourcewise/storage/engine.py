"""Connections to SQLite and PostgreSQL: how they are opened, when an attempt is repeated, what failures are called.

SQLite runs with a write-ahead log and `synchronous=FULL`: a commit that was answered is on the disk, and readers never
block a writer. Writers begin with BEGIN IMMEDIATE: a transaction that reads first and then wants to write is told
"busy" at once, however long it would have been willing to wait.
"""

from __future__ import annotations

import os
import random
import sqlite3
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection, Engine, create_engine, event
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError
from sqlalchemy.exc import DisconnectionError as StaleConnectionError

from sourcewise.errors import StorageError

T = TypeVar("T")

BUSY_SECONDS = 30
"""SQLite waits this long for another writer before it says so; then we try again."""

PATIENCE = 120.0
"""Seconds after which we stop trying."""

OPENING = 15.0
"""The same while a store is opened: a server that restarts is back by then, and a misspelt name never answers."""

RETRIED_STATES = ("40001", "40P01", "55P03", "53300", "57P01", "57P02", "57P03")
"""PostgreSQL: serialization failure, deadlock, lock not available, too many connections, shutdowns, starting up."""

LOST_CONNECTION = (
    *("connection refused", "server closed the connection", "connection is closed", "connection failed", "is lost"),
    *("starting up", "shutting down", "terminating connection", "no such file or directory", "connection reset"),
)

NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "9p", "fuse.sshfs", "afs", "ncpfs", "lustre", "glusterfs", "ceph")

SQLITE_ADVICE = {
    sqlite3.SQLITE_FULL: "the disk is full; make room and try again",
    sqlite3.SQLITE_READONLY: "the file or its directory cannot be written to; check its permissions",
    sqlite3.SQLITE_CANTOPEN: "the file cannot be opened; check that its directory exists and its permissions",
    sqlite3.SQLITE_IOERR: "the disk failed, or it is full; check it and try again",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from a copy",
    sqlite3.SQLITE_NOTADB: "this file is no SQLite database",
    sqlite3.SQLITE_BUSY: "another process holds the file",
    sqlite3.SQLITE_LOCKED: "another process holds the file",
}


def engine_of(url: URL) -> Engine:
    """Connections open on demand, and never cross a fork."""
    if url.get_backend_name() == "sqlite":
        engine = create_engine(url, connect_args={"timeout": BUSY_SECONDS})
        event.listen(engine, "connect", _set_pragmas)
        event.listen(engine, "begin", _begin)
    else:
        engine = create_engine(url, pool_pre_ping=True)
    event.listen(engine, "connect", _remember_process)
    event.listen(engine, "checkout", _refuse_inherited)
    return engine


def url_of(store: str | os.PathLike[str]) -> URL:
    """A database URL, or the path of a SQLite file."""
    text = os.fspath(store)
    is_url = "://" in text
    try:
        url = make_url(text) if is_url else URL.create("sqlite", database=text)
    except (ArgumentError, ValueError):
        url = None
    if url is None or "\0" in text or (is_url and not text.isprintable()):
        raise StorageError(f"a store is the path of a file, sqlite:///FILE or postgresql://…, not {text!r}")
    backend = url.get_backend_name()
    if backend == "postgresql":
        return url.set(drivername="postgresql+psycopg")
    if backend != "sqlite":
        raise StorageError(f"a store is SQLite (sqlite:///FILE) or PostgreSQL (postgresql://…), not {backend!r}")
    if url.query:
        raise StorageError(f"a SQLite store takes no options after a ?, as {text!r} has")
    if not url.database or url.database == ":memory:":
        raise StorageError("a store needs a file that outlives the process: sqlite:///campaigns.db")
    return url


def check_file(url: URL, create: bool) -> None:
    """SQLite would make an empty file for a name that was misspelt, and is not safe on a network."""
    path = Path(url.database or "")
    try:
        exists, has_directory = path.exists(), path.absolute().parent.is_dir()
    except OSError as error:
        raise StorageError(f"a store cannot be at {path}: {error.strerror}") from None
    if not create and not exists:
        raise StorageError(f"there is no store at {path}; check the name, or create a campaign there first")
    if not has_directory:
        raise StorageError(f"a store cannot be made at {path}: there is no directory {path.absolute().parent}")
    kind = _file_system(path.absolute())
    if kind.startswith(NETWORK_FILE_SYSTEMS):
        warnings.warn(
            f"{path} is on a network file system ({kind}), where SQLite's locks may not hold. Keep the store on a "
            f"local disk, or use PostgreSQL for several machines",
            stacklevel=4,
        )


def _file_system(path: Path) -> str:
    """The kind of file system that `path` is on, as far as Linux tells; elsewhere an empty text."""
    try:
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    fields = [line.split() for line in mounts]
    within = [(len(f[1]), f[2]) for f in fields if len(f) > 2 and path.is_relative_to(f[1].replace("\\040", " "))]
    return max(within, default=(0, ""))[1]


def _set_pragmas(connection: Any, _: object) -> None:
    connection.isolation_level = None  # we say BEGIN ourselves
    for pragma in ("synchronous=FULL", "foreign_keys=ON", "mmap_size=0"):
        connection.execute(f"PRAGMA {pragma}")


def _begin(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes")
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _remember_process(_: object, record: Any) -> None:
    record.info["process"] = os.getpid()


def _refuse_inherited(_: object, record: Any, proxy: Any) -> None:
    if record.info["process"] != os.getpid():
        record.dbapi_connection = proxy.dbapi_connection = None
        raise StaleConnectionError("this connection belongs to another process")


@contextmanager
def transaction(engine: Engine, *, writes: bool) -> Iterator[Connection]:
    """Commits at the end; rolls back on any error."""
    options: dict[str, Any] = {"writes": writes}
    if engine.dialect.name == "postgresql" and not writes:
        options |= {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True}
    with engine.connect() as plain, plain.execution_options(**options) as connection, connection.begin():
        yield connection


def persistently(attempt: Callable[[], T], what: str, patience: float | None = None) -> T:
    """The answer of `attempt`, repeated while others are in the way or the connection is lost.

    A connection that is lost during COMMIT leaves open whether it took place: `attempt` must find out."""
    deadline, pause = time.monotonic() + (PATIENCE if patience is None else patience), 0.02
    while True:
        try:
            return attempt()
        except (DBAPIError, sqlite3.Error) as error:
            if not passing(error) or time.monotonic() > deadline:
                raise StorageError(f"{what} failed: {_advice(error)}") from error
        time.sleep(pause * random.uniform(0.5, 1.5))
        pause = min(2 * pause, 1.0)


def passing(error: Exception) -> bool:
    """Whether the same request may succeed later."""
    cause = _cause(error)
    code = getattr(cause, "sqlite_errorcode", None)
    if code is not None:
        return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
    state = getattr(cause, "sqlstate", None)
    if state is not None:
        return state in RETRIED_STATES or state.startswith("08")
    return getattr(error, "connection_invalidated", False) or _is_connection_failure(cause)


def _cause(error: Exception) -> BaseException:
    """What the driver said, without SQLAlchemy's wrapping."""
    return getattr(error, "orig", None) or error


def _is_connection_failure(error: BaseException) -> bool:
    """psycopg gives no state when the server did not answer; a wrong password or name is no passing trouble."""
    text = str(error).lower()
    final = ("authentication", "does not exist", "could not translate")
    return any(sign in text for sign in LOST_CONNECTION) and not any(sign in text for sign in final)


def _advice(error: Exception) -> str:
    cause = _cause(error)
    code, said = getattr(cause, "sqlite_errorcode", None), str(cause).strip()
    if code is not None and code & 0xFF in SQLITE_ADVICE:
        return f"{SQLITE_ADVICE[code & 0xFF]} ({said})"
    return said
