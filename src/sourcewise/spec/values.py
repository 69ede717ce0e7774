"""Names, prices and numbers of rows, as a study may hold them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

from sourcewise.errors import StudyError

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


def price_of(cost: object) -> float:
    price = as_float(cost)
    if price is None or not 0 < price < math.inf:
        raise StudyError(f"a source's cost must be a finite number above 0, not {cost!r}")
    return price


def rows_of(capacity: object) -> int | None:
    if capacity is None:
        return None
    if not isinstance(capacity, Integral) or isinstance(capacity, bool) or not 1 <= int(capacity) < 2**63:
        raise StudyError(f"a source's capacity must be a whole number of rows, 1 or more, or None, not {capacity!r}")
    return int(capacity)


def as_float(value: object) -> float | None:
    """A number of Python's or NumPy's as a float; None for anything else, for True and for what no float can hold."""
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else None
    except OverflowError:
        return None


def texts_of(given: object, what: str) -> tuple[Any, ...]:
    """One text or several as a tuple."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Iterable) or isinstance(given, set | frozenset):
        # a set of texts has another order in every process
        raise StudyError(f"{what} must be a text or a list of texts, not {given!r}")
    items = tuple(given)
    for item in items:
        if not isinstance(item, str):
            raise StudyError(f"{what} must hold texts only, not {item!r}")
    return items


def check_observed(names: tuple[Any, ...]) -> None:
    if not names:
        raise StudyError("a source must observe at least one variable")
    for name in names:
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise StudyError(
                f"{name!r} cannot name a variable: use letters, digits and _ (not first a digit), at most 64"
            )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise StudyError(f"variable {twice!r} is listed twice in one source")
