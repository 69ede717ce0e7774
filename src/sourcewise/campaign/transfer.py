"""A campaign as one JSON file: to keep, to send, to go on with in another store."""

from __future__ import annotations

import base64
import binascii
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sourcewise.campaign.campaign import Campaign, Store
from sourcewise.campaign.delivery import merged, unpack
from sourcewise.campaign.progress import progress_from_json
from sourcewise.campaign.record import read_history
from sourcewise.campaign.requests import author_of, check_text, storage_of
from sourcewise.campaign.terms import terms_from_json
from sourcewise.errors import CampaignError, DataError, SourcewiseError
from sourcewise.records import Event, plain
from sourcewise.statistics import wire
from sourcewise.storage.base import Content, Snapshot, Storage, Total

FORMAT = "sourcewise.campaign"


def campaigns(store: Store) -> tuple[str, ...]:
    """The names of all campaigns in a store, the oldest first."""
    return storage_of(store, create=False).names()


def export_campaign(store: Store, name: str, path: str | os.PathLike[str]) -> None:
    """Write a campaign, its history and all that was delivered into one JSON file."""
    check_text("a campaign's name", name, 200)
    snapshot = _snapshot(storage_of(store, create=False), name)
    text = wire.dump(
        FORMAT,
        name=name,
        design=json.loads(snapshot.design),
        progress=json.loads(snapshot.progress),
        events=plain(snapshot.events),
        totals={source: _pack_total(total) for source, total in snapshot.totals.items()},
        contents=[_pack(content) for content in snapshot.contents],
    )
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CampaignError(f"the campaign cannot be written to {os.fspath(path)}: {error}") from None


def import_campaign(
    store: Store, path: str | os.PathLike[str], name: str | None = None, *, author: str | None = None
) -> Campaign:
    """A campaign from a file that `export_campaign` wrote, under its own name or another; it goes on from there."""
    found = wire.load(wire.read(path), FORMAT)
    try:
        snapshot = _read(found.fields)
        _check(snapshot)
    except (KeyError, TypeError, ValueError, AttributeError, AssertionError, SourcewiseError) as error:
        raise DataError(f"{os.fspath(path)} was changed since it was exported, or is not whole: {error}") from None
    chosen = name or found.text("name")
    check_text("a campaign's name", chosen, 200)
    storage = storage_of(store, create=True)
    storage.create(chosen, snapshot)
    return Campaign(storage, chosen, author_of(author))


def _snapshot(storage: Storage, name: str) -> Snapshot:
    """What is appended while we read is left out: everything is cut at the event at which we began."""
    seq, design, progress, totals = storage.read(
        name, lambda view: (view.seq, view.design, view.progress, view.totals())
    )
    events = tuple(event for event in storage.events(name) if event.seq <= seq)
    contents = tuple(content for content in storage.contents(name) if content.seq <= seq)
    return Snapshot(design, progress, events, totals, contents)


def _pack_total(total: Total) -> dict[str, Any]:
    return {"rows": total.rows, "spent": total.spent, "content": json.loads(total.content) if total.content else None}


def _pack(content: Content) -> dict[str, Any]:
    """Statistics stay readable; rows are bytes."""
    packed: dict[str, Any] = {"seq": content.seq, "source": content.source}
    if b"\n" in content.data:
        return packed | {"rows": base64.b64encode(content.data).decode()}
    return packed | {"statistics": json.loads(content.data)}


def _read(fields: Mapping[str, Any]) -> Snapshot:
    totals = {
        source: Total(total["rows"], total["spent"], _dumped(total["content"]) if total["content"] else "")
        for source, total in fields["totals"].items()
    }
    return Snapshot(
        json.dumps(fields["design"], ensure_ascii=False, allow_nan=False),
        json.dumps(fields["progress"], ensure_ascii=False, allow_nan=False),
        tuple(Event(**event) for event in fields["events"]),
        totals,
        tuple(_unpack(content) for content in fields["contents"]),
    )


def _dumped(statistics: Mapping[str, Any]) -> str:
    """Byte for byte what `Statistics.to_json` wrote."""
    return json.dumps(statistics, allow_nan=False, ensure_ascii=False)


def _unpack(packed: Mapping[str, Any]) -> Content:
    if "rows" not in packed:
        return Content(packed["seq"], packed["source"], _dumped(packed["statistics"]).encode())
    try:
        data = base64.b64decode(packed["rows"], validate=True)
    except binascii.Error as error:
        raise DataError(str(error)) from None
    return Content(packed["seq"], packed["source"], data)


def _check(snapshot: Snapshot) -> None:
    """All of it can be read and written, events are numbered, and the deliveries add up to the totals."""
    terms = terms_from_json(snapshot.design)
    progress_from_json(snapshot.progress)
    read_history(snapshot.events)
    for text in (snapshot.design, snapshot.progress, json.dumps(plain(snapshot.events), ensure_ascii=False)):
        text.encode()  # refuses half characters, which no database holds
    if not set(snapshot.totals) <= set(terms.study.sources):
        raise DataError("rows came from a source that the study does not have")
    if len({event.key for event in snapshot.events}) < len(snapshot.events):
        raise DataError("two of its events have the same key")
    if [event.seq for event in snapshot.events] != list(range(1, len(snapshot.events) + 1)) or not snapshot.events:
        raise DataError("its events are not numbered from 1")
    costs = {event.seq: event.body["batch"]["cost"] for event in snapshot.events if event.kind == "told"}
    sums: dict[str, Total] = {}
    for content in snapshot.contents:
        kept, before = unpack(content.data), sums.get(content.source, Total(0, 0.0))
        added = merged(before.content, kept)
        sums[content.source] = Total(before.rows + kept.n, before.spent + costs.pop(content.seq), added)
    kept_rows = json.loads(snapshot.design)["keep_rows"]
    given = {name: Total(t.rows, t.spent, "" if kept_rows else t.content) for name, t in snapshot.totals.items()}
    if kept_rows:
        sums = {name: Total(t.rows, t.spent) for name, t in sums.items()}
    if sums != given or costs:
        raise DataError("its deliveries do not add up to its totals")
