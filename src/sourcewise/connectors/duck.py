"""DuckDB: tables and queries of a database file, queries over files, and relations of somebody's own connection.

The rows are in this process already, so they are not summed in SQL: streaming them through NumPy takes less time, and
gives the same sums to the last bit however many threads DuckDB uses.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from sourcewise.connectors.database import ROWID, Database, Session
from sourcewise.connectors.dialect import DUCKDB, quoted, subquery, table_name
from sourcewise.connectors.order import Sampling
from sourcewise.errors import ConnectorError, safe_cause, without_secrets
from sourcewise.statistics.cells import Chunk, from_arrow

BATCH_ROWS = 1 << 16
MEMORY = "128MB"
"""What DuckDB may hold before it writes to the temporary directory: the rest of a process takes about as much."""


class DuckTable(Database):
    """What files and relations share."""

    dialect = DUCKDB
    kind = "duckdb"
    numbered = False
    """Whether rows have numbers that stay as long as the table does."""

    def key(self, session: Session) -> tuple[str, ...]:
        names = [name for name, _ in session.kinds(self.relation)]
        if not self.numbered or ROWID in names:
            raise ConnectorError(f"say which columns tell the rows of {self!r} apart, with key = …")
        return (ROWID,)

    def content(self, session: Session, kinds: Mapping[str, str]) -> str:
        """Numbers of rows say nothing of what the rows are, so all values are looked at where there is no other key."""
        if self.sampling.key:
            return ""
        import duckdb

        names = ", ".join(map(quoted, kinds))
        total = session.answer(f"SELECT sum(hash({names})) FROM {self.relation} AS r")[0][0]
        return f"{duckdb.__version__} {total}"  # DuckDB does not promise to keep its hash


class DuckFile(DuckTable):
    """A table or query in a database file, or a query over other files. Open only while rows are read."""

    def __init__(self, path: Path | None, folder: Path, table: object, query: object, sampling: Sampling) -> None:
        if (table is None) == (query is None):
            raise ConnectorError("the data of a source in DuckDB need either table or query")
        if path is None and table is not None:
            raise ConnectorError(f"table {table!r} is in a database file: give its path")
        super().__init__(sampling, subquery(query) if query is not None else table_name(table))
        self.numbered = table is not None
        self._path = path
        self._folder = folder
        if query is not None:
            _check_query(str(query))

    @contextmanager
    def session(self) -> Iterator[Session]:
        import duckdb

        if self._path is not None and not self._path.is_file():
            raise ConnectorError(f"there is no database file {str(self._path)!r}")
        with tempfile.TemporaryDirectory(prefix="sourcewise-") as spill, _translated():
            config: dict[str, Any] = {"memory_limit": MEMORY, "temp_directory": spill}
            name = ":memory:" if self._path is None else str(self._path)
            with duckdb.connect(name, read_only=self._path is not None, config=config) as connection:
                self._lock(connection)
                yield DuckSession(connection)

    def _lock(self, connection: Any) -> None:
        """A query may come with a study file from somewhere: it reads what lies below that file's folder or
        the working directory, nothing else, and no network."""
        folder = str(self._folder.resolve())
        for setting, value in (
            ("enable_progress_bar", False),
            ("autoinstall_known_extensions", False),
            ("autoload_known_extensions", False),
            ("file_search_path", folder),
            ("allowed_directories", [folder, "."]),  # without "." no relative path is found, wherever it leads
            ("enable_external_access", False),
            ("lock_configuration", True),
        ):
            connection.execute(f"SET {setting} = {_setting(value)}")

    def __repr__(self) -> str:
        return without_secrets(f"DuckDB({str(self._path or self._folder)!r}, {' '.join(self.relation.split())})")


class DuckRelation(DuckTable):
    """A relation in Python: a lazy query of somebody's own connection."""

    def __init__(self, relation: Any, sampling: Sampling) -> None:
        super().__init__(sampling, quoted("sourcewise rows"))
        self._relation = relation

    @contextmanager
    def session(self) -> Iterator[Session]:
        with _translated():
            yield RelationSession(self._relation)

    def __repr__(self) -> str:
        return "DuckDB(relation)"


class DuckSession:
    """Statements on a connection."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    def ask(self, statement: str) -> Any:
        return self._connection.sql(statement)

    def answer(self, statement: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = self.ask(statement).fetchall()
        return found

    def stream(self, statement: str) -> Iterator[Chunk]:
        for batch in self.ask(statement).to_arrow_reader(BATCH_ROWS):
            yield [from_arrow(column, "") for column in batch.columns]

    def kinds(self, relation: str) -> list[tuple[str, str]]:
        found = self.ask(f"SELECT * FROM {relation} AS r")
        return list(zip(found.columns, map(str, found.types), strict=True))


class RelationSession(DuckSession):
    """Statements about a relation."""

    def ask(self, statement: str) -> Any:
        return self._connection.query("sourcewise rows", statement)

    def kinds(self, relation: str) -> list[tuple[str, str]]:
        return list(zip(self._connection.columns, map(str, self._connection.types), strict=True))


def is_relation(data: object) -> bool:
    """A relation cannot exist before duckdb is loaded."""
    duckdb = sys.modules.get("duckdb")
    return duckdb is not None and isinstance(data, duckdb.DuckDBPyRelation)


def _check_query(query: str) -> None:
    import duckdb

    with _translated():
        statements = duckdb.extract_statements(query)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise ConnectorError(f"query must be one SELECT, not {query!r}")


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(_setting, value))}]"
    return "'" + os.fspath(str(value)).replace("'", "''") + "'"


@contextmanager
def _translated() -> Iterator[None]:
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        said = str(error).split("\n\nLINE")[0].strip()
        raise ConnectorError(f"DuckDB says: {said}") from safe_cause(error)
