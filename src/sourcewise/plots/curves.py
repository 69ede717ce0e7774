"""Lines with error bars by group, the shape of most charts here, and the marks for what has no place on the axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from sourcewise.plots.table import SHOWN, Row, marked, names_in, printable, strict
from sourcewise.plots.theme import GREY, HEIGHT, WIDTH, colour, embedded, finished, on, shape

if TYPE_CHECKING:
    import altair as alt

    from sourcewise.plots.theme import Chart

MANY = 120
"""Points along one line from which on the line alone is drawn."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A column on an axis: what is drawn, what it is called, from where to where."""

    column: str
    title: str
    domain: tuple[float, float]
    format: str = ""
    values: Sequence[float] = ()
    scale: Literal["linear", "log"] = "linear"

    def encode(self, kind: Any, **options: Any) -> Any:
        import altair as alt

        scale = alt.Scale(domain=list(self.domain), nice=False, zero=False, type=self.scale)
        given: dict[str, Any] = {"values": list(self.values)} if self.values else {"tickCount": 6}
        if self.format:
            given["format"] = self.format
        axis = alt.Axis(title=printable(self.title), labelOverlap="greedy", **given)
        return kind(f"{self.column}:Q", scale=scale, axis=axis, **options)


@dataclass(frozen=True, slots=True)
class Curves:
    """Rows with columns for x and y, grouped by a text column, with bars from `low` to `high` if there are any."""

    rows: Sequence[Row]
    group: str
    x: Axis
    y: Axis
    low: str = ""
    high: str = ""
    legend: str | None = None
    height: int = HEIGHT

    def layers(self) -> list[alt.Chart]:
        """Bars, lines, points, and a cross at the edge for each value that cannot be placed."""
        import altair as alt

        names = names_in(self.rows, self.group)
        base = alt.Chart().encode(x=self.x.encode(alt.X), color=colour(names, self.group, self.legend))
        y = self.y.encode(alt.Y)
        here = f"datum.state === '{SHOWN}'"
        tips = self._tooltip()
        found = []
        if self.low:
            bars = base.transform_filter(f"{here} && isValid(datum.bar_low) && isValid(datum.bar_high)")
            low = self.y.encode(alt.Y)
            low.shorthand = "bar_low:Q"
            found.append(bars.mark_rule(clip=True).encode(y=low, y2=alt.Y2("bar_high:Q")))
        found.append(base.mark_line(clip=True).encode(y=y))
        if len(self.rows) <= MANY * max(1, len(names)):
            points = base.transform_filter(here).mark_point(clip=True)
            found.append(points.encode(y=y, shape=shape(names, self.group, self.legend), tooltip=tips))
        found.append(off_axis(base, tips))
        return found

    def data(self) -> list[Row]:
        """Every row, with its state and with bars that end where the axis does."""
        bottom, top = self.y.domain
        rows = marked(self.rows, self.y.column, self.y.domain)
        if self.low:
            for row in rows:
                low, high = row[self.low], row[self.high]
                row["bar_low"], row["bar_high"] = max(low, bottom), min(high, top)
        return strict(rows)

    def _tooltip(self) -> list[Any]:
        import altair as alt

        columns = [name for name in self.rows[0] if name != self.x.column or not name.endswith("_shown")]
        texts = {name: isinstance(self.rows[0][name], str) for name in columns}
        return [
            alt.Tooltip(f"{name}:N") if text else alt.Tooltip(f"{name}:Q", format=",.4~g")
            for name, text in texts.items()
        ]

    def chart(self, title: str, notes: Sequence[str] = (), behind: Sequence[alt.Chart] = ()) -> Chart:
        import altair as alt

        layers = alt.layer(*behind, *self.layers(), data=embedded(self.data()))
        return finished(layers.properties(width=WIDTH, height=self.height), title, notes)


def off_axis(base: alt.Chart, tooltip: Sequence[Any]) -> alt.Chart:
    """A cross at the upper edge, in the group's colour."""
    import altair as alt

    lost = base.transform_filter(f"datum.state !== '{SHOWN}'")
    crosses = lost.mark_point(shape=CROSS, filled=False, size=50, strokeWidth=1.6, opacity=1)
    placed: alt.Chart = crosses.encode(y=alt.value(2), tooltip=list(tooltip))
    return placed


CROSS = "M-0.7,-0.7L0.7,0.7M-0.7,0.7L0.7,-0.7"


def reference(value: float, text: str = "", dash: Sequence[int] = (4, 3)) -> list[alt.Chart]:
    """A grey reference line across the chart, with a word beside its right end."""
    import altair as alt

    base = on([{"level": value, "text": text}]).encode(y=alt.Y("level:Q"))
    line = base.mark_rule(color=GREY, strokeDash=list(dash), clip=True)
    if not text:
        return [line]
    word = base.mark_text(align="left", dx=4, color=GREY).encode(x=alt.value("width"), text="text:N")
    return [line, word]


def nothing(title: str) -> Chart:
    """What is drawn from no rows."""
    import altair as alt

    words = on([{"text": "Nothing to show yet"}]).mark_text(fontSize=12, color=GREY)
    return finished(alt.layer(words.encode(text="text:N")).properties(width=WIDTH, height=60), title)


def spread_out(rows: Sequence[Row], column: str, group: str, out: str) -> list[Row]:
    """Each group moved sideways by a little along `column`, so that bars at the same place do not hide each other."""
    names = names_in(rows, group)
    places = sorted({row[column] for row in rows})
    gaps = [after - before for before, after in pairwise(places)]
    width = (places[-1] - places[0]) or abs(places[0]) or 1.0
    step = min([0.6 * min(gaps, default=width) / max(1, len(names) - 1), 0.012 * width])
    middle = (len(names) - 1) / 2
    shift = {name: (k - middle) * step for k, name in enumerate(names)}
    return [{**row, out: row[column] + shift[row[group]]} for row in rows]
