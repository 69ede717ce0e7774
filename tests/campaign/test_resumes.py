"""Campaigns that end in another process than they began in come to the very end of those that were never interrupted.

The work is done by `resumes.py`, one program after the other, so that nothing but the store passes between them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("resumes.py")


@pytest.fixture(params=["sqlite", "postgresql"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return str(tmp_path)
    return f"{request.getfixturevalue('postgres_database')()}#{tmp_path}"


def same(place: str, amount: int) -> int:
    """How many campaigns are, in every table and in their estimate, what their twins are."""
    paths = os.pathsep.join(filter(None, [str(SCRIPT.parents[1]), os.environ.get("PYTHONPATH")]))
    for mode in ("twins", "begin", "end", "compare"):
        call = [sys.executable, str(SCRIPT), mode, place, str(amount)]
        done = subprocess.run(
            call, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}, check=False
        )
        assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["differ"] == []
    return int(found["same"])


def test_campaigns_cut_off_anywhere_end_as_their_twins(place: str) -> None:
    assert same(place, 3 if "://" in place else 6) >= 3


@pytest.mark.slow
def test_200_campaigns_cut_off_anywhere_end_as_their_twins(place: str) -> None:
    """60 on PostgreSQL, where making 400 databases would take longest."""
    amount = 60 if "://" in place else 200
    assert same(place, amount) == amount
