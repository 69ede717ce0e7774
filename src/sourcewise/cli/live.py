"""The live view of a running campaign: redrawn on a terminal, a line a round where output is piped."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sourcewise.cli.output import NOTHING, WIDTH, console, interval, mix, money, number, printable, table

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

    from sourcewise.records import Look, Status

SHOWN = 12
"""Rounds in view."""
BAR = 28
HEADER = ("Round", "Spent", "Estimate")
WIDTHS = (5, 9, 9, 18)

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
        status = self.status
        rows = [cells(status, look) for look in list(self.looks.values())[-SHOWN:]]
        head = Text(printable(f"{status.name}: target {status.target}, round {status.round}"), style="bold")
        title = "Estimates, and the share of all rows that each source gave" if rows and _fits(status) else ""
        rounds = table(title, header(status), rows, texts=0)
        return Group(head, Text(bar(status)), Text(""), rounds, Text(order_line(status)))


@dataclass(slots=True)
class _Lines:
    """A line when a round has been estimated from."""

    out: Console
    last: int = -1

    def __call__(self, status: Status) -> None:
        if self.last < 0:
            self.last = 0
            budget = money(status.money.budget)
            self._print(f"{status.name}: target {status.target}, budget {budget}; rows in % by source")
            self._print(_line(header(status), status))
        if status.look is not None and status.look.round > self.last:
            self.last = status.look.round
            self._print(_line(cells(status, status.look), status))

    def _print(self, line: str) -> None:
        self.out.print(printable(line), overflow="ellipsis", no_wrap=True)


def _line(columns: Sequence[str], status: Status) -> str:
    widths = (*WIDTHS, *(max(4, len(source.name)) for source in status.sources))
    return "  ".join(text.rjust(width) for text, width in zip(columns, widths, strict=False))


def _fits(status: Status) -> bool:
    return sum(WIDTHS) + 2 * len(WIDTHS) + sum(max(4, len(s.name)) + 2 for s in status.sources) <= WIDTH


def header(status: Status) -> tuple[str, ...]:
    """The sources have a column each where there is room for them."""
    level = f"{100 * status.level:g} % at any time"
    sources = tuple(source.name for source in status.sources) if _fits(status) else ("Mix of rows",)
    return (*HEADER, level, *sources)


def cells(status: Status, look: Look) -> tuple[str, ...]:
    """A round in one line of a table."""
    known = (str(look.round), money(look.spent), number(look.value))
    between = interval(look.anytime) if look.stderr is not None else NOTHING
    mixed = [f"{look.mix.get(s.name, 0.0):.0%}" for s in status.sources] if _fits(status) else [mix(look.mix)]
    return (*known, between, *mixed)


def bar(status: Status) -> str:
    """Money as a bar and in words."""
    cash = status.money
    share = min(1.0, cash.spent / cash.budget)
    filled = round(BAR * share)
    return f"{'━' * filled}{'╌' * (BAR - filled)}  {money(cash.spent)} of {money(cash.budget)} ({share:.0%})"


def order_line(status: Status) -> str:
    """What is being waited for."""
    if status.order is None:
        return ""
    waiting = [f"{s.received:,}/{s.ordered:,} {s.name}" for s in status.sources if s.ordered]
    return printable(f"Order {status.order.round}: {', '.join(waiting)}")
