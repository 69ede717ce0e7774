"""TOML text to plain values that know their lines, and plain values to TOML text."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sourcewise.errors import SourcewiseError, StudyFileError, without_secrets
from sourcewise.studyfile.scan import Lines, scan

LARGEST = 2**20
"""Bytes of a study file: ten thousand sources fit."""
WIDEST = 88

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_AT = re.compile(r" \(at (?:line (\d+), column (\d+)|end of document)\)$")


def read_text(path: Path) -> str:
    """The text of a file that may hold anything."""
    try:
        if path.is_dir():
            raise StudyFileError(f"{str(path)!r} is a directory; name a study file in it")
        if not path.exists():
            raise StudyFileError(f"there is no file {str(path)!r}; `sourcewise new` writes a study file to start from")
        if not path.is_file():
            raise StudyFileError(f"{str(path)!r} is not a regular file")
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        raise StudyFileError(f"{str(path)!r} cannot be read: {error}") from None
    if len(content) > LARGEST:
        raise StudyFileError(f"{str(path)!r} is larger than {LARGEST >> 20} MB: this is no study file")
    try:
        return content.decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise StudyFileError(f"{str(path)!r}, line {line}: this is not UTF-8 text, so no study file") from None


def parse(text: str) -> tuple[dict[str, Any], Lines]:
    """Plain values and the line of each; an error carries its line."""
    if len(text) > LARGEST:
        raise StudyFileError(f"a study file has at most {LARGEST >> 20} MB")
    lines = scan(text)
    try:
        return tomllib.loads(text), lines
    except tomllib.TOMLDecodeError as error:
        found = _AT.search(str(error))
        column = f" (column {found[2]})" if found and found[2] else ""
        refused = StudyFileError(f"this is not TOML: {_AT.sub('', str(error))}{column}")
        refused.line = int(found[1]) if found and found[1] else text.count("\n") + 1
        raise refused from None
    except (RecursionError, ValueError) as error:
        raise StudyFileError(f"this is not TOML: {error}") from None


def with_line(error: SourcewiseError, name: str, text: str, lines: Lines) -> StudyFileError:
    """The error as a reader of the file wants it: file, line, what is wrong, and the line itself."""
    line = error.line if isinstance(error, StudyFileError) and error.line else None
    place = error.place
    while line is None and place:
        line, place = lines.get(place), place[:-1]
    if line is None:
        return StudyFileError(f"{name}: {error}")
    shown = without_secrets(text.split("\n", line)[line - 1].strip())
    shown = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in shown[: WIDEST + 1])
    cut = shown if len(shown) <= WIDEST else shown[: WIDEST - 3] + "..."
    excerpt = f"\n  {line} | {cut}" if cut and "\n" not in str(error) else ""  # an expression's error shows it already
    found = StudyFileError(f"{name}, line {line}: {error}{excerpt}")
    found.line = line
    return found


def dump(plain: Mapping[str, Any]) -> str:
    """TOML that `parse` reads back to equal values: a header for each table, and one for each table of a table of
    tables; what lies deeper is written inline."""
    lines = [f"{_key(key)} = {_value(value, 0)}" for key, value in plain.items() if not isinstance(value, Mapping)]
    for key, table in plain.items():
        if isinstance(table, Mapping):
            lines += _table(key, table)
    return "\n".join(lines) + "\n"


def _table(key: str, table: Mapping[str, Any]) -> Iterator[str]:
    if table and all(isinstance(value, Mapping) for value in table.values()):
        for name, inner in table.items():
            yield from ("", f"[{_key(key)}.{_key(name)}]")
            yield from (f"{_key(k)} = {_value(v, 0)}" for k, v in inner.items())
        return
    yield from ("", f"[{_key(key)}]")
    yield from (f"{_key(k)} = {_value(v, 0)}" for k, v in table.items())


def _key(key: str) -> str:
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: object, depth: int) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return repr(int(value))
    if isinstance(value, float):
        return repr(float(value))  # the fewest digits that restore it exactly
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {_value(v, depth + 1)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        items = [_value(item, depth + 1) for item in value]
        line = "[" + ", ".join(items) + "]"
        long = depth == 0 and len(line) > WIDEST  # a table in braces has to stay on one line
        return "[\n" + "".join(f"    {item},\n" for item in items) + "]" if long else line
    raise StudyFileError(f"a study file holds texts, numbers, true and false, lists and tables, not {value!r}")


def _text(value: str) -> str:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise StudyFileError(f"{value!r} holds half a character and cannot be written as UTF-8") from None
    return '"' + "".join(_ESCAPES.get(c) or (c if c.isprintable() else _escaped(c)) for c in value) + '"'


def _escaped(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
