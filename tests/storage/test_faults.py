"""Disks that are full or read-only, servers that go away, answers that are lost: a clean error or none, and no loss."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import Any

import psycopg
import pytest
from sqlalchemy import event

import sourcewise as sw
from campaign.worlds import deal, study
from servers import postgres
from sourcewise.storage.sql import SqlStorage

NOBODY = 65534


def begin(store: Any) -> sw.Campaign:
    return sw.Campaign.create(store, study(), budget=1e6, name="c", author="ann")


def tell(campaign: sw.Campaign, k: int) -> sw.Batch:
    return campaign.tell("registry", deal(study(), "registry", 20, k), f"key {k}")


def accepts(campaign: sw.Campaign, k: int) -> bool:
    """Whether delivery k is accepted; the only other answer is that the disk is full."""
    try:
        tell(campaign, k)
    except sw.StorageError as error:
        if "full" in str(error):
            return False
        raise
    return True


def test_a_full_disk_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    storage = SqlStorage(tmp_path / "a.db", create=True)
    campaign = begin(storage)
    with storage.engine.connect() as connection:
        pages = int(connection.exec_driver_sql("PRAGMA page_count").scalar() or 0)
    storage.close()

    def limit(connection: Any, _: object) -> None:
        connection.execute(f"PRAGMA max_page_count={pages + 5}")

    event.listen(storage.engine, "connect", limit)
    accepted = next(k for k in range(1000) if not accepts(campaign, k))
    assert accepted > 1
    assert campaign.status().sources[0].rows == 20 * accepted
    assert storage.problems() == ()
    event.remove(storage.engine, "connect", limit)
    storage.close()
    assert tell(campaign, accepted).so_far == 20 * (accepted + 1)
    assert not tell(campaign, accepted + 1).repeated
    assert tell(campaign, 0).repeated


def test_a_file_that_may_not_grow(tmp_path: Path) -> None:
    """The operating system's own refusal, in the middle of a write."""
    import resource
    import signal

    campaign = begin(tmp_path / "a.db")
    tell(campaign, 0)
    before, handler = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, before[1]))
        refused = sum(not accepts(campaign, k) for k in range(1, 200))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert refused
    batches = [tell(campaign, k) for k in range(200)]
    assert sum(not batch.repeated for batch in batches) == refused
    assert campaign.status().sources[0].rows == 20 * 200
    assert SqlStorage(tmp_path / "a.db").problems() == ()


@contextmanager
def without_rights() -> Iterator[None]:
    """As somebody whom file permissions bind."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(NOBODY)
    try:
        yield
    finally:
        os.seteuid(0)


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    tell(begin(tmp_path / "warm.db"), 0)  # imports what is imported late
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "a.db"
        with begin(path) as campaign:
            tell(campaign, 0)
        path.chmod(0o444)
        Path(name).chmod(0o555)
        with without_rights(), pytest.raises(sw.StorageError, match=r"cannot be (written|opened)"):
            tell(campaign, 1)
        Path(name).chmod(0o755)
        path.chmod(0o644)
        assert tell(campaign, 1).so_far == 40
        campaign.__exit__(None, None, None)


@pytest.mark.parametrize("content", [b"", b"no database", b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_file_that_is_no_store(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.db"
    path.write_bytes(content)
    with pytest.raises(sw.StorageError):
        sw.Campaign.open(path)
    assert path.read_bytes() == content


def cut_before(connection: Any) -> None:
    """The server ends the session before it hears of the commit."""
    raw = connection.connection.dbapi_connection
    with psycopg.connect(raw.info.dsn, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", (raw.info.backend_pid,))


def cut_after(connection: Any) -> None:
    """The commit takes place, and its answer is lost."""
    raw = connection.connection.dbapi_connection
    raw.commit()
    cut_before(connection)


@pytest.mark.parametrize("cut", [cut_before, cut_after])
@pytest.mark.parametrize("action", ["create", "ask", "tell", "amend", "close_order"])
def test_connections_cut_during_commit(
    postgres_database: Callable[[], str], cut: Callable[[Any], None], action: str
) -> None:
    """The caller notices nothing, and everything happens once."""
    cuts: list[int] = []
    url, spec = postgres_database(), study()

    def once(connection: Any) -> None:
        if connection.get_execution_options().get("writes") and not cuts and armed:
            cuts.append(1)
            cut(connection)

    armed = action == "create"
    storage = SqlStorage(url, create=True)
    event.listen(storage.engine, "commit", once)
    campaign = begin(storage)
    if action != "create":
        order = campaign.ask()
        assert order is not None
        steps: dict[str, Callable[[], Any]] = {
            "ask": campaign.ask,
            "tell": lambda: campaign.tell("registry", deal(spec, "registry", 30, 1)),
            "amend": lambda: campaign.amend(budget=2e6),
            "close_order": campaign.close_order,
        }
        if action == "ask":
            for name, n in order.rows.items():
                campaign.tell(name, deal(spec, name, n, n))
        armed = True
        answer = steps[action]()
        if action == "tell":
            assert (answer.so_far, campaign.status().sources[0].rows) == (30, 30)
        if action == "ask":
            assert answer == campaign.status().order
    assert cuts == [1]
    kinds = [found.kind for found in campaign.history()]
    expected = {
        "create": ["created"],
        "ask": ["created", "asked", "told", "told", "asked"],
        "tell": ["created", "asked", "told"],
        "amend": ["created", "asked", "amended"],
        "close_order": ["created", "asked", "closed"],
    }
    assert kinds == expected[action]
    assert storage.problems() == ()
    storage.close()


def restarted_while_telling(restarts: int, batches: int) -> None:
    with postgres() as server:
        storage = SqlStorage(server.database(), create=True)
        campaign, acknowledged = begin(storage), []
        done: list[int] = []

        def work() -> None:
            k = 0
            while len(done) < restarts or k < batches:
                acknowledged.append(tell(campaign, k))
                k += 1

        teller = Thread(target=work)
        teller.start()
        for _ in range(restarts):
            server.restart()
            done.append(1)
        teller.join(timeout=300)
        assert not teller.is_alive()
        assert [batch.so_far for batch in acknowledged] == [20 * (k + 1) for k in range(len(acknowledged))]
        assert campaign.status().sources[0].rows == 20 * len(acknowledged)
        assert len(campaign.history()) == 1 + len(acknowledged)
        assert storage.problems() == ()
        storage.close()


def test_a_server_that_crashes_while_rows_are_told() -> None:
    restarted_while_telling(3, 50)


@pytest.mark.slow
def test_a_server_that_crashes_twenty_times_while_rows_are_told() -> None:
    restarted_while_telling(20, 500)
