"""How a campaign went, in figures: the mix, the interval and the estimate as the money was spent."""

from __future__ import annotations

from typing import Any

from sourcewise.plots import estimates_by_round, mix_over_time, width_by_money
from sourcewise.records import CampaignRecord, Look
from sourcewise.reporting.cells import shown
from sourcewise.reporting.document import Block, Figure, Heading, Paragraph
from sourcewise.reporting.words import interval

FIXED = "as collected, fixed interval"
EQUAL = "equal rows for the same money, fixed interval"
ANYTIME = "as collected, anytime interval"


def progress(record: CampaignRecord) -> list[Block]:
    """Three figures, once there is something to show."""
    if not record.looks:
        return [Heading("Progress"), Paragraph("There is nothing to draw before the first round is estimated.")]
    last = record.looks[-1]
    mixes = ", ".join(f"{name} {share:.1%}" for name, share in last.mix.items())
    best = "not known" if last.best_mix is None else ", ".join(f"{k} {v:.1%}" for k, v in last.best_mix.items())
    return [
        Heading("Progress"),
        Figure(
            mix_over_time(_mixes(record.looks)),
            f"Share of rows by source over {len(record.looks)} estimates. In the end: {mixes}. Estimated best: {best}.",
        ),
        Figure(
            width_by_money(_widths(record.looks), target=record.target_width),
            f"Width of the interval against money spent. In the end, after {shown(last.spent)}: {_ends(last)}.",
            f"Compare the two fixed intervals; the anytime one is wider because it holds at every look. {_gain(last)}",
        ),
        Figure(
            estimates_by_round(_estimates(record.looks), name=record.target),
            f"Estimate of {record.target} with its fixed and its anytime interval by round. In the end: "
            f"{shown(last.value)}, fixed {interval(last.interval)}, anytime {interval(last.anytime)}.",
        ),
    ]


def _mixes(looks: tuple[Look, ...]) -> list[dict[str, Any]]:
    """A source that was added later has no rows before."""
    return [
        {"source": name, "round": look.round, "share": share, "best": (look.best_mix or {}).get(name)}
        for look in looks
        for name, share in look.mix.items()
    ]


def _widths(looks: tuple[Look, ...]) -> list[dict[str, Any]]:
    rows = []
    for look in looks:
        series = {FIXED: _width(look), EQUAL: _scaled(look, look.stderr_equal), ANYTIME: look.width}
        rows += [{"series": name, "spent": look.spent, "width": width} for name, width in series.items()]
    return rows


def _width(look: Look) -> float | None:
    low, high = look.interval
    return None if low is None or high is None else high - low


def _scaled(look: Look, stderr: float | None) -> float | None:
    """The width that a fixed interval has at another standard error."""
    width = _width(look)
    return None if width is None or stderr is None or not look.stderr else width * stderr / look.stderr


def _ends(look: Look) -> str:
    found = {FIXED: _width(look), EQUAL: _scaled(look, look.stderr_equal), ANYTIME: look.width}
    return ", ".join(f"{name} {shown(width)}" for name, width in found.items())


def _gain(look: Look) -> str:
    """What the mix has saved, in money: variances are inversely proportional to it."""
    if not look.stderr or look.stderr_equal is None:
        return (
            "What equal rows would have given is not known: they do not identify the target, or there is no estimate."
        )
    extra = (look.stderr_equal / look.stderr) ** 2 - 1
    if extra >= 0:
        return (
            f"At this estimate, equally many rows of every source would need {extra:.0%} more money for this precision."
        )
    return f"At this estimate, equally many rows of every source would need {-extra:.0%} less money for this precision."


def _estimates(looks: tuple[Look, ...]) -> list[dict[str, Any]]:
    rows = []
    for look in looks:
        ends = dict(zip(("low", "high", "anytime_low", "anytime_high"), _lines(look), strict=True))
        rows.append({"round": look.round, "estimate": look.value, **ends})
    return rows


def _lines(look: Look) -> list[float]:
    """The ends of both intervals, where None is an infinity on its own side."""
    ends = (*look.interval, *look.anytime)
    edges = (float("-inf"), float("inf"))
    return [edges[k % 2] if end is None else end for k, end in enumerate(ends)]
