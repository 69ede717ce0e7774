"""JSON that crosses a trust boundary: written exactly, read with suspicion."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass
from stat import S_ISREG
from typing import Any

import numpy as np

from sourcewise.errors import DataError
from sourcewise.numerics.linalg import Array

VERSION = 1

LARGEST = 1 << 28
"""Bytes of a JSON file: a campaign of 100,000 deliveries has as many, or a batch of 10 million numbers."""


def dump(kind: str, **content: Any) -> str:
    """One JSON object; Python writes a float with the fewest digits that restore it exactly."""
    return json.dumps({"format": kind, "version": VERSION, **content}, allow_nan=False, ensure_ascii=False)


def read(path: str | os.PathLike[str]) -> str:
    """The text of a JSON file, unless it is larger than any that somebody would send."""
    shown = repr(os.fspath(path))
    try:
        with open(path, encoding="utf-8") as file:
            found = os.fstat(file.fileno())
            if not S_ISREG(found.st_mode):
                raise DataError(f"{shown} is no file but a device or a pipe, which may never end")
            if found.st_size > LARGEST:
                raise DataError(f"{shown} is larger than {LARGEST >> 20} MB, the most that is read of a JSON file")
            return file.read()
    except (OSError, ValueError) as error:
        raise DataError(f"{shown} cannot be read: {error}") from None


def load(text: str | bytes, kind: str) -> Content:
    """The object in `text`, if it is of this kind and of a version that we read."""
    try:
        content = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except RecursionError:
        raise DataError(f"this is not a {kind} document: it is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise DataError(f"this is not a {kind} document: {error}") from None
    if not isinstance(content, dict) or content.get("format") != kind:
        raise DataError(f'this is not a {kind} document: it does not say "format": "{kind}"')
    if content.get("version") != VERSION:
        raise DataError(f"this {kind} document has version {content.get('version')!r}; this software reads {VERSION}")
    return Content(kind, content)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("it gives a key twice")
    return content


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number that JSON knows")


@dataclass(frozen=True, slots=True)
class Content:
    """Typed access to a document: a wrong or missing field is named."""

    kind: str
    fields: dict[str, Any]

    def text(self, key: str) -> str:
        return str(self._checked(key, isinstance(self.fields.get(key), str), "a text"))

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.fields.get(key)
        good = isinstance(value, list) and all(isinstance(item, str) for item in value)
        return tuple(self._checked(key, good, "a list of texts"))

    def count(self, key: str) -> int:
        value = self.fields.get(key)
        good = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
        return int(self._checked(key, good, "a whole number from 0 to 2⁶³ − 1"))

    def numbers(self, key: str) -> list[float]:
        value = self.fields.get(key)
        good = isinstance(value, list) and all(map(_is_number, value))
        return [float(item) for item in self._checked(key, good, "a list of finite numbers")]

    def rows(self, key: str) -> list[list[float]]:
        value = self.fields.get(key)
        good = isinstance(value, list) and all(isinstance(row, list) and all(map(_is_number, row)) for row in value)
        return [[float(item) for item in row] for row in self._checked(key, good, "lists of finite numbers")]

    def named_numbers(self, key: str) -> dict[str, float]:
        value = self.fields.get(key)
        good = isinstance(value, dict) and all(map(_is_number, value.values()))
        return {name: float(item) for name, item in self._checked(key, good, "finite numbers by name").items()}

    def _checked(self, key: str, good: bool, wanted: str) -> Any:
        if not good:
            raise DataError(f"this {self.kind} document needs {key!r} to be {wanted}")
        return self.fields[key]


def as_array(values: object, what: str, dimensions: int) -> Array:
    """A copy that nobody else can change."""
    try:
        array = np.array(values, dtype=np.float64, ndmin=dimensions)
    except (TypeError, ValueError):
        raise DataError(f"{what} must be numbers in a table of {dimensions} dimensions") from None
    array.setflags(write=False)
    return array


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    try:
        return math.isfinite(float(value))
    except OverflowError:
        return False
