"""A report to a file: HTML, Markdown or JSON by its suffix."""

from __future__ import annotations

from pathlib import Path

from sourcewise.errors import ReportError
from sourcewise.plots.save import save
from sourcewise.reporting.document import Document, Figure
from sourcewise.reporting.page import to_html
from sourcewise.reporting.plaintext import to_json, to_markdown

KINDS = (".html", ".htm", ".md", ".json")


def write(document: Document, path: str | Path) -> Path:
    """Writes the report. Markdown cannot hold figures: they are saved beside it as SVG, and linked."""
    place = Path(path)
    kind = check_place(place)
    if kind == ".json":
        text = to_json(document)
    elif kind == ".md":
        text = to_markdown(document, _figures_beside(document, place))
    else:
        text = to_html(document)
    return write_text(text, place)


def check_place(place: Path) -> str:
    """The suffix of a report that can be written there; refuses before any work is done for it."""
    kind = place.suffix.lower()
    if kind not in KINDS:
        raise ReportError(f"a report is written as .html, .md or .json, which {str(place)!r} is not")
    if not place.parent.is_dir():
        raise ReportError(f"the report cannot be written to {str(place)!r}: its directory does not exist")
    return kind


def write_text(text: str, place: Path) -> Path:
    """Through a neighbour that is renamed, so that a page being looked at is never half written."""
    beside = place.with_name(f".{place.name}.part")
    try:
        beside.write_text(text, encoding="utf-8")
        beside.replace(place)
    except OSError as error:
        raise ReportError(f"the report cannot be written to {str(place)!r}: {error.strerror}") from error
    return place


def _figures_beside(document: Document, place: Path) -> list[str]:
    figures = [block for block in document.blocks if isinstance(block, Figure)]
    names = [f"{place.stem}-{k}.svg" for k in range(1, len(figures) + 1)]
    for figure, name in zip(figures, names, strict=True):
        save(figure.chart, place.with_name(name))
    return names
