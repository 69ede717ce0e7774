"""Commands that move a campaign on: create, ask, tell, close, amend, stop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sourcewise.cli.common import (
    DEFAULT_STORE,
    AuthorOption,
    CampaignOption,
    JsonOption,
    SourceArgument,
    StoreOption,
    StudyArgument,
    in_words_of_the_command_line,
    numbers,
    open_campaign,
    pairs,
    read_study,
    shown_store,
)
from sourcewise.cli.output import counted, money, note, price, print_json, show, table
from sourcewise.cli.reading import standing, words
from sourcewise.errors import AllocationError, CampaignError, StudyFileError

if TYPE_CHECKING:
    from sourcewise.campaign.campaign import Campaign
    from sourcewise.records import Order
    from sourcewise.spec.study import Source
    from sourcewise.studyfile.file import StudyFile

OVER = 3
"""Exit code of `ask` when there is nothing left to ask for."""

ReasonOption = Annotated[str, typer.Option(metavar="TEXT", help="Why, for the history.")]


def create(
    path: StudyArgument,
    store: StoreOption = DEFAULT_STORE,
    budget: Annotated[float | None, typer.Option(help="Money to spend, if not what the file says.")] = None,
    name: Annotated[
        str | None, typer.Option(metavar="NAME", help="What to call it, if not what the file says.")
    ] = None,
    keep_rows: Annotated[bool, typer.Option("--keep-rows", help="Keep rows too, not only their statistics.")] = False,
    author: AuthorOption = None,
    json: JsonOption = False,
) -> None:
    """Start a campaign from a study file. Its store is made if there is none.

    Example: sourcewise create study.toml
    """
    from sourcewise.driver.start import create_campaign
    from sourcewise.records import plain

    file = read_study(path)
    with create_campaign(file, store, budget=budget, name=name, keep_rows=keep_rows, author=author) as campaign:
        _mind_the_first_round(file, campaign)
        if json:
            print_json(plain(campaign.status()))
        else:
            show(f"Campaign {campaign.name!r} is in {shown_store(store)}. Next: sourcewise ask")


def _mind_the_first_round(file: StudyFile, campaign: Campaign) -> None:
    """A first round that cannot be estimated from is said at once, though rows that were had before may mend it."""
    from sourcewise.orders import next_order

    budget, rows = campaign.status().money.budget, dict.fromkeys(campaign.study.sources, 0)
    try:
        next_order(campaign.study, file.policy, budget=budget, rows=rows)
    except AllocationError as error:
        note(f"Careful: {error} Amend the budget or the policy, or tell rows that you have, before `sourcewise ask`.")


def ask(
    store: StoreOption = DEFAULT_STORE,
    name: CampaignOption = None,
    author: AuthorOption = None,
    json: JsonOption = False,
) -> None:
    """Say how many rows to get of each source next. The same answer until these rows came, or `close` gave them up.

    Exit code 3: the campaign is over. Example: sourcewise ask --json > order.json
    """
    from sourcewise.records import plain

    with open_campaign(store, name, author) as campaign:
        order = campaign.ask()
        status = campaign.status()
        if json:
            study = _plain_study(campaign)
            print_json({"campaign": campaign.name, "order": plain(order), "state": status.state, "study": study})
        elif order is None:
            show(f"There is nothing to ask for. {standing(status.state, status.reason)}")
        else:
            received = {source.name: source.received for source in status.sources}
            _show_order(order, received)
    if order is None:
        raise typer.Exit(OVER)


def _plain_study(campaign: Campaign) -> dict[str, Any]:
    from sourcewise.spec.plain import study_to_plain

    return study_to_plain(campaign.study)


def _show_order(order: Order, received: dict[str, int]) -> None:
    rows = [
        (name, f"{n:,}", f"{received.get(name, 0):,}", price(order.prices[name]), money(order.prices[name] * n))
        for name, n in order.rows.items()
    ]
    some = next(iter(order.rows))
    show(
        table(f"Order {order.round}", ("Source", "Rows", "Came", "Price", "Money"), rows),
        order.reason,
        f"Hand rows in with: sourcewise tell {some} FILE",
    )


def tell(
    source: SourceArgument,
    path: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Rows (.csv, .csv.gz, .parquet), or .json from `sourcewise summarize`."),
    ],
    store: StoreOption = DEFAULT_STORE,
    name: CampaignOption = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Names this delivery, so that it counts once however often sent.")
    ] = None,
    cost: Annotated[float | None, typer.Option(help="What it cost, if not rows times price.")] = None,
    drop_missing: Annotated[bool, typer.Option("--drop-missing", help="Leave rows with missing values out.")] = False,
    author: AuthorOption = None,
    json: JsonOption = False,
) -> None:
    """Hand in rows of a source. The same rows told twice are counted once.

    Example: sourcewise tell survey batch-1.csv --key batch-1
    """
    from sourcewise.records import plain

    with open_campaign(store, name, author) as campaign:
        with in_words_of_the_command_line():
            batch = campaign.tell(source, path, key, cost=cost, missing="drop" if drop_missing else "error")
        status = campaign.status()
    if json:
        print_json(plain(batch) | {"repeated": batch.repeated})
        return
    if batch.repeated:
        show(f"Known already: {counted(batch.rows)} of {source}, counted before and not counted again.")
        return
    dropped = f" ({batch.dropped:,} with missing values left out)" if batch.dropped else ""
    waiting = {s.name: s.ordered - s.received for s in status.sources if s.ordered > s.received}
    listed = ", ".join(f"{n:,} of {name}" for name, n in waiting.items())
    where = standing(status.state, status.reason)
    show(
        f"Counted {counted(batch.rows)} of {source}{dropped}, for {money(batch.cost)}; {batch.so_far:,} so far.\n"
        + (f"The order still waits for {listed}." if listed else f"No order is open. {where}")
    )


def close(
    store: StoreOption = DEFAULT_STORE,
    name: CampaignOption = None,
    reason: ReasonOption = "",
    author: AuthorOption = None,
    json: JsonOption = False,
) -> None:
    """Wait no longer for the open order; the next one is computed from what came.

    Example: sourcewise close --reason "the survey ended early"
    """
    from sourcewise.records import plain

    with open_campaign(store, name, author) as campaign:
        order = campaign.close_order(reason)
    if json:
        print_json(plain(order))
        return
    show(f"Order {order.round} is closed. Next: sourcewise ask")


def amend(
    store: StoreOption = DEFAULT_STORE,
    name: CampaignOption = None,
    budget: Annotated[float | None, typer.Option(help="All the money there is, what was spent included.")] = None,
    precision: Annotated[
        float | None, typer.Option(help="Width of the interval to stop at; 0 to stop at the budget only.")
    ] = None,
    cost: Annotated[list[str] | None, typer.Option(metavar="SOURCE=PRICE", help="A new price of a row.")] = None,
    capacity: Annotated[list[str] | None, typer.Option(metavar="SOURCE=ROWS", help="Rows that a source has.")] = None,
    retire: Annotated[list[str] | None, typer.Option(metavar="SOURCE", help="Ask it for nothing more.")] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(metavar="SOURCE=COLUMNS", help='A new source, "clinic=z x y"; its price by --cost.'),
    ] = None,
    policy: Annotated[
        str | None, typer.Option(metavar="TABLE", help="A new policy, '{kind = \"etg\", batch = 0.2}'.")
    ] = None,
    reason: ReasonOption = "",
    author: AuthorOption = None,
    json: JsonOption = False,
) -> None:
    """Change the terms from now on: money, prices, policy, sources. Rows that came keep what they cost.

    Example: sourcewise amend --cost survey=2.5 --reason "the agency raised its price"
    """
    from sourcewise.records import plain

    prices = numbers(cost or (), "--cost")
    rooms = _capacities(capacity)
    added = _added(pairs(add or (), "--add"), prices, rooms)
    terms: dict[str, Any] = {"budget": budget, "cost": prices, "capacity": rooms, "add": added}
    terms |= {"retire": retire or (), "reason": reason, "policy": None if policy is None else _policy(policy)}
    if precision is not None:
        terms["target_width"] = precision or None
    with open_campaign(store, name, author) as campaign:
        amendment = campaign.amend(**terms)
    if json:
        print_json(plain(amendment))
        return
    rows = [(term, words(before), words(after)) for term, (before, after) in amendment.changes.items()]
    show(table("Amended", ("Term", "Was", "Is now"), rows, texts=3))


def _added(columns: dict[str, str], prices: dict[str, float], rooms: dict[str, int | None]) -> dict[str, Source]:
    """New sources; what else was said of them is theirs, and no change of a source that there is."""
    from sourcewise.spec.study import Source

    return {name: Source(text, prices.pop(name, 1.0), rooms.pop(name, None)) for name, text in columns.items()}


def _capacities(given: list[str] | None) -> dict[str, int | None]:
    found: dict[str, int | None] = {}
    for name, text in pairs(given or (), "--capacity").items():
        if not text.isdecimal() or len(text) > 18:
            raise typer.BadParameter(f"--capacity gives {name!r} the value {text!r}; it must be a whole number")
        found[name] = int(text)
    return found


def _policy(text: str) -> Any:
    from sourcewise.policies import policy_from_plain
    from sourcewise.studyfile.toml import parse

    try:
        return policy_from_plain(parse(f"policy = {text}")[0]["policy"])
    except StudyFileError as error:
        raise CampaignError(f"the policy {text!r} cannot be read: {error}") from None


def stop(
    store: StoreOption = DEFAULT_STORE,
    name: CampaignOption = None,
    reason: ReasonOption = "",
    author: AuthorOption = None,
    json: JsonOption = False,
) -> None:
    """End a campaign for good. Rows on their way may still be told; nothing more is asked for.

    Example: sourcewise stop --reason "the question was settled"
    """
    from sourcewise.records import plain

    with open_campaign(store, name, author) as campaign:
        campaign.stop(reason)
        status = campaign.status()
    if json:
        print_json(plain(status))
        return
    spent = status.money
    show(f"Campaign {campaign.name!r} is stopped, with {money(spent.spent)} of {money(spent.budget)} spent.")
