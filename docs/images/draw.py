"""Draws campaign.svg, the picture in the README: the bundled campaign, its orders and what came of them.

python docs/images/draw.py
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

from sourcewise import example
from sourcewise.plots.save import to_svg
from sourcewise.plots.theme import COLOURS, FONT, GREY, INK
from sourcewise.records import CampaignRecord, SourceStatus
from sourcewise.reporting.campaign import campaign_document
from sourcewise.reporting.document import Figure

WIDTH, HEIGHT = 960, 610
CARDS, ORDERS, ANSWER = 24, 352, 716
CELL, GAP = 40, 6


def text(x: float, y: float, words: str, size: float = 14, *, bold: bool = False, fill: str = INK) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x}" y="{y}" font-size="{size}"{weight} fill="{fill}">{escape(words)}</text>'


def card(source: SourceStatus, columns: Iterable[str], colour: str, y: float) -> str:
    """A source: a box a column, filled where it is observed, and the price of a row."""
    parts = [text(CARDS, y + 25, source.name, 15, bold=True, fill=colour)]
    x = CARDS + 92.0
    for name in columns:
        seen = name in source.observes
        paint = f'fill="{colour}" fill-opacity="0.16" stroke="{colour}"' if seen else f'fill="none" stroke="{GREY}"'
        dash = "" if seen else ' stroke-dasharray="3 3" stroke-opacity="0.6"'
        parts.append(f'<rect x="{x}" y="{y + 4}" width="{CELL}" height="32" rx="4" {paint}{dash}/>')
        if seen:
            parts.append(text(x + CELL / 2 - 4, y + 25, name, 15))
        x += CELL + GAP
    return "".join([*parts, text(x + 6, y + 25, f"{source.price:g} a row", 13)])


def orders(record: CampaignRecord) -> list[str]:
    """The first three orders and the last."""
    lines = []
    for step in record.rounds:
        rows = ", ".join(f"{n:,} {name}" for name, n in step.order.rows.items())
        lines.append(f"{step.order.round}.  {rows}")
    return [*lines[:3], "…", lines[-1]]


def chart(figure: Figure, x: float, y: float, width: float) -> str:
    """A chart of the report as a picture within the picture."""
    drawn = to_svg(figure.chart, bare=True)
    found = re.search(r'width="([\d.]+)" height="([\d.]+)"', drawn)
    assert found is not None
    height = width * float(found[2]) / float(found[1])
    size = f'x="{x}" y="{y}" width="{width}" height="{height:.0f}"'
    return drawn.replace(found[0], size, 1)


def picture(record: CampaignRecord) -> str:
    look = record.current
    assert look is not None
    assert look.value is not None
    columns = list(dict.fromkeys(name for source in record.sources for name in source.observes))
    low, high = look.anytime
    answer = f"{record.target} = {look.value:.3f}"
    between = f"95 % at any time: {low:.3f} to {high:.3f}"
    parts = [
        text(CARDS, 34, "Three sources, three prices", 16, bold=True),
        text(ORDERS, 34, "Which rows next?", 16, bold=True),
        text(ANSWER, 34, "The answer", 16, bold=True),
        *(card(source, columns, COLOURS[k], 52 + 50 * k) for k, source in enumerate(record.sources)),
        *(text(ORDERS, 78 + 26 * k, line) for k, line in enumerate(orders(record))),
        text(ANSWER, 88, answer, 22, bold=True),
        text(ANSWER, 116, between, 13),
        text(ANSWER, 140, f"for {record.money.spent:,.0f}, in {len(record.rounds)} rounds", 13),
        f'<path d="M24 218 H936" stroke="{GREY}" stroke-opacity="0.4"/>',
    ]
    figures = [block for block in campaign_document(record).blocks if isinstance(block, Figure)]
    parts += [chart(figure, x, 236, 420) for figure, x in zip((figures[0], figures[2]), (24, 506), strict=True)]
    words = f"{answer}, {between}, after {len(record.rounds)} orders to {len(record.sources)} sources"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" font-family="{FONT}" role="img"'
    background = f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
    return f'{head} aria-label="{escape(words)}">{background}{"".join(parts)}</svg>\n'


if __name__ == "__main__":
    with TemporaryDirectory() as directory:
        drawn = picture(example.run(Path(directory)))
    Path(__file__).with_name("campaign.svg").write_text(drawn, encoding="utf-8")
