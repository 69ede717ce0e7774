"""Whole rows from real ones: as near to what is wanted as the money allows, and no money left that buys a wanted row.

A source is bought in lots (of one row, usually). First every source gets the whole part of what is wanted; then, while
some source with free capacity still fits the money, the one with the largest shortfall against what is wanted,
counted in lots, gets one more (the first in order among equals). A source of which nothing is wanted gets nothing
either, while another one has rows: two or three stray rows are no sample, and moments of theirs can ruin an estimate.

Costs are binary floats: three rows at 0.1 cost a hair more than 0.3. So money counts as enough for a lot when it lacks
less than 1e-9 of the budget and less than a thousandth of the lot. In exact arithmetic the rows never cost more than
budget·(1 + 1e-9), and no lot that is wanted fits into the money that is left.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sourcewise.errors import AllocationError
from sourcewise.numerics.linalg import Array

Whole = NDArray[np.int64]

TOLERANCE = 1e-9 * (1 - 1e-5)
"""A little less than what is promised, for the rounding errors of the sums here."""

SLIGHT = 1e-9
"""Lots: less of a source is not wanted, it is a rounding error of what was wanted."""

LARGEST = 2.0**53
"""Above this, not every whole number is a float."""


def whole_rows(
    wanted: ArrayLike,
    costs: ArrayLike,
    budget: ArrayLike,
    capacities: ArrayLike | None = None,
    bought: ArrayLike | None = None,
    lots: ArrayLike | None = None,
) -> Whole:
    """Whole rows of each source, `bought` included: (S,), or (S, B) when `wanted` or the budget is.

    wanted: rows, not whole (S,) or (S, B), with `bought` included. Scaled down when they cost more than the budget.
    costs: of one row (S,); budget: of all rows, `bought` included: a number or (B,).
    capacities: rows that a source has, inf where unlimited; bought: rows that cannot be given back; lots: new rows
        come in multiples of this. Each (S,) or (S, B).
    """
    single = np.ndim(wanted) == 1 and np.ndim(budget) == 0
    money = np.atleast_1d(np.asarray(budget, dtype=float))
    aim = _columns(wanted) + np.zeros_like(money)
    have = np.broadcast_to(_columns(0 if bought is None else bought), aim.shape)
    lot = _columns(1 if lots is None else lots)
    price = _columns(costs) * lot
    limit = _columns(np.inf if capacities is None else capacities)
    _check(aim, price, money, have, limit, lot)
    spent = np.sum(have * _columns(costs), axis=0)
    if (spent > money * (1 + 1e-9)).any():
        worst = int(np.argmax(spent - money))
        over = f"{spent[worst]:.10g}, more than the budget of {(money + 0 * spent)[worst]:.10g}"
        raise AllocationError(f"rows already bought cost {over}; the budget counts all money, spent and to come")
    room = np.maximum(np.floor((limit - have) / lot), 0.0)
    desired = np.minimum(np.maximum((aim - have) / lot, 0.0), room)
    cost = np.sum(desired * price, axis=0)
    left = np.maximum(money - spent, 0.0)
    desired = desired * np.divide(left, cost, out=np.ones_like(cost), where=cost > left)
    new = _buy(desired, np.broadcast_to(price, aim.shape), room, money, spent)
    rows = have + new * lot
    if (rows >= LARGEST).any():
        raise AllocationError("the budget buys more than 2^53 rows of a source; check its cost, or give its capacity")
    whole = np.rint(rows).astype(np.int64)
    return whole[:, 0] if single else whole


def _columns(values: ArrayLike) -> Array:
    array = np.asarray(values, dtype=float)
    return array.reshape(-1, 1) if array.ndim < 2 else array


def _buy(desired: Array, price: Array, room: Array, money: Array, spent: Array) -> Array:
    """Lots (S, B).

    Shortfalls of the sources that fit differ by less than a lot at any time, so the source with the largest is
    followed by each other one before it comes again: whole rounds can be bought at once, which keeps the loop short
    even where a budget of millions meets a row of a cent."""
    count = np.floor(desired)
    columns = np.arange(count.shape[1])
    enough = price - np.minimum(TOLERANCE * money, 1e-3 * price)
    while True:
        left = money - spent - np.sum(count * price, axis=0)
        has, wanted = count < room, desired > SLIGHT
        fits = has & (enough <= left) & (wanted | ~(wanted & has).any(axis=0))
        if not fits.any():
            return np.asarray(count)
        round_price = np.sum(price * fits, axis=0)
        rounds = np.floor(np.divide(left, round_price, out=np.zeros_like(left), where=fits.any(axis=0)))
        count += np.minimum(rounds * fits, room - count)
        first = np.argmax(np.where(fits, desired - count, -np.inf), axis=0)
        one = (rounds == 0) & fits.any(axis=0)
        count[first, columns] += one


def _check(aim: Array, price: Array, money: Array, have: Array, limit: Array, lot: Array) -> None:
    rules = (
        (np.isfinite(aim).all(), "wanted rows must be finite numbers"),
        (((lot >= 1) & (lot == np.rint(lot))).all(), "lots must be whole numbers, one or more"),
        ((np.isfinite(price) & (price > 0)).all(), "costs must be positive, finite numbers"),
        ((np.isfinite(money) & (money >= 0)).all(), "a budget must be zero or a positive, finite number"),
        (((have >= 0) & (have == np.rint(have))).all(), "rows already bought must be whole numbers, zero or more"),
        ((limit >= 0).all(), "capacities must be zero or more (inf where there is no limit)"),
    )
    for kept, rule in rules:
        if not kept:
            raise AllocationError(rule)
