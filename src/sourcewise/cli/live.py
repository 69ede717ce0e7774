"""The live view of a running campaign: redrawn on a terminal, a line a round where output is piped."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sourcewise.cli.output import WIDTH, console, interval, mix, money, number, printable, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from sourcewise.records import Look, Status

SHOWN = 12
"""Rounds in view."""
BAR = 28
COLUMNS = (5, 10, 10, 9, 20)
HEADER = ("Round", "Spent", "Estimate", "s.e.", "Interval (any time)", "Mix of rows")

Watch = Callable[["Status"], None]


@contextmanager
def watching(*, quiet: bool = False) -> Iterator[Watch]:
    """What `run` calls after every step."""
    out = console()
    if quiet:
        yield lambda status: None
    elif out.is_terminal:
        from rich.live import Live

        view = _View()
        with Live(console=out, refresh_per_second=8) as live:

            def redraw(status: Status) -> None:
                view.see(status)
                live.update(view.drawn())

            yield redraw
    else:
        yield _Lines(out)


@dataclass(slots=True)
class _View:
    """The last status, and the estimates of all rounds seen."""

    status: Status | None = None
    looks: dict[int, Look] = field(default_factory=dict)

    def see(self, status: Status) -> None:
        self.status = status
        if status.look is not None:
            self.looks[status.look.round] = status.look

    def drawn(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        if self.status is None:
            return Text("")
        status, rows = self.status, [cells(look) for look in list(self.looks.values())[-SHOWN:]]
        head = Text(printable(f"{status.name}: target {status.target}, round {status.round}"), style="bold")
        return Group(head, Text(bar(status)), Text(""), table("", HEADER, rows, texts=0), Text(order_line(status)))


class _Lines:
    """A line when a round has been estimated from."""

    def __init__(self, out: Any) -> None:
        self._out = out
        self._last = -1

    def __call__(self, status: Status) -> None:
        if self._last < 0:
            self._last = 0
            self._out.print(printable(f"{status.name}: target {status.target}, budget {money(status.money.budget)}"))
            self._out.print(_line(HEADER))
        if status.look is not None and status.look.round > self._last:
            self._last = status.look.round
            self._out.print(printable(_line(cells(status.look))), overflow="ellipsis", no_wrap=True)


def _line(columns: tuple[str, ...]) -> str:
    *numbers, last = columns
    return "  ".join([*(text.rjust(width) for text, width in zip(numbers, COLUMNS, strict=True)), last])[:WIDTH]


def cells(look: Look) -> tuple[str, ...]:
    """A round in one line of a table."""
    numbers = (str(look.round), money(look.spent), number(look.value), number(look.stderr))
    return (*numbers, interval(look.anytime) if look.stderr is not None else "", mix(look.mix))


def bar(status: Status) -> str:
    """Money as a bar and in words."""
    cash = status.money
    share = min(1.0, cash.spent / cash.budget)
    filled = round(BAR * share)
    return f"{'━' * filled}{'╌' * (BAR - filled)}  {money(cash.spent)} of {money(cash.budget)} ({share:.0%})"


def order_line(status: Status) -> str:
    """What is being waited for."""
    if status.order is None:
        return printable(status.reason)
    waiting = [f"{s.received:,}/{s.ordered:,} {s.name}" for s in status.sources if s.ordered]
    return printable(f"Order {status.order.round}: {', '.join(waiting)}")
