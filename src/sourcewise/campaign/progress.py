"""Where a campaign stands: its open order, what came of it, the last estimate, and whether it is over.

A change makes a new `Progress`; which one is decided in `steps`, and a store keeps it as a text.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sourcewise.records import Agreement, Batch, Look, Money, Order, State, plain
from sourcewise.storage.base import Total


@dataclass(frozen=True, slots=True)
class Progress:
    """`received` counts rows since the open order was made; `tightest` is what its anytime intervals are tuned to."""

    updated: str
    round: int = 0
    order: Order | None = None
    received: Mapping[str, int] = field(default_factory=dict)
    last_target: Mapping[str, float] | None = None
    over: str = ""
    stopped: str = ""
    tightest: float | None = None
    look: Look | None = None
    looked_at: int = 0
    """Number of the event up to which `look` counts."""

    @property
    def state(self) -> State:
        if self.stopped:
            return "stopped"
        if self.over:
            return "over"
        return "ready" if self.order is None else "collecting"

    def outstanding(self) -> dict[str, int]:
        """Rows that the open order still waits for, by source; empty when none is open."""
        asked = {} if self.order is None else self.order.rows
        short = {name: n - self.received.get(name, 0) for name, n in asked.items()}
        return {name: n for name, n in short.items() if n > 0}

    def reserved(self) -> float:
        """Money that the open order still needs, at the prices it was made with."""
        prices = {} if self.order is None else self.order.prices
        return sum((prices[name] * n for name, n in self.outstanding().items()), 0.0)

    def with_rows(self, source: str, rows: int) -> Progress:
        """After a delivery; an order that has all its rows is filled, and closes."""
        if self.order is None:
            return self
        received = {**self.received, source: self.received.get(source, 0) + rows}
        new = replace(self, received=received)
        return new if new.outstanding() else new.without_order()

    def without_order(self) -> Progress:
        return replace(self, order=None, received={})

    def to_json(self) -> str:
        return json.dumps(plain(self), ensure_ascii=False, allow_nan=False)


def progress_from_json(text: str) -> Progress:
    found = json.loads(text)
    found["order"] = None if found["order"] is None else Order(**found["order"])
    found["look"] = None if found["look"] is None else look_from_plain(found["look"])
    return Progress(**found)


def look_from_plain(found: Mapping[str, Any]) -> Look:
    parts = dict(found)
    for key in ("interval", "anytime", "advice"):
        parts[key] = tuple(parts[key])
    parts["overid"] = Agreement(**parts["overid"])
    parts["overid_by_source"] = {name: Agreement(**test) for name, test in parts["overid_by_source"].items()}
    parts["weak"] = None if parts["weak"] is None else tuple((low, high) for low, high in parts["weak"])
    return Look(**parts)


def batch_from_plain(found: Mapping[str, Any], *, repeated: bool = False) -> Batch:
    return Batch(**{**found, "repeated": repeated})


def money(budget: float, totals: Mapping[str, Total], progress: Progress) -> Money:
    return Money(budget, sum((total.spent for total in totals.values()), 0.0), progress.reserved())
