"""What comes with a request: who, when, under which key, to which store."""

from __future__ import annotations

import getpass
import math
import os
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from numbers import Real
from typing import Any
from uuid import uuid4

from sourcewise.campaign.progress import batch_from_plain
from sourcewise.errors import CampaignError, ConflictError
from sourcewise.records import Batch, Event
from sourcewise.storage.base import Storage

LONGEST_REASON = 5000

MOST_MONEY = 1e100
"""What one batch may cost: no number of batches adds up to infinity."""


def storage_of(store: str | os.PathLike[str] | Storage, *, create: bool) -> Storage:
    """A database by its path or URL, or any object that is a `Storage`."""
    if isinstance(store, str | os.PathLike):
        from sourcewise.storage.sql import SqlStorage

        return SqlStorage(store, create=create)
    if not all(callable(getattr(store, method, None)) for method in ("create", "names", "read", "change", "events")):
        raise CampaignError(
            f"a store is the path of a file, a URL, or an object that is a Storage, not {_shown(store)}"
        )
    return store


def time_now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def new_key() -> str:
    """Of a request that has no name of its own: repeated after a lost connection, it finds itself."""
    return uuid4().hex


def author_of(author: str | None) -> str:
    if author is not None:
        check_text("an author", author, 200)
        return author
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):  # in a container, a user may have no name
        return "unknown"


def check_text(what: str, value: object, most: int) -> None:
    if not isinstance(value, str) or not value.strip() or len(value) > most or not value.isprintable():
        raise CampaignError(f"{what} must be a printable text of 1 to {most} characters, not {_shown(value)}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


def check_reason(reason: object) -> None:
    """Free text of any script and any number of lines, that every database and every page can hold."""
    if not isinstance(reason, str) or len(reason) > LONGEST_REASON or any(map(_cannot_be_kept, reason)):
        raise CampaignError(
            f"a reason must be a text of at most {LONGEST_REASON} characters, none of them a control character, "
            f"not {_shown(reason)}"
        )


def _cannot_be_kept(letter: str) -> bool:
    return unicodedata.category(letter) in ("Cc", "Cs") and letter not in "\n\t"


def number_of(value: object) -> float:
    """NaN for what is no number, an infinity for what is too large."""
    try:
        return float(value) if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    except OverflowError:
        return math.inf


def check_cost(cost: object) -> float:
    """As a plain number, so that the store can hold what was given as NumPy's number or a fraction."""
    number = number_of(cost)
    if 0 <= number <= MOST_MONEY:
        return abs(number)
    raise CampaignError(f"the cost of a batch must be a number from 0 to {MOST_MONEY:g}, not {_shown(cost)}")


def check_after(source: str, rows: int, after: int | None) -> None:
    if after is not None and rows != after:
        raise ConflictError(
            f"source {source!r} has {rows} rows, and these were chosen when it had {after!r}. Nothing was counted: "
            f"look at what came since, and choose again"
        )


def same_batch(known: Event, source: str, mark: Mapping[str, Any]) -> Batch:
    """The answer that was given to this delivery before, if it is this delivery."""
    if known.kind != "told":
        raise ConflictError(f"the key {known.key!r} belongs to another event of this campaign; choose another")
    batch = batch_from_plain(known.body["batch"], repeated=True)
    if batch.source != source:
        difference = f"as rows of source {batch.source!r}"
    elif known.body["fingerprint"] != mark["fingerprint"]:
        difference = f"with other content ({batch.rows} rows)"
    elif known.body["cost"] != mark["cost"]:
        difference = f"at another cost ({batch.cost:g})"
    else:
        return batch
    raise ConflictError(
        f"a batch with the key {known.key!r} was told at {batch.time} by {batch.author}, {difference}. Nothing was "
        f"counted; if this is another batch, tell it with another key"
    )
