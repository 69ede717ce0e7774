"""`sourcewise run`: a whole campaign whose sources answer by themselves, with a live view."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sourcewise.cli.common import DEFAULT_STORE, JsonOption, StoreOption, StudyArgument, read_study
from sourcewise.cli.output import note, print_json, show
from sourcewise.cli.reading import look_lines, standing, words

if TYPE_CHECKING:
    from sourcewise.records import CampaignRecord
    from sourcewise.studyfile.file import StudyFile


def run(
    path: StudyArgument,
    store: StoreOption = DEFAULT_STORE,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What to call it, if not what the file says.")
    ] = None,
    report: Annotated[Path, typer.Option(metavar="FILE", help="Where the report goes: .html, .md or .json.")] = Path(
        "report.html"
    ),
    no_report: Annotated[bool, typer.Option("--no-report", help="Write none.")] = False,
    rounds: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Stop after so many rounds; run again to go on.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Run a campaign whose sources have data attached, to its end, and write its report. Interrupted, run it again.

    Example: sourcewise run study.toml --report campaign.html
    """
    from sourcewise.cli.live import watching
    from sourcewise.driver.run import run as drive
    from sourcewise.reporting.campaign import write_campaign
    from sourcewise.reporting.write import check_place

    if not no_report:
        check_place(report)
    file = read_study(path)
    with resumable(), file.origin.placing_errors(), watching(quiet=json) as watch:
        record = drive(file, store, name=name, rounds=rounds, watch=watch)
    for sentence in kept_terms(file, record):
        note(sentence)
    if not no_report:
        write_campaign(record, report)
    if json:
        from sourcewise.records import plain

        print_json(plain(record))
        return
    show(*ending(record, None if no_report else report))


def kept_terms(file: StudyFile, record: CampaignRecord) -> list[str]:
    """What the file says now and the campaign, created or amended otherwise, does not follow."""
    from sourcewise.policies import policy_to_plain

    there = {source.name: source.price for source in record.sources}
    terms = {
        "budget": (file.budget, record.money.budget),
        "precision": (file.precision, record.target_width),
        "level": (file.level, record.level),
        "policy": (policy_to_plain(file.policy), dict(record.policy)),
    } | {f"price of {name}": (source.cost, there[name]) for name, source in file.study.sources.items()}
    return [
        f"The campaign keeps its {term}, {words(kept)}; the file says {words(said)}. `sourcewise amend` changes it."
        for term, (said, kept) in terms.items()
        if said != kept
    ]


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
