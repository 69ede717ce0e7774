"""Files that other programs open, made without a network; names that look like code stay names."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from xml.etree import ElementTree

import pytest

from plots.specs import HOSTILE
from sourcewise.errors import ReportError
from sourcewise.plots import regret_curves, save
from sourcewise.plots.theme import Chart


@pytest.fixture(scope="module")
def chart() -> Chart:
    rows = [{"policy": HOSTILE, "budget": b, "regret": 1.0, "low": 0.0, "high": 2.0} for b in (100, 200)]
    return regret_curves(rows, title=HOSTILE)


def test_a_png_has_three_pixels_for_one(chart: Chart, tmp_path: Path) -> None:
    content = save(chart, tmp_path / "a.PNG").read_bytes()
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, _ = struct.unpack(">II", content[16:24])
    assert 900 < width < 1500


def test_a_pdf_is_one(chart: Chart, tmp_path: Path) -> None:
    content = save(chart, tmp_path / "a.pdf").read_bytes()
    assert content.startswith(b"%PDF-")
    assert content.rstrip().endswith(b"%%EOF")


def test_an_svg_holds_hostile_names_as_text(chart: Chart, tmp_path: Path) -> None:
    root = ElementTree.parse(save(chart, tmp_path / "a.svg")).getroot()
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= {"svg", "g", "path", "line", "rect", "text", "tspan", "defs", "clipPath", "title", "desc"}
    assert any("<script>" in (element.text or "") for element in root.iter())


def test_a_page_loads_nothing_and_runs_no_name(chart: Chart, tmp_path: Path) -> None:
    text = save(chart, str(tmp_path / "a.html")).read_text(encoding="utf-8")
    assert text.count("</script>") == 2
    head = text[: text.index("<script>")]
    assert "default-src 'none'" in head
    elements = re.sub(r"<(script|style)>.*?</\1>", "", text, flags=re.DOTALL)
    assert "src=" not in elements
    assert "href=" not in elements
    assert 'alert(\\"1\\")' in text


@pytest.mark.parametrize(
    ("name", "words"), [("a.gif", "saved as .svg"), ("a", "saved as"), ("no/dir/a.svg", "cannot be written")]
)
def test_what_cannot_be_written_is_said(chart: Chart, tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(ReportError, match=words):
        save(chart, tmp_path / name)
