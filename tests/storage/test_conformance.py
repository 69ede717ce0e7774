"""The shipped conformance cases, on both databases and on a store that is no database."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sourcewise.storage.base import Storage
from sourcewise.storage.sql import SqlStorage
from sourcewise.testing.storage import StorageConformance
from storage.memory import MemoryStorage


class TestSqlStorage(StorageConformance):
    @pytest.fixture
    def storage(self, store: str) -> Iterator[SqlStorage]:
        made = SqlStorage(store, create=True)
        yield made
        made.close()


class TestMemoryStorage(StorageConformance):
    @pytest.fixture
    def storage(self) -> MemoryStorage:
        return MemoryStorage()


def test_the_protocol_stays_small() -> None:
    methods = [name for name, value in vars(Storage).items() if callable(value) and not name.startswith("_")]
    assert len(methods) <= 10
