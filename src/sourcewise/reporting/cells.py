"""Numbers and texts of a report, as readers see them and as JSON holds them."""

from __future__ import annotations

import math
from typing import Any

from sourcewise.reporting.document import Cell

UNKNOWN = "–"


def shown(cell: Cell) -> str:
    """Whole numbers with separators, others with five significant digits."""
    if cell is None:
        return UNKNOWN
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}".replace("-", "\N{MINUS SIGN}")
    if math.isnan(cell):
        return UNKNOWN
    if math.isinf(cell):
        return "∞" if cell > 0 else "\N{MINUS SIGN}∞"
    text = (
        f"{cell:.3e}"
        if cell != 0 and not 1e-4 <= abs(cell) < 1e7
        else f"{cell:,.5g}"
        if abs(cell) < 1e4
        else f"{cell:,.0f}"
    )
    return text.replace("-", "\N{MINUS SIGN}")


def is_number(cell: Cell) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def plain(value: Any) -> Any:
    """The same value as strict JSON can hold it: NaN and infinities become None, broken texts are mended."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {plain(str(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
