"""The store on SQLite and PostgreSQL: one implementation, in SQLAlchemy's terms."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar
from weakref import finalize

from sqlalchemy import Connection, Row, func, insert, select, text, update
from sqlalchemy.exc import IntegrityError

from sourcewise.errors import StorageError
from sourcewise.records import Event
from sourcewise.storage import engine, schema
from sourcewise.storage.base import Change, Content, Snapshot, Total
from sourcewise.storage.engine import check_file, engine_of, persistently, transaction, url_of
from sourcewise.storage.tables import campaigns, contents, events, totals

T = TypeVar("T")

CHUNK = 500
"""Events or contents fetched at a time."""


class SqlStorage:
    """Campaigns in a database: the path of a SQLite file, sqlite:///FILE, or postgresql://…."""

    def __init__(self, store: str | os.PathLike[str], *, create: bool = False) -> None:
        """`create`: make the file and the tables if there are none."""
        url = url_of(store)
        if url.get_backend_name() == "sqlite":
            check_file(url, create)
        self.engine = engine_of(url)
        self._where = url.render_as_string(hide_password=True)
        finalize(self, self.engine.dispose)
        persistently(lambda: self._prepare(create), f"opening the store {self._where}", engine.OPENING)

    def _prepare(self, create: bool) -> None:
        with transaction(self.engine, writes=False) as connection:
            version = schema.version_of(connection)
        if version is None and not create:
            raise StorageError(f"there is no campaign in {self._where} yet; create one first")
        if version is not None:
            schema.refuse_newer(version)
        if self.engine.dialect.name == "sqlite":
            self._log_ahead()
        if version == schema.HEAD:
            return
        with transaction(self.engine, writes=True) as connection:
            schema.upgrade(connection)

    def _log_ahead(self) -> None:
        """The file remembers it, unless it came out of a dump, and it cannot be changed within a transaction."""
        raw = self.engine.raw_connection()
        try:
            raw.cursor().execute("PRAGMA journal_mode=WAL")
        finally:
            raw.close()

    def create(self, name: str, snapshot: Snapshot) -> None:
        def attempt() -> None:
            with transaction(self.engine, writes=True) as connection:
                if not _is_known(connection, name, snapshot.events[0].key):
                    _insert(connection, name, snapshot)

        try:
            persistently(attempt, f"creating campaign {name!r}")
        except StorageError as error:
            if not isinstance(error.__cause__, IntegrityError):
                raise
            # somebody created it at the same moment: now it is known
            persistently(attempt, f"creating campaign {name!r}")

    def names(self) -> tuple[str, ...]:
        def attempt() -> tuple[str, ...]:
            with transaction(self.engine, writes=False) as connection:
                return tuple(connection.scalars(select(campaigns.c.name).order_by(campaigns.c.id)))

        return persistently(attempt, "listing campaigns")

    def read(self, name: str, look: Callable[[SqlView], T]) -> T:
        def attempt() -> T:
            with transaction(self.engine, writes=False) as connection:
                return look(_view(connection, name, lock=False))

        return persistently(attempt, f"reading campaign {name!r}")

    def change(self, name: str, decide: Callable[[SqlView], tuple[T, Change | None]]) -> T:
        def attempt() -> T:
            with transaction(self.engine, writes=True) as connection:
                view = _view(connection, name, lock=True)
                answer, change = decide(view)
                if change is not None:
                    _write(connection, view, change)
            return answer

        return persistently(attempt, f"writing to campaign {name!r}")

    def events(self, name: str, after: int = 0) -> Iterator[Event]:
        return _paged(lambda last: self.read(name, lambda view: view.events(last, CHUNK)), after)

    def contents(self, name: str, source: str | None = None, after: int = 0) -> Iterator[Content]:
        return _paged(lambda last: self.read(name, lambda view: view.contents(source, last, CHUNK)), after)

    def problems(self) -> tuple[str, ...]:
        def attempt() -> tuple[str, ...]:
            with transaction(self.engine, writes=False) as connection:
                found = []
                if self.engine.dialect.name == "sqlite":
                    found = [line for line in connection.scalars(text("PRAGMA integrity_check")) if line != "ok"]
                return (*found, *_inconsistencies(connection))

        return persistently(attempt, f"checking the store {self._where}")

    def close(self) -> None:
        self.engine.dispose()


@dataclass(frozen=True, slots=True)
class SqlView:
    """A campaign within one transaction."""

    connection: Connection
    id: int
    seq: int
    design: str
    progress: str

    def event(self, key: str) -> Event | None:
        query = select(events).where(events.c.campaign_id == self.id, events.c.key == key)
        row = self.connection.execute(query).one_or_none()
        return None if row is None else _event(row)

    def total(self, source: str) -> Total | None:
        query = select(totals).where(totals.c.campaign_id == self.id, totals.c.source == source)
        row = self.connection.execute(query).one_or_none()
        return None if row is None else Total(row.rows, row.spent, row.content)

    def totals(self) -> dict[str, Total]:
        query = select(totals).where(totals.c.campaign_id == self.id).order_by(totals.c.source)
        return {row.source: Total(row.rows, row.spent, row.content) for row in self.connection.execute(query)}

    def events(self, after: int, limit: int) -> list[Event]:
        query = select(events).where(events.c.campaign_id == self.id, events.c.seq > after)
        return [_event(row) for row in self.connection.execute(query.order_by(events.c.seq).limit(limit))]

    def contents(self, source: str | None, after: int, limit: int) -> list[Content]:
        query = select(contents).where(contents.c.campaign_id == self.id, contents.c.seq > after)
        if source is not None:
            query = query.where(contents.c.source == source)
        rows = self.connection.execute(query.order_by(contents.c.seq).limit(limit))
        return [Content(row.seq, row.source, bytes(row.data)) for row in rows]


E = TypeVar("E", Event, Content)


def _paged(fetch: Callable[[int], list[E]], after: int) -> Iterator[E]:
    """Page by page, so that a long history neither fills the memory nor holds a transaction open."""
    while page := fetch(after):
        yield from page
        after = page[-1].seq


def _view(connection: Connection, name: str, *, lock: bool) -> SqlView:
    """`lock`: until the transaction ends nobody else can change this campaign (SQLite locks the file anyway)."""
    query = select(campaigns).where(campaigns.c.name == name)
    row = connection.execute(query.with_for_update() if lock else query).one_or_none()
    if row is None:
        known = list(connection.scalars(select(campaigns.c.name).order_by(campaigns.c.id).limit(20)))
        listed = f"its campaigns are {', '.join(map(repr, known))}" if known else "it has none"
        raise StorageError(f"there is no campaign {name!r} in this store; {listed}")
    return SqlView(connection, row.id, row.seq, row.design, row.progress)


def _event(row: Row[Any]) -> Event:
    return Event(row.seq, row.kind, row.time, row.author, row.key, json.loads(row.body))


def _json(body: object) -> str:
    return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _write(connection: Connection, view: SqlView, change: Change) -> None:
    seq = view.seq + 1
    entry = Event(seq, change.kind, change.time, change.author, change.key, change.body)
    connection.execute(insert(events), _event_row(view.id, entry))
    if change.content is not None:
        row = {"campaign_id": view.id, "seq": seq, "source": change.source, "data": change.content}
        connection.execute(insert(contents), row)
    if change.total is not None:
        assert change.source is not None
        _put_total(connection, view.id, change.source, change.total)
    state: dict[str, Any] = {"seq": seq, "progress": change.progress}
    if change.design is not None:
        state["design"] = change.design
    connection.execute(update(campaigns).where(campaigns.c.id == view.id).values(**state))


def _put_total(connection: Connection, campaign: int, source: str, total: Total) -> None:
    values = {"rows": total.rows, "spent": total.spent, "content": total.content}
    place = (totals.c.campaign_id == campaign) & (totals.c.source == source)
    if connection.execute(update(totals).where(place).values(**values)).rowcount == 0:
        connection.execute(insert(totals), {"campaign_id": campaign, "source": source, **values})


def _event_row(campaign: int, entry: Event) -> dict[str, Any]:
    return {
        "campaign_id": campaign,
        "seq": entry.seq,
        "key": entry.key,
        "kind": entry.kind,
        "time": entry.time,
        "author": entry.author,
        "body": _json(entry.body),
    }


def _is_known(connection: Connection, name: str, key: str) -> bool:
    """True if it is the very campaign that begins with the event `key`; another one is refused."""
    query = select(events.c.key).join(campaigns).where(campaigns.c.name == name, events.c.seq == 1)
    first = connection.scalar(query)
    if first is not None and first != key:
        raise StorageError(f"there is a campaign {name!r} in this store already; open it, or choose another name")
    return first is not None


def _insert(connection: Connection, name: str, snapshot: Snapshot) -> None:
    state = {"seq": snapshot.events[-1].seq, "design": snapshot.design, "progress": snapshot.progress}
    (campaign,) = connection.execute(insert(campaigns).values(name=name, **state)).inserted_primary_key or (0,)
    connection.execute(insert(events), [_event_row(campaign, entry) for entry in snapshot.events])
    for source, total in snapshot.totals.items():
        _put_total(connection, campaign, source, total)
    kept = [{"campaign_id": campaign, "seq": c.seq, "source": c.source, "data": c.data} for c in snapshot.contents]
    if kept:
        connection.execute(insert(contents), kept)


def _inconsistencies(connection: Connection) -> Iterator[str]:
    """State and history written together must agree."""
    counted = select(func.count(), func.max(events.c.seq)).where(events.c.campaign_id == campaigns.c.id)
    count, last = (counted.with_only_columns(c).scalar_subquery() for c in (func.count(), func.max(events.c.seq)))
    for row in connection.execute(select(campaigns.c.name, campaigns.c.seq, count.label("n"), last.label("last"))):
        if not row.seq == row.n == row.last:
            yield f"campaign {row.name!r} stands at event {row.seq} but has {row.n} events, up to number {row.last}"
    orphans = select(func.count()).select_from(contents.outerjoin(events, _same_event())).where(events.c.seq.is_(None))
    if lost := connection.scalar(orphans):
        yield f"{lost} deliveries belong to no event"


def _same_event() -> Any:
    return (contents.c.campaign_id == events.c.campaign_id) & (contents.c.seq == events.c.seq)
