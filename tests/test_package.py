"""The package as a user gets it: what it imports, what it ships, what it says about itself."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner

import sourcewise
from sourcewise import cli, errors
from sourcewise._version import __version__
from sourcewise.example.simulate import simulate

HEAVY = (
    *("typer", "rich", "pandas", "polars", "pyarrow", "narwhals", "scipy.stats", "sympy"),
    *("sqlalchemy", "alembic", "altair", "vl_convert", "duckdb", "networkx", "dask", "distributed"),
)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    call = [sys.executable, *arguments]
    return subprocess.run(call, capture_output=True, text=True, timeout=120, check=False)


def test_importing_the_package_imports_nothing_heavy() -> None:
    done = run("-c", f"import sys, sourcewise; print([name for name in {HEAVY} if name in sys.modules])")
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_the_version_is_said_once() -> None:
    assert sourcewise.__version__ == __version__
    assert re.fullmatch(r"\d+\.\d+\.\d+", __version__)
    assert CliRunner().invoke(cli.app, ["--version"]).stdout == f"sourcewise {__version__}\n"


def test_the_changelog_knows_this_version(root: Path) -> None:
    text = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{__version__}]" in text or "## [Unreleased]" in text


def test_the_wheel_contains_what_it_must(root: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob(f"sourcewise-{__version__}-py3-none-any.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {
        "sourcewise/py.typed",
        "sourcewise/example/registry.csv",
        "sourcewise/example/survey.csv",
        "sourcewise/reporting/style.css",
    } <= names
    assert f"sourcewise-{__version__}.dist-info/licenses/LICENSE" in names
    source = root / "src"
    modules = {path.relative_to(source).as_posix() for path in source.rglob("*.py")}
    assert modules == {name for name in names if name.endswith(".py")}


def test_the_example_data_are_what_the_script_makes(root: Path) -> None:
    for source, text in simulate().items():
        path = root / "src" / "sourcewise" / "example" / f"{source}.csv"
        assert path.read_text(encoding="utf-8") == text


def public_names() -> list[str]:
    return [name for name in sourcewise.__all__ if not name.startswith("__")]


@pytest.mark.parametrize("name", public_names())
def test_every_public_name_has_a_heading_in_the_reference(name: str, root: Path) -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in (root / "docs" / "reference").glob("*.md"))
    assert re.search(rf"^#+ .*`{name}\b", text, re.MULTILINE)
    assert getattr(sourcewise, name).__doc__


def test_every_error_is_public_and_has_one_root() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type)]
    assert all(issubclass(kind, errors.SourcewiseError) for kind in kinds)
    assert {kind.__name__ for kind in kinds} <= set(sourcewise.__all__)


def pinned(root: Path) -> dict[str, str]:
    lines = (root / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9][0-9a-z.]*", pin) for pin in pins)
    return dict(pin.split("==", 1) for pin in pins)


def test_every_direct_dependency_is_pinned_at_or_above_its_bound(root: Path) -> None:
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [
        *project["dependencies"],
        *(w for extra in project["optional-dependencies"].values() for w in extra),
    ]
    pins = pinned(root)
    for requirement in wanted:
        name, _, bound = requirement.partition(">=")
        if not name.startswith("sourcewise["):
            assert _release(pins[name.partition("[")[0]]) >= _release(bound), requirement


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def tracked(root: Path) -> Iterator[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=root,
        capture_output=True,
        text=True,
        check=False,
    )
    if listed.returncode != 0:
        pytest.skip("not a clone: the list of files comes from git")
    return (root / name for name in listed.stdout.split("\0") if name and (root / name).is_file())


def test_no_file_names_a_machine_or_a_registry(root: Path) -> None:
    machine = re.compile(rb"(?<![\w.~:/-])/(?:home|mnt|opt|root|tmp|Users|work)/\w|\b[A-Z]:\\\\?Users")
    registry = re.compile(rb"pypi\.org/sim[p]le|files\.pythonh[o]sted|(?:extra-)?index-[u]rl|[f]ile:///")
    found = []
    for path in tracked(root):
        content = path.read_bytes()
        if b"\0" not in content:
            found += [f"{path.name}: {m[0]!r}" for rule in (machine, registry) for m in rule.finditer(content)]
    assert not found


def _raise(error: BaseException) -> Callable[..., NoReturn]:
    def fail(*_: object) -> NoReturn:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (
            errors.DataError("source 'survey' has no column 'z'"),
            2,
            "sourcewise: source 'survey' has no column 'z'\n",
        ),
        (KeyboardInterrupt(), 130, "Interrupted. What was counted is kept: the same command goes on from here.\n"),
    ],
)
def test_a_command_that_fails_says_why_without_a_traceback(
    error: BaseException,
    code: int,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("sourcewise.example.run", _raise(error))
    monkeypatch.setattr(sys, "argv", ["sourcewise", "example", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == code
    assert capsys.readouterr().err == message


def test_the_example_is_a_campaign_of_three_sources_with_a_report(tmp_path: Path) -> None:
    done = run("-m", "sourcewise", "example", str(tmp_path / "example"))
    assert (done.returncode, done.stderr) == (0, "")
    for word in ("interview", "registry", "survey", "effect = ", "report.html"):
        assert word in done.stdout
    assert "Do the sources agree?" in (tmp_path / "example" / "report.html").read_text(encoding="utf-8")
