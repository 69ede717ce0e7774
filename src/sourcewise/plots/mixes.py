"""Charts of mixes: where policies end, and how a campaign's mix follows the estimated best one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from sourcewise.errors import ReportError
from sourcewise.plots.curves import Axis, Curves, nothing, reference, spread_out
from sourcewise.plots.policies import budgets
from sourcewise.plots.table import Columns, domain_of, finite, marked, names_in, note_on, printable, rows_of
from sourcewise.plots.theme import WIDTH, embedded, finished

if TYPE_CHECKING:
    from sourcewise.plots.theme import Chart


def mix_spread(
    data: Columns, best: Mapping[str, float], *, title: str = "Where the mix ends", budget: str = "Budget"
) -> Chart:
    """The final share of rows of each source, its mean and spread over runs, against the best mix κ*: a panel a source.

    data: policy, budget, source, share, low, high (say the 5th and 95th percentile of the runs); shares from 0 to 1.
    """
    import altair as alt

    rows = rows_of(data, ["policy", "source"], ["budget", "share", "low", "high"])
    if not rows:
        return nothing(title)
    wanted = {printable(name): share for name, share in best.items()}
    sources = names_in(rows, "source")
    for name in sources:
        if name not in wanted:
            raise ReportError(f"the best mix has no share for the source {name!r}; it has {', '.join(wanted)}")
    notes = ["Share of all rows: mean and spread over runs. Dashed: the best mix κ*."]
    height = 200 if len(sources) == 1 else 120
    panels = []
    for name in sources:
        here = spread_out([row for row in rows if row["source"] == name], "budget", "policy", "budget_shown")
        low, high = domain_of(finite(here, "share", "low", "high"), around=[wanted[name]])
        y = Axis("share", "Share of rows", (max(low, -0.02), min(high, 1.02)), "%")
        curves = Curves(here, "policy", budgets(here, budget), y, "low", "high", height=height)
        layers = [*reference(wanted[name], f"κ* {wanted[name]:.1%}"), *curves.layers()]
        heading = alt.TitleParams(text=name, fontSize=10, offset=4, limit=WIDTH)
        size = {"width": WIDTH, "height": height}
        panels.append(alt.layer(*layers, data=embedded(curves.data())).properties(title=heading, **size))
        notes += note_on(marked(here, "share"), ("policy", "budget"), "share")
    return finished(alt.vconcat(*panels, spacing=10), title, notes)
