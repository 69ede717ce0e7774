"""Charts to files, without a network: SVG, PNG, PDF, and a page of HTML that holds everything it needs."""

from __future__ import annotations

import json
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sourcewise.errors import ReportError

if TYPE_CHECKING:
    from sourcewise.plots.theme import Chart

SCALE = 3
"""Pixels of a PNG for each one of the chart: about 300 dots an inch at the width of a journal's column."""

# The policy of the page forbids every connection. Vega compiles expressions of its own, which needs unsafe-eval.
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; \
style-src 'unsafe-inline'; img-src data: blob:">
<title>{title}</title>
<style>body {{ margin: 1rem; background: white; }} #chart {{ overflow-x: auto; }}</style>
<script>{library}</script>
</head>
<body>
<div id="chart"></div>
<script>
vegaEmbed("#chart", {spec}, {{"renderer": "svg", "actions": {{"export": true, "source": false, "compiled": false, \
"editor": false}}}});
</script>
</body>
</html>
"""


def check_place(path: str | Path) -> Path:
    """Refuses a file that no chart can be saved as, before any work is done for it."""
    place = Path(path)
    if place.suffix.lower() not in _MAKERS:
        raise ReportError(f"a chart is saved as {', '.join(_MAKERS)}, which {str(path)!r} is not")
    if not place.parent.is_dir():
        raise ReportError(f"the chart cannot be written to {str(path)!r}: its directory does not exist")
    return place


def save(chart: Chart, path: str | Path) -> Path:
    """Writes the chart; the suffix (.svg, .png, .pdf or .html) says what. The page of HTML shows values on hover."""
    place = check_place(path)
    content = _MAKERS[place.suffix.lower()](chart.to_dict())
    try:
        place.write_bytes(content)
    except OSError as error:
        raise ReportError(f"the chart cannot be written to {str(path)!r}: {error.strerror}") from error
    return place


def to_svg(chart: Chart, bare: bool = False) -> str:
    """The chart as the text of an SVG file; `bare`, for use inside a page, without background and roles of parts."""
    spec = chart.to_dict()
    if bare:
        spec["config"] = {**spec.get("config", {}), "background": None, "aria": False, "padding": 2}
    return _svg(spec).decode()


def _svg(spec: dict[str, Any]) -> bytes:
    import vl_convert

    return vl_convert.vegalite_to_svg(spec, allowed_base_urls=[]).encode()


def _png(spec: dict[str, Any]) -> bytes:
    import vl_convert

    return vl_convert.vegalite_to_png(spec, scale=SCALE, allowed_base_urls=[])


def _pdf(spec: dict[str, Any]) -> bytes:
    import vl_convert

    return vl_convert.vegalite_to_pdf(spec, allowed_base_urls=[])


def _html(spec: dict[str, Any]) -> bytes:
    heading = spec.get("title", {}).get("text", "Chart")
    title = heading if isinstance(heading, str) else " ".join(heading)
    # Inside a script element "</script>" would end it, wherever it stands; as an escape it is the same text.
    text = json.dumps(spec, allow_nan=False).replace("<", "\\u003c").replace("\u2028", "\\u2028")
    return PAGE.format(title=escape(title), library=_library(), spec=text).encode()


@cache  # bundling takes a second, as long as the rest of a figure
def _library() -> str:
    import vl_convert

    return str(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


_MAKERS = {".svg": _svg, ".png": _png, ".pdf": _pdf, ".html": _html}
