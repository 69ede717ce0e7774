"""Commands that carry a campaign to a file and back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sourcewise.cli.common import (
    DEFAULT_STORE,
    AuthorOption,
    CampaignOption,
    JsonOption,
    StoreOption,
    open_campaign,
    shown_store,
    write_text,
)
from sourcewise.cli.output import print_json, show, wrote
from sourcewise.errors import DataError, SourcewiseError
from sourcewise.spreadsheet import to_csv

if TYPE_CHECKING:
    from sourcewise.records import CampaignRecord

ROUNDS = ("round", "source", "asked", "came", "price", "outcome", "ended", "reason")
BATCHES = ("time", "author", "round", "source", "rows", "dropped", "cost", "so_far", "key")


def export(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", help="campaign.json: all of it. orders.csv or batches.csv: a table.")
    ],
    store: StoreOption = DEFAULT_STORE,
    name: CampaignOption = None,
    what: Annotated[str, typer.Option("--table", metavar="TABLE", help="Of a CSV file: orders or batches.")] = "orders",
    json: JsonOption = False,
) -> None:
    """Write a campaign into one file: as JSON to go on elsewhere or to keep, as CSV for a spreadsheet.

    Example: sourcewise export campaign.json
    """
    if path.suffix.lower() not in (".json", ".csv"):
        raise SourcewiseError(f"a campaign is exported to a .json or .csv file, which {str(path)!r} is not")
    if what not in ("orders", "batches"):
        raise typer.BadParameter(f"a table is 'orders' or 'batches', not {what!r}", param_hint="'--table'")
    with open_campaign(store, name) as campaign:
        if path.suffix.lower() == ".json":
            from sourcewise.campaign.transfer import export_campaign

            export_campaign(store, campaign.name, path)
        else:
            record = campaign.record()
            write_text(path, to_csv(*(_orders(record) if what == "orders" else _batches(record))))
    wrote(path, json)


def import_(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="A .json file that `sourcewise export` wrote.")],
    store: StoreOption = DEFAULT_STORE,
    name: Annotated[str | None, typer.Option(metavar="NAME", help="What to call it, if not as before.")] = None,
    author: AuthorOption = None,
    json: JsonOption = False,
) -> None:
    """Take a campaign from a file into a store; it goes on where it was.

    Example: sourcewise import campaign.json --store postgresql://team@server/studies
    """
    from sourcewise.campaign.transfer import import_campaign
    from sourcewise.records import plain

    if not path.exists():
        raise SourcewiseError(f"there is no file {str(path)!r}; `sourcewise export` writes one")
    try:
        campaign = import_campaign(store, path, name, author=author)
    except DataError as error:
        raise DataError(str(error) if path.name in str(error) else f"{str(path)!r}: {error}") from None
    with campaign:
        if json:
            print_json(plain(campaign.status()))
            return
        show(f"Campaign {campaign.name!r} is in {shown_store(store)}. Next: sourcewise status")


def _orders(record: CampaignRecord) -> tuple[Sequence[str], list[tuple[object, ...]]]:
    rows: list[tuple[object, ...]] = []
    for done in record.rounds:
        order = done.order
        for source, asked in order.rows.items():
            came = done.received.get(source, 0)
            end = (done.outcome, done.ended, order.reason)
            rows.append((order.round, source, asked, came, order.prices.get(source), *end))
    return ROUNDS, rows


def _batches(record: CampaignRecord) -> tuple[Sequence[str], list[tuple[object, ...]]]:
    return BATCHES, [tuple(getattr(batch, key) for key in BATCHES) for batch in record.batches]
