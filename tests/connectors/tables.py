"""The suite's tables put into databases."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import duckdb
import psycopg
import pyarrow as pa
from psycopg import sql


def duckdb_file(folder: Path, table: Any) -> Path:
    """A database file with the rows in a table `people`."""
    path = folder / f"{table.num_rows}.duckdb"
    if not path.exists():
        with duckdb.connect(str(path)) as connection:
            connection.register("given", table)
            connection.execute("CREATE TABLE people AS SELECT * FROM given")
    return path


def postgres_table(url: str, table: Any) -> str:
    """The name of a table with the rows, of primary key `id` where there is such a column."""
    name = f"people{table.num_rows}"
    with psycopg.connect(url) as connection:
        if connection.execute("SELECT to_regclass(%s)", [name]).fetchone() != (None,):
            return name
        columns = [sql.SQL("{} {}").format(sql.Identifier(f.name), sql.SQL(_kind(f))) for f in table.schema]
        connection.execute(sql.SQL("CREATE TABLE {} ({})").format(sql.Identifier(name), sql.SQL(", ").join(columns)))
        copy = sql.SQL("COPY {} FROM STDIN").format(sql.Identifier(name))
        with connection.cursor() as cursor, cursor.copy(copy) as sink:
            for row in zip(*(column.to_pylist() for column in table.columns), strict=True):
                sink.write_row(row)
    return name


def _kind(field: Any) -> Any:
    kind = {pa.int32(): "integer", pa.int64(): "bigint", pa.float64(): "double precision", pa.bool_(): "boolean"}
    found = "numeric" if pa.types.is_decimal(field.type) else kind.get(field.type, "text")
    return found + " PRIMARY KEY" if field.name == "id" else found
