"""`sourcewise example`: the bundled campaign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sourcewise.cli.output import show


def example(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Where its files go.")] = Path(
        "sourcewise-example"
    ),
) -> None:
    """Run the bundled campaign: three sources of different costs, a budget, a report. Run again, it shows the end.

    Example: sourcewise example
    """
    from sourcewise.cli.live import watching
    from sourcewise.cli.running import ending
    from sourcewise.example import run
    from sourcewise.reporting.campaign import write_campaign

    with watching() as watch:
        record = run(directory, watch)
    report = directory / "report.html"
    write_campaign(record, report)
    show(*ending(record, report), f"Look around: sourcewise status --store {directory / 'sourcewise.db'}")
