"""The few words in which databases differ, and names and numbers written so that no text of a user is read as SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sourcewise.errors import ConnectorError
from sourcewise.statistics.cells import not_numeric


@dataclass(frozen=True, slots=True)
class Dialect:
    """Patterns of the names of types, and what other databases say otherwise."""

    name: str
    wholes: str
    reals: str
    booleans: str
    texts: str
    boolean: str
    number_of_hex: str
    """Seven hexadecimal digits as a whole number, of a type that is quick to sum."""
    fence: str
    """Ends a subquery whose columns are to be computed once, however often they are used."""
    bytewise: str
    """Ends a text that is to be compared byte by byte, in whatever language the database was set up."""

    def real(self, column: str, kind: str) -> str:
        """A column as float64; anything but numbers and booleans is refused."""
        if _is(self.booleans, kind):
            return f"CAST({self.boolean.format(quoted(column))} AS DOUBLE PRECISION)"
        if not (_is(self.wholes, kind) or _is(self.reals, kind)):
            raise not_numeric(column, kind, [])
        return f"CAST({quoted(column)} AS DOUBLE PRECISION)"

    def digest(self, seed: int, key: Sequence[str], kinds: Mapping[str, str]) -> str:
        """32 hexadecimal digits from the seed and the key of a row: MD5 is the same everywhere and for ever."""
        for name in key:
            if not (_is(self.wholes, kinds[name]) or _is(self.texts, kinds[name])):
                raise ConnectorError(
                    f"key column {name!r} is of type {kinds[name]}, which does not tell rows apart reliably; use whole "
                    f"numbers, texts, dates or identifiers"
                )
        parts = [f"CAST({quoted(name)} AS VARCHAR)" for name in key]
        if len(parts) > 1:  # ("a", "bc") and ("ab", "c") are different keys
            parts = [f"length({part}) || ':' || {part}" for part in parts]
        return f"md5('{seed}:' || {' || '.join(parts)}){self.bytewise}"

    def ordered(self, key: Sequence[str], kinds: Mapping[str, str]) -> str:
        """What ORDER BY needs for the order of the key."""
        return ", ".join(quoted(name) + (self.bytewise if _is(TEXT, kinds[name]) else "") for name in key)


TEXT = "text|varchar|bpchar|char|name"

DUCKDB = Dialect(
    name="duckdb",
    wholes="U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?",
    reals=r"FLOAT|DOUBLE|DECIMAL\(.*\)",
    booleans="BOOLEAN",
    texts="VARCHAR|UUID|DATE|TIMESTAMP(_S|_MS|_NS)?|BOOLEAN",
    boolean="{}",
    number_of_hex="CAST('0x' || {} AS INTEGER)",
    fence="",
    bytewise="",
)

POSTGRES = Dialect(
    name="postgres",
    wholes="int[248]",
    reals="float[48]|numeric",
    booleans="bool",
    texts=f"{TEXT}|uuid|date|timestamp|timestamptz|bool",
    boolean="CAST({} AS integer)",
    number_of_hex="CAST(CAST('x' || {} AS bit(28)) AS integer)",
    fence=" OFFSET 0",
    bytewise=' COLLATE "C"',
)


def _is(pattern: str, kind: str) -> bool:
    return re.fullmatch(pattern, kind, re.IGNORECASE) is not None


def quoted(name: str) -> str:
    """An identifier, whatever is in it."""
    if not name or "\0" in name:
        raise ConnectorError(f"{name!r} cannot be the name of a column or a table")
    return '"' + name.replace('"', '""') + '"'


def literal(value: float) -> str:
    """A number as float64, exactly: without the cast it would be a decimal, with other rules."""
    return f"CAST('{float(value)!r}' AS DOUBLE PRECISION)"


def table_name(text: object) -> str:
    """people, or schema.people; a name that has a dot of its own needs a query."""
    if not isinstance(text, str) or not text or len(text) > 500:
        raise ConnectorError(f"table must be the name of a table, such as people or survey.people, not {text!r}")
    return ".".join(quoted(part) for part in text.split("."))


def subquery(text: object) -> str:
    """A query of the user's as a table."""
    if not isinstance(text, str) or not text.strip() or "\0" in text:
        raise ConnectorError(f"query must be a SELECT, not {text!r}")
    return f"(\n{text.strip().rstrip(';')}\n)"
