"""`sourcewise reproduce` as a user runs it: what it prints and writes, and what Ctrl-C leaves behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

COMMAND = [sys.executable, "-m", "sourcewise", "reproduce"]


def reproduce(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *words], cwd=directory, capture_output=True, text=True, timeout=300, check=False)


def test_it_prints_the_claims_and_writes_data_figures_and_a_page(tmp_path: Path) -> None:
    done = reproduce(tmp_path, "two-ivs", "--runs", "40", "--out", "it")
    assert (done.returncode, done.stderr) == (0, "")
    assert "(figure 2(b))" in done.stdout
    assert "ETC(0.4) keeps a constant regret" in done.stdout
    out = tmp_path / "it" / "two-ivs"
    files = {str(path.relative_to(out)) for path in out.rglob("*")}
    assert {"report.html", "figure.csv", "figure.parquet", "figure.json"} <= files
    for name in ("regret", "regret-stacked", "mixes", "variance", "coverage", "tails"):
        assert {f"figures/{name}.{suffix}" for suffix in ("png", "svg", "pdf", "html")} <= files
    cells = json.loads((out / "figure.json").read_text())
    assert {cell["runs"] for cell in cells} == {40}
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "sourcewise reproduce two-ivs --runs 40 --seed 1" in page
    assert "<script" not in page


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.slow)])
def test_ctrl_c_keeps_finished_runs_and_the_same_command_goes_on(workers: str, tmp_path: Path) -> None:
    words = ["iv", "--runs", "8192", "--workers", workers, "--out", "it"]
    running = subprocess.Popen([*COMMAND, *words], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    kept = tmp_path / "it" / "iv" / "runs" / "figure"
    end = time.monotonic() + 240
    while not list(kept.glob("runs-*.npz")) and time.monotonic() < end:
        time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=240)
    assert running.returncode == 130
    assert "of 8192 runs; they are kept in it/iv/runs/figure, and the same command goes on from there" in said
    assert "Traceback" not in said
    before = {path: path.stat().st_mtime_ns for path in kept.glob("runs-*.npz")}
    assert before
    again = reproduce(tmp_path, "iv", "--runs", "1024", "--out", "it")  # fewer, to be quick
    assert again.returncode == 0
    assert {path: path.stat().st_mtime_ns for path in before} == before  # nothing was computed again


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["elsewhere"], "elsewhere"),
        (["iv", "--runs", "1"], "--runs"),
        (["iv", "--dask", "nowhere:1"], "no Dask scheduler answers at 'nowhere:1'"),
        (["iv", "--runs", "2", "--out", "file"], "cannot be kept in file"),
    ],
)
def test_mistakes_are_answered_in_words(words: list[str], message: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = reproduce(tmp_path, *words)
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr
