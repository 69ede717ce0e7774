"""The version of the tables: refused when newer than this software, upgraded in one transaction when older.

Alembic takes a fifth of a second to import, so it is only asked when there is something to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sqlalchemy import Connection, inspect, text

from sourcewise.errors import StorageError

if TYPE_CHECKING:
    from alembic.script import ScriptDirectory

VERSION_TABLE = "sourcewise_version"
"""Not Alembic's own name: the database may have other tenants who use Alembic too."""

HEAD = "0001"

MIGRATIONS = Path(__file__).with_name("migrations")

LOCK = 7_395_221_004
"""Of PostgreSQL's advisory locks: whoever holds it may change the tables. Any number does."""


def version_of(connection: Connection) -> str | None:
    """None when there are no tables of ours."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    found: str | None = connection.scalar(text(f"SELECT version_num FROM {VERSION_TABLE}"))
    return found


def upgrade(connection: Connection, steps: Path | None = None) -> None:
    """Bring the tables up to date within the transaction that `connection` is in; make them if there are none.

    `steps`: the directory of the migrations, if not the one that is shipped."""
    from alembic.runtime.migration import MigrationContext
    from alembic.script import ScriptDirectory

    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK})
    script = ScriptDirectory(str(steps or MIGRATIONS))
    current = version_of(connection)
    _refuse_unknown(current, script)

    def run(heads: str | Sequence[str] | None, context: MigrationContext) -> object:
        return script._upgrade_revs("head", heads)  # type: ignore[arg-type]

    options = {"version_table": VERSION_TABLE, "fn": run, "transaction_per_migration": False}
    context = MigrationContext.configure(connection, opts=options)
    from alembic.operations import Operations

    with Operations.context(context):
        context.run_migrations()


def refuse_newer(version: str) -> None:
    """Only this software's own version is known without Alembic; ask it about any other."""
    if version != HEAD:
        from alembic.script import ScriptDirectory

        _refuse_unknown(version, ScriptDirectory(str(MIGRATIONS)))


def _refuse_unknown(version: str | None, script: ScriptDirectory) -> None:
    known = {step.revision for step in script.walk_revisions()}
    if version is not None and version not in known:
        raise StorageError(
            f"this store has tables of version {version}, and this software knows them up to "
            f"{script.get_current_head()}: a newer Sourcewise has been at work. Install that version, or a later one"
        )
