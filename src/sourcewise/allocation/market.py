"""Prices and limits of all sources, in money."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real

import numpy as np

from sourcewise.errors import AllocationError
from sourcewise.numerics.linalg import Array
from sourcewise.spec.study import Study


@dataclass(frozen=True, slots=True)
class Market:
    """Sources in the order of the study; lower and upper limits (S,) of the `total` money."""

    names: tuple[str, ...]
    costs: Array
    total: float
    lower: Array
    upper: Array
    bought: Array
    """Rows that were bought already (S,)."""

    def by_source(self, values: Mapping[str, float], what: str) -> Array:
        """Numbers by name as an array (S,), 0 for sources that are not named."""
        if not isinstance(values, Mapping):
            raise AllocationError(f"{what} must give numbers by source, {{{self.names[0]!r}: 1}}, not {values!r}")
        unknown = set(values) - set(self.names)
        if unknown:
            raise AllocationError(
                f"{what} names {', '.join(sorted(map(repr, unknown)))}; the study's sources are {', '.join(self.names)}"
            )
        for name, value in values.items():
            if isinstance(value, bool) or not isinstance(value, Real):
                raise AllocationError(f"{what} gives {name!r} the value {value!r}; it must be a number")
        return np.array([float(values.get(name, 0.0)) for name in self.names])

    def lots(self, sizes: Mapping[str, int]) -> Array:
        """Price of one lot of each source; single rows where no size is given."""
        rows = whole_numbers(self.by_source(sizes, "lots"), "lots")
        for name in sizes:
            if not sizes[name] >= 1:
                raise AllocationError(f"a lot has 1 row or more; that of {name!r} has {sizes[name]!r}")
        return np.maximum(rows, 1.0) * self.costs

    def charges(self, opening: Mapping[str, float]) -> Array:
        """Charge for each source that is not open yet."""
        charges = self.by_source(opening, "opening")
        if not (np.isfinite(charges).all() and (charges >= 0).all()):
            raise AllocationError(f"opening charges must be finite and 0 or more, not {dict(opening)!r}")
        return np.where(self.bought > 0, 0.0, charges)


def market_of(
    study: Study,
    budget: float | None,
    spent: Mapping[str, int],
    least_rows: Mapping[str, int],
    least_share: Mapping[str, float],
    most_rows: Mapping[str, int] | None = None,
) -> Market:
    """Limits from the study's prices and capacities and from what has been, or must be, bought."""
    names = tuple(study.sources)
    costs = np.array([source.cost for source in study.sources.values()])
    free = Market(names, costs, 1.0, np.zeros(len(names)), np.full(len(names), np.inf), np.zeros(len(names)))
    shares = free.by_source(least_share, "least_share")
    if not (np.isfinite(shares).all() and (shares >= 0).all() and shares.sum() <= 1):
        raise AllocationError(f"least shares must be 0 or more and add up to at most 1, not {dict(least_share)!r}")
    if budget is None:
        if spent or least_rows or most_rows:
            raise AllocationError("rows already bought, least and most rows mean something only within a budget=...")
        return Market(names, costs, 1.0, shares, free.upper, free.bought)
    budget = positive("a budget", budget)
    bought = whole_numbers(free.by_source(spent, "spent"), "spent")
    least = np.maximum(bought, whole_numbers(free.by_source(least_rows, "least_rows"), "least_rows"))
    capacity = limits(study, most_rows or {})
    for name, rows, most in zip(names, least, capacity, strict=True):
        if rows > most:
            raise AllocationError(f"{name!r} must give at least {rows:g} rows but has only {most:g}")
    upper = capacity * costs
    lower = np.maximum(least * costs, np.minimum(shares * budget, upper))
    if lower.sum() > budget * (1.0 + 1e-12):
        raise AllocationError(
            f"rows already bought, least rows and least shares cost {lower.sum():g} together, more than the budget of "
            f"{budget:g}: lower one or raise the budget"
        )
    total = min(budget, float(upper.sum()))  # no source has more than its rows
    return Market(names, costs, total, lower, upper, bought)


def capacities(study: Study) -> Array:
    """Rows that each source has (S,), infinite where no limit is known."""
    return np.array([np.inf if s.capacity is None else float(s.capacity) for s in study.sources.values()])


def limits(study: Study, most_rows: Mapping[str, int]) -> Array:
    """Rows that each source may give (S,): its capacity, or fewer where `most_rows` says so."""
    free = capacities(study)
    most = whole_numbers(market_of(study, None, {}, {}, {}).by_source(most_rows, "most_rows"), "most_rows")
    named = np.array([name in most_rows for name in study.sources])
    return np.asarray(np.where(named, np.minimum(free, most), free))


def positive(what: str, value: float) -> float:
    """`value`, after a check that it is a finite number above 0."""
    if isinstance(value, bool) or not isinstance(value, Real) or not 0 < value < math.inf:
        raise AllocationError(f"{what} must be a finite number above 0, not {value!r}")
    return float(value)


def whole_numbers(values: Array, what: str) -> Array:
    """`values`, after a check that all are whole and 0 or more."""
    if not (np.isfinite(values).all() and (values >= 0).all() and (values == np.floor(values)).all()):
        raise AllocationError(f"{what} must hold whole numbers of rows, 0 or more, not {values.tolist()}")
    return values
