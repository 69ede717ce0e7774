"""What any `Storage` must do, as test cases. Subclass and say how a store is made:

    class TestMyStorage(StorageConformance):
        @pytest.fixture
        def storage(self, tmp_path):
            return MyStorage(tmp_path / "store")

pytest finds the cases; nothing here imports it.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from sourcewise.errors import StorageError
from sourcewise.records import Event
from sourcewise.storage.base import Change, Content, Snapshot, Storage, Total, View

FIRST = Event(1, "created", "2026-01-01T00:00:00+00:00", "ann", "first", {"terms": {"budget": 1.5, "name": "café ↗"}})
SNAPSHOT = Snapshot("design 0", "progress 0", (FIRST,))


def change(key: str, **options: Any) -> Change:
    """An event of which nothing matters but its key."""
    return Change("told", key, "2026-01-02T00:00:00+00:00", "bob", {"key": key}, f"progress of {key}", **options)


def write(storage: Storage, name: str, new: Change) -> None:
    storage.change(name, lambda view: (None, new))


def refused(call: Any, *arguments: Any) -> str:
    try:
        call(*arguments)
    except StorageError as error:
        return str(error)
    raise AssertionError("a StorageError was expected")


class StorageConformance:
    """Each case gets a new, empty `storage`."""

    def test_a_campaign_is_as_it_was_created(self, storage: Storage) -> None:
        storage.create("a", SNAPSHOT)
        found = storage.read("a", lambda view: (view.seq, view.design, view.progress, view.totals(), view.total("s")))
        assert found == (1, "design 0", "progress 0", {}, None)
        assert list(storage.events("a")) == [FIRST]
        assert list(storage.contents("a")) == []
        assert storage.problems() == ()

    def test_names_are_in_order_of_creation(self, storage: Storage) -> None:
        for name in ("z", "a", "Ωmega 'quoted\"; --"):
            storage.create(name, SNAPSHOT)
        assert storage.names() == ("z", "a", "Ωmega 'quoted\"; --")

    def test_creating_again_is_the_same_campaign_or_refused(self, storage: Storage) -> None:
        storage.create("a", SNAPSHOT)
        storage.create("a", SNAPSHOT)
        assert storage.names() == ("a",)
        other = replace(SNAPSHOT, events=(replace(FIRST, key="other"),))
        assert "'a'" in refused(storage.create, "a", other)

    def test_a_whole_campaign_can_be_created_at_once(self, storage: Storage) -> None:
        events = (FIRST, replace(FIRST, seq=2, kind="told", key="b"))
        contents = (Content(2, "s", b"\x00\xff\n"),)
        snapshot = Snapshot("d", "p", events, {"s": Total(3, 0.1, "text")}, contents)
        storage.create("a", snapshot)
        assert storage.read("a", lambda view: (view.seq, view.totals())) == (2, {"s": Total(3, 0.1, "text")})
        assert tuple(storage.events("a")) == events
        assert tuple(storage.contents("a")) == contents

    def test_what_does_not_exist_is_named(self, storage: Storage) -> None:
        storage.create("known", SNAPSHOT)
        for call in (storage.read, storage.change):
            message = refused(call, "a", lambda view: (None, None))
            assert "'a'" in message
            assert "'known'" in message

    def test_a_change_writes_everything_at_once(self, storage: Storage) -> None:
        storage.create("a", SNAPSHOT)
        total = Total(2**40, 1e15 / 3, "merged")
        new = change("k", design="design 1", source="s", total=total, content=b"rows")
        assert storage.change("a", lambda view: ((view.seq, view.design), new)) == (1, "design 0")

        def look(view: View) -> tuple[Any, ...]:
            return view.seq, view.design, view.progress, view.total("s"), view.event("k"), view.event("unknown")

        event = Event(2, "told", new.time, "bob", "k", {"key": "k"})
        assert storage.read("a", look) == (2, "design 1", "progress of k", total, event, None)
        assert list(storage.contents("a")) == [Content(2, "s", b"rows")]

    def test_what_is_not_given_stays(self, storage: Storage) -> None:
        storage.create("a", SNAPSHOT)
        write(storage, "a", change("k", source="s", total=Total(1, 2.0)))
        write(storage, "a", change("l", source="t", total=Total(3, 4.0)))
        write(storage, "a", change("m", source="s", total=Total(5, 6.0, "new")))
        storage.change("a", lambda view: ("nothing to write", None))
        found = storage.read("a", lambda view: (view.seq, view.design, view.totals()))
        assert found == (4, "design 0", {"s": Total(5, 6.0, "new"), "t": Total(3, 4.0)})

    def test_a_failure_leaves_no_trace(self, storage: Storage) -> None:
        storage.create("a", SNAPSHOT)

        def fail(view: View) -> tuple[None, Change]:
            raise ZeroDivisionError

        try:
            storage.change("a", fail)
        except ZeroDivisionError:
            pass
        else:
            raise AssertionError("what `decide` raises reaches the caller as it is")
        write(storage, "a", change("k"))
        assert [event.seq for event in storage.events("a")] == [1, 2]

    def test_campaigns_do_not_meet(self, storage: Storage) -> None:
        for name in ("a", "b"):
            storage.create(name, SNAPSHOT)
            write(storage, name, change("k", source="s", total=Total(1, 1.0), content=name.encode()))
        write(storage, "b", change("l"))
        assert [len(list(storage.events(name))) for name in ("a", "b")] == [2, 3]
        assert [content.data for content in storage.contents("a")] == [b"a"]

    def test_long_histories_come_in_order_and_from_where_one_wants(self, storage: Storage) -> None:
        storage.create("a", SNAPSHOT)
        for k in range(1100):
            write(storage, "a", change(str(k), source="st"[k % 2], content=str(k).encode()))
        assert [event.seq for event in storage.events("a")] == list(range(1, 1102))
        assert [event.seq for event in storage.events("a", 1090)] == list(range(1091, 1102))
        late = [int(content.data) for content in storage.contents("a", "t", 1090)]
        assert late == [1089, 1091, 1093, 1095, 1097, 1099]
        assert len(list(storage.contents("a", "s"))) == 550

    def test_changes_at_once_come_one_after_the_other(self, storage: Storage) -> None:
        storage.create("a", SNAPSHOT)

        def count(key: int) -> None:
            def decide(view: View) -> tuple[None, Change]:
                before = view.total("s") or Total(0, 0.0)
                return None, change(str(key), source="s", total=Total(before.rows + key, before.spent + 1))

            storage.change("a", decide)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(count, range(100)))
        assert storage.read("a", lambda view: (view.seq, view.total("s"))) == (101, Total(4950, 100.0))

    def test_a_reader_sees_one_moment_and_stops_nobody(self, storage: Storage) -> None:
        storage.create("a", SNAPSHOT)

        def look(view: View) -> tuple[Any, ...]:
            before = view.total("s")
            with ThreadPoolExecutor(1) as pool:  # would wait for ever if a reader held a writer up
                written = change("k", source="s", total=Total(1, 1.0))
                pool.submit(write, storage, "a", written).result(timeout=60)
            return before, view.total("s"), view.event("k")

        assert storage.read("a", look) == (None, None, None)
        assert storage.read("a", lambda view: view.seq) == 2

    def test_a_closed_store_can_be_used_again(self, storage: Storage) -> None:
        storage.create("a", SNAPSHOT)
        storage.close()
        assert storage.names() == ("a",)
