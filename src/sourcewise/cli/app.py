"""The root of the command line: which commands there are, and how it ends."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Annotated

import typer

from sourcewise._version import __version__
from sourcewise.cli import campaigns, demo, moving, owner, planning, reading, replay, reproduce, running, studies
from sourcewise.errors import SourcewiseError

app = typer.Typer(
    no_args_is_help=True,
    # A failure that is our fault should read like any Python traceback, so that it can be reported.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

PANELS = {
    "A study": (studies.new, studies.check, planning.plan, replay.replay),
    "A campaign by hand": (
        *(campaigns.create, campaigns.ask, campaigns.tell, campaigns.close),
        *(campaigns.amend, campaigns.stop, owner.summarize),
    ),
    "A campaign by itself": (running.run, demo.example),
    "What came of it": (
        *(reading.status, reading.estimate, reading.report, reading.history),
        *(moving.export, moving.import_),
    ),
    "Research": (reproduce.reproduce,),
}
for panel, commands in PANELS.items():
    for command in commands:
        app.command(command.__name__.rstrip("_"), rich_help_panel=panel)(command)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"sourcewise {__version__}")
        raise typer.Exit


@app.callback()
def sourcewise(
    version: Annotated[
        bool,
        typer.Option("--version", help="Print the version and leave.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Decide which data source to ask next, so that an estimate becomes as precise as the budget allows.

    Start with: sourcewise new iv study.toml
    """


def main() -> None:
    """Run the command line: a user's mistake becomes one paragraph on stderr, and never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):
            stream.reconfigure(errors="replace")  # type: ignore[union-attr]  # a terminal that cannot show "–" gets "?"
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except SourcewiseError as error:
        _end(f"sourcewise: {error}", 2)
    except KeyboardInterrupt:
        _end("", 130)
    except BrokenPipeError:  # whoever read our output has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        place = f": {error.filename}" if error.filename else ""
        _end(f"sourcewise: {error.strerror or error}{place}", 2)


def _end(message: str, code: int) -> None:
    from sourcewise.cli.output import printable

    if message:
        typer.echo(printable(message), err=True)
    sys.exit(code)
