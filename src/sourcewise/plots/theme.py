"""How every chart looks: one palette, one typeface, one frame.

The colours are those of Okabe and Ito (2008), told apart with any colour vision and on paper, with the yellow
darkened; a shape goes with each, so that a grey copy can be read too. A chart is about 350 pixels wide with letters
of 10: in the column of a journal (90 mm) they are 7 points high.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING, Any, TypeAlias

from sourcewise.plots.table import printable

if TYPE_CHECKING:
    import altair as alt

Chart: TypeAlias = "alt.LayerChart | alt.FacetChart | alt.VConcatChart"
"""What every function here returns: a chart of Altair, to be saved, shown or changed further."""

INK = "#22272e"
"""Of all letters and axes. Pages replace it by their own text colour, so it must be used for nothing else."""
GREY = "#8a9099"
"""Of reference lines and of what is not a measurement; readable on white and on black."""
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c7a00", "#7b5ea7")
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left")
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
WIDTH, HEIGHT = 300, 200

CONFIG: dict[str, Any] = {
    "background": "white",
    "padding": 8,
    "font": FONT,
    "view": {"stroke": None, "continuousWidth": WIDTH, "continuousHeight": HEIGHT},
    "axis": {
        **{"domainColor": INK, "tickColor": INK, "labelColor": INK, "titleColor": INK, "gridColor": GREY},
        **{"gridOpacity": 0.25, "gridWidth": 0.6, "domainWidth": 0.8, "tickWidth": 0.8, "tickSize": 4},
        **{"labelFontSize": 10, "titleFontSize": 10, "titleFontWeight": "normal", "titlePadding": 6},
        **{"labelLimit": 150},
    },
    "legend": {
        **{"orient": "bottom", "direction": "horizontal", "labelColor": INK, "titleColor": INK, "labelFontSize": 10},
        **{"titleFontSize": 10, "titleFontWeight": "normal", "labelLimit": 300, "symbolSize": 45, "offset": 8},
        **{"columnPadding": 12, "rowPadding": 2, "symbolOpacity": 1},
    },
    "header": {"labelColor": INK, "titleColor": INK, "labelFontSize": 10, "labelFontWeight": "bold", "labelPadding": 4},
    "title": {
        **{"anchor": "start", "color": INK, "subtitleColor": INK, "fontSize": 12, "subtitleFontSize": 10},
        **{"fontWeight": "bold", "offset": 10, "subtitlePadding": 4, "frame": "bounds", "lineHeight": 15},
        **{"subtitleLineHeight": 12.5},
    },
    "line": {"strokeWidth": 1.6, "strokeCap": "round"},
    "point": {"filled": True, "size": 36, "opacity": 1},
    "rule": {"strokeWidth": 1.1},
    "text": {"font": FONT, "fontSize": 10, "color": INK},
}


def on(rows: Sequence[Mapping[str, Any]]) -> alt.Chart:
    """A chart of these rows, to be given marks."""
    import altair as alt

    return alt.Chart(embedded(rows))


def embedded(rows: Sequence[Mapping[str, Any]]) -> alt.InlineData:
    """Rows inside the specification, whatever their number."""
    import altair as alt

    return alt.InlineData(values=[dict(row) for row in rows])


def finished(chart: Chart, title: str, notes: Sequence[str] = ()) -> Chart:
    """The chart with its title, the notes below it in smaller letters, and the theme."""
    import altair as alt

    room = WIDTH + 50
    lines = [line for note in notes for line in wrap(note, max(30, int(room / 4.8)))]
    heading = wrap(printable(title), max(24, int(room / 6.4))) or [""]
    styled: Chart = chart.properties(title=alt.TitleParams(text=heading, subtitle=lines)).configure(**CONFIG)
    return styled


def colour(names: Sequence[str], field: str, title: str | None = None, shown: bool = True) -> alt.Color:
    """A colour for each name, in the order given, and one legend in as many columns as fit."""
    import altair as alt

    legend = alt.Legend(title=title, columns=_columns(names)) if shown else None
    scale = alt.Scale(domain=list(names), range=cycled(COLOURS, len(names)))
    return alt.Color(f"{field}:N", scale=scale, legend=legend)


def shape(names: Sequence[str], field: str, title: str | None = None) -> alt.Shape:
    import altair as alt

    scale = alt.Scale(domain=list(names), range=cycled(SHAPES, len(names)))
    return alt.Shape(f"{field}:N", scale=scale, legend=alt.Legend(title=title, columns=_columns(names)))


def cycled(values: Sequence[str], count: int) -> list[str]:
    """The first `count` of the values over and over, moved on by one every time around."""
    turns = len(values)
    return [values[k % turns] if values is COLOURS else values[(k + k // turns) % turns] for k in range(count)]


def _columns(names: Sequence[str]) -> int:
    """As many columns as fit below a chart, each as wide as its longest name."""
    widths = [34 + 5.4 * min(len(name), 56) for name in names] or [1.0]
    fitting = (
        count for count in range(len(widths), 1, -1) if sum(max(widths[k::count]) for k in range(count)) <= WIDTH + 30
    )
    return next(fitting, 1)
