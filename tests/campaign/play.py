"""Campaigns begun, answered and played to their end, for tests."""

from __future__ import annotations

from typing import Any

import sourcewise as sw
from campaign.worlds import deal, study


def begin(store: str, spec: sw.Study | None = None, **options: Any) -> sw.Campaign:
    chosen = {"budget": 2000.0, "policy": sw.ETG(0.25), "name": "first", "author": "ann", **options}
    return sw.Campaign.create(store, spec or study(), **chosen)


def answer(campaign: sw.Campaign, order: sw.Order, seed: int = 0) -> list[sw.Batch]:
    spec = campaign.study
    return [
        campaign.tell(source, deal(spec, source, n, 1000 * seed + 10 * order.round + k))
        for k, (source, n) in enumerate(order.rows.items())
    ]


def play(campaign: sw.Campaign, rounds: int = 100) -> list[sw.Order]:
    orders: list[sw.Order] = []
    while len(orders) < rounds and (order := campaign.ask()):
        orders.append(order)
        answer(campaign, order)
    return orders
