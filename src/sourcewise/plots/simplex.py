"""The variance of every mix: a line for two sources, a triangle for three."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sourcewise.errors import ReportError
from sourcewise.plots.curves import CROSS, Axis, nothing, off_axis
from sourcewise.plots.table import Columns, Row, finite, marked, note_on, printable, rows_of, strict
from sourcewise.plots.ternary import TOP, bands, on_paper
from sourcewise.plots.theme import COLOURS, GREY, INK, WIDTH, embedded, finished, on

if TYPE_CHECKING:
    import altair as alt

    from sourcewise.plots.theme import Chart

EXCESS = (0.02, 0.05, 0.10, 0.25, 0.50, 1.0)
"""Limits of the bands: how much more a mix costs than the best one for the same precision."""
SHADES = ("#08306b", "#0b559f", "#2b7bba", "#539ecd", "#89bedc", "#bad6eb", "#e3eef8")
"""One hue, dark where a mix is good: read alike with any colour vision and in grey."""


def variance_line(
    data: Columns,
    best: float,
    *,
    source: str,
    marks: Mapping[str, float] | None = None,
    title: str = "Variance of the estimate by mix",
    ceiling: float = 4.0,
) -> Chart:
    """The variance per unit of money along all mixes of two sources, with the best one marked.

    data: share (of `source`, 0 to 1), variance; best: the share of the best mix; marks: other mixes by name.
    The axis ends at `ceiling` times the smallest variance; a mix that does not identify the target is crossed out.
    """
    import altair as alt

    rows = sorted(rows_of(data, [], ["share", "variance"]), key=lambda row: float(row["share"]))
    known = finite(rows, "variance")
    if not rows:
        return nothing(title)
    top = ceiling * min(known) if known and min(known) > 0 else 1.0
    x = Axis("share", f"Share of {printable(source)}", (0.0, 1.0), "%")
    y = Axis("variance", "Variance × cost per row", (0.0, top))
    base = alt.Chart().encode(x=x.encode(alt.X))
    tips = [alt.Tooltip("share:Q", format=".1%"), alt.Tooltip("variance:Q", format=",.4~g")]
    drawn = marked(rows, "variance")
    line = base.mark_line(clip=True, color=COLOURS[0]).encode(y=y.encode(alt.Y), tooltip=tips)
    named = [("best", best, True), *((printable(name), share, False) for name, share in (marks or {}).items())]
    layers = [*_mixes_on_line(named, x), line, off_axis(base, tips).encode(color=alt.value(GREY))]
    infinite = sum(row["state"] != "shown" for row in drawn)
    notes = [f"The axis ends at {ceiling:g} times the smallest variance."]
    if infinite:
        notes += note_on(drawn, ["share"], "variance", most=2)
        notes[-1] += " There the target is not identified, or the variance is not known."
    chart = alt.layer(*layers, data=embedded(strict(drawn))).properties(width=WIDTH, height=200)
    return finished(chart, title, notes)


def _mixes_on_line(named: Sequence[tuple[str, float, bool]], x: Axis) -> list[alt.Chart]:
    import altair as alt

    rows = [
        {"share": share, "text": f"{name} {share:.1%}", "best": first, "height": 10 + 14 * (k % 4)}
        for k, (name, share, first) in enumerate(named)
    ]
    base = on(strict(rows)).encode(x=x.encode(alt.X))
    dash = alt.condition("datum.best", alt.value([1, 0]), alt.value([4, 3]))
    colour = alt.condition("datum.best", alt.value(COLOURS[1]), alt.value(GREY))
    rule = base.mark_rule(clip=True).encode(strokeDash=dash, color=colour)
    heights = alt.Y("height:Q", scale=None, axis=None)
    right = base.transform_filter("datum.share > 0.6").mark_text(align="right", dx=-4)
    left = base.transform_filter("datum.share <= 0.6").mark_text(align="left", dx=4)
    return [rule, *(words.encode(y=heights, text="text:N", color=colour) for words in (right, left))]


def variance_ternary(
    data: Columns,
    sources: Sequence[str],
    best: Sequence[float],
    *,
    marks: Mapping[str, Sequence[float]] | None = None,
    title: str = "What every mix costs, compared with the best one",
) -> Chart:
    """A map of the variance per unit of money over all mixes of three sources, in bands above the best one's.

    data: a column of shares for each source, and variance, at the mixes of `simplex_grid(steps)`; best: the best mix.
    A corner is a source alone. A mix that does not identify the target has an infinite variance and is crossed.
    """
    import altair as alt

    columns = list(sources)
    if len(columns) != 3:
        raise ReportError(f"a triangle shows the mixes of three sources, not of {len(columns)}")
    given = rows_of(data, [], [*columns, "variance"])
    if not given:
        return nothing(title)
    rows = [_on_paper(row, columns) for row in given]
    drawn = marked(rows, "variance")
    infinite = [row for row in drawn if row["state"] != "shown"]
    notes = [
        "Colour: how much more money the same precision takes. Best mix: "
        + ", ".join(f"{share:.1%} {printable(name)}" for name, share in zip(columns, best, strict=True)) + ".",
    ]  # fmt: skip
    if infinite:
        notes.append(f"× marks {len(infinite)} mixes that do not identify the target or have no known variance.")
    named = [
        {**_at("best", best), "best": True},
        *({**_at(name, mix), "best": False} for name, mix in (marks or {}).items()),
    ]
    layers = [_bands(rows), *_frame(columns), _lost(drawn), *_named(named)]
    chart = alt.layer(*layers).properties(width=WIDTH, height=WIDTH * TOP)
    return finished(chart, title, notes)


def _on_paper(row: Row, columns: Sequence[str]) -> Row:
    mix = [row[name] for name in columns]
    if not (all(math.isfinite(part) and part >= 0 for part in mix) and sum(mix) > 0):
        raise ReportError(f"the shares of a mix are at least 0 and not all 0, not {mix}")
    x, y = on_paper(mix)
    shares = {f"share{k}": part for k, part in enumerate(mix, 1)}
    return {**shares, "variance": row["variance"], "x": x, "y": y}


def _bands(rows: Sequence[Row]) -> alt.Chart:
    """Filled areas, interpolated in 1/variance, which is nearly linear in the mix and 0 where the target is lost."""
    import altair as alt

    steps = round(max(math.sqrt(2 * len(rows) + 0.25) - 1.5, 0))
    if (steps + 1) * (steps + 2) // 2 != len(rows):
        raise ReportError(f"a map is drawn from the mixes of simplex_grid(steps); {len(rows)} mixes are no such grid")
    places = {(round(row["share2"] * steps), round(row["share3"] * steps)): row["variance"] for row in rows}
    known = [value for value in places.values() if math.isfinite(value) and value > 0]
    best = min(known, default=1.0)
    efficiency = {place: best / value if value > 0 else math.nan for place, value in places.items()}
    parts = bands(efficiency, steps, [1 / (1 + excess) for excess in reversed(EXCESS)])[::-1]
    names = _band_names()
    features = [
        {"type": "Feature", "geometry": _polygons(part), "properties": {"band": name}}
        for name, part in zip(names, parts, strict=True)
    ]
    scale = alt.Scale(domain=names, range=list(SHADES))
    fill = alt.Fill(
        "properties.band:N", scale=scale, legend=alt.Legend(title=None, columns=4, symbolType="square", offset=46)
    )
    stroke = alt.Stroke("properties.band:N", scale=scale, legend=None)
    areas = on(features).mark_geoshape(strokeWidth=0.4).encode(fill=fill, stroke=stroke)
    placed: alt.Chart = areas.project(type="identity", reflectY=True, scale=WIDTH, translate=[0, WIDTH * TOP])
    return placed


def _band_names() -> list[str]:
    limits = [f"{excess:.0%}" for excess in EXCESS]
    between = [f"{low} to {high}" for low, high in pairwise(limits)]
    return [f"under {limits[0]}", *between, f"over {limits[-1]}"]


def _polygons(pieces: Sequence[Sequence[tuple[float, float]]]) -> dict[str, Any]:
    rings = [[[round(x, 5), round(y, 5)] for x, y in (*piece, piece[0])] for piece in pieces]
    return {"type": "MultiPolygon", "coordinates": [[ring] for ring in rings]}


def _place(base: alt.Chart) -> alt.Chart:
    """Positions on paper, without axes: the same for every layer, and the same as those of the filled areas."""
    import altair as alt

    x = alt.X("x:Q", scale=alt.Scale(domain=[0, 1], nice=False, zero=False), axis=None)
    y = alt.Y("y:Q", scale=alt.Scale(domain=[0, TOP], nice=False, zero=False), axis=None)
    return base.encode(x=x, y=y)


def _frame(columns: Sequence[str]) -> list[alt.Chart]:
    """The sides, thin lines at quarters, the percentages at their ends, and the names of the sources at the corners."""
    import altair as alt

    lines, words = [], []
    for k in range(3):
        for part in (0.0, 0.25, 0.5, 0.75):
            for order, beside in enumerate(((k + 1) % 3, (k + 2) % 3)):
                mix = [0.0, 0.0, 0.0]
                mix[k], mix[beside] = part, 1 - part
                end = dict(zip("xy", on_paper(mix), strict=True))
                lines.append({**end, "line": f"{k} {part}", "order": order, "side": part == 0})
                if order == 0 and part:
                    words.append({**end, "text": f"{part:.0%}", "corner": k})
    width = alt.condition("datum.side", alt.value(1.0), alt.value(0.3))
    strokes = _place(on(lines)).mark_line(color=GREY, strokeWidth=0.5)
    ends: list[dict[str, Any]] = [{"dy": 12}, {"dx": 6, "align": "left"}, {"dx": -6, "align": "right"}]
    percentages = [_word(words, k, fontSize=8, **options) for k, options in enumerate(ends)]
    corners = [
        {"x": x, "y": y, "text": printable(name), "corner": k}
        for k, (name, (x, y)) in enumerate(zip(columns, ((0.0, 0.0), (1.0, 0.0), (0.5, TOP)), strict=True))
    ]
    sides: list[dict[str, Any]] = [
        {"dx": -10, "dy": 28, "align": "left"},
        {"dx": 10, "dy": 28, "align": "right"},
        {"dy": -10},
    ]
    names = [_word(corners, k, fontWeight="bold", limit=WIDTH // 2, **options) for k, options in enumerate(sides)]
    return [strokes.encode(detail="line:N", order="order:Q", strokeWidth=width), *percentages, *names]


def _word(rows: Sequence[Row], corner: int, **options: Any) -> alt.Chart:
    """The texts that belong to one corner, beside their points."""
    base = _place(on(rows)).transform_filter(f"datum.corner === {corner}")
    words: alt.Chart = base.mark_text(color=INK, **options).encode(text="text:N")
    return words


def _lost(rows: Sequence[Row]) -> alt.Chart:
    """All mixes; the ones with a variance stand in the bands, the others are crossed."""

    base = _place(on(strict(rows))).transform_filter("datum.state !== 'shown'")
    crosses: alt.Chart = base.mark_point(shape=CROSS, filled=False, size=22, strokeWidth=1.0, color=COLOURS[1])
    return crosses


def _at(name: str, mix: Sequence[float]) -> Row:
    x, y = on_paper(mix)
    return {"x": x, "y": y, "text": printable(name)}


def _named(rows: Sequence[Row]) -> list[alt.Chart]:
    """Mixes with a name: a white point with a dark rim and a label that stays readable on any band."""
    import altair as alt

    base = _place(on(rows))
    shape = alt.condition("datum.best", alt.value("diamond"), alt.value("circle"))
    size = alt.condition("datum.best", alt.value(110), alt.value(45))
    points = base.mark_point(filled=True, fill="#ffffff", stroke="#000000", strokeWidth=1.4, opacity=1)
    halo = base.mark_text(dy=-13, stroke="#000000", strokeWidth=3, strokeJoin="round", fontWeight="bold")
    words = base.mark_text(dy=-13, color="#ffffff", fontWeight="bold")
    return [points.encode(shape=shape, size=size), halo.encode(text="text:N"), words.encode(text="text:N")]
