"""Options that several commands share, and how they find their campaign."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sourcewise.errors import DataError, SourcewiseError, without_secrets

if TYPE_CHECKING:
    from sourcewise.campaign.campaign import Campaign
    from sourcewise.studyfile.file import StudyFile

DEFAULT_STORE = "sourcewise.db"


def _complete_sources(incomplete: str) -> list[str]:
    """Names of sources of the campaign in the default store; nothing if there is none."""
    try:
        with open_campaign(os.environ.get("SOURCEWISE_STORE", DEFAULT_STORE), None) as campaign:
            return [name for name in campaign.study.sources if name.startswith(incomplete)]
    except (SourcewiseError, OSError):
        return []


StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="STORE",
        envvar="SOURCEWISE_STORE",
        help="Where campaigns are kept: a file, or postgresql://….",
    ),
]
CampaignOption = Annotated[
    str | None,
    typer.Option("--campaign", "-c", metavar="NAME", help="Which one, if the store has several."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
AuthorOption = Annotated[
    str | None,
    typer.Option("--author", metavar="NAME", help="Who is recorded beside this; by default your user name."),
]
StudyArgument = Annotated[Path, typer.Argument(metavar="STUDY", help="A study file, such as study.toml.")]
SourceArgument = Annotated[
    str,
    typer.Argument(metavar="SOURCE", help="Name of a source of the study.", autocompletion=_complete_sources),
]


def open_campaign(store: str, name: str | None, author: str | None = None) -> Campaign:
    from sourcewise.campaign.campaign import Campaign

    return Campaign.open(store, name, author=author)


def shown_store(store: str) -> str:
    """As it was given, but for a password: what is printed ends up in logs."""
    if "://" not in store:
        return store
    from sourcewise.storage.engine import url_of

    hidden = url_of(store).render_as_string(hide_password=True)
    return without_secrets(hidden.replace("postgresql+psycopg://", "postgresql://", 1))  # …?password=…


@contextmanager
def in_words_of_the_command_line() -> Iterator[None]:
    """Advice that names an argument of a Python call names the option instead."""
    try:
        yield
    except DataError as error:
        raise DataError(str(error).replace('missing="drop"', "--drop-missing")) from None


def read_study(path: Path) -> StudyFile:
    from sourcewise.studyfile.file import StudyFile

    return StudyFile.read(path)


def pairs(given: Iterable[str], option: str) -> dict[str, str]:
    """Options of the form NAME=VALUE as a dict."""
    found: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not name or not value:
            raise typer.BadParameter(f"write {option} SOURCE=VALUE, not {option} {text!r}")
        if name in found:
            raise typer.BadParameter(f"{option} names {name!r} twice")
        found[name] = value
    return found


def numbers(given: Iterable[str], option: str) -> dict[str, float]:
    found = {}
    for name, value in pairs(given, option).items():
        try:
            found[name] = float(value)
        except ValueError:
            raise typer.BadParameter(f"{option} gives {name!r} the value {value!r}, which is no number") from None
    return found


def write_text(path: Path, text: str) -> None:
    """Write a file whole or not at all, so that an interrupted command leaves no half of one."""
    waiting = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        waiting.write_text(text, encoding="utf-8", newline="\n")
        waiting.replace(path)
    except OSError as error:
        waiting.unlink(missing_ok=True)
        raise SourcewiseError(f"{str(path)!r} cannot be written: {error.strerror or error}") from None
