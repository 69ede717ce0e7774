"""The software that numbers depend on."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from sourcewise._version import __version__

PACKAGES = ("numpy", "scipy", "clarabel", "pyarrow", "narwhals", "sqlalchemy", "duckdb", "altair", "vl-convert-python")


def versions() -> dict[str, str]:
    """Names and versions, as text."""
    found = {"sourcewise": __version__, "Python": platform.python_version(), "system": platform.system()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
