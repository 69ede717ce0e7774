"""The README promises five commands from nothing to a first order; here with what is installed, not with the clone."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import zipfile
from pathlib import Path

from test_docs import blocks, commands, matches


def test_five_commands_lead_to_a_first_order(root: Path, tmp_path: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    block = next(block for block in blocks(readme) if block.language == "console")
    five = list(commands(block.body))
    assert [shlex.split(command)[:2] for command, _ in five] == [
        ["pip", "install"],
        ["sourcewise", "new"],
        ["sourcewise", "plan"],
        ["sourcewise", "create"],
        ["sourcewise", "ask"],
    ]
    installed, empty = tmp_path / "installed", tmp_path / "empty"
    _install(root, tmp_path, installed)
    empty.mkdir()
    # "." would be the empty directory for `python -m`, so what is imported can only be what was installed.
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    environment.pop("SOURCEWISE_STORE", None)
    for command, expected in five[1:]:
        call = [sys.executable, "-m", *shlex.split(command)]
        done = subprocess.run(
            call, cwd=empty, env=environment, capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, done.stderr) == (0, ""), command
        assert matches(expected, done.stdout), done.stdout
    assert sorted(path.name for path in empty.iterdir() if path.suffix in (".toml", ".db")) == [
        "sourcewise.db",
        "study.toml",
    ]


def _install(root: Path, place: Path, installed: Path) -> None:
    """What pip does with a wheel that has no compiled parts: it is built and unpacked."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(build, cwd=root, capture_output=True, timeout=120, check=True)
    (wheel,) = place.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(installed)
    where = [sys.executable, "-c", "import sourcewise; print(sourcewise.__file__)"]
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    found = subprocess.run(where, cwd=place, env=environment, capture_output=True, text=True, timeout=60, check=True)
    assert Path(found.stdout.strip()).is_relative_to(installed)
