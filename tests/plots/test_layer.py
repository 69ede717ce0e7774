"""The layer as a whole: what it imports, and that its reference names all of it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sourcewise import plots, reporting


@pytest.mark.parametrize("package", ["plots", "reporting"])
def test_importing_figures_imports_no_drawing_package(package: str) -> None:
    heavy = ("altair", "vl_convert", "narwhals")
    code = f"import sys, sourcewise.{package}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", [*plots.__all__, *reporting.__all__])
def test_every_name_is_in_the_reference_and_has_a_docstring(name: str, root: Path) -> None:
    text = (root / "docs" / "reference" / "figures.md").read_text(encoding="utf-8")
    if name not in {"Block", "Cell"}:  # types, not things to make
        assert f"`{name}(" in text
        assert (getattr(plots, name, None) or getattr(reporting, name)).__doc__
