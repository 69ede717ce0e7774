"""Commands about a study file: write one to start from, and check one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sourcewise.cli.common import JsonOption, read_study, write_text
from sourcewise.cli.output import money, price, print_json, show, table, wrote
from sourcewise.errors import AllocationError, SourcewiseError, StudyFileError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sourcewise.studyfile.file import StudyFile

SHOWN, FEW = 40, 6
"""Moments and parameters, and sources of a moment, that are written out."""


def _complete_recipes(incomplete: str) -> list[tuple[str, str]]:
    from sourcewise.studyfile.recipes import RECIPES

    return [(name, what) for name, what in RECIPES.items() if name.startswith(incomplete)]


def new(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="What to start from.", autocompletion=_complete_recipes)
    ] = None,
    path: Annotated[Path, typer.Argument(metavar="FILE", help="The file to write.")] = Path("study.toml"),
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    json: JsonOption = False,
) -> None:
    """Write a commented study file to start from. Without a recipe: list them.

    Example: sourcewise new two-sample-iv study.toml
    """
    from sourcewise.studyfile.recipes import RECIPES
    from sourcewise.studyfile.recipes import recipe as text_of

    if recipe is None and json:
        print_json(RECIPES)
        return
    if recipe is None:
        show(table("Recipes", ("Recipe", "What it is for"), RECIPES.items(), texts=2))
        return
    text = text_of(recipe)
    if path.is_dir():
        raise StudyFileError(f"{str(path)!r} is a directory; name the file to write in it")
    if path.exists() and not force:
        raise StudyFileError(f"{str(path)!r} is there already; name another file, or replace it with --force")
    write_text(path, text)
    wrote(path, json, f". Edit it, then: sourcewise check {path}")


def check(
    path: Annotated[Path | None, typer.Argument(metavar="STUDY", help="A study file, such as study.toml.")] = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the study's graph and who sees what: .svg, .png, .pdf or .html."),
    ] = None,
    json: JsonOption = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of study files instead.")] = False,
) -> None:
    """Check a study file: what each source can compute, whether the target is identified, what would be asked first.

    Example: sourcewise check study.toml --figure graph.svg
    """
    if schema:
        from sourcewise.studyfile.schema import schema as of_study_files

        print_json(of_study_files())
        return
    if path is None:
        raise typer.BadParameter("name a study file, such as study.toml", param_hint="'STUDY'")
    file = read_study(path)
    with file.origin.placing_errors():
        found = _findings(file)
    if figure is not None:
        from sourcewise.plots import causal_graph, save

        save(causal_graph(file.study), figure)
    if json:
        print_json(found)
    else:
        _show(file, found)
    if not found["identification"]["identified"]:
        with file.origin.placing_errors():
            raise AllocationError(found["identification"]["text"])


def _findings(file: StudyFile) -> dict[str, Any]:
    from sourcewise.driver.sources import check_data
    from sourcewise.identification.identify import identify

    check_data(file)
    study = file.study
    computes = {name: study.moments_of(name) for name in study.sources}
    by = {j: [name for name, places in computes.items() if j in places] for j in range(len(study.moments))}
    identification = identify(study)
    return {
        "name": file.name,
        "target": study.target,
        "graph": None if study.model is None else study.model.text,
        "parameters": list(study.parameters),
        "sources": {
            name: {
                "observes": list(source.observes),
                "cost": source.cost,
                "capacity": source.capacity,
                "moments": len(computes[name]),
                "data": file.data.get(name, {}).get("kind"),
            }
            for name, source in study.sources.items()
        },
        "moments": [{"moment": m.label, "sources": by[j]} for j, m in enumerate(study.moments)],
        "identified_by": [list(names) for names in identification.by],
        "identification": {**identification.to_dict(), "text": str(identification)},
        "budget": file.budget,
        "precision": file.precision,
        "level": file.level,
        "first_order": _first_order(file) if identification.identified else None,
    }


def _first_order(file: StudyFile) -> dict[str, Any] | None:
    from sourcewise.orders import next_order

    if file.budget is None:
        return None
    order = next_order(file.study, file.policy, budget=file.budget, rows=dict.fromkeys(file.study.sources, 0))
    if order is None:
        raise SourcewiseError(f"the budget of {file.budget:g} buys no row: raise it")
    return {"rows": dict(order.rows), "cost": order.cost}


def _show(file: StudyFile, found: dict[str, Any]) -> None:
    sources = [
        (name, " ".join(s["observes"]), s["data"] or "by hand", money(s["capacity"]), price(s["cost"]), s["moments"])
        for name, s in found["sources"].items()
    ]
    header = ("Source", "Observes", "Rows come from", "Rows there are", "Price", "Moments")
    moments = [(m["moment"], _listed(m["sources"], FEW)) for m in found["moments"]]
    lines = [f"{len(moments) - SHOWN} more moments; --json lists all of them."] if len(moments) > SHOWN else []
    lines += [f"Target: {found['target']}    Parameters: {_listed(found['parameters'], SHOWN)}"]
    identified = found["identification"]["identified"]
    lines += [found["identification"]["text"]] if identified else []
    if found["first_order"] is not None:
        rows = ", ".join(f"{n:,} of {name}" for name, n in found["first_order"]["rows"].items() if n)
        lines.append(
            f"Budget: {money(found['budget'])}. First order: {rows}, for {money(found['first_order']['cost'])}"
        )
    elif identified:
        lines.append("No budget is given; `sourcewise plan` says what a precision costs.")
    show(
        table(f"Study {found['name'] or file.origin.name}", header, sources, texts=3),
        table("Moments", ("Zero on average", "Computed by"), moments[:SHOWN], texts=2),
        "\n".join(lines),
    )


def _listed(names: Sequence[str], most: int) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
