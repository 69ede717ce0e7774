"""What every test shares. Fixtures that one layer needs live beside that layer's tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def root() -> Path:
    """The top of the clone."""
    return Path(__file__).resolve().parents[1]
