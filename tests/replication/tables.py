"""Rates of many replications beside what they should be. `python -m replication.tables` prints docs/coverage.md's."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri, ndtri

from replication.batch import Replications, covered_by_inversion, covers, replicate
from replication.worlds import EIGHT, IV, NINE, TWO_IVS, WEAK, WEAK_ROWS, Array, World
from sourcewise.estimation.blocks import Stacking

REPLICATIONS = 10_000
BOTH: tuple[Stacking, ...] = ("stacked", "pooled")
WORLDS: tuple[World, ...] = (IV, TWO_IVS, EIGHT, NINE)
SIZES = (1000, 2000, 4000, 8000)
TAIL = 0.1
"""The robust spread is the distance from this quantile to its mirror image, in units of a normal distribution's."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Shares in percent; standard errors as ratios to the spread of the estimates over replications.

    `mean_ratio` is the mean standard error over the standard deviation; `median_ratio` the median one over the
    distance of the 10 % and 90 % quantiles in normal units, which exists whatever the tails.
    """

    coverage: float
    corrected: float
    rejected: float | None
    mean_ratio: float
    corrected_ratio: float
    median_ratio: float
    failures: int


def rates(found: Replications, truth: float) -> Rates:
    tested = bool((found.degrees > 0).all())
    rejected = found.statistic > chdtri(np.maximum(found.degrees, 1), 0.05)
    deviation = float(np.std(found.estimate))
    return Rates(
        100 * float(np.mean(covers(found.estimate, found.stderr, truth))),
        100 * float(np.mean(covers(found.estimate, found.corrected, truth))),
        100 * float(np.mean(rejected)) if tested else None,
        float(np.mean(found.stderr)) / deviation,
        float(np.mean(found.corrected)) / deviation,
        float(np.median(found.stderr)) / robust_spread(found.estimate),
        int(np.sum(~found.converged)),
    )


def robust_spread(values: Array) -> float:
    low, high = np.quantile(values, [TAIL, 1 - TAIL])
    return float((high - low) / (ndtri(1 - TAIL) - ndtri(TAIL)))


def line(world: World, stacking: Stacking, rows: int, found: Rates) -> str:
    rejected = "–" if found.rejected is None else f"{found.rejected:.2f}"
    cells = (
        f"{found.coverage:.2f}",
        f"{found.corrected:.2f}",
        rejected,
        *(f"{ratio:.3f}" for ratio in (found.mean_ratio, found.corrected_ratio, found.median_ratio)),
        str(found.failures),
    )
    return "| " + " | ".join((world.name, stacking, f"{rows:,}", *cells)) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--replications", type=int, default=REPLICATIONS)
    parser.add_argument("--rows", type=int, nargs="+", default=SIZES)
    given = parser.parse_args()
    count: int = given.replications
    for rows in given.rows:
        for world in WORLDS:
            for stacking, found in replicate(world, BOTH, rows, count).items():
                print(line(world, stacking, rows, rates(found, world.target)))
                sys.stdout.flush()
    found = replicate(WEAK, ("stacked",), WEAK_ROWS, count)["stacked"]
    wald = 100 * np.mean(covers(found.estimate, found.stderr, WEAK.target))
    inverted = 100 * np.mean(covered_by_inversion(WEAK, WEAK_ROWS, count))
    print(f"{WEAK.name}, {WEAK_ROWS:,} rows: estimate ± 1.96 stderr {wald:.2f} %, inversion {inverted:.2f} %")


if __name__ == "__main__":
    main()
