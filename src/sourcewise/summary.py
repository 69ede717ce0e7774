"""Tables of a result as text and as HTML: layout only, no arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from textwrap import wrap

WIDTH = 88


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table. Without a header its rows are facts: label, value, label, value."""

    title: str
    rows: Sequence[Sequence[str]]
    header: Sequence[str] = ()


def to_text(tables: Sequence[Table], notes: Sequence[str]) -> str:
    lines: list[str] = []
    for table in tables:
        lines += [table.title.center(WIDTH).rstrip(), "=" * WIDTH, *_rows(table), "=" * WIDTH, ""]
    for note in notes:
        lines += _wrap(note)
    return "\n".join(lines).rstrip() + "\n"


def to_html(tables: Sequence[Table], notes: Sequence[str]) -> str:
    parts = ["<div>"]
    for table in tables:
        parts.append(f"<table><caption><b>{escape(table.title)}</b></caption>")
        if table.header:
            parts.append("<tr>" + "".join(f"<th>{escape(cell)}</th>" for cell in table.header) + "</tr>")
        for row in table.rows:
            parts.append("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>")
        parts.append("</table>")
    parts += [f"<p>{escape(note)}</p>" for note in notes]
    return "".join(parts) + "</div>"


def _rows(table: Table) -> list[str]:
    """Lines of WIDTH columns: the first column takes what is left over; long cells widen the table, none is cut."""
    grid = [list(table.header), *map(list, table.rows)] if table.header else [list(row) for row in table.rows]
    columns = max(map(len, grid))
    grid = [row + [""] * (columns - len(row)) for row in grid]
    widths = [max(len(row[k]) for row in grid) for k in range(columns)]
    if not table.header:  # two pairs of label and value
        starts = (0, widths[0] + 2, WIDTH // 2, WIDTH // 2 + widths[2] + 2)
        return [_at(starts, row) for row in grid]
    gap = max(2, (WIDTH - sum(widths)) // columns)
    first = max(widths[0], WIDTH - sum(widths[1:]) - gap * (columns - 1))
    lines = [
        row[0].ljust(first) + "".join(cell.rjust(width + gap) for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in grid
    ]
    return [lines[0].rstrip(), "-" * WIDTH, *(line.rstrip() for line in lines[1:])]


def _at(starts: Sequence[int], cells: Sequence[str]) -> str:
    """Cells at these columns, pushed to the right where one before is too long."""
    line = ""
    for start, cell in zip(starts, cells, strict=False):
        line = line.ljust(max(start, len(line) + 2 if line else 0)) + cell
    return line.rstrip()


def _wrap(note: str) -> list[str]:
    return wrap(note, WIDTH, initial_indent="* ", subsequent_indent="  ")
