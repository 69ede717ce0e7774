"""Pictures of causal graphs: what acts on what, and which source sees it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from sourcewise.errors import ReportError
from sourcewise.plots.layout import HEIGHT, MARK, ROW, Layout, Point, lay_out
from sourcewise.plots.table import printable
from sourcewise.plots.theme import GREY, INK, colour, embedded, finished, shape
from sourcewise.spec.graph.model import Graph, default_names
from sourcewise.spec.study import Study

if TYPE_CHECKING:
    import altair as alt

    from sourcewise.plots.theme import Chart

Row = dict[str, Any]

LONGEST = 16
"""Letters of a variable's name that are shown; all of them on hover."""
MOST_VARIABLES = 60
HEAD = 7.0
LABEL = 14.0
"""Room that a coefficient's name would have around it."""


def causal_graph(study: Study, *, title: str | None = None) -> Chart:
    """The graph that a study was derived from.

    Dashed lines are unobserved common causes, dashed boxes variables that no
    source observes; the marks under a variable are the sources that see it."""
    import altair as alt

    if study.model is None:
        raise ReportError(
            "only a study that was made from a graph can be drawn; this one has moments that were written"
        )
    graph = study.model.graph
    if len(graph.nodes) > MOST_VARIABLES:
        raise ReportError(f"a graph of {len(graph.nodes)} variables cannot be read as a picture; {MOST_VARIABLES} can")
    counts = Counter(node for source in study.sources.values() for node in source.observes)
    layout = lay_out(graph, {node: _label(node) for node in graph.nodes}, counts)
    names = [printable(name) for name in study.sources]
    layers = [*_edges(graph, layout), *_boxes(graph, layout, study), _marks(layout, study, names)]
    chart = alt.layer(*layers).properties(width=layout.size[0], height=layout.size[1])
    heading = f"What acts on what: {study.target}" if title is None else title
    return finished(chart, heading, _notes(graph, study))


def _notes(graph: Graph, study: Study) -> list[str]:
    hidden = set(graph.nodes) - set(study.variables)
    lines = ["Dashed line: a common cause that nobody recorded."] if graph.bidirected else []
    return [*lines, "Dashed box: no source sees it."] if hidden else lines


def _label(name: str) -> str:
    return name if len(name) <= LONGEST else name[: LONGEST - 1] + "…"


def _xy(layout: Layout, x: str = "x", y: str = "y") -> dict[str, Any]:
    import altair as alt

    across = alt.Scale(domain=[0.0, layout.size[0]], nice=False, zero=False)
    down = alt.Scale(domain=[layout.size[1], 0.0], nice=False, zero=False)
    return {"x": alt.X(f"{x}:Q", scale=across, axis=None), "y": alt.Y(f"{y}:Q", scale=down, axis=None)}


def _edges(graph: Graph, layout: Layout) -> list[alt.Chart]:
    import altair as alt

    solid, dashed, heads, words = list[Row](), list[Row](), list[Row](), list[Row]()
    usual = default_names(graph.nodes, graph.edges)
    for k, (edge, line) in enumerate(layout.edges.items()):
        said = edge.coefficient if isinstance(edge.coefficient, str) else f"{edge.coefficient:g}"
        rows = [{"edge": k, "step": i, "x": x, "y": y, "name": edge.text} for i, (x, y) in enumerate(line)]
        (dashed if edge.bidirected else solid).extend(rows)
        heads += _head(line, 2 * k)
        heads += _head(line[::-1], 2 * k + 1) if edge.bidirected else []
        if edge.coefficient != usual[edge.tail, edge.head, edge.bidirected]:
            x, y = _clear(line, [other for each, other in layout.edges.items() if each is not edge])
            words.append({"x": x, "y": y, "words": _label(said)})
    parts = []
    for rows, dash, tint in ((solid, [1, 0], INK), (dashed, [4, 3], GREY), (heads, [1, 0], INK)):
        chart = alt.Chart(embedded(rows)).mark_line(strokeDash=dash, color=tint, strokeWidth=1.3, strokeJoin="miter")
        parts.append(chart.encode(**_xy(layout), detail="edge:N", order="step:Q"))
    parts = [part for part in parts if part.data.values]
    # a white edge around the letters keeps the line from running through them
    halo: dict[str, Any] = {"stroke": "white", "strokeWidth": 4.0, "strokeJoin": "round"}
    for looks in (halo, {}) if words else ():
        texts = alt.Chart(embedded(words)).mark_text(fontStyle="italic", fontSize=9, baseline="middle", **looks)
        parts.append(texts.encode(**_xy(layout), text="words:N"))
    return parts


def _clear(line: Sequence[Point], others: Sequence[Sequence[Point]]) -> Point:
    """The point in the middle part of a line that is farthest from other lines, for all that matters."""
    middle = 0.5 * (len(line) - 1)

    def room(k: int) -> float:
        near = min((math.dist(line[k], point) for other in others for point in other), default=LABEL)
        return min(near, LABEL) - abs(k - middle)

    return line[max(range(len(line) // 4, 3 * len(line) // 4), key=room)]


def _head(line: Sequence[Point], edge: int) -> list[Row]:
    """Two short strokes at the end of a line."""
    (x0, y0), (x, y) = line[max(0, len(line) - 4)], line[-1]
    angle = math.atan2(y - y0, x - x0)
    turns = (angle + math.pi - 0.42, None, angle + math.pi + 0.42)
    tips = [(x, y) if turn is None else (x + HEAD * math.cos(turn), y + HEAD * math.sin(turn)) for turn in turns]
    return [{"edge": edge, "step": i, "x": a, "y": b} for i, (a, b) in enumerate(tips)]


def _boxes(graph: Graph, layout: Layout, study: Study) -> list[alt.Chart]:
    import altair as alt

    seen = set(study.variables)
    rows = []
    for node in graph.nodes:
        (x, y), half = layout.centres[node], 0.5 * layout.widths[node]
        box = {"x": x - half, "x2": x + half, "y": y - 0.5 * HEIGHT, "y2": y + 0.5 * HEIGHT}
        rows.append({**box, "at": x, "mid": y, "label": _label(node), "variable": node, "seen": node in seen})
    parts = []
    for shown, dash, tint in ((True, [1, 0], INK), (False, [4, 3], GREY)):
        some = [row for row in rows if row["seen"] is shown]
        if some:
            chart = alt.Chart(embedded(some)).mark_rect(
                fill="white", stroke=tint, strokeWidth=1.2, strokeDash=dash, cornerRadius=5
            )
            parts.append(chart.encode(**_xy(layout), x2="x2:Q", y2="y2:Q", tooltip="variable:N"))
    texts = alt.Chart(embedded(rows)).mark_text(fontSize=11, baseline="middle")
    return [*parts, texts.encode(**_xy(layout, "at", "mid"), text="label:N", tooltip="variable:N")]


def _marks(layout: Layout, study: Study, names: list[str]) -> alt.Chart:
    """A mark for every source that sees a variable, in rows under it."""
    import altair as alt

    rows = []
    for node, (x, y) in layout.centres.items():
        places = [k for k, source in enumerate(study.sources.values()) if node in source.observes]
        for i, k in enumerate(places):
            row, column = divmod(i, ROW)
            across = x + MARK * (column - 0.5 * (min(len(places) - row * ROW, ROW) - 1))
            down = y + 0.5 * HEIGHT + 7.0 + MARK * row
            rows.append({"x": across, "y": down, "source": names[k], "variable": node})
    tips = [alt.Tooltip("variable:N"), alt.Tooltip("source:N")]
    looks = {"color": colour(names, "source", "Seen by"), "shape": shape(names, "source", "Seen by")}
    chart: alt.Chart = alt.Chart(embedded(rows)).mark_point(size=34).encode(**_xy(layout), **looks, tooltip=tips)
    return chart
