"""Weights in small samples. `python -m replication.weighing` prints the table of docs/weights-by-simulation.md."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtri

from replication.batch import covers, evidence
from replication.small import SMALL_WORLDS
from replication.worlds import Array, World
from sourcewise.estimation.blocks import Blocks
from sourcewise.estimation.gmm import EFFICIENT, MODELLED, Scheme, Settings, estimate
from sourcewise.inference import infer
from sourcewise.moments.compiled import compile_study
from sourcewise.plots.policies import coverage
from sourcewise.plots.save import save

REPLICATIONS = 2000
BATCH = 250
SIZES = (50, 100, 200, 500, 1000, 2000)
SCHEMES: tuple[Scheme, ...] = ("two-step", "iterated", "normal", "shrunk", "ml")


@dataclass(frozen=True, slots=True)
class Ends:
    """What each replication ended with (B,), whether it converged or not."""

    estimate: Array
    stderr: Array
    statistic: Array
    degrees: NDArray[np.int64]
    converged: NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Line:
    """One study, size and weight. Shares in percent; `rejects` is None where there is nothing to test."""

    study: str
    rows: int
    weights: str
    rmse: float
    median: float
    """Of the absolute errors."""
    covers: float
    rejects: float | None
    failures: int
    """Replications that did not converge. They are counted in everything else."""


def replicate(world: World, schemes: tuple[Scheme, ...], rows: int, count: int) -> dict[Scheme, Ends]:
    """`count` replications; every weight sees the same data."""
    done: dict[Scheme, list[Ends]] = {scheme: [] for scheme in schemes}
    for batch, start in enumerate(range(0, count, BATCH)):
        parts = evidence(world, rows, min(BATCH, count - start), batch)
        for scheme in schemes:
            blocks = Blocks(parts, "stacked", "robust", False, len(world.study.moments), MODELLED.get(scheme))
            done[scheme].append(run(world, blocks, scheme))
    return {scheme: _joined(ends) for scheme, ends in done.items()}


def run(world: World, blocks: Blocks, scheme: Scheme) -> Ends:
    """As `fit` runs it."""
    compiled = compile_study(world.study)
    start = np.repeat(compiled.start[:, None], len(blocks.rows), axis=1)
    with np.errstate(all="ignore"):
        found = estimate(world.study, compiled, blocks, Settings(scheme), start)
        known = infer(compiled, blocks, found, "robust", None, scheme in EFFICIENT)
    return Ends(known.target, known.stderr, known.statistic, known.degrees, found.converged)


def _joined(ends: list[Ends]) -> Ends:
    names = Ends.__slots__
    return Ends(*(np.concatenate([getattr(end, name) for end in ends]) for name in names))


def line(world: World, rows: int, scheme: Scheme, ends: Ends) -> Line:
    truth = world.truth[world.study.target]
    error = np.where(np.isfinite(ends.estimate), ends.estimate - truth, np.inf)
    rejected = ends.statistic > chdtri(np.maximum(ends.degrees, 1), 0.05)
    return Line(
        world.name,
        rows,
        scheme,
        float(np.sqrt(np.mean(error**2))),
        float(np.median(np.abs(error))),
        100 * float(np.mean(covers(ends.estimate, ends.stderr, truth))),
        100 * float(np.mean(rejected)) if (ends.degrees > 0).any() else None,
        int(np.sum(~ends.converged)),
    )


def lines(
    count: int, sizes: tuple[int, ...], names: tuple[str, ...] = (), schemes: tuple[Scheme, ...] = SCHEMES
) -> Iterator[Line]:
    for world in SMALL_WORLDS:
        for rows in sizes if not names or world.name in names else ():
            for scheme, ends in replicate(world, schemes, rows, count).items():
                yield line(world, rows, scheme, ends)


def cells(part: Line) -> str:
    rejects = "–" if part.rejects is None else f"{part.rejects:.1f}"
    numbers = f"{part.rmse:.4g} | {part.median:.4g} | {part.covers:.1f} | {rejects} | {part.failures}"
    return f"| {part.study} | {part.rows:,} | {part.weights} | {numbers} |"


def draw(parts: Sequence[Line], count: int, path: str) -> None:
    """Coverage by rows and weight, for the lines of one study."""
    names = ("weights", "rows", "covers")
    columns = {name: [getattr(part, name) for part in parts] for name in names}
    shares = [share / 100 for share in columns["covers"]]
    data = {"policy": columns["weights"], "budget": columns["rows"], "coverage": shares, "runs": [count] * len(parts)}
    save(coverage(data, title=f"{parts[0].study}: coverage of the intervals", budget="Rows"), path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    parser.add_argument("--study", nargs="+", default=())
    parser.add_argument("--weights", nargs="+", default=SCHEMES)
    parser.add_argument("--json", help="a file for the figures, one line each")
    parser.add_argument("--figure", help="an image of the coverage, for one study")
    given = parser.parse_args()
    found = []
    for part in lines(given.replications, tuple(given.rows), tuple(given.study), tuple(given.weights)):
        print(cells(part))
        sys.stdout.flush()
        found.append(part)
        if given.json:
            with open(given.json, "a", encoding="utf-8") as file:
                file.write(json.dumps(cast(Mapping[str, object], asdict(part))) + "\n")
    if given.figure:
        draw(found, given.replications, given.figure)


if __name__ == "__main__":
    main()
