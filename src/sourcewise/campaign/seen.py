"""A campaign as it was at one moment, read from a store in one piece."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sourcewise.campaign.delivery import joined, needs_rows, unpack
from sourcewise.campaign.progress import Progress, progress_from_json
from sourcewise.campaign.terms import Terms, terms_from_json
from sourcewise.statistics.gram import Statistics
from sourcewise.statistics.rows import Rows
from sourcewise.storage.base import Storage, Total, View


@dataclass(frozen=True, slots=True)
class Seen:
    """A campaign as it was after event `seq`, with what its sources delivered."""

    seq: int
    terms: Terms
    progress: Progress
    totals: Mapping[str, Total] = field(default_factory=dict)
    data: Mapping[str, Statistics | Rows] = field(default_factory=dict)

    @property
    def rows(self) -> dict[str, int]:
        return {name: self.totals[name].rows if name in self.totals else 0 for name in self.terms.study.sources}

    @property
    def spent(self) -> float:
        return sum((total.spent for total in self.totals.values()), 0.0)


def see_state(view: View) -> Seen:
    """Terms and progress only: what a delivery needs, however many sources there are."""
    return Seen(view.seq, terms_from_json(view.design), progress_from_json(view.progress))


def see(view: View) -> Seen:
    """With the totals of all sources."""
    return replace(see_state(view), totals=view.totals())


class KeptRows:
    """Adds to a `Seen` the data behind its totals. Rows, where moments need them, are read once and remembered."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._storage = storage
        self._name = name
        self._known: dict[str, tuple[int, Rows]] = {}

    def complete(self, seen: Seen) -> Seen:
        data: dict[str, Statistics | Rows] = {}
        for name in seen.terms.study.sources:
            if name in seen.totals:
                rowwise = needs_rows(seen.terms.study, name)
                data[name] = self._rows(name, seen.seq) if rowwise else Statistics.from_json(seen.totals[name].content)
        return replace(seen, data=data)

    def _rows(self, source: str, seq: int) -> Rows:
        """Those of this source up to event `seq`."""
        last, rows = self._known.get(source, (0, None))
        if last > seq:
            last, rows = 0, None
        parts = [] if rows is None else [rows]
        for content in self._storage.contents(self._name, source, after=last):
            if content.seq > seq:
                break
            kept = unpack(content.data)
            assert isinstance(kept, Rows)
            parts.append(kept)
        found = joined(parts)
        self._known[source] = (seq, found)
        return found
