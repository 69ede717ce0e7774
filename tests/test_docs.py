"""The documentation is run: what it shows is what happens.

In README.md and docs/**/*.md, the ```python blocks of a file run in order in one namespace, in an empty
directory. A ```console block of `$ sourcewise ...` lines runs each of them there too; `> FILE` keeps what it
prints. The lines below a command are its expected output, compared without trailing blanks, where a line `...`
stands for any lines. A command without lines below it only has to succeed. A ```text block with the comment
<!-- output --> on the line before it is compared in the same way with what the ```python block before it printed.
"""

from __future__ import annotations

import contextlib
import io
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from sourcewise import example
from sourcewise.cli import main

ROOT = Path(__file__).resolve().parents[1]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"(?P<mark><!-- output -->\n)?```(?P<language>\w+)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, slots=True)
class Block:
    language: str
    body: str
    line: int
    is_output: bool


def blocks(text: str) -> Iterator[Block]:
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start("body"))
        yield Block(match["language"], match["body"], line, match["mark"] is not None)


def matches(expected: str, printed: str) -> bool:
    """Whether `printed` is `expected`, where a line `...` in `expected` stands for any lines, also none."""
    parts = []
    for line in expected.strip("\n").splitlines():
        parts.append(r"(?:[^\n]*\n)*" if line.strip() == "..." else re.escape(line.rstrip()) + "\n")
    lines = printed.strip("\n").splitlines()
    return re.fullmatch("".join(parts), "".join(line.rstrip() + "\n" for line in lines)) is not None


def run_python(page: Path, block: Block, namespace: dict[str, object]) -> str:
    """What the block printed. The line numbers of a failure are those of the page."""
    code = compile("\n" * block.line + block.body, str(page), "exec")
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(code, namespace)
    return output.getvalue()


def commands(body: str) -> Iterator[tuple[str, str]]:
    """Each command with the output that the page shows below it."""
    for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
        command, _, expected = part.partition("\n")
        yield command, expected


def run_command(words: list[str]) -> tuple[int, str, str]:
    """Exit code, output and complaints of a command: in this process, since starting one for each takes long."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.setattr(sys, "argv", words)
        try:
            main()
        except SystemExit as end:
            return int(end.code or 0), out.getvalue(), err.getvalue()
    return 0, out.getvalue(), err.getvalue()


def run_console(block: Block) -> None:
    for command, expected in commands(block.body):
        command, _, path = command.partition(" > ")
        words = shlex.split(command)
        if words[0] != "sourcewise":
            continue
        code, printed, complaint = run_command(words)
        assert code == 0, f"$ {command}\n{complaint}"
        assert not expected.strip() or matches(expected, printed), f"$ {command}\n{printed}"
        if path:
            Path(path).write_text(printed, encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_does_what_it_says(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = ""
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.is_output:
            assert matches(block.body, printed), f"line {block.line} shows something else than\n{printed}"
        elif block.language == "python":
            printed = run_python(page, block, namespace)
        elif block.language == "console":
            run_console(block)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


@pytest.mark.parametrize("entry", ["README.md", "docs/index.md"])
def test_every_page_can_be_found(entry: str) -> None:
    start = ROOT / entry
    linked = {(start.parent / target).resolve() for target in re.findall(r"\]\(([^)#\s]+)", start.read_text("utf-8"))}
    lost = {page for page in PAGES if page.parent.name in ("howto", "reference")} - linked
    assert not lost


@pytest.mark.parametrize("script", sorted((ROOT / "examples").rglob("*.py")), ids=lambda path: path.name)
def test_an_example_runs(script: Path, tmp_path: Path) -> None:
    call = [sys.executable, str(script)]
    done = subprocess.run(call, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_comparison_can_fail() -> None:
    assert matches("a\n...\nd", "a\nb\nc\nd\n")
    assert matches("a\n...", "a")
    assert not matches("a\n...\nd", "a\nb\n")
    assert not matches("a", "a\nb")
    assert list(commands("$ sourcewise x\nout\n$ ls\n")) == [("sourcewise x", "out\n"), ("ls", "")]


def test_the_picture_of_the_readme_shows_what_the_example_gives(tmp_path: Path) -> None:
    picture = runpy.run_path(str(ROOT / "docs" / "images" / "draw.py"))["picture"](example.run(tmp_path))
    kept = (ROOT / "docs" / "images" / "campaign.svg").read_text(encoding="utf-8")
    label = re.compile(r'aria-label="([^"]+)"')
    assert label.findall(picture)[0] == label.findall(kept)[0]
    assert "effect = 0.99" in kept
