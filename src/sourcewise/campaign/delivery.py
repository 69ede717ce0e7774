"""What was delivered: any table, statistics or rows made elsewhere, or a file of them, as a store keeps it."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256

import numpy as np

from sourcewise.errors import CampaignError, DataError
from sourcewise.moments.compiled import compile_source
from sourcewise.spec.study import Study
from sourcewise.statistics import wire
from sourcewise.statistics.frames import Missing
from sourcewise.statistics.gram import Statistics
from sourcewise.statistics.rows import Rows
from sourcewise.statistics.summarize import evidence_of, summarize_batch


@dataclass(frozen=True, slots=True)
class Delivery:
    """`kept` adds up, `content` goes to the store, `fingerprint` tells one delivery from another."""

    kept: Statistics | Rows
    content: bytes
    fingerprint: str

    @property
    def centre(self) -> Mapping[str, float] | None:
        return self.kept.centre if isinstance(self.kept, Statistics) else None


def read_delivery(
    study: Study, source: str, data: object, centre: Mapping[str, float] | None, missing: Missing, keep_rows: bool
) -> Delivery:
    """`centre`: that of the source's first batch; None when this is the first."""
    if not isinstance(source, str) or source not in study.sources:
        raise CampaignError(f"there is no source {source!r}; the campaign's sources are {', '.join(study.sources)}")
    given = _made_elsewhere(data)
    if given is None:
        kept, rows, mark = summarize_batch(study, source, data, centre, missing, keep_rows)
        return Delivery(kept, pack(kept if rows is None else rows), mark)
    evidence_of(study, source, given, missing)  # refuses what is of another source or another study
    content = pack(given)
    return Delivery(given, content, sha256(content).hexdigest())


def _made_elsewhere(data: object) -> Statistics | Rows | None:
    """Statistics or rows that came as they are, or in a JSON file."""
    if isinstance(data, Statistics | Rows):
        return data
    if not isinstance(data, str | os.PathLike) or not os.fspath(data).lower().endswith(".json"):
        return None
    text = wire.read(data)
    try:
        return Statistics.from_json(text)
    except DataError as error:
        try:
            return Rows.from_json(text)
        except DataError:
            raise DataError(f"{os.fspath(data)}: {error}") from None


def pack(kept: Statistics | Rows) -> bytes:
    """Statistics as their JSON; rows as a line of JSON and the bytes of their columns."""
    if isinstance(kept, Statistics):
        return kept.to_json().encode()
    head = {"source": kept.source, "variables": list(kept.variables), "dropped": kept.dropped, "n": kept.n}
    return json.dumps(head).encode() + b"\n" + kept.columns.astype("<f8", copy=False).tobytes()


def unpack(content: bytes) -> Statistics | Rows:
    """What `pack` wrote."""
    head, newline, columns = content.partition(b"\n")
    if not newline:
        return Statistics.from_json(head.decode())
    found = json.loads(head)
    values = np.frombuffer(columns, dtype="<f8").reshape(len(found["variables"]), found["n"])
    return Rows(found["source"], tuple(found["variables"]), values, found["dropped"])


def needs_rows(study: Study, source: str) -> bool:
    """Whether the moments of this source do not separate into data and parameters."""
    return compile_source(study, source).separable is None


def joined(parts: list[Rows]) -> Rows:
    """All of them; one copy, however many there are."""
    first = parts[0]
    columns = np.hstack([part.columns for part in parts])
    return Rows(first.source, first.variables, columns, sum(part.dropped for part in parts))


def merged(before: str, new: Statistics | Rows) -> str:
    """The text of a source's total after a delivery. Rows are not merged: they are read again from the deliveries."""
    if isinstance(new, Rows):
        return ""
    return (Statistics.from_json(before) + new if before else new).to_json()


def centre_of(content: str) -> Mapping[str, float] | None:
    """The centre of a total's statistics."""
    return wire.load(content, "sourcewise.statistics").named_numbers("centre") if content else None
