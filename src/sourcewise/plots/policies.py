"""Charts that compare policies over budgets: regret, coverage, tails."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sourcewise.plots.curves import Axis, Curves, nothing, reference, spread_out
from sourcewise.plots.table import Columns, Row, domain_of, finite, marked, note_on, rows_of
from sourcewise.plots.theme import HEIGHT, WIDTH, embedded, finished

if TYPE_CHECKING:
    from sourcewise.plots.theme import Chart


def regret_curves(
    data: Columns,
    *,
    title: str = "Relative regret by budget",
    budget: str = "Budget",
    ceiling: float = math.inf,
    measure: str = "Mean squared error",
) -> Chart:
    """How much larger the mean squared error (or another `measure`) is than the oracle's, in %: a line a policy.

    data: policy, budget, regret, low, high (the ends of the 95 % interval). The axis ends at `ceiling`; what lies
        above is marked at the edge and named.
    """
    rows = rows_of(data, ["policy"], ["budget", "regret", "low", "high"])
    if not rows:
        return nothing(title)
    rows = spread_out(rows, "budget", "policy", "budget_shown")
    # What lies above the ceiling is named, and neither its bar nor any other may squeeze what lies below.
    placed = [row for row in rows if not row["regret"] > ceiling]
    low, high = domain_of(finite(placed, "regret", "low", "high"), around=[0.0])
    y = Axis("regret", "Relative regret (%)", (max(low, -ceiling), min(high, ceiling)))
    curves = Curves(rows, "policy", budgets(rows, budget), y, "low", "high")
    notes = [
        f"{measure} against the oracle's, with 95 % intervals.",
        *note_on(marked(rows, "regret", y.domain), NAMED, "regret"),
    ]
    return curves.chart(title, notes, reference(0.0, "oracle", dash=[1, 0]))


def coverage(
    data: Columns, *, level: float = 0.95, title: str = "Coverage of the intervals", budget: str = "Budget"
) -> Chart:
    """How often the intervals held the truth, in %, with binomial error bars and the line where they should be.

    data: policy, budget, coverage (a fraction), runs.
    """
    rows = rows_of(data, ["policy"], ["budget", "coverage", "runs"])
    if not rows:
        return nothing(title)
    rows = [{**row, **_wilson(row["coverage"], row["runs"])} for row in rows]
    rows = spread_out(rows, "budget", "policy", "budget_shown")
    low, high = domain_of(finite(rows, "percent", "low", "high"), around=[100 * level - 2, 100 * level + 2])
    y = Axis("percent", "Coverage (%)", (max(low, 0.0), min(high, 100.5)))
    curves = Curves(rows, "policy", budgets(rows, budget), y, "low", "high")
    notes = [
        f"Share of runs whose {100 * level:g} % interval holds the truth, with its 95 % binomial error.",
        *note_on(marked(rows, "percent"), NAMED, "percent"),
    ]
    return curves.chart(title, notes, reference(100 * level, f"{100 * level:g} %"))


def tails(data: Columns, *, title: str = "Typical and extreme errors", budget: str = "Budget") -> Chart:
    """Median and 99th percentile of budget × squared error, one above the other, each on its own axis.

    data: policy, budget, median, p99.
    """
    import altair as alt

    rows = rows_of(data, ["policy"], ["budget", "median", "p99"])
    if not rows:
        return nothing(title)
    notes = ["Budget times squared error of the target, over all runs."]
    panels = []
    for column, name in (("p99", "99th percentile"), ("median", "Median")):
        reach = domain_of(finite(rows, column), around=[0.0])
        y = Axis(column, name, (0.0, reach[1]))
        curves = Curves(rows, "policy", budgets(rows, budget, "budget"), y, height=HEIGHT * 3 // 5)
        panels.append(
            alt.layer(*curves.layers(), data=embedded(curves.data())).properties(width=WIDTH, height=curves.height)
        )
        notes += note_on(marked(rows, column), NAMED, column)
    return finished(alt.vconcat(*panels, spacing=12), title, notes)


NAMED = ("policy", "budget")


def budgets(rows: list[Row], title: str, column: str = "budget_shown") -> Axis:
    """The axis of budgets, with a tick at each one that was tried."""
    tried = sorted(set(finite(rows, "budget")))
    pad = 0.06 if column == "budget_shown" else 0.03
    return Axis(column, title, domain_of(tried, pad), values=tried if len(tried) <= 12 else ())


def _wilson(share: float, runs: float) -> dict[str, float]:
    """A proportion and its 95 % interval after Wilson, in %: it stays inside [0, 100] and is never of width zero."""
    if not (runs > 0 and 0 <= share <= 1):
        return {"percent": math.nan, "low": math.nan, "high": math.nan}
    z2 = 1.959963984540054**2
    middle = (share + z2 / (2 * runs)) / (1 + z2 / runs)
    half = math.sqrt(z2 * (share * (1 - share) / runs + z2 / (4 * runs * runs))) / (1 + z2 / runs)
    return {"percent": 100 * share, "low": 100 * (middle - half), "high": 100 * (middle + half)}
