"""The paper's five figures: CPU seconds of every policy at every budget, beside those of drawing the rows alone.

A block of runs is simulated and scaled to 12,000 runs, of which each is a block like any other:
`python benchmarks/experiments.py iv 12000` simulates them all.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from model import Result
from sourcewise.experiments import EXPERIMENTS, Experiment
from sourcewise.simulation.runner import Job, games_of, simulate
from sourcewise.simulation.streams import GROUP, PIECE, dealt

FULL = 12_000
BARS = {"iv": 25, "two-ivs": 25, "confounder-mediator": 120, "ihdp": 240, "draft-lottery": 120}
PUBLISHED = {"iv": 2.0, "two-ivs": 1.2, "confounder-mediator": 67, "ihdp": 109, "draft-lottery": 58}
"""Core-hours of the published notebooks."""


def measure(experiment: Experiment, runs: int) -> tuple[float, float]:
    """CPU seconds of the simulation and of drawing its rows."""
    began = time.process_time()
    simulate(experiment.world, experiment.study, experiment.strategies, experiment.budgets, runs=runs, seed=1)
    played = time.process_time()
    draw(experiment, runs)
    return played - began, time.process_time() - played


def draw(experiment: Experiment, runs: int) -> None:
    import numpy as np

    games = tuple(games_of(experiment.strategies, experiment.budgets))
    job = Job(experiment.world, experiment.study, games, 1, False)
    random = np.random.Generator(np.random.SFC64(1))
    for name in job.plans():
        for _ in range(-(-runs // GROUP) * -(-job.rows(name) // PIECE)):
            dealt(job.world, random, PIECE * GROUP, job.study.sources[name].observes, name)  # type: ignore[arg-type]


def run() -> list[Result]:
    return [row for name in EXPERIMENTS for row in _rows(name, 1024)]


def _rows(name: str, runs: int) -> list[Result]:
    """In a process of its own, so that its peak memory is its own."""
    done = subprocess.run(
        [sys.executable, __file__, name, str(runs)], check=True, capture_output=True, text=True
    ).stdout.split()
    played, drawn, memory = (float(number) for number in done)
    seconds = played * FULL / runs
    return [
        (f"{name}, 12,000 runs", f"{seconds:.0f} s, {memory:.0f} MB", f"≤ {BARS[name]} s, ≤ 2000 MB"),
        (f"… its rows are drawn in 1/{played / drawn:.0f} of that", f"{drawn * FULL / runs:.1f} s", ""),
        ("… the published notebook takes", f"{PUBLISHED[name] * 3600 / seconds:,.0f} times as long", ""),
    ]


def main(name: str, runs: int) -> None:
    played, drawn = measure(EXPERIMENTS[name](), runs)
    status = Path("/proc/self/status").read_text().splitlines()
    memory = next(int(line.split()[1]) / 1024 for line in status if line.startswith("VmHWM"))
    print(played, drawn, memory)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
