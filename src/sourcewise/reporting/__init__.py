"""Reports: parts of a document, and pages of experiments and campaigns, written as HTML, Markdown and JSON."""

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
from sourcewise.reporting.experiment import ExperimentPage, experiment_document
from sourcewise.reporting.page import to_html
from sourcewise.reporting.plaintext import to_json, to_markdown
from sourcewise.reporting.write import write

__all__ = [
    "Block",
    "Bullets",
    "Cell",
    "Code",
    "Document",
    "ExperimentPage",
    "Figure",
    "Heading",
    "Paragraph",
    "Table",
    "Verdict",
    "experiment_document",
    "to_html",
    "to_json",
    "to_markdown",
    "write",
]
