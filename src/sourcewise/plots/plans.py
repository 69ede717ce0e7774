"""Charts for decisions: what a budget buys, what each source is worth, what policies would have earned."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sourcewise.plots.curves import CROSS, Axis, Curves, nothing, reference
from sourcewise.plots.table import SHOWN, Columns, Row, domain_of, finite, marked, names_in, note_on, rows_of, strict
from sourcewise.plots.theme import COLOURS, GREY, WIDTH, embedded, finished

if TYPE_CHECKING:
    import altair as alt

    from sourcewise.plots.theme import Chart


def stderr_by_budget(
    data: Columns, *, target: float | None = None, title: str = "What a budget buys", budget: str = "Budget"
) -> Chart:
    """Standard error of the target against the budget: a line a mix (best, equal, one source alone).

    data: mix, budget, stderr (infinite where the mix does not identify the target); target: the one to be reached.
    """
    rows = rows_of(data, ["mix"], ["budget", "stderr"])
    if not rows:
        return nothing(title)
    aim = [] if target is None else [target]
    x = Axis("budget", budget, domain_of(finite(rows, "budget"), 0.03))
    y = Axis("stderr", "Standard error", (0.0, domain_of(finite(rows, "stderr"), around=[0.0, *aim])[1]))
    line = [] if target is None else reference(target, "target")
    notes = note_on(marked(rows, "stderr"), ("mix", "budget"), "stderr")
    return Curves(rows, "mix", x, y).chart(title, notes, line)


def source_worth(data: Columns, *, title: str = "What each source is worth") -> Chart:
    """How much more money the same precision takes without a source: a bar a source.

    data: source, extra (0.25 is a quarter more; infinite where the target is not identified without the source).
    """
    import altair as alt

    rows = marked(rows_of(data, ["source"], ["extra"]), "extra")
    if not rows:
        return nothing(title)
    _, top = domain_of(finite(rows, "extra"), 0.25, around=[0.0, 0.05])
    for row in rows:
        row["words"], row["bar"] = _worth(row), row["extra"] if row["state"] == SHOWN else 0.0
    x = Axis("bar", "More money without it", (min(0.0, *finite(rows, "bar")), top), "%")
    base = alt.Chart().encode(x=x.encode(alt.X), y=_names(rows, "source"))
    bars = base.mark_bar(color=COLOURS[0], height={"band": 0.6})
    tips = [alt.Tooltip("source:N"), alt.Tooltip("words:N")]
    texts = base.mark_text(align="left", dx=5).encode(text="words:N", tooltip=tips)
    layers = alt.layer(bars, texts, data=embedded(strict(rows))).properties(width=WIDTH, height={"step": 24})
    return finished(layers, title, ["For the same precision, compared with the best mix of all sources."])


def _worth(row: Row) -> str:
    if math.isinf(row["extra"]):
        return "× the target is not identified without it"
    return "× not known" if math.isnan(row["extra"]) else f"{row['extra']:+.1%}"


def policy_outcomes(
    data: Columns, *, measure: str = "Standard error", title: str = "Policies on the data already collected"
) -> Chart:
    """One number a policy, with its interval: what each would have earned, or cost.

    data: policy, value, low, high.
    """
    import altair as alt

    given = rows_of(data, ["policy"], ["value", "low", "high"])
    if not given:
        return nothing(title)
    x = Axis("value", measure, domain_of(finite(given, "value", "low", "high"), 0.06))
    rows = marked(given, "value")
    for row in rows:
        row["bar_low"], row["bar_high"] = max(row["low"], x.domain[0]), min(row["high"], x.domain[1])
    here = alt.Chart().transform_filter(f"datum.state === '{SHOWN}'").encode(y=_names(rows, "policy"))
    tips = [alt.Tooltip("policy:N"), *(alt.Tooltip(f"{name}:Q", format=",.4~g") for name in ("value", "low", "high"))]
    ends = here.transform_filter("isValid(datum.bar_low) && isValid(datum.bar_high)").mark_rule(color=COLOURS[0])
    bars = ends.encode(x=Axis("bar_low", measure, x.domain).encode(alt.X), x2=alt.X2("bar_high:Q"))
    points = here.mark_point(color=COLOURS[0], size=50).encode(x=x.encode(alt.X), tooltip=tips)
    lost = alt.Chart().transform_filter(f"datum.state !== '{SHOWN}'").encode(y=_names(rows, "policy"))
    crosses = lost.mark_point(shape=CROSS, filled=False, size=50, strokeWidth=1.6, color=GREY)
    words = [f"{row['policy']} ({row['state']})" for row in rows if row["state"] != SHOWN]
    notes = ["With 95 % intervals.", *(["× off the axis: " + ", ".join(words) + "."] if words else [])]
    layers = alt.layer(bars, points, crosses.encode(x=alt.value(WIDTH - 4), tooltip=tips), data=embedded(strict(rows)))
    return finished(layers.properties(width=WIDTH, height={"step": 22}), title, notes)


def _names(rows: list[Row], column: str) -> alt.Y:
    import altair as alt

    axis = alt.Axis(title=None, grid=False, labelLimit=170, ticks=False, domain=False)
    return alt.Y(f"{column}:N", sort=names_in(rows, column), axis=axis)
