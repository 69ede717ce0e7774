"""One document, three forms: nothing in it is executed or loaded, and nothing is lost."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from reporting.pages import HOSTILE, experiment, figure, harmless, hostile_document, read, strict_json
from sourcewise.errors import ReportError
from sourcewise.plots.table import printable
from sourcewise.reporting import (
    Document,
    Heading,
    Paragraph,
    Table,
    experiment_document,
    to_html,
    to_json,
    to_markdown,
    write,
)
from sourcewise.reporting.cells import shown


def test_hostile_texts_stay_texts_in_a_page() -> None:
    page = read(to_html(hostile_document()))
    assert harmless(page)
    # Title, heading, paragraph, item, code, caption, header, cell, note, fact, caption of the figure, verdict twice,
    # subtitle and footer, and the name in the legend: each a text of its own.
    whole = "".join(page.texts)
    assert whole.count("<script>alert(1)</script>") >= 16
    labels = [attributes["aria-label"] for attributes in page.of("svg")]
    assert labels == [HOSTILE, "regret"]


def test_the_check_for_harmless_pages_can_fail() -> None:
    for text in ("<script>1</script>", "<p onclick='x'>", "<img src='x'>", "<p style='background: url(http://x.y)'>"):
        assert not harmless(read(text))


def test_a_page_can_be_read_by_everyone() -> None:
    page = read(to_html(hostile_document()))
    assert page.of("html") == [{"lang": "en"}]
    assert len(page.of("h1")) == 1
    assert {attributes.get("scope") for attributes in page.of("th")} == {"col", "row"}
    assert all(attributes["role"] == "img" and attributes["aria-label"] for attributes in page.of("svg"))
    assert len(page.of("caption")) == len(page.of("table")) == 2
    policy = next(attributes["content"] for attributes in page.of("meta") if "http-equiv" in attributes)
    assert policy is not None
    assert policy.startswith("default-src 'none'")


def test_names_inside_several_charts_do_not_meet() -> None:
    text = to_html(Document("t", [figure("a"), Paragraph("x"), figure("b")]))
    names = re.findall(r'\bid="([^"]+)"', text)
    assert names
    assert len(names) == len(set(names))
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(names)


def test_a_chart_in_a_page_takes_the_colour_of_the_text() -> None:
    text = to_html(Document("t", [figure()]))
    assert "currentColor" in text
    assert "#22272e" not in text
    assert 'fill="white"' not in text


def test_json_is_strict_and_holds_every_part() -> None:
    found = strict_json(to_json(hostile_document()))
    kinds = [block["kind"] for block in found["blocks"]]
    assert kinds == [
        *["heading", "paragraph", "bullets", "code", "table", "table", "figure", "figure", "verdict", "verdict"]
    ]
    assert found["blocks"][4]["rows"][0] == [HOSTILE, None]
    assert found["blocks"][6]["chart"]["layer"]


texts = st.one_of(st.text(max_size=30), st.text("|*_`[]()<>&#!\\-+=~$.:1\n ", max_size=30), st.just(HOSTILE))


@settings(max_examples=150, deadline=None)
@given(texts)
def test_markdown_shows_any_text_as_it_is(text: str) -> None:
    tokens = MarkdownIt().enable("table").parse(to_markdown(Document("t", [Paragraph("x " + text)])))
    inline = [token for token in tokens if token.type == "inline"]
    assert [token.type for token in tokens if token.type.endswith("_open")] == ["heading_open", "paragraph_open"]
    assert {child.type for child in inline[1].children or ()} <= {"text", "softbreak"}
    said = "".join(child.content for child in inline[1].children or ())
    assert said.split() == printable("x " + text).split()


@settings(max_examples=60, deadline=None)
@given(texts, texts)
def test_a_markdown_table_keeps_its_columns(first: str, second: str) -> None:
    table = Table("t", [[first, 1.5], [second, 2.5]], ["name", "number"])
    tokens = MarkdownIt().enable("table").parse(to_markdown(Document("t", [table])))
    assert [token.type for token in tokens].count("td_open") == 4


@pytest.mark.parametrize("text", ["- a", "1. a", "= a", "> a", "# a", "+ a", "    a", "```", "---", "a\n---", "1) a"])
def test_a_paragraph_does_not_begin_something_else(text: str) -> None:
    tokens = MarkdownIt().parse(to_markdown(Document("t", [Heading("h"), Paragraph(text)])))
    assert [token.type for token in tokens if token.type.endswith("_open")] == [
        *("heading_open", "heading_open", "paragraph_open"),
    ]


@pytest.mark.parametrize(
    ("cell", "text"),
    [
        (1234567, "1,234,567"),
        (-3, "−3"),
        (0.0, "0"),
        (0.123456, "0.12346"),
        (1234.5678, "1,234.6"),
        (123456.7, "123,457"),
        (-0.00001234, "−1.234e−05"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (math.nan, "–"),
        (None, "–"),
        (True, "yes"),
        ("a-b", "a-b"),
    ],
)
def test_numbers_are_shown_with_five_digits(cell: float | str | None, text: str) -> None:
    assert shown(cell) == text


def test_a_table_without_rows_keeps_its_header() -> None:
    table = Table("t", [], ["a", "b"])
    assert len(read(to_html(Document("t", [table]))).of("th")) == 2
    assert "| a | b |" in to_markdown(Document("t", [table]))


def test_an_experiment_says_which_claims_hold() -> None:
    document = experiment_document(experiment())
    page = to_markdown(document)
    assert "Of 3 claims, 1 hold, 1 fail, 1 cannot be told" in page
    for words in (
        "**holds**: a",
        "**does not hold**: b",
        "**cannot be told**: c",
        "too few runs",
        "sourcewise reproduce iv",
    ):
        assert words in page
    assert "numpy" in page
    assert harmless(read(to_html(document)))


def test_a_report_is_written_by_its_suffix(tmp_path: Path) -> None:
    document = Document("t", [figure(), figure()])
    assert write(document, tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    strict_json(write(document, tmp_path / "r.json").read_text(encoding="utf-8"))
    page = write(document, str(tmp_path / "r.md")).read_text(encoding="utf-8")
    assert "(r-1.svg)" in page
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r-1.svg", "r-2.svg", "r.html", "r.json", "r.md"]


@pytest.mark.parametrize(
    ("name", "words"), [("r.pdf", "written as .html, .md or .json"), ("no/r.html", "cannot be written")]
)
def test_a_report_that_cannot_be_written_says_so(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(ReportError, match=words):
        write(Document("t", []), tmp_path / name)
