"""`sourcewise run`: a whole campaign whose sources answer by themselves, with a live view."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sourcewise.cli.common import DEFAULT_STORE, JsonOption, StoreOption, StudyArgument, read_study
from sourcewise.cli.output import note, print_json, show
from sourcewise.cli.reading import look_lines, standing

if TYPE_CHECKING:
    from sourcewise.records import CampaignRecord


def run(
    path: StudyArgument,
    store: StoreOption = DEFAULT_STORE,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What to call it, if not what the file says.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the report here: .html, .md, .json.")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Stop after so many rounds; run again to go on.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run a campaign whose sources have data attached, to its end. Interrupted, the same command goes on.

    Example: sourcewise run study.toml --report report.html
    """
    from sourcewise.cli.live import watching
    from sourcewise.driver.run import run as drive
    from sourcewise.reporting.campaign import write_campaign
    from sourcewise.reporting.write import check_place

    if report is not None:
        check_place(report)
    file = read_study(path)
    with resumable(), file.origin.placing_errors(), watching(quiet=json) as watch:
        record = drive(file, store, name=name, rounds=rounds, watch=watch)
    if report is not None:
        write_campaign(record, report)
    if json:
        from sourcewise.records import plain

        print_json(plain(record))
        return
    show(*ending(record, report))


@contextmanager
def resumable() -> Iterator[None]:
    """Ctrl-C says what became of the campaign, once nothing redraws the terminal any more."""
    try:
        yield
    except KeyboardInterrupt:
        note("Interrupted. What was counted is kept: the same command goes on from here.")
        raise


def ending(record: CampaignRecord, report: Path | None) -> list[str]:
    """What a finished run says."""
    lines = [f"Campaign {record.name}. {standing(record.state, record.reason)}"]
    if record.current is not None:
        lines.append(look_lines(record.current, record.target))
    return [*lines, *record.advice, *([f"Report: {report}"] if report else [])]
