"""A report as Markdown for people and as strict JSON for programs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

from sourcewise.plots.table import printable
from sourcewise.reporting.cells import is_number, plain, shown
from sourcewise.reporting.document import (
    Block,
    Bullets,
    Code,
    Document,
    Figure,
    Heading,
    Lead,
    Paragraph,
    Table,
    Verdict,
)

SPECIAL = re.compile(r"([\\`*_{}\[\]()#+!|~$])")


def to_markdown(document: Document, images: Sequence[str] = ()) -> str:
    """The report with its figures as links to `images`, in order; without them their descriptions stand in."""
    links = iter(images)
    parts = [f"# {_text(document.title)}", _text(document.subtitle)]
    parts += [_block(block, links) for block in document.blocks]
    parts.append(_text(document.footer))
    return "\n\n".join(part for part in parts if part) + "\n"


def _block(block: Block, links: Any) -> str:
    match block:
        case Heading(text):
            return f"## {_text(text)}"
        case Lead(text):
            return f"**{_text(text)}**"
        case Paragraph(text):
            return _text(text)
        case Bullets(items):
            return "\n".join(f"- {_text(item)}" for item in items)
        case Code(text):
            return "\n".join(f"    {printable(line)}" for line in text.splitlines())
        case Table():
            return _table(block)
        case Verdict(text, _, evidence):
            return f"- **{block.word}**: {_text(text)}" + (f"  \n  {_text(evidence)}" if evidence else "")
        case Figure(_, alt, caption):
            link = next(links, None)
            picture = f"Figure: {_text(alt)}" if link is None else f"![{_text(alt)}]({link})"
            return picture + (f"\n\n{_text(caption)}" if caption else "")


def _text(text: str) -> str:
    """Text that Markdown shows as it is: no markup, no HTML, no links, and no list where a line begins."""
    words = " ".join(printable(text).split())
    escaped = SPECIAL.sub(r"\\\1", words).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    escaped = re.sub(r"(?i)\b(https?|ftp):", r"\1&#58;", escaped)
    return re.sub(r"^(?:(\d+)(?=\.(?: |$))|(?=[-=](?:[ =-]|$)))", r"\1\\", escaped)


def _table(table: Table) -> str:
    """A sentence on a row becomes its last cell."""
    rows = [[*row, *([detail] if table.details else [])] for row, detail in zip_longest(table.rows, table.details)]
    width = max([len(table.header) + bool(table.details), *map(len, rows)])
    header = [*table.header, *["Reason"] * bool(table.header and table.details)]
    header += [""] * (width - len(header))
    numeric = [bool(rows) and all(is_number(row[k]) or row[k] is None for row in rows) for k in range(width)]
    lines = [
        "| " + " | ".join(map(_text, header)) + " |",
        "|" + "|".join("---:" if number else "---" for number in numeric) + "|",
        *("| " + " | ".join(_text(shown(cell)) for cell in row) + " |" for row in rows),
    ]
    note = f"\n\n{_text(table.note)}" if table.note else ""
    return f"**{_text(table.title)}**\n\n" + "\n".join(lines) + note


def to_json(document: Document) -> str:
    """The parts of the report in order. What is not finite is null; a figure is its Vega-Lite specification."""
    parts = {
        "title": document.title,
        "subtitle": document.subtitle,
        "blocks": [_plain(block) for block in document.blocks],
        "footer": document.footer,
    }
    return json.dumps(plain(parts), allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def _plain(block: Block) -> dict[str, Any]:
    kind = type(block).__name__.lower()
    if isinstance(block, Figure):
        return {"kind": kind, "alt": block.alt, "caption": block.caption, "chart": block.chart.to_dict()}
    return {"kind": kind, **asdict(block)}
