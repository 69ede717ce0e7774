"""The triangle of all mixes of three sources: its lattice, its points on paper, and bands between levels."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

Point = tuple[float, float]
Corner = tuple[Point, float]
Place = tuple[int, int]
TOP = math.sqrt(3.0) / 2.0


def simplex_grid(steps: int, sources: int = 3) -> list[tuple[float, ...]]:
    """All mixes of the sources in multiples of 1/steps: what a map of the variance is computed on."""
    return [tuple(part / steps for part in parts) for parts in _compositions(steps, sources)]


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def on_paper(mix: Sequence[float]) -> Point:
    """Left, right and upper corner of a triangle with sides of length 1 stand for the three sources."""
    total = math.fsum(mix)
    _, right, upper = (part / total for part in mix)
    return (right + upper / 2, upper * TOP)


def bands(values: Mapping[Place, float], steps: int, levels: Sequence[float]) -> list[list[list[Point]]]:
    """Polygons between one level and the next, a list for each of len(levels) + 1 bands.

    values: at (i, j) steps towards the right and the upper corner; linear in between. A small triangle with a corner
        that is missing is left out.
    """
    limits = [-math.inf, *levels, math.inf]
    found: list[list[list[Point]]] = [[] for _ in limits[1:]]
    for triangle in _triangles(steps):
        if any(not math.isfinite(values.get(place, math.nan)) for place in triangle):
            continue
        corners = [(on_paper((steps - i - j, i, j)), values[i, j]) for i, j in triangle]
        lowest, highest = min(value for _, value in corners), max(value for _, value in corners)
        for band, (low, high) in zip(found, pairwise(limits), strict=True):
            if low <= highest and lowest <= high:
                piece = _cut(_cut(corners, low, 1.0), high, -1.0)
                if len(piece) > 2:
                    band.append([point for point, _ in piece])
    return found


def _triangles(steps: int) -> Iterator[tuple[Place, Place, Place]]:
    for i in range(steps):
        for j in range(steps - i):
            yield ((i, j), (i + 1, j), (i, j + 1))
            if i + j < steps - 1:
                yield ((i + 1, j), (i + 1, j + 1), (i, j + 1))


def _cut(corners: Sequence[Corner], level: float, side: float) -> list[Corner]:
    """The part of a convex polygon where side·(value − level) ≥ 0."""
    if math.isinf(level):
        return list(corners)
    kept: list[Corner] = []
    for k, ((x, y), value) in enumerate(corners):
        (to_x, to_y), to = corners[(k + 1) % len(corners)]
        if side * (value - level) >= 0:
            kept.append(((x, y), value))
        if (value - level) * (to - level) < 0:
            part = (level - value) / (to - value)
            kept.append(((x + part * (to_x - x), y + part * (to_y - y)), level))
    return kept
