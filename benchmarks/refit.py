"""1,000 new rows: summarize them, merge, fit, read target and standard error; against a cold fit by others."""

from __future__ import annotations

import sourcewise as sw
from cold_fit import by_linearmodels, by_statsmodels
from model import ROWS, Result, cpu_seconds, simulate, study

NEW, REPEATS = 1000, 300


def told(rows: float, base: sw.Statistics) -> sw.Statistics:
    """Statistics of so many rows: those of `base` as many times over as needed."""
    times = round(rows / base.n)
    return sw.Statistics(base.source, base.terms, base.centre, base.n * times, base.gram * times)


def refit_seconds(kept: sw.Statistics) -> float:
    """CPU seconds of the fastest refit; every one adds its rows to those of the last."""
    model, fresh, now = study(), simulate(NEW, seed=7), kept

    def once() -> None:
        nonlocal now
        batch = sw.summarize(model, "data", fresh, centre=now.centre)
        assert isinstance(batch, sw.Statistics)
        now += batch
        target = sw.fit(model, {"data": now}).target
        assert target.value / target.stderr > 0

    once()
    return cpu_seconds(once, REPEATS)


def run() -> list[Result]:
    base = sw.summarize(study(), "data", simulate(10_000))
    assert isinstance(base, sw.Statistics)
    seconds = {rows: refit_seconds(told(rows, base)) for rows in (1e4, 1e6, 1e8)}
    data = simulate(ROWS)
    cold = {
        "linearmodels IVGMM": cpu_seconds(lambda: by_linearmodels(data), 2),
        "statsmodels IVGMM": cpu_seconds(lambda: by_statsmodels(data, "IVGMM"), 1),
        "statsmodels LinearIVGMM": cpu_seconds(lambda: by_statsmodels(data, "LinearIVGMM"), 3),
    }
    rows = [(f"refit after {NEW:,} new rows, 10⁶ told", f"{1e3 * seconds[1e6]:.2f} ms", "")]
    for name, other in cold.items():
        rows.append((f"… a cold fit by {name} takes", f"{other / seconds[1e6]:,.0f} × as long", "≥ 1,000"))
    growth = seconds[1e8] / seconds[1e4]
    rows.append(("refit at 10⁸ rows told / at 10⁴", f"{growth:.2f}", "1 (± 0.1)"))
    return rows
