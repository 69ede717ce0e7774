"""docs/reference/cli.md describes every command with every option and argument, and nothing that there is not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from sourcewise.cli import app

COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]
SHARED = {"--store", "--campaign", "-c", "--author", "--json", "--help"}


def section(root: Path, command: str) -> str:
    text = (root / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    found = re.search(rf"^### `sourcewise {command}\b.*?(?=^##|\Z)", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{command} has no heading"
    return found[0]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_option_is_documented_and_every_documented_option_exists(command: str, root: Path) -> None:
    real = {option for part in COMMANDS[command].params for option in part.opts if option.startswith("-")}
    described = set(re.findall(r"(?<![\w-])--?[a-z][a-z-]*", section(root, command)))
    assert real - SHARED <= described
    assert described - SHARED <= real


def test_every_exit_code_is_documented(root: Path) -> None:
    text = (root / "docs" / "reference" / "cli.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| (\d+) \|", text, re.MULTILINE) == ["0", "1", "2", "3", "130"]
