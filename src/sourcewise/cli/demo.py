"""`sourcewise example`: the bundled campaign."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sourcewise.cli.common import JsonOption
from sourcewise.cli.output import print_json, show


def example(
    directory: Annotated[Path, typer.Argument(metavar="DIRECTORY", help="Where its files go.")] = Path(
        "sourcewise-example"
    ),
    json: JsonOption = False,
) -> None:
    """Run the bundled campaign: three sources of different costs, a budget, a report. Run again, it shows the end.

    Example: sourcewise example
    """
    from sourcewise.cli.live import watching
    from sourcewise.cli.running import ending, resumable
    from sourcewise.example import run
    from sourcewise.records import plain
    from sourcewise.reporting.campaign import write_campaign

    with resumable(), watching(quiet=json) as watch:
        record = run(directory, watch)
    report = directory / "report.html"
    write_campaign(record, report)
    if json:
        print_json(plain(record))
        return
    show(*ending(record, report), f"Look around: sourcewise status --store {directory / 'sourcewise.db'}")
