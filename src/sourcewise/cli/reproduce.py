"""`sourcewise reproduce`: the paper's experiments."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from sourcewise.experiments.base import Findings

Choice = Literal["iv", "two-ivs", "confounder-mediator", "ihdp", "draft-lottery", "all"]


def reproduce(
    experiment: Annotated[Choice, typer.Argument(help="Which figure of the paper.")],
    runs: Annotated[int, typer.Option(help="Replications of every policy at every budget.", min=2)] = 12_000,
    seed: Annotated[int, typer.Option(help="The same seed gives the same numbers.", min=0)] = 1,
    workers: Annotated[int, typer.Option(help="Processes on this machine.", min=1)] = 1,
    dask: Annotated[str | None, typer.Option(help="Address of a Dask scheduler that does the work.")] = None,
    out: Annotated[Path, typer.Option(help="Where data, figures and report go.")] = Path("reproduced"),
    as_published: Annotated[
        bool, typer.Option("--as-published", help="The draft lottery with the variance of the published code.")
    ] = False,
) -> None:
    """Repeat the paper's experiments, and say which of its claims hold.

    Every experiment has a folder of its own below the output folder, which keeps finished runs: after Ctrl-C the same
    command goes on where it stopped.

    Example: sourcewise reproduce iv --runs 2000 --workers 2
    """
    from sourcewise.experiments import EXPERIMENTS, carry_out, write_findings
    from sourcewise.experiments.reproduce import Means
    from sourcewise.experiments.studies import draft_lottery
    from sourcewise.simulation.runner import SimulationInterrupted

    names = list(EXPERIMENTS) if experiment == "all" else [experiment]
    executor = None if dask is None else _dask(dask)
    for name in names:
        chosen = draft_lottery(as_published) if name == "draft-lottery" else EXPERIMENTS[name]()
        folder = out / (f"{name}-as-published" if as_published and name == "draft-lottery" else name)
        means = Means(runs, seed, workers, executor, folder / "runs")
        how = f"sourcewise reproduce {name} --runs {runs} --seed {seed}" + (" --as-published" if as_published else "")
        try:
            with Bar(name) as bar:
                found = carry_out(chosen, means, bar)
        except SimulationInterrupted as stop:
            typer.echo(f"sourcewise: {stop}".replace("the same call", "the same command"), err=True)
            raise typer.Exit(130) from None
        page = write_findings(found, folder, how)
        _show(found)
        typer.echo(f"\nReport: {page}\n")


class Bar:
    """Progress on standard error, with the time that is left."""

    def __init__(self, name: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=console, disable=not console.is_terminal)
        self._name = name
        self._tasks: dict[str, int] = {}

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def __call__(self, what: str, done: int, total: int) -> None:
        from rich.progress import TaskID

        if what not in self._tasks:
            self._tasks[what] = self._progress.add_task(f"{self._name}: {what}", total=total)
        self._progress.update(TaskID(self._tasks[what]), completed=done)


def _dask(address: str) -> Executor:
    from sourcewise.errors import SimulationError

    try:
        from dask.distributed import Client
    except ImportError:
        raise SimulationError("--dask needs the package distributed: pip install 'sourcewise[dask]'") from None
    try:
        pool: Executor = Client(address, timeout="10s").get_executor()  # type: ignore[no-untyped-call]
    except (OSError, ValueError) as error:
        raise SimulationError(f"no Dask scheduler answers at {address!r}: {error}") from None
    return pool


def _show(found: Findings) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    table = Table(title=f"{found.experiment.title} (figure {found.experiment.figure})", box=None, title_justify="left")
    table.add_column("regret %, at budget", justify="left")
    budgets = found.main.budgets
    for budget in budgets:
        table.add_column(f"{budget:g}", justify="right")
    for policy in found.main.outcomes:
        cells = (found.main.cell(policy, budget) for budget in budgets)
        table.add_row(policy, *(f"{cell.regret:.1f}" for cell in cells))
    console.print(table)
    for verdict in found.verdicts:
        console.print()
        console.print(Text(f"{verdict.word.upper()}: {verdict.text}"))
        console.print(Text(f"  {verdict.evidence}"))
