"""`sourcewise replay`: policies on rows that were already collected."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sourcewise.cli.common import JsonOption, StudyArgument, in_words_of_the_command_line, pairs, read_study, write_text
from sourcewise.cli.output import money, note, number, percent, print_json, show, table

if TYPE_CHECKING:
    from sourcewise.replay import Replay


def replay(
    path: StudyArgument,
    history: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE=FILE", help="Rows that were collected, once a source; else the study's data."),
    ] = None,
    budget: Annotated[
        list[float] | None, typer.Option(help="Money to spend, if not what the file says; may be repeated.")
    ] = None,
    runs: Annotated[int, typer.Option(help="Replications, each with the rows in another order.", min=2)] = 1000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.", min=0)] = 0,
    workers: Annotated[int, typer.Option(help="Processes on this machine.", min=1)] = 1,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave rows with missing values out.")] = False,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the errors: .svg, .png, .pdf or .html.")
    ] = None,
    csv: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the table there as well.")] = None,
    json: JsonOption = False,
) -> None:
    """Replay the study on rows already collected: what would each policy have cost and earned?

    Example: sourcewise replay study.toml --history survey=survey.csv --history registry=registry.parquet
    """
    from sourcewise.cli.reproduce import Bar
    from sourcewise.plots.save import check_place
    from sourcewise.replay import replay as make_replay
    from sourcewise.simulation.runner import SimulationInterrupted

    if figure is not None:
        check_place(figure)
    file = read_study(path)
    tables = {name: Path(place) for name, place in pairs(history or (), "--history").items()}
    with file.origin.placing_errors(), in_words_of_the_command_line(), Bar("replay") as bar:
        try:
            found = make_replay(
                *(file, tables, None, budget or None),
                runs=runs,
                seed=seed,
                missing="drop" if drop_missing else "error",
                workers=workers,
                progress=lambda done, total: bar("runs", done, total),
            )
        except SimulationInterrupted as stop:
            note(str(stop).partition(";")[0].capitalize() + ".")
            raise typer.Exit(130) from None
    if figure is not None:
        from sourcewise.plots.save import save

        save(found.figure(), figure)
    if csv is not None:
        write_text(csv, found.to_csv())
    if json:
        print_json(found.to_dict())
        return
    _show(found)


def _show(found: Replay) -> None:
    target, kept = found.fit.target, found.simulation
    rows = ", ".join(f"{count:,} of {name}" for name, count in found.history.items())
    head = f"Replay of {kept.runs:,} runs on {rows}\n{target.name} = {number(target.value)} by all of them"
    first = found.played[0].policy
    parts: list[object] = [head]
    for budget in kept.budgets:
        lines = [
            (
                *(each.policy, money(each.spent), number(each.error, 3), number(each.stderr, 3)),
                *(percent(each.coverage), "" if each.policy == first else _more(each.more, each.more_se)),
                " · ".join(f"{count:,.0f}" for count in each.rows.values()),
            )
            for each in found.played
            if each.budget == budget
        ]
        names = " · ".join(found.history)
        header = ("Policy", "Spent", "Error", "s.e.", "Covered", "More money", names)
        parts.append(table(f"Budget {money(budget)}", header, lines))
    more = f"More money: for the error of {first}, with the standard error of that figure."
    show(*parts, more, *found.notes)


def _more(share: float, error: float) -> str:
    return f"{share:+.1%} ({error:.1%})"
