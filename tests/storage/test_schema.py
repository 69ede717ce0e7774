"""Versions of the tables: made, upgraded in one transaction, refused when newer, and what a released one holds."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

import sourcewise as sw
from sourcewise.errors import StorageError
from sourcewise.storage import schema
from sourcewise.storage.engine import engine_of, transaction, url_of
from sourcewise.storage.sql import SqlStorage
from sourcewise.storage.tables import metadata
from sourcewise.testing.storage import SNAPSHOT

STEP = '''
"""A later version, for the tests."""
import sqlalchemy as sa
from alembic import op

revision, down_revision, branch_labels, depends_on = "0002", "0001", None, None


def upgrade() -> None:
    op.add_column("sourcewise_campaign", sa.Column("note", sa.Text, nullable=True))
    op.create_table("sourcewise_extra", sa.Column("id", sa.Integer, primary_key=True))
    {fault}
'''


@pytest.fixture
def storage(store: str) -> SqlStorage:
    made = SqlStorage(store, create=True)
    made.create("a", SNAPSHOT)
    return made


def later(tmp_path: Path, fault: str = "") -> Path:
    """Our migrations with one more behind them."""
    steps = tmp_path / "migrations"
    shutil.copytree(schema.MIGRATIONS, steps, ignore=shutil.ignore_patterns("__pycache__"))
    (steps / "versions" / "0002_later.py").write_text(STEP.format(fault=fault), encoding="utf-8")
    return steps


def tables(storage: SqlStorage) -> set[str]:
    with transaction(storage.engine, writes=False) as connection:
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        if connection.dialect.name == "postgresql":
            query = "SELECT tablename FROM pg_tables WHERE schemaname = 'public'"
        return set(connection.scalars(text(query)))


def version(storage: SqlStorage) -> str | None:
    with transaction(storage.engine, writes=False) as connection:
        return schema.version_of(connection)


def test_migrations_lead_to_the_tables_that_are_used(storage: SqlStorage) -> None:
    with transaction(storage.engine, writes=False) as connection:
        context = MigrationContext.configure(connection, opts={"version_table": schema.VERSION_TABLE})
        assert compare_metadata(context, metadata) == []
    assert tables(storage) == {*metadata.tables, schema.VERSION_TABLE}


def test_the_version_that_is_known_without_alembic_is_the_last() -> None:
    assert ScriptDirectory(str(schema.MIGRATIONS)).get_current_head() == schema.HEAD


def test_an_older_version_is_upgraded_and_keeps_what_it_holds(storage: SqlStorage, tmp_path: Path) -> None:
    with transaction(storage.engine, writes=True) as connection:
        schema.upgrade(connection, later(tmp_path))
    assert version(storage) == "0002"
    assert "sourcewise_extra" in tables(storage)
    assert list(storage.events("a")) == list(SNAPSHOT.events)


def test_an_upgrade_that_fails_leaves_the_old_version(storage: SqlStorage, tmp_path: Path) -> None:
    before = tables(storage)
    steps = later(tmp_path, "raise ZeroDivisionError")
    with pytest.raises(ZeroDivisionError), transaction(storage.engine, writes=True) as connection:
        schema.upgrade(connection, steps)
    assert (version(storage), tables(storage)) == ("0001", before)
    storage.change("a", lambda view: (view.seq, None))


def test_upgrading_twice_is_upgrading_once(storage: SqlStorage, tmp_path: Path) -> None:
    steps = later(tmp_path)
    for _ in range(2):
        with transaction(storage.engine, writes=True) as connection:
            schema.upgrade(connection, steps)
    assert version(storage) == "0002"


def test_a_newer_version_is_refused(storage: SqlStorage, store: str) -> None:
    with transaction(storage.engine, writes=True) as connection:
        connection.execute(text(f"UPDATE {schema.VERSION_TABLE} SET version_num = '9999'"))
    for create in (False, True):
        with pytest.raises(StorageError, match=r"version 9999.*up to 0001.*newer Sourcewise"):
            SqlStorage(store, create=create)
    assert version(storage) == "9999"


def test_other_tenants_of_the_database_are_left_alone(store: str) -> None:
    """Another user of Alembic keeps its version table, and its tables."""
    engine = engine_of(url_of(store))
    with transaction(engine, writes=True) as connection:
        connection.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(text("INSERT INTO alembic_version VALUES ('abcdef')"))
    engine.dispose()
    with pytest.raises(StorageError, match="no campaign"):
        SqlStorage(store)
    made = SqlStorage(store, create=True)
    made.create("a", SNAPSHOT)
    with transaction(made.engine, writes=False) as connection:
        assert list(connection.scalars(text("SELECT version_num FROM alembic_version"))) == ["abcdef"]


@pytest.fixture
def released(tmp_path: Path) -> str:
    """A store as version 0001 left it, never made again: see data/README.md."""
    path = tmp_path / "released.db"
    with sqlite3.connect(path) as connection:
        connection.executescript((Path(__file__).parent / "data" / "0001.sql").read_text(encoding="utf-8"))
    connection.close()
    return str(path)


def test_a_store_of_the_first_release_goes_on(released: str) -> None:
    campaign = sw.Campaign.open(released, "frozen")
    order, status = campaign.ask(), campaign.status()
    assert order is not None
    assert (order.round, order.rows, order.cost) == (2, {"survey": 18, "both": 56}, 260.0)
    assert [(source.rows, source.spent) for source in status.sources] == [(100, 100.0), (50, 140.0), (0, 0.0)]
    assert campaign.tell("registry", {"z": [1.0, 2.0], "x": [3.0, 1.0]}, "again").repeated
    assert campaign.record().amendments[0].changes["cost of survey"] == (3.0, 2.0)
    assert campaign.estimate().rows == {"registry": 100, "survey": 50}
    rows = {name: [float(k % 5 - 2 + len(name)) for k in range(56)] for name in ("z", "x", "y")}
    campaign.tell("both", rows)
    campaign.tell("survey", {name: rows[name][:18] for name in ("z", "y")})
    assert campaign.ask() == sw.Campaign.open(released, "frozen").status().order
    assert SqlStorage(released).problems() == ()


def test_rows_that_the_first_release_kept_are_read(released: str, tmp_path: Path) -> None:
    campaign = sw.Campaign.open(released, "kept ↗")
    assert (campaign.status().state, campaign.status().reason) == ("stopped", "enough")
    assert campaign.tell("registry", {"z": [1.0], "x": [2.0]}).so_far == 10
    sw.export_campaign(released, "kept ↗", tmp_path / "kept.json")
    assert sw.import_campaign(tmp_path / "copy.db", tmp_path / "kept.json").status().sources[0].rows == 10


def test_a_store_that_came_out_of_a_dump_logs_ahead_again(released: str) -> None:
    """A dump does not say how its file kept its log."""
    with sqlite3.connect(released) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    connection.close()
    storage = SqlStorage(released)
    with transaction(storage.engine, writes=False) as begun:
        assert begun.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
