"""A source that draws its rows from a simulated world: as many as are asked for, always the same ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import numpy as np

from sourcewise.connectors.base import Table
from sourcewise.connectors.order import Sampling
from sourcewise.errors import SimulationError
from sourcewise.simulation.declared import Declared

PIECE = 1024
"""Rows are drawn in pieces of this size, so that any row can be drawn again without those before it."""


class WorldTable(Table):
    """Rows 0, 1, 2, … of one source: they depend on the world, its seed and the source's name alone."""

    def __init__(self, plain: Mapping[str, Any], declared: Declared, source: str, columns: Sequence[str]) -> None:
        super().__init__(Sampling("arrival"))
        self._declared, self._columns = declared, tuple(columns)
        text = json.dumps([source, plain], sort_keys=True)
        self._digest = blake2b(text.encode(), digest_size=12).hexdigest()
        self._stream = int.from_bytes(blake2b(source.encode(), digest_size=8).digest(), "big")

    def columns(self) -> tuple[str, ...]:
        return self._columns

    def size(self) -> int | None:
        """A world never runs out."""
        return None

    def fingerprint(self) -> str:
        return f"world:{self._digest}"

    def sample(self, columns: Sequence[str], start: int, rows: int | None) -> dict[str, Any]:
        if rows is None:
            raise SimulationError("a world has no last row: say how many rows to take")
        pieces = [self._piece(k) for k in range(start // PIECE, -(-(start + rows) // PIECE))]
        first = start % PIECE
        empty = [np.empty(0)]
        return {
            name: np.concatenate([piece[name] for piece in pieces] or empty)[first : first + rows] for name in columns
        }

    def _piece(self, place: int) -> Mapping[str, Any]:
        seeds = np.random.SeedSequence([self._declared.seed, self._stream, place])
        return self._declared.world.deal(np.random.Generator(np.random.SFC64(seeds)), PIECE)
