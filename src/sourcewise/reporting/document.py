"""A report as plain parts, in reading order; how it looks is decided by what renders it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from sourcewise.plots.theme import Chart

Cell: TypeAlias = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class Heading:
    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    text: str


@dataclass(frozen=True, slots=True)
class Bullets:
    items: Sequence[str]


@dataclass(frozen=True, slots=True)
class Code:
    """Text to be copied, such as commands."""

    text: str


@dataclass(frozen=True, slots=True)
class Table:
    """A titled table. Numbers stay numbers until they are shown; None, NaN and infinities are shown as such.

    Without a header its rows are facts: label, value.
    """

    title: str
    rows: Sequence[Sequence[Cell]]
    header: Sequence[str] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with a text for readers who cannot see it."""

    chart: Chart
    alt: str
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A claim, whether it holds (None: these data cannot tell), and the numbers that say so."""

    text: str
    holds: bool | None
    evidence: str = ""

    @property
    def word(self) -> str:
        return {True: "holds", False: "does not hold", None: "cannot be told"}[self.holds]


Block: TypeAlias = Heading | Paragraph | Bullets | Code | Table | Figure | Verdict


@dataclass(frozen=True, slots=True)
class Document:
    title: str
    blocks: Sequence[Block]
    subtitle: str = ""
    footer: str = field(default="")
