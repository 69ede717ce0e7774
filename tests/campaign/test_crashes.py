"""Processes are killed, or many ask and tell at once: nothing acknowledged is lost, nothing is counted twice.

The work is done by `crashes.py`, in a process of its own because it forks. A kill shows what a crash of the process
does, not what a power cut does: for that see `synchronous` in tests/storage.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("crashes.py")


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where the script may make stores: a directory, or a server."""
    return str(tmp_path) if request.param == "sqlite" else str(request.getfixturevalue("postgres_database")())


def run(mode: str, store: str, *numbers: int) -> dict[str, Any]:
    paths = os.pathsep.join(filter(None, [str(SCRIPT.parents[1]), os.environ.get("PYTHONPATH")]))
    call = [sys.executable, str(SCRIPT), mode, store, *map(str, numbers)]
    done = subprocess.run(call, capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    print(mode, found)
    return found


def test_killed_at_every_statement_boundary(place: str) -> None:
    """Every one on SQLite, every seventh on PostgreSQL; the others are for the slow test."""
    assert run("boundaries", place, 7 if "://" in place else 1)["boundaries"] > 200


@pytest.mark.slow
@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
def test_killed_at_every_statement_boundary_of_postgresql(place: str) -> None:
    assert run("boundaries", place, 1)["boundaries"] > 200


def test_killed_at_random_moments(place: str) -> None:
    run("moments", place, 10)


@pytest.mark.slow
def test_killed_at_300_random_moments(place: str) -> None:
    assert len(run("moments", place, 300)["after steps"]) > 5


def test_tellers_who_repeat_themselves_and_die(store: str) -> None:
    assert run("tellers", store, 4, 40)["killed"] >= 8


@pytest.mark.slow
def test_16_tellers_of_500_batches_each(store: str) -> None:
    assert run("tellers", store, 16, 500)["killed"] >= 16 * 25


def test_32_who_ask_at_once_get_one_order(store: str) -> None:
    run("askers", store, 32)
