"""The order in which the rows of a table are used: random but reproducible, with no state but how many were taken.

Random order is the order of a hash of the seed and the row's identity. So the next rows are found again after any
interruption, in any process, and rows once used never come again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from sourcewise.errors import ConnectorError
from sourcewise.statistics.files import Positions
from sourcewise.statistics.frames import Missing

Arrangement = Literal["random", "arrival"]

GOLDEN = 0x9E3779B97F4A7C15
SLICE, GLANCE = 1 << 16, 1 << 14
"""Rows whose hashes are made at once: they stay in the processor's cache, and a glance is mostly enough to find one."""

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


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows that are told from the others by their number alone, so nothing grows with how many they are.

    Of random order those whose hash lies from `low` to `high`, of arrival order those whose number does.
    """

    seed: int | None
    low: int
    high: int

    @property
    def last(self) -> int | None:
        """The number of the last row, if it is known."""
        return self.high if self.seed is None else None

    def within(self, first: int, stop: int) -> Positions:
        """The numbers among first, …, stop − 1, increasing."""
        if self.seed is None:
            return np.arange(max(first, self.low), min(stop, self.high + 1), dtype=np.int64)
        found = []
        for begin in range(first, stop, SLICE):
            number = np.arange(begin, min(begin + SLICE, stop), dtype=np.int64)
            value = row_hash(self.seed, number)
            found.append(number[(value >= np.uint64(self.low)) & (value <= np.uint64(self.high))])
        return np.concatenate(found) if found else np.empty(0, dtype=np.int64)

    def any_within(self, first: int, stop: int) -> bool:
        if self.seed is None:
            return max(first, self.low) <= min(stop - 1, self.high)
        return any(self.within(begin, min(begin + GLANCE, stop)).size for begin in range(first, stop, GLANCE))


def chosen(sampling: Sampling, size: int, start: int, rows: int) -> Chosen:
    """The ranks start, …, start + rows − 1 in the order of use; fewer at the end."""
    stop = min(start + rows, size)
    if stop <= start:
        return Chosen(None, 0, -1)
    if sampling.order == "arrival":
        return Chosen(None, start, stop - 1)
    return Chosen(sampling.seed, *hash_bounds(sampling.seed, size, start, stop))


def positions(sampling: Sampling, size: int, start: int, rows: int) -> Positions:
    """Row numbers, increasing, of the ranks start, …, start + rows − 1 in the order of use; fewer at the end."""
    return chosen(sampling, size, start, rows).within(0, size)


def hash_bounds(seed: int, size: int, start: int, stop: int) -> tuple[int, int]:
    """The hashes of the rows at ranks start < stop ≤ size are those from the first number to the last."""
    inner = ([start] if start > 0 else []) + ([stop - 1] if stop < size else [])
    found = _hashes_at(seed, size, inner) if inner else []
    return found[0] if start > 0 else 0, found[-1] if stop < size else 2**64 - 1


def _hashes_at(seed: int, size: int, ranks: Sequence[int]) -> list[int]:
    """The hashes of these ranks: each is looked for near the place where it must be, in one pass over all rows."""
    margin = SLACK * np.sqrt(size) + SLACK**2
    near = [((rank - margin) / size, (rank + margin) / size) for rank in ranks]
    for windows in (near, [(0.0, 1.0)] * len(ranks)):
        found = _between(seed, size, windows)
        if all(below <= rank < below + len(hashes) for rank, (below, hashes) in zip(ranks, found, strict=True)):
            break
    places = [rank - below for rank, (below, _) in zip(ranks, found, strict=True)]
    return [int(np.partition(hashes, k)[k]) for k, (_, hashes) in zip(places, found, strict=True)]


def _between(seed: int, size: int, windows: Sequence[tuple[float, float]]) -> list[tuple[int, NDArray[np.uint64]]]:
    """For each window of the whole range: how many rows have a hash below it, and the hashes in it."""
    scale = 2.0**64
    edges = [
        (np.uint64(max(0.0, low) * scale), np.uint64(2**64 - 1 if high >= 1.0 else int(high * scale)))
        for low, high in windows
    ]
    below, inside = [0] * len(edges), [[np.empty(0, dtype=np.uint64)] for _ in edges]
    for first in range(0, size, SLICE):
        value = row_hash(seed, np.arange(first, min(first + SLICE, size), dtype=np.int64))
        for k, (lower, upper) in enumerate(edges):
            below[k] += int((value < lower).sum())
            inside[k].append(value[(value >= lower) & (value <= upper)])
    return [(count, np.concatenate(hashes)) for count, hashes in zip(below, inside, strict=True)]


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
