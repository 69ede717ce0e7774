"""A command line in this process, in an empty directory: `run("ask", "--json")` answers with code, out and err."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sourcewise.cli import main


@dataclass(frozen=True, slots=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """What was printed, as the one strict JSON document that it must be."""
        return json.loads(self.out, parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))


Run = Callable[..., Answer]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """The very `main` that a terminal calls; an exception that reaches us would have been a traceback."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SOURCEWISE_STORE", raising=False)

    def call(*words: object) -> Answer:
        out, err = io.StringIO(), io.StringIO()
        monkeypatch.setattr(sys, "argv", ["sourcewise", *map(str, words)])
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main()
                code = 0
            except SystemExit as end:
                code = int(end.code or 0)
        assert "Traceback" not in out.getvalue() + err.getvalue()
        return Answer(code, out.getvalue(), err.getvalue())

    return call


def rows_of(source: str, n: int, seed: int = 0) -> str:
    """CSV of the recipe two-sample-iv; the effect is 1."""
    rng = np.random.default_rng([seed, len(source)])
    z, hidden, noise_x, noise_y = rng.standard_normal((4, n))
    x = 2 + z + hidden + noise_x
    second = x if source == "registry" else 1 + x + hidden + noise_y
    lines = (f"{a:.4f},{b:.4f}" for a, b in zip(z, second, strict=True))
    return "\n".join(["z,x" if source == "registry" else "z,y", *lines]) + "\n"


def write_rows(source: str, n: int, seed: int = 0) -> Path:
    path = Path(f"{source}-{n}-{seed}.csv")
    path.write_text(rows_of(source, n, seed), encoding="utf-8")
    return path


@pytest.fixture
def campaign(run: Run) -> Run:
    """A campaign in the current directory: budget 6,000, first order 150 rows of each source."""
    assert run("new", "two-sample-iv").code == 0
    assert run("create", "study.toml").code == 0
    return run
