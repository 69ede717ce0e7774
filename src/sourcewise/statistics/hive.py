"""Columns that a table keeps in the names of its folders, as in people/year=2026/region=3/rows.parquet."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote

from sourcewise.statistics.cells import not_numeric

MISSING = "__HIVE_DEFAULT_PARTITION__"
"""What engines write where the value is missing."""

_WORDS = {"true": 1.0, "false": 0.0, MISSING.lower(): float("nan"), "null": float("nan"), "": float("nan")}


def partition_values(path: Path) -> dict[str, str]:
    """By column, the text in the names of the folders that a file lies in."""
    found = {}
    for part in path.parts[:-1]:
        name, mark, text = part.partition("=")
        if name and mark:
            found[unquote(name)] = unquote(text)
    return found


def partition_number(name: str, text: str) -> float:
    """Numbers, booleans and missing values; anything else is refused."""
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    try:
        return float(text)
    except ValueError:
        raise not_numeric(name, "text in the name of a folder", [text]) from None
