"""Tables of a result as text and as HTML: layout only, no arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

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
    grid = [list(table.header), *map(list, table.rows)] if table.header else [list(row) for row in table.rows]
    columns = max(len(row) for row in grid)
    grid = [row + [""] * (columns - len(row)) for row in grid]
    widths = [max(len(row[k]) for row in grid) for k in range(columns)]
    # A long name may push a table past the usual width; nothing is ever cut.
    gap = max(2, (WIDTH - sum(widths)) // max(1, columns - 1))
    labels = {0} if table.header else {0, 2}
    pad = [widths[k] + (0 if k == columns - 1 else gap) for k in range(columns)]
    lines = []
    for row in grid:
        if table.header:
            cells = [row[0].ljust(widths[0])] + [cell.rjust(widths[k] + gap) for k, cell in enumerate(row) if k]
            lines.append("".join(_fit(cells, sum(widths) + gap * (columns - 1))))
        else:
            lines.append("".join(cell.ljust(pad[k]) for k, cell in enumerate(row)).rstrip())
    assert labels
    if table.header:
        lines.insert(1, "-" * WIDTH)
    return lines


def _fit(cells: list[str], width: int) -> list[str]:
    """Give the spare columns of the line to the first cell, so that numbers end at the right margin."""
    spare = WIDTH - width
    return [cells[0] + " " * max(0, spare), *cells[1:]]


def _wrap(note: str) -> list[str]:
    import textwrap

    return textwrap.wrap(note, WIDTH, initial_indent="* ", subsequent_indent="  ")
