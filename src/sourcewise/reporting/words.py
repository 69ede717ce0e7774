"""Facts of a campaign in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sourcewise.records import Interval
from sourcewise.reporting.cells import shown


def when(time: str) -> str:
    """A time as people write it; what is no time stays as it is."""
    try:
        moment = datetime.fromisoformat(time)
    except ValueError:
        return time
    if moment.tzinfo is not None:
        moment = moment.astimezone(UTC)
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def amount(number: float) -> str:
    return shown(number)


def interval(ends: Interval) -> str:
    low, high = ends
    if low is None and high is None:
        return "the whole line"
    return f"{'(−∞' if low is None else '[' + shown(float(low))}, {'∞)' if high is None else shown(float(high)) + ']'}"


def rows_in_words(rows: Mapping[str, int]) -> str:
    """Sources with rows, in their order."""
    return ", ".join(f"{name} {count:,}" for name, count in rows.items() if count) or "none"


def value_in_words(value: Any) -> str:
    """A term before or after a change."""
    if value is None:
        return "none"
    if isinstance(value, bool | int | float | str):
        return shown(value)
    return json.dumps(value, ensure_ascii=False, default=str)


def policy_in_words(policy: Mapping[str, Any]) -> str:
    """What `policy_to_plain` gives, as a sentence; an unknown kind as it stands."""
    kind, batch = policy.get("kind"), policy.get("batch")
    if kind == "fixed":
        mix = policy.get("mix")
        return f"A fixed mix: {mix}" if isinstance(mix, str) else f"A fixed mix: {value_in_words(mix)}"
    if kind == "etc":
        return f"Explore with {float(policy.get('explore', 0.2)):.3g} of the budget, then commit the rest"
    if kind != "etg" or batch is None:
        return value_in_words(dict(policy))
    unit = "rows" if policy.get("per") == "rows" else "budget"
    if isinstance(batch, int | float):
        rule = f"rounds of {100 * batch:g} % of the {unit}"
    elif isinstance(batch, Mapping):
        rule = f"rounds that shrink with the horizon (factor {batch.get('factor')}, exponent {batch.get('exponent')})"
    elif len(batch) == 2:
        return f"Explore equally with {100 * batch[0]:g} % of the {unit}, estimate once, commit the rest" + _aim(policy)
    else:
        rule = f"rounds that end at {', '.join(f'{100 * mark:g} %' for mark in batch)} of the {unit}"
    return f"Explore, then follow the estimate: {rule}" + _aim(policy)


def _aim(policy: Mapping[str, Any]) -> str:
    return "; each aims at the smallest variance within reach" if policy.get("aim") == "variance" else ""
