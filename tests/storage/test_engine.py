"""How databases are opened, which failures are tried again, and what the others are called."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from pathlib import Path

import psycopg.errors
import pytest
from sqlalchemy.exc import OperationalError

from sourcewise.errors import StorageError
from sourcewise.storage import engine
from sourcewise.storage.engine import passing, persistently, transaction, url_of
from sourcewise.storage.sql import SqlStorage
from sourcewise.testing.storage import SNAPSHOT, change, write


def test_sqlite_is_opened_safely(tmp_path: Path) -> None:
    """A kill test cannot show a power cut: that a commit reaches the disk rests on these settings."""
    storage = SqlStorage(tmp_path / "a.db", create=True)
    for writes in (False, True):
        with transaction(storage.engine, writes=writes) as connection:
            pragmas = ("journal_mode", "synchronous", "foreign_keys", "mmap_size")
            found = [connection.exec_driver_sql(f"PRAGMA {name}").scalar() for name in pragmas]
            assert found == ["wal", 2, 1, 0]


def test_writers_begin_with_the_lock(tmp_path: Path) -> None:
    storage = SqlStorage(tmp_path / "a.db", create=True)
    other = sqlite3.connect(tmp_path / "a.db", timeout=0, isolation_level=None)
    with transaction(storage.engine, writes=True), pytest.raises(sqlite3.OperationalError, match="locked"):
        other.execute("BEGIN IMMEDIATE")
    with transaction(storage.engine, writes=False):
        other.execute("BEGIN IMMEDIATE")
    other.close()


@pytest.mark.parametrize(
    ("store", "said"),
    [
        ("mysql://u@h/d", "'mysql'"),
        ("sqlite://", "outlives"),
        ("sqlite:///:memory:", "outlives"),
        ("://", "postgresql://"),
        ("absent/directory/a.db", "no directory"),
    ],
)
def test_what_is_no_store_is_refused(store: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StorageError, match=said):
        SqlStorage(store, create=True)
    assert list(tmp_path.iterdir()) == []


def test_passwords_are_not_said() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "OPENING", 0.0)
        with pytest.raises(StorageError) as refused:
            SqlStorage("postgresql://ann:secret@localhost:1/d")
    assert "secret" not in str(refused.value)
    assert "localhost" in str(refused.value)


def test_a_path_and_its_url_are_the_same_store(tmp_path: Path) -> None:
    assert url_of(tmp_path / "a.db") == url_of(f"sqlite:///{tmp_path / 'a.db'}")
    assert url_of("postgresql://u@h/d").drivername == "postgresql+psycopg"


@pytest.mark.parametrize(("kind", "warned"), [("nfs4", True), ("fuse.sshfs", True), ("ext4", False)])
def test_a_network_file_system_is_warned_of(
    kind: str, warned: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "_file_system", lambda path: kind)
    if warned:
        with pytest.warns(UserWarning, match=f"network file system .{kind}"):
            SqlStorage(tmp_path / "a.db", create=True)
    else:
        SqlStorage(tmp_path / "a.db", create=True)


@pytest.mark.skipif(not Path("/proc/self/mounts").exists(), reason="only Linux lists its mounts there")
def test_the_file_system_of_a_path_is_found() -> None:
    assert engine._file_system(Path("/proc/self/status")) == "proc"


def wrapped(error: BaseException) -> OperationalError:
    return OperationalError("SELECT 1", {}, error)


def sqlite_error(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("said by SQLite")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (sqlite_error(sqlite3.SQLITE_BUSY), True),
        (sqlite_error(sqlite3.SQLITE_BUSY_SNAPSHOT), True),
        (sqlite_error(sqlite3.SQLITE_FULL), False),
        (sqlite_error(sqlite3.SQLITE_READONLY), False),
        (psycopg.errors.SerializationFailure(), True),
        (psycopg.errors.DeadlockDetected(), True),
        (psycopg.errors.AdminShutdown(), True),
        (psycopg.errors.CannotConnectNow(), True),
        (psycopg.errors.ConnectionFailure(), True),
        (psycopg.errors.UniqueViolation(), False),
        (psycopg.errors.InvalidPassword(), False),
        (psycopg.OperationalError("connection refused"), True),
        (psycopg.OperationalError("server closed the connection unexpectedly"), True),
        (psycopg.OperationalError('FATAL: database "d" does not exist'), False),
        (psycopg.OperationalError("password authentication failed, connection failed"), False),
    ],
)
def test_what_may_pass_is_tried_again(error: BaseException, again: bool) -> None:
    assert passing(wrapped(error)) is again


def test_trying_again_ends_when_it_works_or_when_patience_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    attempts: list[int] = []

    def attempt() -> str:
        attempts.append(1)
        if len(attempts) < 4:
            raise wrapped(sqlite_error(sqlite3.SQLITE_BUSY))
        return "done"

    assert persistently(attempt, "writing") == "done"
    assert len(attempts) == 4
    monkeypatch.setattr(engine, "PATIENCE", -1.0)
    attempts.clear()
    with pytest.raises(StorageError, match="writing failed: another process holds the file"):
        persistently(attempt, "writing")


def test_connections_do_not_cross_a_fork(tmp_path: Path) -> None:
    """SQLite's locks belong to a process: a connection that a child inherits would undo them."""
    code = """
import os, sys
from sourcewise.storage.sql import SqlStorage
from sourcewise.testing.storage import SNAPSHOT, change, write
storage = SqlStorage(sys.argv[1], create=True)
storage.create("a", SNAPSHOT)
mine = storage.engine.raw_connection(); here = mine.dbapi_connection; mine.close()
pid = os.fork()
if not pid:
    theirs = storage.engine.raw_connection()
    same = theirs.dbapi_connection is here
    theirs.close()
    write(storage, "a", change("child"))
    os._exit(int(same))
assert os.waitpid(pid, 0)[1] == 0
write(storage, "a", change("parent"))
print(storage.read("a", lambda view: view.seq))
"""
    call = [sys.executable, "-c", code, str(tmp_path / "a.db")]
    done = subprocess.run(call, capture_output=True, text=True, check=False, env=os.environ.copy())
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_many_who_make_the_store_at_once(store: str) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def make(k: int) -> None:
        storage = SqlStorage(store, create=True)
        storage.create("a", SNAPSHOT)
        write(storage, "a", change(str(k)))
        storage.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(make, range(8)))
    storage = SqlStorage(store)
    assert storage.read("a", lambda view: view.seq) == 9
    storage.close()
