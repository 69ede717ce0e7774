"""`sourcewise plan`: what a budget buys, before any of it is spent."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sourcewise.cli.common import JsonOption, StudyArgument, pairs, read_study
from sourcewise.cli.output import money, number, percent, price, print_json, show, table
from sourcewise.errors import AllocationError

if TYPE_CHECKING:
    from sourcewise.planning.plan import Plan
    from sourcewise.studyfile.file import StudyFile

STEPS = (0.25, 0.5, 1.0, 1.5, 2.0)


def plan(
    path: StudyArgument,
    budget: Annotated[float | None, typer.Option(help="Money to spend, if not what the file says.")] = None,
    stderr: Annotated[float | None, typer.Option(help="A standard error to reach: prints what it costs.")] = None,
    pilot: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE=FILE", help="Rows of a pilot, once a source; else the file's world is assumed."),
    ] = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw precision against budget: .svg, .png, .pdf or .html.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Say what a budget buys before it is spent: the best mix, its precision, and what each source is worth.

    Example: sourcewise plan study.toml --stderr 0.05
    """
    from sourcewise.planning.plan import plan as make_plan

    file = read_study(path)
    with file.origin.placing_errors():
        assumed = _assumed(file, pairs(pilot or (), "--pilot"))
    money_to_spend = budget if budget is not None else (file.budget if stderr is None else None)
    found = make_plan(file.study, assumed, budget=money_to_spend, stderr=stderr)
    if figure is not None:
        from sourcewise.plots.save import save

        save(found.figure(), figure)
    if json:
        print_json(found.to_dict() | {"curve": _curve(found)})
        return
    _show(file, found, bool(pilot))


def _assumed(file: StudyFile, pilot: dict[str, str]) -> Any:
    if pilot:
        return {name: Path(path) for name, path in pilot.items()}
    if file.world is None:
        raise AllocationError(
            "a plan needs something to go by: rows of a pilot (--pilot SOURCE=FILE for each source), or a [world] in "
            "the study file that says what you assume"
        )
    from sourcewise.simulation.declared import world_from_plain

    return world_from_plain(file.world, file.study).world


def _curve(found: Plan) -> dict[str, list[Any]]:
    columns = found.curve()
    return {**columns, "stderr": [x if math.isfinite(x) else None for x in columns["stderr"]]}


def _show(file: StudyFile, found: Plan, from_pilot: bool) -> None:
    target = found.fit.target
    basis = "the pilot" if from_pilot else "the world in the file"
    head = f"Plan of {file.name or file.origin.name}: target {target.name}, {number(target.value)} by {basis}"
    if found.target_stderr is not None:
        head += (
            f"\nA standard error of {number(found.target_stderr)} costs {money(found.budget_for(found.target_stderr))}"
        )
    rows = found.rows()
    sources = [
        (
            *(p.source, price(p.price), f"{rows[p.source]:,}", percent(p.share), number(p.worth, 3)),
            *(number(p.without), number(p.alone), percent(p.extra) if math.isfinite(p.extra) else "needed"),
        )
        for p in found.parts
    ]
    header = ("Source", "Price", "Rows", "Money", "Worth", "s.e. without", "s.e. alone", "Saves")
    best = found.stderr()
    ways = []
    for way in found.ways:
        needed = found.budget_for(best, way)
        ways.append((way, number(found.stderr(way=way)), money(needed), percent(needed / found.budget - 1)))
    steps = [
        (money(found.budget * step), *(number(found.stderr(found.budget * step, way)) for way in found.ways))
        for step in STEPS
    ]
    show(
        head,
        table(f"Best mix of a budget of {money(found.budget)}: s.e. {number(best)}", header, sources),
        table("Other ways to spend it", ("Way", "s.e.", "Money for the best s.e.", "More"), ways),
        table("Standard error against budget", ("Budget", *found.ways), steps),
        "Worth: what one more unit of money buys there, where 1 is what it buys in the best mix. Saves: the money that "
        "the other sources need on top for the same precision. A campaign has to find the mix first and ends a little "
        "above these standard errors.",
    )
