"""The page of a simulated experiment: what was claimed, what was found, and how to see it again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sourcewise.reporting.document import (
    Block,
    Bullets,
    Cell,
    Code,
    Document,
    Figure,
    Heading,
    Paragraph,
    Table,
    Verdict,
)
from sourcewise.reporting.versions import versions


@dataclass(frozen=True, slots=True)
class ExperimentPage:
    """What a page says. `verdicts` are claims with the numbers behind them; `settings` label, value."""

    title: str
    intro: str
    verdicts: Sequence[Verdict] = ()
    figures: Sequence[Figure] = ()
    tables: Sequence[Table] = ()
    settings: Sequence[tuple[str, Cell]] = ()
    notes: Sequence[str] = ()
    reproduce: str = ""


def experiment_document(page: ExperimentPage) -> Document:
    """The page in reading order: claims, figures, tables, notes, settings, how to run it again, with which software."""
    blocks: list[Block] = [Paragraph(page.intro)]
    if page.verdicts:
        blocks += [Heading("Do the claims hold?"), Paragraph(_count(page.verdicts)), *page.verdicts]
    if page.figures:
        blocks += [Heading("Figures"), *page.figures]
    if page.tables:
        blocks += [Heading("Numbers"), *page.tables]
    if page.notes:
        blocks += [Heading("Notes"), Bullets(page.notes)]
    blocks.append(Heading("How to run it again"))
    if page.reproduce:
        blocks.append(Code(page.reproduce))
    if page.settings:
        blocks.append(Table("Settings", [list(row) for row in page.settings]))
    blocks.append(Table("Software", [list(row) for row in versions().items()]))
    return Document(page.title, blocks)


def _count(verdicts: Sequence[Verdict]) -> str:
    holding = sum(verdict.holds is True for verdict in verdicts)
    failing = sum(verdict.holds is False for verdict in verdicts)
    unclear = len(verdicts) - holding - failing
    open_ones = f", {unclear} cannot be told from this many runs" if unclear else ""
    return f"Of {len(verdicts)} claims, {holding} hold, {failing} fail{open_ones}."
