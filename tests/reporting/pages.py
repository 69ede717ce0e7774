"""Reads a page as a browser would: which elements there are, with which attributes and texts."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, NoReturn

from sourcewise.plots import regret_curves
from sourcewise.reporting import (
    Block,
    Bullets,
    Code,
    Document,
    ExperimentPage,
    Figure,
    Heading,
    Paragraph,
    Table,
    Verdict,
)

HOSTILE = (
    """</style></script><script>alert(1)</script><img src=x onerror="alert(1)"> & ' | ` * _ [a](http://x.y) # {{x}}"""
)


@dataclass
class Page(HTMLParser):
    """Elements as (tag, attributes), and the text between them."""

    elements: list[tuple[str, dict[str, str | None]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]


def read(text: str) -> Page:
    page = Page()
    page.feed(text)
    page.close()
    return page


def harmless(page: Page) -> bool:
    """No scripts, no handlers, nothing that is loaded from anywhere."""
    allowed = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    for tag, attributes in page.elements:
        if tag in {"script", "img", "iframe", "link", "object", "embed", "a", "form", "image", "use"}:
            return False
        for name, value in attributes.items():
            if name.startswith("on") or name in {"src", "href", "xlink:href"}:
                return False
            if value and "://" in value and value not in allowed and name not in {"aria-label"}:
                return False
    return True


def strict_json(text: str) -> Any:
    """JSON as the standard has it: NaN and Infinity are refused."""

    def refuse(word: str) -> NoReturn:
        raise AssertionError(f"{word} is no JSON")

    return json.loads(text, parse_constant=refuse)


def figure(name: str = "a", alt: str = "regret") -> Figure:
    rows = [{"policy": name, "budget": b, "regret": 1.0, "low": 0.0, "high": 2.0} for b in (1, 2)]
    return Figure(regret_curves(rows), alt, name)


def hostile_document() -> Document:
    """Every kind of part, with a hostile text in every place that takes one."""
    blocks: list[Block] = [
        Heading(HOSTILE),
        Paragraph(HOSTILE),
        Bullets([HOSTILE]),
        Code(HOSTILE + "\nsecond line"),
        Table(HOSTILE, [[HOSTILE, float("nan")], ["x", 2]], [HOSTILE, "n"], HOSTILE),
        Table("Facts", [["a", HOSTILE]]),
        figure(HOSTILE, HOSTILE),
        figure("b"),
        Verdict(HOSTILE, True, HOSTILE),
        Verdict("x", None),
    ]
    return Document(HOSTILE, blocks, HOSTILE, HOSTILE)


def experiment() -> ExperimentPage:
    return ExperimentPage(
        "Instrumental variable",
        "What was simulated.",
        [Verdict("a", True, "1.0"), Verdict("b", False, "2.0"), Verdict("c", None, "too few runs")],
        [figure()],
        [Table("Summary", [["etg", 300, 1.5]], ["Policy", "Budget", "Regret"])],
        [("Runs", 12000)],
        ["No run was dropped."],
        "sourcewise reproduce iv",
    )
