"""The shipped conformance cases, on both databases."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sourcewise.storage.sql import SqlStorage
from sourcewise.testing.storage import StorageConformance


class TestSqlStorage(StorageConformance):
    @pytest.fixture
    def storage(self, store: str) -> Iterator[SqlStorage]:
        made = SqlStorage(store, create=True)
        yield made
        made.close()
