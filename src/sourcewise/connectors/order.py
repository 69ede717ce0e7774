"""The order in which the rows of a table are used: random but reproducible, with no state but how many were taken.

Random order is the order of a hash of the seed and the row's identity. So the next rows are found again after any
interruption, in any process, and rows once used never come again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sourcewise.errors import ConnectorError
from sourcewise.statistics.files import Positions
from sourcewise.statistics.frames import Missing

Arrangement = Literal["random", "arrival"]

GOLDEN = 0x9E3779B97F4A7C15
SLICE = 1 << 18
SLACK = 9.0
"""Standard deviations by which the k-th smallest of N hashes may lie off k/N; more is looked for in a second pass."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How rows are drawn. `key` names the columns that tell rows apart, where the table has no row numbers.

    order: "random", or "arrival" for a table whose own order is already random.
    missing: what happens to a row in which a needed value is missing, as in `fit`.
    version: a name for this state of the table, given by whoever keeps it; then nothing else is compared.
    """

    order: Arrangement = "random"
    seed: int = 0
    key: tuple[str, ...] = ()
    missing: Missing = "error"
    version: str | None = None

    def __post_init__(self) -> None:
        if self.order not in get_args(Arrangement):
            raise ConnectorError(f'order must be "random" or "arrival", not {self.order!r}')
        if self.missing not in get_args(Missing):
            raise ConnectorError(f'missing must be "error" or "drop", not {self.missing!r}')
        if isinstance(self.seed, bool) or not isinstance(self.seed, int) or not 0 <= self.seed < 2**63:
            raise ConnectorError(f"seed must be a whole number from 0 to 2⁶³ − 1, not {self.seed!r}")
        names = (self.key,) if isinstance(self.key, str) else self.key
        if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name for name in names):
            raise ConnectorError(f"key must be the name of a column, or a list of names, not {self.key!r}")
        if len(set(names)) < len(names):
            raise ConnectorError(f"key names a column twice: {', '.join(names)}")
        if self.version is not None and not (isinstance(self.version, str) and self.version):
            raise ConnectorError(f"version must be a text that is not empty, not {self.version!r}")
        object.__setattr__(self, "key", tuple(names))


SAMPLING_KEYS = ("order", "seed", "key", "missing", "version")


def read_sampling(spec: Mapping[str, object]) -> Sampling:
    """The keys of a source's data table that say how rows are drawn."""
    return Sampling(**{key: spec[key] for key in SAMPLING_KEYS if key in spec})  # type: ignore[arg-type]


def positions(sampling: Sampling, size: int, start: int, rows: int) -> Positions:
    """Row numbers, increasing, of the ranks start, …, start + rows − 1 in the order of use; fewer at the end."""
    stop = min(start + rows, size)
    if stop <= start:
        return np.empty(0, dtype=np.int64)
    if sampling.order == "arrival" or (start, stop) == (0, size):
        return np.arange(start, stop, dtype=np.int64)
    return np.sort(_ranked(sampling.seed, size, start, stop)[0])


def hash_bounds(seed: int, size: int, start: int, stop: int) -> tuple[int, int]:
    """The hashes of the rows at ranks start < stop ≤ size are those from the first number to the last."""
    hashes = _ranked(seed, size, start, stop)[1]
    return int(hashes[0]), int(hashes[-1])


def _ranked(seed: int, size: int, start: int, stop: int) -> tuple[Positions, NDArray[np.uint64]]:
    """Row numbers of the ranks start, …, stop − 1 and their hashes, in the order of use."""
    margin = SLACK * np.sqrt(size) + SLACK**2
    for low, high in (((start - margin) / size, (stop + margin) / size), (0.0, 1.0)):
        below, numbers, hashes = _between(seed, size, low, high)
        if below <= start and below + len(numbers) >= stop:
            break
    wanted = np.argsort(hashes, kind="stable")[start - below : stop - below]
    return numbers[wanted], hashes[wanted]


def _between(seed: int, size: int, low: float, high: float) -> tuple[int, Positions, NDArray[np.uint64]]:
    """How many rows have a hash below `low` (of the whole range), and the rows with a hash up to `high`."""
    scale = 2.0**64
    lower = np.uint64(max(0.0, low) * scale)
    upper = np.uint64(2**64 - 1 if high >= 1.0 else int(high * scale))
    below, numbers, hashes = 0, [], []
    for first in range(0, size, SLICE):
        number = np.arange(first, min(first + SLICE, size), dtype=np.int64)
        value = row_hash(seed, number)
        below += int((value < lower).sum())
        inside = (value >= lower) & (value <= upper)
        numbers.append(number[inside])
        hashes.append(value[inside])
    return below, np.concatenate(numbers), np.concatenate(hashes)


def row_hash(seed: int, number: Positions) -> NDArray[np.uint64]:
    """One-to-one for each seed, so that no two rows tie: the finalizer of SplitMix64, of the seed and of the sum."""
    with np.errstate(over="ignore"):
        value: NDArray[np.uint64] = mixed(number.astype(np.uint64) * np.uint64(GOLDEN) + np.uint64(seed_start(seed)))
    return value


def seed_start(seed: int) -> int:
    """Where the numbers of a seed begin."""
    with np.errstate(over="ignore"):
        return int(mixed(np.array([seed], dtype=np.uint64) + np.uint64(GOLDEN))[0])


def mixed(value: Any, whole: Callable[[int], Any] = np.uint64) -> Any:
    """The finalizer, of an array or a column of any engine; `whole` makes its unsigned constants."""
    value = (value ^ (value // whole(1 << 30))) * whole(0xBF58476D1CE4E5B9)
    value = (value ^ (value // whole(1 << 27))) * whole(0x94D049BB133111EB)
    return value ^ (value // whole(1 << 31))
