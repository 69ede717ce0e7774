"""A report as one HTML file that opens anywhere: no scripts, nothing loaded, light and dark, fit for paper."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files
from itertools import groupby, zip_longest

from sourcewise.plots.save import to_svg
from sourcewise.plots.table import printable
from sourcewise.plots.theme import INK
from sourcewise.reporting.cells import is_number, shown
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

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def to_html(document: Document) -> str:
    """The whole page as text."""
    title = escape(printable(document.title))
    body = "\n".join(_body(document.blocks))
    style = files("sourcewise.reporting").joinpath("style.css").read_text(encoding="utf-8")
    subtitle = f'<p class="subtitle">{_text(document.subtitle)}</p>' if document.subtitle else ""
    footer = f"<footer>{_text(document.footer)}</footer>" if document.footer else ""
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<title>{title}</title>\n<style>\n{style}</style>\n"
        f"</head>\n<body>\n<main>\n<h1>{title}</h1>\n{subtitle}\n{body}\n</main>\n{footer}\n</body>\n</html>\n"
    )


def _body(blocks: Sequence[Block]) -> Iterator[str]:
    """Neighbouring figures share a row where the page is wide enough; neighbouring verdicts form a list."""
    count = 0
    for kind, run in groupby(blocks, type):
        together = list(run)
        if kind is Figure:
            figures = [_figure(block, count + k) for k, block in enumerate(together) if isinstance(block, Figure)]
            count += len(figures)
            yield f'<div class="figures">{"".join(figures)}</div>'
        elif kind is Verdict:
            claims = [_verdict(block) for block in together if isinstance(block, Verdict)]
            yield f'<ul class="verdicts">{"".join(claims)}</ul>'
        else:
            yield from map(_block, together)


def _block(block: Block) -> str:
    match block:
        case Heading(text):
            return f"<h2>{_text(text)}</h2>"
        case Lead(text):
            return f'<p class="lead">{_text(text)}</p>'
        case Paragraph(text):
            return f"<p>{_text(text)}</p>"
        case Bullets(items):
            return "<ul>" + "".join(f"<li>{_text(item)}</li>" for item in items) + "</ul>"
        case Code(text):
            return f"<pre><code>{_lines(text)}</code></pre>"
        case Table():
            return _table(block)
        case _:
            raise TypeError(f"no way to show {block!r}")


def _text(text: str) -> str:
    return escape(printable(text))


def _lines(text: str) -> str:
    return "\n".join(_text(line) for line in text.splitlines())


def _table(table: Table) -> str:
    numeric = [
        bool(cells) and all(is_number(cell) or cell is None for cell in cells)
        for cells in zip(*table.rows, strict=True)
    ] or [False] * len(table.header)
    head = "".join(
        f'<th scope="col"{" class=number" if number else ""}>{_text(name)}</th>'
        for name, number in zip(table.header, numeric, strict=True)
    ) if table.header else ""  # fmt: skip
    head = f"<thead><tr>{head}</tr></thead>" if head else ""
    rows = "".join(
        f"<tr{' class=told' if detail else ''}>{_cells(row, numeric)}</tr>{_detail(detail, len(row))}"
        for row, detail in zip_longest(table.rows, table.details, fillvalue="")
    )
    note = f'<p class="note">{_text(table.note)}</p>' if table.note else ""
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{_text(table.title)}"><table>'
        f"<caption>{_text(table.title)}</caption>{head}<tbody>{rows}</tbody></table></div>{note}"
    )


def _detail(detail: str, columns: int) -> str:
    """A sentence on the row above, as wide as the table."""
    return f'<tr class="detail"><td colspan="{columns}"><div>{_text(detail)}</div></td></tr>' if detail else ""


def _cells(row: Sequence[object], numeric: Sequence[bool]) -> str:
    found = []
    for k, (cell, number) in enumerate(zip(row, numeric, strict=True)):
        text = shown(cell)  # type: ignore[arg-type]
        kind = (
            " class=number" if number else " class=long" if len(text) > 50 else " class=short" if len(text) < 22 else ""
        )
        found.append(f'<th scope="row"{kind}>{_text(text)}</th>' if k == 0 else f"<td{kind}>{_text(text)}</td>")
    return "".join(found)


def _verdict(verdict: Verdict) -> str:
    kind = {True: "yes", False: "no", None: "open"}[verdict.holds]
    sign = {True: "✓", False: "✗", None: "?"}[verdict.holds]
    evidence = f'<span class="evidence">{_text(verdict.evidence)}</span>' if verdict.evidence else ""
    return f'<li class="{kind}"><b>{sign} {verdict.word}</b><span>{_text(verdict.text)}</span>{evidence}</li>'


def _figure(figure: Figure, number: int) -> str:
    caption = f"<figcaption>{_text(figure.caption)}</figcaption>" if figure.caption else ""
    return f"<figure>{inline_svg(figure, f'f{number}-')}{caption}</figure>"


def inline_svg(figure: Figure, prefix: str) -> str:
    """The chart inside a page: in the colour of the page's text, without a background, with names of its own.

    Several charts share one page, and the ids of their clipping paths would otherwise be the same.
    """
    svg = to_svg(figure.chart, bare=True).replace(INK, "currentColor")
    svg = re.sub(r'\bid="', f'id="{prefix}', svg)
    svg = re.sub(r"url\(#", f"url(#{prefix}", svg)
    return svg.replace("<svg ", f'<svg role="img" aria-label="{_text(figure.alt)}" ', 1)
