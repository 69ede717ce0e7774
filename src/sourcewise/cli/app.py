"""The root of the command line, and how it ends."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from sourcewise._version import __version__
from sourcewise.cli.reproduce import reproduce
from sourcewise.errors import SourcewiseError

app = typer.Typer(
    no_args_is_help=True,
    # A failure that is our fault should read like any Python traceback, so that it can be reported.
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


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
    """Estimate a target parameter from several data sources at once."""


@app.command()
def example() -> None:
    """Fit the bundled two-source study, and say where the next money is best spent.

    A registry recorded z and x, a survey of other people recorded z and y. The target is the effect of x
    on y. Example: sourcewise example
    """
    # Imported here so that --version and --help do not wait for the estimator.
    from sourcewise.example import next_money, run

    found = run()
    typer.echo(found.summary())
    typer.echo(next_money(found))


app.command()(reproduce)


def main() -> None:
    """Run the command line: a user's mistake becomes one paragraph on stderr, and never a traceback."""
    try:
        app()
    except SourcewiseError as error:
        typer.echo(f"sourcewise: {error}", err=True)
        sys.exit(2)
