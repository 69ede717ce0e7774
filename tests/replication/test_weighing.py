"""The table of docs/weights-by-simulation.md is what the code prints today."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from replication.small import SMALL_WORLDS
from replication.weighing import REPLICATIONS, Line, cells, line, replicate
from sourcewise.estimation.gmm import Scheme

SCHEMES: tuple[Scheme, ...] = ("two-step", "normal", "shrunk", "ml")
"""Iterated weights were not run everywhere."""

PAGE = Path(__file__).parents[2] / "docs" / "weights-by-simulation.md"


def documented(study: str, rows: int) -> dict[str, list[str]]:
    """Cells of the page's lines, by weights."""
    lines = [text.strip("| ").split(" | ") for text in PAGE.read_text("utf-8").splitlines() if text.startswith("|")]
    return {cell[2]: cell[3:] for cell in lines if cell[:2] == [study, f"{rows:,}"]}


def printed(part: Line) -> list[str]:
    return cells(part).strip("| ").split(" | ")[3:]


def noise(percent: float) -> float:
    """Standard error of a share, in percent."""
    return math.sqrt(percent * (100 - percent) / REPLICATIONS)


@pytest.mark.slow
@pytest.mark.parametrize(("study", "rows"), [("IV", 200), ("Confounder-mediator, skewed", 500)])
def test_the_documented_line_is_what_a_run_finds(study: str, rows: int) -> None:
    """The data are the page's own, so a standard error is wide: it leaves room for rounding in searches."""
    (world,) = (world for world in SMALL_WORLDS if world.name == study)
    expected = documented(study, rows)
    for scheme, ends in replicate(world, SCHEMES, rows, REPLICATIONS).items():
        rmse, median, covers, rejects, failures = map(float, printed(line(world, rows, scheme, ends)))
        wanted = [float(cell) for cell in expected[scheme]]
        assert [rmse, median] == pytest.approx(wanted[:2], rel=1 / math.sqrt(2 * REPLICATIONS))
        assert covers == pytest.approx(wanted[2], abs=noise(wanted[2]))
        assert rejects == pytest.approx(wanted[3], abs=noise(wanted[3]))
        assert failures == wanted[4]
