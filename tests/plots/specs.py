"""What a chart consists of: its rows, its marks, and what is drawn in the end."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from sourcewise.plots.theme import Chart

HOSTILE = '</script><script>alert("1")</script> & <b>x</b> {{signal}} \\ \n \u202e é'


def rows_in(chart: Chart, *columns: str) -> list[tuple[Any, ...]]:
    """The rows that have all these columns, over all data of the chart."""
    spec = chart.to_dict()
    found = [row for rows in spec.get("datasets", {}).values() for row in rows]
    for part in _parts(spec):
        found += part.get("data", {}).get("values", [])
    return [tuple(row[name] for name in columns) for row in found if all(name in row for name in columns)]


def marks_in(chart: Chart) -> list[str]:
    """Kinds of marks, bottom to top."""
    marks = [part["mark"] for part in _parts(chart.to_dict()) if "mark" in part]
    return [mark if isinstance(mark, str) else mark["type"] for mark in marks]


def encodings_in(chart: Chart, channel: str) -> list[Mapping[str, Any]]:
    return [part["encoding"][channel] for part in _parts(chart.to_dict()) if channel in part.get("encoding", {})]


def notes_on(chart: Chart) -> str:
    """The letters below the title, as one text."""
    return " ".join(chart.to_dict()["title"]["subtitle"])


def drawn(chart: Chart, marktype: str) -> list[Mapping[str, Any]]:
    """The items of one kind that a reader sees inside the frame: not those of axes and legends."""
    import vl_convert

    scene = vl_convert.vegalite_to_scenegraph(chart.to_dict())
    return [item for item in _items(scene, marktype) if item.get("opacity", 1) > 0]


def _items(node: Any, marktype: str) -> Iterator[Mapping[str, Any]]:
    if isinstance(node, list):
        for item in node:
            yield from _items(item, marktype)
    elif isinstance(node, dict):
        role = str(node.get("role", ""))
        if role.startswith(("axis", "legend", "title")):
            return
        if node.get("marktype") == marktype:
            yield from node.get("items", [])
        for value in node.values():
            yield from _items(value, marktype)


def _parts(spec: Any) -> Iterator[dict[str, Any]]:
    if isinstance(spec, dict):
        yield spec
        for key in ("layer", "vconcat", "spec"):
            inner = spec.get(key, [])
            for part in inner if isinstance(inner, list) else [inner]:
                yield from _parts(part)


def as_json_has_it(value: float) -> float | None:
    return value if math.isfinite(value) else None
