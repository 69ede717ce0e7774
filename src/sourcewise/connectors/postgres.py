"""PostgreSQL: tables and queries of a server, summed there. Every call sees one state of the database, read-only.

A connection is made for each call and held no longer: a campaign may wait for weeks between rounds. Statements are sent
by the protocol that takes one at a time, so that no query can end the read-only transaction it runs in.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sourcewise.connectors.database import Database, Selected, Session, Snapshot
from sourcewise.connectors.dialect import POSTGRES, subquery, table_name
from sourcewise.connectors.order import Sampling
from sourcewise.connectors.sums import NotInSqlError, SumsInSql
from sourcewise.errors import ConnectorError, DataError, without_secrets
from sourcewise.moments.compiled import CompiledSource
from sourcewise.statistics.cells import Chunk
from sourcewise.statistics.frames import Missing
from sourcewise.statistics.summarize import Summable, Summary, read_and_sum

if TYPE_CHECKING:
    import psycopg

PIECE = 8192
SECONDS_TO_CONNECT = "15"


class Postgres(Database):
    """A table or query of a PostgreSQL database."""

    dialect = POSTGRES
    kind = "postgres"

    def __init__(self, url: object, table: object, query: object, sampling: Sampling) -> None:
        if (table is None) == (query is None):
            raise ConnectorError("the data of a source in PostgreSQL need either table or query")
        super().__init__(sampling, table_name(table) if query is None else subquery(query))
        self._table = table is not None
        self._options = _options(url)

    @contextmanager
    def session(self) -> Iterator[Session]:
        import psycopg

        with self._translated(), psycopg.connect(**self._options) as connection:
            connection.read_only = True
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            for setting in ("TimeZone = 'UTC'", "DateStyle = 'ISO, YMD'", "standard_conforming_strings = on"):
                connection.execute(f"SET LOCAL {setting}".encode())
            yield PostgresSession(connection)

    def key(self, session: Session) -> tuple[str, ...]:
        name = self.relation.replace("'", "''")
        found = session.answer(
            "SELECT CAST(a.attname AS text) FROM pg_index i JOIN pg_attribute a "
            "ON a.attrelid = i.indrelid AND a.attnum = ANY(i.indkey) "
            f"WHERE i.indrelid = to_regclass('{name}') AND i.indisprimary "
            "ORDER BY array_position(CAST(i.indkey AS int2[]), a.attnum)"
            if self._table
            else "SELECT '' WHERE 1 = 0"
        )
        if not found:
            raise ConnectorError(f"{self!r} has no primary key: say which columns tell its rows apart, with key = …")
        return tuple(column for (column,) in found)

    def selected(self, snapshot: Snapshot, columns: Sequence[str], where: str) -> object:
        return Summed(snapshot, where)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        import psycopg

        try:
            yield
        except psycopg.errors.NumericValueOutOfRange as error:
            raise DataError(
                "sums of products are not finite: some values are too large to be multiplied; "
                "express the variables in larger units"
            ) from error
        except psycopg.OperationalError as error:
            raise ConnectorError(
                f"{self!r} cannot be reached, or the connection was lost: {self._said(error)}. Nothing of this answer "
                f"was counted; try again when the database is there"
            ) from None
        except psycopg.Error as error:
            raise ConnectorError(f"{self!r}: PostgreSQL says: {self._said(error)}") from None

    def _said(self, error: psycopg.Error) -> str:
        """The first line of what the server said, without the password."""
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        password = str(self._options.get("password") or "")
        return said.replace(password, "…") if password else said

    def __repr__(self) -> str:
        place = "@".join(str(self._options[part]) for part in ("dbname", "host") if self._options.get(part))
        return without_secrets(f"Postgres({place or 'default'}, {' '.join(self.relation.split())})")


class PostgresSession:
    """Statements in one transaction."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def answer(self, statement: str) -> list[tuple[Any, ...]]:
        with self._connection.cursor(binary=True) as cursor:  # the binary protocol takes one statement only
            return cursor.execute(statement.encode()).fetchall()

    def stream(self, statement: str) -> Iterator[Chunk]:
        with self._connection.cursor("sourcewise", binary=True) as cursor:
            cursor.execute(statement.encode())
            while rows := cursor.fetchmany(PIECE):
                yield list(np.array(rows, dtype=np.float64).T)

    def kinds(self, relation: str) -> list[tuple[str, str]]:
        with self._connection.cursor(binary=True) as cursor:
            cursor.execute(f"SELECT * FROM {relation} AS r LIMIT 0".encode())
            types = self._connection.adapters.types
            found = [(column.name, types.get(column.type_code)) for column in cursor.description or ()]
        return [(name, "unknown" if kind is None else kind.name) for name, kind in found]


@dataclass(frozen=True, slots=True)
class Summed(Selected, Summable):
    """The rows of a table expression, summed where they are."""

    def measure(
        self, source: CompiledSource, centre: Mapping[str, float] | None, missing: Missing, *, empty: bool = False
    ) -> Summary:
        reals = self.snapshot.reals(source.variables)
        sums = SumsInSql(source, self.snapshot.table.dialect, self.rows, reals, self.snapshot.session.answer)
        try:
            return Summary(*sums.statistics(centre, missing, empty))
        except NotInSqlError as why:
            found = read_and_sum(source, self, centre, missing, empty=empty)
            return Summary(found.kept, found.seen, f"source {source.name!r}: {why}")


def _options(url: object) -> dict[str, Any]:
    """The parameters of a connection, from a URL or from the environment variable that holds it."""
    try:
        import psycopg
    except ImportError:
        raise ConnectorError("PostgreSQL needs a driver: pip install 'sourcewise[postgres]'") from None
    if not isinstance(url, str) or not url:
        raise ConnectorError("the data of a source in PostgreSQL need url, such as env:SURVEY_DB or postgresql://…")
    if url.startswith("env:"):
        name = url.removeprefix("env:")
        if not os.environ.get(name):
            raise ConnectorError(
                f"the environment variable {name!r}, which holds the address of a database, is not set"
            )
        url = os.environ[name]
    url = re.sub(r"^postgres(ql)?(\+\w+)?://", "postgresql://", url)
    if not url.startswith("postgresql://"):
        raise ConnectorError("the address of a PostgreSQL database begins with postgresql://")
    try:
        found = dict(psycopg.conninfo.conninfo_to_dict(url))
    except psycopg.Error:  # which would show the address, and the password in it
        raise ConnectorError("the address of a PostgreSQL database is postgresql://user@host/name") from None
    return {"connect_timeout": SECONDS_TO_CONNECT, "application_name": "sourcewise", **found}
