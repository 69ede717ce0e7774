"""What a chart is drawn from: plain columns, checked, with a word for every value that has no place on an axis."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from numbers import Real
from typing import Any

from sourcewise.errors import ReportError

Columns = Mapping[str, Any] | Iterable[Mapping[str, Any]]
"""A dict of columns (lists, tuples, arrays), or a list of dicts, one a row."""

Row = dict[str, Any]

SHOWN, MISSING, INFINITE, BEYOND = "shown", "missing", "infinite", "beyond the axis"


def rows_of(
    data: Columns, texts: Sequence[str] = (), numbers: Sequence[str] = (), extra: Sequence[str] = ()
) -> list[Row]:
    """One dict a row with the text and number columns that a chart needs; `extra` numbers may be absent.

    Numbers become floats, where None is NaN, and texts become printable.
    """
    needed = (*texts, *numbers)
    rows = _by_row(data, needed)
    return [{name: _cell(row, name, name in texts) for name in (*needed, *extra)} for row in rows]


def _by_row(data: Columns, needed: Sequence[str]) -> list[Mapping[str, Any]]:
    if not isinstance(data, Mapping):
        rows = list(data)
        for row in rows:
            if not isinstance(row, Mapping):
                raise ReportError(f"a chart is drawn from a dict of columns or a list of dicts, not of {row!r:.80}")
            _need(row, needed)
        return rows
    _need(data, needed)
    columns = {name: list(column) for name, column in data.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ReportError(f"the columns of a chart must be equally long; these have {lengths}")
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def _need(names: Mapping[str, Any], needed: Sequence[str]) -> None:
    for name in needed:
        if name not in names:
            raise ReportError(f"this chart needs the column {name!r}; there are {', '.join(map(repr, names))}")


def _cell(row: Mapping[str, Any], name: str, text: bool) -> Any:
    value = row.get(name)
    if text:
        return printable(str(value))
    if value is None:
        return math.nan
    if not isinstance(value, Real):  # NumPy's numbers are registered as Real
        raise ReportError(f"the column {name!r} of a chart holds numbers, and {value!r:.80} is none")
    return float(value)


def printable(text: str) -> str:
    """Any text as one line that JSON, XML and a font can hold."""
    kept = text.encode("utf-8", "replace").decode("utf-8")
    return "".join(
        letter if letter.isprintable() else " " if letter.isspace() else "\N{REPLACEMENT CHARACTER}" for letter in kept
    )


def state_of(value: float, axis: tuple[float, float] = (-math.inf, math.inf)) -> str:
    """Whether a number has its place on an axis from here to there, or why not."""
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return INFINITE
    return SHOWN if axis[0] <= value <= axis[1] else BEYOND


def marked(rows: Sequence[Row], column: str, axis: tuple[float, float] = (-math.inf, math.inf)) -> list[Row]:
    """The same rows, each with the `state` of this column."""
    return [{**row, "state": state_of(row[column], axis)} for row in rows]


def strict(rows: Sequence[Row]) -> list[Row]:
    """The same rows as JSON can hold them: what is not finite becomes None (its state says which it was)."""
    return [{name: _strict(value) for name, value in row.items()} for row in rows]


def _strict(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def names_in(rows: Sequence[Row], column: str) -> list[str]:
    """Distinct texts in the order in which they come."""
    return list(dict.fromkeys(row[column] for row in rows))


def finite(rows: Sequence[Row], *columns: str) -> list[float]:
    """All finite numbers in these columns."""
    return [row[name] for row in rows for name in columns if math.isfinite(row.get(name, math.nan))]


def domain_of(values: Sequence[float], pad: float = 0.05, around: Sequence[float] = ()) -> tuple[float, float]:
    """An axis that shows these values and `around`, with room at both ends; (0, 1) when there is nothing to show."""
    every = [value for value in (*values, *around) if math.isfinite(value)]
    if not every:
        return (0.0, 1.0)
    low, high = min(every), max(every)
    room = (high - low) * pad or abs(high) * 0.1 or 1.0
    return (low - room, high + room)


def note_on(rows: Sequence[Row], label: Sequence[str], column: str, most: int = 4) -> list[str]:
    """A sentence that names what could not be placed, so that nothing vanishes; empty when all is shown.

    A group (the first label) that is lost as a whole is named once.
    """
    lost = [row for row in rows if row["state"] != SHOWN]
    if not lost:
        return []
    whole = {}
    for name in dict.fromkeys(row[label[0]] for row in lost):
        states = {row["state"] for row in rows if row[label[0]] == name}
        if len(states) == 1 and len(rows) > 1 and len(label) > 1:
            whole[name] = f"{_said(name)} everywhere ({states.pop()})"
    single = [row for row in lost if row[label[0]] not in whole]
    named = [*whole.values(), *(f"{_label(row, label)} ({_why(row, column)})" for row in single)]
    more = f" and {len(named) - most} more" if len(named) > most else ""
    return ["× off the axis: " + ", ".join(named[:most]) + more + "."]


def _label(row: Row, label: Sequence[str]) -> str:
    return " at ".join(_said(row[name]) for name in label)


def _said(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:,.6g}"


def _why(row: Row, column: str) -> str:
    return f"{row[column]:,.4g}" if row["state"] == BEYOND else str(row["state"])
