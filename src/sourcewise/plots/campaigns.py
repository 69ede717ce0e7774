"""Charts of one campaign: its mix, its interval and its estimate as the money was spent."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sourcewise.plots.curves import CROSS, Axis, Curves, nothing, reference
from sourcewise.plots.table import (
    SHOWN,
    Columns,
    Row,
    domain_of,
    finite,
    marked,
    names_in,
    note_on,
    rows_of,
    strict,
)
from sourcewise.plots.theme import COLOURS, HEIGHT, WIDTH, colour, embedded, finished, shape

if TYPE_CHECKING:
    from sourcewise.plots.theme import Chart

SO_FAR, BEST = "collected so far", "estimated best"


def mix_over_time(data: Columns, *, title: str = "The mix and the estimated best one, by round") -> Chart:
    """Shares of all rows so far (solid) and the shares estimated to be best (dashed): a colour a source.

    data: source, round, share, best (between 0 and 1).
    """
    import altair as alt

    given = rows_of(data, ["source"], ["round", "share", "best"])
    if not given:
        return nothing(title)
    long = [
        {"source": row["source"], "round": row["round"], "kind": kind, "percent": 100 * row[column]}
        for kind, column in ((SO_FAR, "share"), (BEST, "best"))
        for row in given
    ]
    rows = marked(long, "percent")
    y = Axis("percent", "Share of rows (%)", domain_of(finite(rows, "percent"), 0.04, around=[0.0]))
    x = rounds_axis(rows)
    names = names_in(rows, "source")
    base = alt.Chart().encode(x=x.encode(alt.X), color=colour(names, "source"))
    tips = [alt.Tooltip("source:N"), alt.Tooltip("kind:N"), alt.Tooltip("percent:Q", format=".3~g")]
    layers = []
    for kind, dash, filled in ((BEST, [4, 3], False), (SO_FAR, [1, 0], True)):
        part = base.transform_filter(f"datum.kind === '{kind}'")
        points = part.transform_filter(f"datum.state === '{SHOWN}'").mark_point(filled=filled, strokeWidth=1.2)
        layers += [
            part.mark_line(strokeDash=dash).encode(y=y.encode(alt.Y)),
            points.encode(y=y.encode(alt.Y), shape=shape(names, "source"), tooltip=tips),
        ]
    notes = ["Solid: the rows collected so far. Dashed: the mix estimated to be best.", *_unknown(rows)]
    chart = alt.layer(*layers, data=embedded(strict(rows))).properties(width=WIDTH, height=HEIGHT)
    return finished(chart, title, notes)


def _unknown(rows: Sequence[Row], most: int = 8) -> list[str]:
    """Rounds in which a share is not known, in words: a line that begins late says nothing by itself."""
    found = []
    for kind in names_in(rows, "kind"):
        rounds = sorted({row["round"] for row in rows if row["kind"] == kind and row["state"] != SHOWN})
        if rounds:
            listed = ", ".join(f"{number:g}" for number in rounds[:most])
            more = f" and {len(rounds) - most} more" if len(rounds) > most else ""
            found.append(f"Not known ({kind}) in round {listed}{more}.")
    return found


def rounds_axis(rows: Sequence[Row]) -> Axis:
    """Whole rounds only."""
    rounds = sorted(set(finite(rows, "round")))
    low, high = (rounds[0], rounds[-1]) if rounds else (0.0, 1.0)
    step = max(1, math.ceil((high - low) / 12))
    ticks = [low + k * step for k in range(int((high - low) // step) + 1)]
    return Axis("round", "Round", (low - 0.4, high + 0.4), ",d", ticks)


def width_by_money(
    data: Columns, *, target: float | None = None, title: str = "Width of the interval by money spent"
) -> Chart:
    """How the interval narrowed, beside what other ways of spending the same money would have given.

    data: series (such as "collected", "equal shares, same money"), spent, width; target: the width to be reached.
    """
    rows = rows_of(data, ["series"], ["spent", "width"])
    if not rows:
        return nothing(title)
    x = Axis("spent", "Money spent", domain_of(finite(rows, "spent"), 0.03))
    aim = [] if target is None else [target]
    y = Axis("width", "Width of the interval", (0.0, domain_of(finite(rows, "width"), around=[0.0, *aim])[1]))
    line = [] if target is None else reference(target, "target")
    notes = note_on(marked(rows, "width"), ("series", "spent"), "width")
    return Curves(rows, "series", x, y).chart(title, notes, line)


def estimates_by_round(data: Columns, *, name: str = "Estimate", title: str = "The estimate, round by round") -> Chart:
    """The estimate with its fixed interval (thick) and its anytime interval (thin).

    data: round, estimate, low, high, anytime_low, anytime_high. An end at infinity is drawn to the edge. The axis is as
        wide as ten of the last anytime intervals at most, so that the first rounds do not hide the later ones.
    """
    import altair as alt

    rows = rows_of(data, [], ["round", "estimate", "low", "high", "anytime_low", "anytime_high"])
    if not rows:
        return nothing(title)
    y = Axis("estimate", name, _reach(rows))
    drawn = marked(rows, "estimate", y.domain)
    for row in drawn:
        for end, edge in (("low", max), ("high", min)):
            for kind in ("", "anytime_"):
                value, limit = row[kind + end], y.domain[end == "high"]
                row[f"{kind}{end}_shown"] = limit if math.isinf(value) else edge(value, limit)
    base = alt.Chart().encode(x=rounds_axis(rows).encode(alt.X))
    here = base.transform_filter(f"datum.state === '{SHOWN}'")
    tips = [alt.Tooltip(f"{column}:Q", format=",.4~g") for column in rows[0]]
    bars = [
        here.mark_rule(strokeWidth=width, color=COLOURS[0], opacity=opacity, clip=True).encode(
            y=Axis(f"{kind}low_shown", name, y.domain).encode(alt.Y), y2=alt.Y2(f"{kind}high_shown:Q")
        )
        for kind, width, opacity in (("anytime_", 1.2, 0.8), ("", 4.5, 0.55))
    ]
    points = here.mark_point(color=COLOURS[1], size=40).encode(y=y.encode(alt.Y), tooltip=tips)
    lost = base.transform_filter(f"datum.state !== '{SHOWN}'")
    crosses = lost.mark_point(shape=CROSS, filled=False, size=50, strokeWidth=1.6, color=COLOURS[1])
    notes = [
        "Thick: interval for one look, fixed in advance. Thin: anytime interval, valid at all looks together.",
        *note_on([{**row, "at": f"round {row['round']:g}"} for row in drawn], ("at",), "estimate"),
    ]
    layers = alt.layer(*bars, points, crosses.encode(y=alt.value(2), tooltip=tips), data=embedded(strict(drawn)))
    return finished(layers.properties(width=WIDTH, height=HEIGHT), title, notes)


def _reach(rows: Sequence[Row]) -> tuple[float, float]:
    """Where the axis of estimates begins and ends."""
    reach = domain_of(finite(rows, "estimate", "low", "high", "anytime_low", "anytime_high"))
    settled = [
        row for row in rows if all(math.isfinite(row[name]) for name in ("estimate", "anytime_low", "anytime_high"))
    ]
    if not settled:
        return reach
    last = settled[-1]
    room = 5 * (last["anytime_high"] - last["anytime_low"])
    return (max(reach[0], last["estimate"] - room), min(reach[1], last["estimate"] + room)) if room > 0 else reach
