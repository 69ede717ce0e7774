"""A user's mistake: exit code 2, the reason on stderr, nothing on stdout, no traceback, and nothing changed."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from cli.conftest import Run, write_rows
from sourcewise.cli import output
from sourcewise.cli.app import PANELS

COMMANDS = [command.__name__.rstrip("_") for commands in PANELS.values() for command in commands]


@pytest.fixture
def mess(campaign: Run) -> Run:
    """A campaign, and around it everything that a user may hand in by mistake."""
    Path("dir").mkdir()
    Path("bytes.csv").write_bytes(bytes(range(256)) * 8)
    Path("bytes.toml").write_bytes(bytes(range(256)) * 8)
    Path("bytes.db").write_bytes(bytes(range(256)) * 8)
    Path("empty").write_bytes(b"")
    Path("empty.csv").write_bytes(b"")
    Path("text.json").write_text("{", encoding="utf-8")
    Path("bad.toml").write_text('name = "x"\ntarget = \n', encoding="utf-8")
    write_rows("registry", 5).rename("rows.csv")
    return campaign


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("check missing.toml", "no file 'missing.toml'"),
        ("check dir", "'dir' is a directory"),
        ("check bad.toml", "bad.toml, line 2"),
        ("check bytes.toml", "not UTF-8"),
        ("check empty", "needs the key 'target'"),
        ("check", "name a study file"),
        ("check study.toml --figure graph.svg", "made from a graph"),
        ("new nosuch", "no recipe 'nosuch'"),
        ("new iv dir", "is a directory"),
        ("new iv no/such/study.toml", "cannot be written"),
        ("plan study.toml --budget 0", "above 0"),
        ("plan study.toml --budget nan", "above 0"),
        ("plan study.toml --stderr -1", "above 0"),
        ("plan study.toml --pilot registry", "--pilot SOURCE=VALUE"),
        ("plan study.toml --pilot nosuch=rows.csv", "no source 'nosuch'"),
        ("plan study.toml --pilot registry=rows.csv", "not identified"),
        ("plan study.toml --figure plan.doc", "plan.doc"),
        ("create study.toml", "already"),
        ("create study.toml --name  --budget 5", "printable text"),
        ("create study.toml --budget -1 --name b", "above 0"),
        ("create study.toml --store no/such.db", "no directory"),
        ("ask --store missing.db", "no store at missing.db"),
        ("ask --store bytes.db", "no SQLite database"),
        ("ask --store dir", "cannot be opened"),
        ("ask --store mysql://host/x", "not 'mysql'"),
        ("ask -c nosuch", "no campaign 'nosuch'"),
        ("tell nosuch rows.csv", "no source 'nosuch'"),
        ("tell registry missing.csv", "no file 'missing.csv'"),
        ("tell registry dir", "holds no files"),
        ("tell registry bytes.csv", "no column"),
        ("tell registry empty.csv", "names of the columns"),
        ("tell survey rows.csv", "no column 'y'"),
        ("tell registry text.json", "text.json"),
        ("tell registry rows.csv --cost -1", "cost"),
        ("tell registry rows.csv --cost inf", "cost"),
        ("summarize text.json registry rows.csv", "not JSON"),
        ("summarize missing.json registry rows.csv", "no file 'missing.json'"),
        ("summarize study.toml nosuch rows.csv", "no source 'nosuch'"),
        ("estimate", "nothing has been told yet"),
        ("estimate --level 2", "between 0 and 1"),
        ("report report.pdf", ".html, .md or .json"),
        ("report no/such/report.html", "does not exist"),
        ("amend", "nothing would change"),
        ("amend --cost registry", "--cost SOURCE=VALUE"),
        ("amend --cost registry=x", "no number"),
        ("amend --cost nosuch=1", "no source 'nosuch'"),
        ("amend --capacity registry=-1", "whole number"),
        ("amend --policy x", "cannot be read"),
        ("amend --policy {kind='etg',batch=7}", "share of the budget"),
        ("amend --retire nosuch", "no source 'nosuch'"),
        ("amend --add clinic=q", "no moment"),
        ("amend --budget 0", "above 0"),
        ("import missing.json", "no file 'missing.json'"),
        ("import dir", "dir"),
        ("import text.json", "text.json"),
        ("export campaign.txt", ".json or .csv"),
        ("export x.csv --table q", "'orders' or 'batches'"),
        ("export no/such.json", "cannot be written"),
        ("run study.toml --rounds 0", "--rounds"),
        ("run study.toml --report report.pdf", ".html, .md or .json"),
        ("run bad.toml", "line 2"),
        ("frobnicate", "No such command"),
        ("reproduce nosuch", "nosuch"),
    ],
)
def test_a_mistake_is_explained(line: str, words: str, mess: Run) -> None:
    before = mess("history", "--json").json
    answer = mess(*line.split(" "))
    assert (answer.code, answer.out) == (2, "")
    assert words in " ".join(answer.err.replace("│", " ").split())
    assert mess("history", "-c", "two-sample-iv", "--json").json == before


def test_two_campaigns_and_no_name(campaign: Run) -> None:
    campaign("create", "study.toml", "--name", "second")
    answer = campaign("status")
    assert answer.code == 2
    assert "'two-sample-iv', 'second'" in answer.err
    assert campaign("status", "-c", "second").code == 0


def test_the_store_is_the_option_or_the_environment_or_the_current_directory(
    campaign: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Path("sourcewise.db").is_file()
    monkeypatch.setenv("SOURCEWISE_STORE", "environment.db")
    assert campaign("create", "study.toml", "--name", "from the environment").code == 0
    assert campaign("status", "--json").json["name"] == "from the environment"
    assert campaign("status", "--store", "sourcewise.db", "--json").json["name"] == "two-sample-iv"


@pytest.mark.parametrize("command", COMMANDS)
def test_every_help_has_an_example(command: str, run: Run) -> None:
    answer = run(command, "--help")
    assert answer.code == 0
    assert f"Example: sourcewise {command}" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80


def test_numbers_are_never_broken_in_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    monkeypatch.setattr(output, "console", lambda: Console(file=text, width=30, markup=False))
    rows = [("a source with quite a long name", "1,234,567", "20,000.50", "[0.1234, 12.34]")]
    output.show(output.table("", ("Source", "Rows", "Spent", "95 % interval"), rows))
    for number in rows[0][1:]:
        assert number in text.getvalue()


def test_paths_and_commands_in_texts_are_not_broken() -> None:
    path = "a-long-directory/" * 8 + "store.db"
    assert path in output.wrapped(f"The report of this campaign was written to {path} just now.", 80)
    command = f"Look around: sourcewise status --store {path}"
    assert output.wrapped(command, 80) == command


def test_a_reader_who_leaves_and_a_terminal_without_unicode(campaign: Run) -> None:
    call = [sys.executable, "-m", "sourcewise", "check", "study.toml"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0", "LC_ALL": "C"}
    done = subprocess.run(call, env=environment, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.isascii()
    reader = subprocess.Popen([*call[:3], "history", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert reader.stdout is not None
    assert reader.stderr is not None
    reader.stdout.close()
    assert b"Traceback" not in reader.stderr.read()
    reader.stderr.close()
    reader.wait(60)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("sourcewise tell ", ["registry", "survey"]),
        ("sourcewise new pro", ["proxy-labels"]),
        ("sourcewise sum", ["summarize"]),
        ("sourcewise amend --prec", ["--precision"]),
    ],
)
def test_completion_knows_commands_options_recipes_and_sources(
    typed: str, offered: list[str], campaign: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the shell's completion function calls."""
    monkeypatch.setenv("_SOURCEWISE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split(" ")) - 1))
    assert campaign().out.split() == offered
