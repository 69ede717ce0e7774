"""How commands print: tables that fit 80 columns, JSON, notes on stderr. The only place that knows Rich's consoles."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

WIDTH = 80
WIDEST = 110
LEAST_TEXT = 12
"""Letters of a text that stay together in a narrow table."""
NOTHING = "–"
LONGEST = 1e15
"""An amount of money that is written out."""


def console(*, stderr: bool = False) -> Console:
    """Text is printed as it is: a source called "[red]" is no markup. Piped output is 80 columns without colour."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    found = Console(file=stream, stderr=stderr, highlight=False, markup=False, emoji=False)
    found.width = min(found.width, WIDEST) if found.is_terminal else WIDTH
    return found


def print_json(plain: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(plain, ensure_ascii=False, allow_nan=False, indent=2) + "\n")


def wrote(path: object, json: bool, then: str = "") -> None:
    """Say which file a command wrote."""
    if json:
        print_json({"wrote": str(path)})
    else:
        show(f"Wrote {path}{then}")


def note(text: str) -> None:
    """A sentence for the reader that is no part of the result: on stderr."""
    out = console(stderr=True)
    out.print(wrapped(printable(text), out.width), style="dim", soft_wrap=True)


def table(title: str, header: Sequence[str], rows: Iterable[Sequence[object]], texts: int = 1) -> Table:
    """The first `texts` columns are texts to the left, the others numbers to the right, which are never broken."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    heading = Text(title, style="bold", no_wrap=True) if title else None
    look: dict[str, Any] = {"box": box.SIMPLE_HEAD, "show_edge": False, "pad_edge": False}
    found = Table(title=heading, title_justify="left", min_width=min(len(title), WIDTH) or None, **look)
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    for k, name in enumerate(header):
        longest = max(len(part) for part in (*name.split(), *(row[k] for row in cells), ""))
        least = min(longest, LEAST_TEXT) if k < texts else longest
        found.add_column(Text(name), justify="left" if k < texts else "right", overflow="fold", min_width=least)
    for row in cells:
        found.add_row(*map(Text, row))
    return found


def show(*parts: object) -> None:
    """Tables and texts on stdout, a blank line between them."""
    from rich.measure import Measurement

    out = console()
    for k, part in enumerate(parts):
        if k:
            out.print()
        if isinstance(part, str):
            out.print(wrapped(printable(part), out.width), soft_wrap=True)
        else:  # a table that cannot be narrower is wider than the terminal, rather than cut
            least = Measurement.get(out, out.options, part).minimum  # type: ignore[arg-type]
            out.print(part, width=max(out.width, least), crop=False)


def wrapped(text: str, width: int) -> str:
    """Broken between words only, and not where a line ends in a command: paths and commands are there to be copied."""
    from textwrap import fill

    lines = (
        line if ": sourcewise " in line else fill(line, width, break_long_words=False, break_on_hyphens=False)
        for line in text.split("\n")
    )
    return "\n".join(lines)


def printable(text: str) -> str:
    """A user's text without what could steer a terminal; line breaks stay, tabs become spaces."""
    text = text.expandtabs(4)
    return "".join(c if c.isprintable() or c == "\n" else "\N{REPLACEMENT CHARACTER}" for c in text)


def number(value: float | None, digits: int = 4) -> str:
    """Significant digits; a dash where there is no number."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value != 0 and not 1e-4 <= abs(value) < 1e6:
        return f"{value:.{digits - 1}e}"
    size = round(abs(value), digits)
    whole = math.floor(math.log10(size)) + 1 if size >= 1 else 0
    return f"{value:,.{max(digits - whole, 0)}f}"


def money(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return NOTHING
    if abs(value) >= LONGEST:
        return f"{value:.4g}"
    whole = abs(value) >= 1000 or abs(value - round(value)) < 0.005
    return f"{value:,.0f}" if whole else f"{value:,.2f}"


def price(value: float | None) -> str:
    """Of one row, as it was written."""
    return NOTHING if value is None else f"{value:,.6g}"


def counted(rows: int) -> str:
    return f"{rows:,} row" if rows == 1 else f"{rows:,} rows"


def probability(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return NOTHING
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def percent(value: float | None) -> str:
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{value if abs(value) >= 0.0005 else 0.0:.1%}"  # never "-0.0%"


def interval(ends: Sequence[float | None]) -> str:
    low, high = ends
    left = "-∞" if low is None or low == -math.inf else number(low)
    right = "∞" if high is None or high == math.inf else number(high)
    return f"[{left}, {right}]"


def mix(shares: dict[str, float] | Any) -> str:
    """registry 37 % · survey 63 %, the largest first."""
    named = sorted(dict(shares).items(), key=lambda item: -item[1])
    return " · ".join(f"{name} {share:.0%}" for name, share in named if share >= 0.005) or NOTHING
