"""Sums made by the workers of a Dask cluster, a partition at a time, by the very code that reads rows here.

One query through Narwhals would become a graph of a reduction a product, which takes Dask seconds to plan for each
delivery. So the workers need this package; what comes back from each partition is its sums and its counts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sourcewise.moments.compiled import CompiledSource
from sourcewise.numerics.linalg import Array
from sourcewise.statistics.features import Features, atom_order, atom_values, round_centre
from sourcewise.statistics.frames import Missing, collecting, judge, naming, raw_blocks
from sourcewise.statistics.gram import Statistics

FIRST = 16
"""Partitions that the centre is chosen by, if one of them has a usable row."""


@dataclass(frozen=True, slots=True)
class Part:
    """What a worker finds in a partition: its sums, and what is wrong with its rows by column."""

    seen: int
    incomplete: int
    absent: NDArray[np.int64]
    infinite: NDArray[np.int64]
    gram: Array


def sums_of_partitions(
    source: CompiledSource, frame: Any, centre: Mapping[str, float] | None, missing: Missing, *, empty: bool
) -> tuple[Statistics | None, int]:
    """As `lazy.sums_there`, of a Dask frame with the variables of the source as its columns."""
    with naming(source.name), collecting():
        pieces = frame.to_delayed()
    if centre is None:
        spreads = _asked(source, _spread, pieces[:FIRST]) or _asked(source, _spread, pieces)
        centre = _centre(source, spreads)
    parts: list[Part] = _asked(source, _sum_part, pieces, dict(centre))
    seen, incomplete = sum(part.seen for part in parts), sum(part.incomplete for part in parts)
    absent, infinite = (np.sum([getattr(part, name) for part in parts], axis=0) for name in ("absent", "infinite"))
    with naming(source.name):
        dropped = judge(source.variables, seen, incomplete, absent, infinite, {}, missing=missing, empty=empty)
    if seen == dropped:
        return None, seen
    gram = np.sum([part.gram for part in parts], axis=0)
    return Statistics(source.name, source.labels, centre, seen - dropped, gram, dropped), seen


def _asked(source: CompiledSource, question: Any, pieces: Sequence[Any], *more: Any) -> list[Any]:
    """The answers of the workers, those that know nothing left out."""
    import dask

    engine: Any = dask
    ask = engine.delayed(question, pure=False, traverse=False)
    given = engine.delayed(source, pure=False, traverse=False)
    with naming(source.name), collecting():
        answers = engine.compute(*(ask(given, piece, *more) for piece in pieces))
    return [each for each in answers if each is not None]


def _sum_part(source: CompiledSource, rows: Any, centre: Mapping[str, float]) -> Part:
    """Runs on a worker."""
    features, width = Features(source, centre), len(source.variables)
    gram = np.zeros((len(source.terms),) * 2)
    absent, infinite = (np.zeros(width, dtype=np.int64) for _ in range(2))
    seen = used = incomplete = 0
    for block in raw_blocks(rows, source.variables):
        is_nan, is_inf = np.isnan(block), np.isinf(block)
        absent += is_nan.sum(axis=1)
        infinite += is_inf.sum(axis=1)
        incomplete += int(is_nan.any(axis=0).sum())
        good = block[:, np.isfinite(block).all(axis=0)]
        terms = features(np.ascontiguousarray(good))
        gram += terms @ terms.T
        seen, used = seen + block.shape[1], used + good.shape[1]
    gram[0, 0] = used
    return Part(seen, incomplete, absent, infinite, gram)


def _spread(source: CompiledSource, rows: Any) -> Array | None:
    """Count, means, variances, least and largest values of the atoms (5, atoms); None without a usable row.

    Runs on a worker."""
    for block in raw_blocks(rows, source.variables):
        good = block[:, np.isfinite(block).all(axis=0)]
        if good.shape[1]:
            values = atom_values(source, np.ascontiguousarray(good))
            count = np.full(len(values), float(good.shape[1]))
            return np.stack([count, values.mean(1), values.var(1), values.min(1), values.max(1)])
    return None


def _centre(source: CompiledSource, spreads: Sequence[Array]) -> dict[str, float]:
    """As `choose_centre` has it, of the first rows of several partitions together."""
    if not spreads:
        return dict.fromkeys(source.atoms, 0.0)
    count, mean, variance, low, high = np.stack(spreads, axis=1)
    share = count / count.sum(axis=0)
    middle = (share * mean).sum(axis=0)
    spread = np.sqrt((share * (variance + (mean - middle) ** 2)).sum(axis=0))
    parts = zip(middle.tolist(), spread.tolist(), low.min(axis=0).tolist(), high.max(axis=0).tolist(), strict=True)
    centre = {atom: round_centre(*part) for atom, part in zip(atom_order(source), parts, strict=True)}
    return {atom: centre[atom] for atom in source.atoms}
