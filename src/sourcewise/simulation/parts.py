"""Finished blocks of a simulation in a folder, so that it can be stopped and continued."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from sourcewise._version import __version__
from sourcewise.errors import SimulationError
from sourcewise.simulation.play import Outcome

CONTENT = "simulation.json"


@dataclass(frozen=True, slots=True)
class Parts:
    """One file a block. A folder belongs to one world, study, seed and set of policies."""

    folder: Path

    @classmethod
    def at(cls, folder: Path, job: bytes, size: int) -> Parts:
        """`job` is all that decides the numbers; the same bytes in every process."""
        mark = hashlib.sha256(job).hexdigest()
        content = {"format": "sourcewise.simulation", "version": __version__, "job": mark, "replications": size}
        try:
            folder.mkdir(parents=True, exist_ok=True)
            note = folder / CONTENT
            if note.exists():
                found = _read(note)
                if found != content:
                    raise SimulationError(
                        f"{folder} holds parts of another simulation (another world, study, policy, budget, seed or "
                        f"version); name an empty folder, or delete this one"
                    )
            else:
                _replace(note, json.dumps(content, indent=1).encode())
        except OSError as error:
            raise SimulationError(f"finished runs cannot be kept in {folder}: {error.strerror or error}") from None
        return cls(folder)

    def finished(self, pieces: Mapping[int, int]) -> dict[int, tuple[Outcome, ...]]:
        """Blocks of these first replications and sizes that are there already. A torn file does not count."""
        found = {}
        for first, count in pieces.items():
            try:
                # Opened here, because np.load leaves a torn file open.
                with self._file(first, count).open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                    found[first] = _outcomes(file)
            except (OSError, ValueError, KeyError, EOFError, BadZipFile):
                continue
        return found

    def keep(self, first: int, outcomes: tuple[Outcome, ...]) -> None:
        arrays = {
            f"{k}.{part.name}": getattr(outcome, part.name)
            for k, outcome in enumerate(outcomes)
            for part in fields(Outcome)
        }
        path = self._file(first, outcomes[0].estimate.shape[1])
        fresh = path.with_suffix(".new")
        with fresh.open("wb") as file:
            np.savez(file, **arrays)
        os.replace(fresh, path)

    def _file(self, first: int, count: int) -> Path:
        return self.folder / f"runs-{first:09d}-{first + count - 1:09d}.npz"


def travels(job: object) -> bytes:
    """The job as bytes, as it goes to other processes."""
    try:
        return pickle.dumps(job, protocol=5)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise SimulationError(
            f"this world can be neither saved nor sent to other processes ({error}): use a function that is defined at "
            f"the top of a module"
        ) from None


def _outcomes(file: Any) -> tuple[Outcome, ...]:
    size = 1 + max(int(name.split(".")[0]) for name in file.files)
    names = [part.name for part in fields(Outcome)]
    return tuple(Outcome(*(file[f"{k}.{name}"] for name in names)) for k in range(size))


def _read(path: Path) -> object:
    try:
        return json.loads(path.read_text())
    except ValueError:
        return None


def _replace(path: Path, content: bytes) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_bytes(content)
    os.replace(fresh, path)
