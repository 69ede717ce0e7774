"""`sourcewise summarize`: runs at a data owner's, and prints exactly what leaves the building."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sourcewise.cli.common import in_words_of_the_command_line
from sourcewise.cli.output import counted, note
from sourcewise.errors import DataError, SourcewiseError, StudyFileError

FEW = 10
"""Rows a sum; with fewer, sums tell nearly as much as the rows do."""


def summarize(
    study: Annotated[
        Path, typer.Argument(metavar="ORDER", help="The order (`sourcewise ask --json`), or a study file.")
    ],
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="Whose rows these are.")],
    path: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="The rows: a file or folder, or a .toml file that says where they are. Else as the study file says.",
            show_default=False,
        ),
    ] = None,
    rows: Annotated[int | None, typer.Option(help="Only so many, in the order of use.", min=1)] = None,
    after: Annotated[int, typer.Option(help="With --rows: so many were used before.", min=0)] = 0,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave rows with missing values out.")] = False,
    allow_rows: Annotated[
        bool, typer.Option("--allow-rows", help="Print rows themselves where the study cannot do with sums.")
    ] = False,
) -> None:
    """Compute at the owner's what a study needs of rows. What is printed is all that leaves: counts and sums.

    Example: sourcewise summarize order.json registry rows.csv > registry.json
    """
    from sourcewise.statistics.rows import Rows
    from sourcewise.statistics.summarize import summarize as compute

    declared, centres = _read(study)
    with in_words_of_the_command_line(), _table(study, source, path, drop_missing) as table:
        if rows is None:
            found = compute(declared, source, table, centres.get(source), missing=table.sampling.missing)
        else:
            found = _next_rows(table, declared, source, after, rows, centres.get(source))
    if isinstance(found, Rows):
        if not allow_rows:
            raise SourcewiseError(
                f"the moments of source {source!r} cannot be computed from sums, so the rows themselves would leave: "
                f"{found.n:,} values each of {', '.join(found.variables)}. If they may, add --allow-rows"
            )
        note(f"This prints {counted(found.n)} of {', '.join(found.variables)}: the rows themselves.")
    else:
        size = len(found.terms)
        sums = f"{size * (size + 1) // 2} sums over {counted(found.n)} of {source}"
        note(f"This prints a row count, a centre, and {sums}: averages of products of {', '.join(found.centre)}.")
        if found.n < FEW * size:
            note(f"Careful: sums over few rows can give rows away. Here: {counted(found.n)} for {size} terms.")
    sys.stdout.write(found.to_json() + "\n")


def _table(study: Path, source: str, path: Path | None, drop_missing: bool) -> Any:
    """A connector to the rows."""
    from sourcewise.connectors.connect import connect
    from sourcewise.studyfile import toml
    from sourcewise.studyfile.file import StudyFile

    base: Path | None = None
    if path is None:
        file = None if study.suffix.lower() == ".json" else StudyFile.read(study)
        spec = dict(file.data.get(source, {})) if file is not None else {}
        if file is None or spec.get("kind", "world" if not spec else "") == "world":
            raise DataError(f"{str(study)!r} does not say where the rows of source {source!r} are: name a FILE")
        base = file.origin.folder
    elif path.suffix.lower() == ".toml":
        spec, base = toml.parse(toml.read_text(path))[0], path.parent
    else:
        spec = {"path": str(path)}
    return connect({**spec, "missing": "drop"} if drop_missing else spec, base=base)


def _next_rows(table: Any, study: Any, source: str, start: int, rows: int, centre: Any) -> Any:
    """As a campaign would take them."""
    found = table.deliver(study, source, start, rows, centre)
    if found.statistics is None:
        raise DataError(
            f"source {source!r} has no usable rows after the first {start:,}: {table.size():,} are all it has"
        )
    if found.stop - start < rows:
        note(f"The table ran out: these are {counted(found.stop - start)}, not {rows:,}.")
    return found.statistics


def _read(path: Path) -> tuple[Any, dict[str, dict[str, float]]]:
    """The study, and the centre of each source that has one, from an order or a study file."""
    from sourcewise.spec.plain import study_from_plain
    from sourcewise.studyfile.file import StudyFile

    if path.suffix.lower() != ".json":
        return StudyFile.read(path).study, {}
    plain = read_json(path)
    if not isinstance(plain, dict) or "study" not in plain or not isinstance(plain.get("order"), dict | None):
        raise StudyFileError(f"{str(path)!r} is no order: `sourcewise ask --json` prints one")
    order = plain.get("order") or {}
    return study_from_plain(plain["study"]), order.get("centre") or {}


def read_json(path: Path, most: int = 2**26) -> Any:
    """A JSON file that may hold anything: bounded, without NaN, without a key that is given twice."""
    import json

    from sourcewise.statistics.wire import _refuse_constant, _unique

    if path.is_dir():
        raise DataError(f"{str(path)!r} is a directory; name a file in it")
    if not path.exists():
        raise DataError(f"there is no file {str(path)!r}; `sourcewise ask --json` prints an order")
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise DataError(f"{str(path)!r} is larger than {most >> 20} MB")
    try:
        return json.loads(content, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except RecursionError:
        raise DataError(f"{str(path)!r} is not JSON that can be read: it is nested too deeply") from None
    except ValueError as error:
        raise DataError(f"{str(path)!r} is not JSON: {error}") from None
