"""Tables as CSV that no spreadsheet can be steered by."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence

STEERING = ("=", "+", "-", "@", "\t", "\r")
"""What a text begins with that a spreadsheet takes for a formula."""


def to_csv(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Text that looks like a formula gets an apostrophe, numbers stay numbers, None is an empty cell."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([_cell(name) for name in header])
    writer.writerows([_cell(value) for value in row] for row in rows)
    return text.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, str):
        # The writer does not quote a carriage return, and what follows it would be a row of its own.
        return ("'" if value.startswith(STEERING) else "") + value.replace("\r", "\n")
    return "" if value is None else value
