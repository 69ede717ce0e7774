"""Commands that only look: status, estimate, report, history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sourcewise.cli.common import DEFAULT_STORE, CampaignOption, JsonOption, StoreOption, open_campaign
from sourcewise.cli.output import (
    LONGEST,
    NOTHING,
    counted,
    interval,
    mix,
    money,
    number,
    price,
    print_json,
    probability,
    show,
    table,
    wrote,
)

if TYPE_CHECKING:
    from sourcewise.records import Event, Look, Money, Status
    from sourcewise.results import Fit

MOST_EVENTS = 40


def status(store: StoreOption = DEFAULT_STORE, name: CampaignOption = None, json: JsonOption = False) -> None:
    """Show where a campaign stands: money, sources, the open order, the last estimate.

    Example: sourcewise status
    """
    from sourcewise.records import plain

    with open_campaign(store, name) as campaign:
        found = campaign.status()
    if json:
        print_json(plain(found))
        return
    show(*_status_parts(found))


def _status_parts(found: Status) -> list[object]:
    head = f"Campaign {found.name}: {found.state}, round {found.round}\n" + cash_line(found.money)
    rows = [
        (
            s.name + (" (retired)" if s.retired else ""),
            f"{s.rows:,}",
            NOTHING if s.capacity is None else f"{s.capacity:,}",
            *(price(s.price), money(s.spent), f"{s.ordered:,}", f"{s.received:,}"),
        )
        for s in found.sources
    ]
    header = ("Source", "Rows", "Of", "Price", "Spent", "Ordered", "Came")
    parts: list[object] = [head, table("", header, rows)]
    if found.look is not None:
        parts.append(look_lines(found.look, found.target))
    return [*parts, standing(found.state, found.reason)]


def standing(state: str, reason: str) -> str:
    """Whether a campaign goes on, and what comes next."""
    if state == "ready":
        return "Next: sourcewise ask"
    if state == "collecting":
        return "Rows are awaited. Hand them in with: sourcewise tell SOURCE FILE"
    return f"{state.capitalize()}: {reason}"


def cash_line(cash: Money) -> str:
    """Money in words."""
    parts = (f"spent {money(cash.spent)}", f"reserved {money(cash.reserved)}", f"left {money(cash.left)}")
    return f"Budget {money(cash.budget)}: {', '.join(parts)}"


def look_lines(look: Look, target: str) -> str:
    """An estimate with both intervals, and the mix, in words."""
    if look.value is None or look.stderr is None:
        return f"{target} is not identified yet ({look.status})."
    lines = [
        f"{target} = {number(look.value)} (s.e. {number(look.stderr)}) after round {look.round}",
        interval_lines(look),
        f"Mix of rows: {mix(look.mix)}",
    ]
    if look.best_mix is not None:
        lines.append(f"Best mix:    {mix(look.best_mix)}")
    return "\n".join(lines)


def interval_lines(look: Look) -> str:
    """The intervals of the target; the set that holds under weak identification where there is one."""
    level = f"{100 * look.level:g} %"
    said = f"{level} interval for one look {interval(look.interval)}, at any time {interval(look.anytime)}"
    if look.weak is None:
        return said
    joined = " and ".join(map(interval, look.weak)) or "empty"
    return f"{said}\nWeakly identified: trust the {level} set {joined} instead"


def _level(value: float | None) -> float | None:
    if value is not None and not 0 < value < 1:
        raise typer.BadParameter(f"a level lies between 0 and 1, and {value:g} does not")
    return value


def estimate(
    store: StoreOption = DEFAULT_STORE,
    name: CampaignOption = None,
    level: Annotated[
        float | None, typer.Option(help="Level of the table, if not the campaign's own, such as 0.9.", callback=_level)
    ] = None,
    json: JsonOption = False,
) -> None:
    """Estimate from all rows so far: the target, every parameter, and whether the sources agree.

    Example: sourcewise estimate --level 0.9
    """
    from sourcewise.records import plain

    with open_campaign(store, name) as campaign:
        found, record = campaign.estimate(), campaign.record()
    look = record.current
    if json:
        print_json(found.to_dict() | {"spent": record.money.spent, "look": plain(look)})
        return
    show(*_estimate_parts(found, look, record.money.spent, level or record.level))


def _estimate_parts(found: Fit, look: Look | None, spent: float, level: float) -> list[object]:
    named = dict(found.parameters) | {found.target.name: found.target}
    rows = [
        (name, number(e.value), number(e.stderr), interval(e.interval(level)), probability(e.pvalue))
        if e.identified
        else (name, "not identified", "", "", "")
        for name, e in named.items()
    ]
    test = found.overid
    agree = (
        f"J = {number(test.statistic)}, df {test.df}, p = {probability(test.pvalue)}"
        if test.df
        else "none, exactly identified"
    )
    target = found.target
    value = f" = {number(target.value)} (s.e. {number(target.stderr)})" if target.identified else " is not identified"
    intervals = "" if look is None or look.stderr is None else f"{interval_lines(look)}\n"
    head = (
        f"Target {target.name}{value}\n{intervals}"
        f"{counted(sum(found.rows.values()))} for {money(spent)}; {found.status}\n"
        f"Do the sources agree? {agree}"
    )
    header = ("", "Estimate", "s.e.", f"{100 * level:g} % interval", "p of 0")
    parts: list[object] = [head, table("Parameters, with intervals for one look", header, rows)]
    if found.overid.by_source:
        agreement = [
            (name, f"{found.rows[name]:,}", number(t.statistic), t.df, probability(t.pvalue))
            for name, t in test.by_source.items()
        ]
        parts.append(table("Does each source agree with the others?", ("Source", "Rows", "J", "df", "p"), agreement))
    return [*parts, *found.advice]


def report(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="What to write: .html, .md or .json.")] = Path(
        "report.html"
    ),
    store: StoreOption = DEFAULT_STORE,
    name: CampaignOption = None,
    json: JsonOption = False,
) -> None:
    """Write the report: one file with the question, the money, the estimate and every order with its reason.

    Example: sourcewise report report.html
    """
    from sourcewise.reporting.campaign import write_campaign

    with open_campaign(store, name) as campaign:
        written = write_campaign(campaign.record(), path)
    wrote(written, json)


def history(
    store: StoreOption = DEFAULT_STORE,
    name: CampaignOption = None,
    every: Annotated[bool, typer.Option("--all", help=f"All events, not only the last {MOST_EVENTS}.")] = False,
    json: JsonOption = False,
) -> None:
    """List what happened: orders, deliveries, amendments, with time and author.

    Example: sourcewise history --all
    """
    from sourcewise.records import plain

    with open_campaign(store, name) as campaign:
        events = campaign.history()
    shown = events if every or json else events[-MOST_EVENTS:]
    if json:
        print_json(plain(events))
        return
    rows = [(e.seq, e.time[:19].replace("T", " "), e.kind, e.author, describe(e)) for e in shown]
    more = len(events) - len(shown)
    parts: list[object] = [table("", ("#", "Time (UTC)", "Event", "Author", "What"), rows, texts=5)]
    show(*parts, *([f"{more:,} earlier events are left out: --all shows them."] if more else []))


def describe(event: Event) -> str:
    """An event in a few words."""
    body: dict[str, Any] = dict(event.body)
    match event.kind:
        case "asked":
            order = body["order"]
            return ", ".join(f"{n:,} {name}" for name, n in order["rows"].items()) + f" for {money(order['cost'])}"
        case "told":
            batch = body["batch"]
            return f"{batch['rows']:,} {batch['source']} for {money(batch['cost'])}"
        case "amended":
            changes = ", ".join(f"{term}: {words(was)} → {words(now)}" for term, (was, now) in body["changes"].items())
            return f"{changes} ({body['reason']})" if body.get("reason") else changes
        case "created":
            return f"target {body['terms']['study']['target']}" if "terms" in body else ""
    return str(body.get("reason") or "")[:200]


def words(value: object) -> str:
    """A term of a campaign, before or after a change."""
    if value is None:
        return "none"
    if isinstance(value, dict):
        return ", ".join(f"{key} {words(item)}" for key, item in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value == round(value) and abs(value) < LONGEST:
        return f"{value:,.0f}"
    return " ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
