"""The report of a campaign: what was asked, what it cost, what was found, and every order with its reason."""

from __future__ import annotations

import json
from pathlib import Path

from sourcewise.errors import SourcewiseError
from sourcewise.records import CampaignRecord, Look, SourceStatus, plain
from sourcewise.reporting import cells
from sourcewise.reporting.document import Block, Bullets, Cell, Code, Document, Heading, Lead, Paragraph, Table
from sourcewise.reporting.progress import progress
from sourcewise.reporting.words import interval, money, policy_in_words, rows_in_words, sentence, value_in_words, when
from sourcewise.reporting.write import write, write_text
from sourcewise.spec.plain import study_from_plain

MOST = 200
"""Deliveries that a page lists; JSON holds all of them."""


def campaign_document(record: CampaignRecord) -> Document:
    """The report in reading order: answer first, then how it came about."""
    blocks: list[Block] = [Paragraph(_standing(record))]
    for part in (_answer, _question, _ledger, progress, _agreement, _orders, _deliveries, _amendments, _again):
        blocks += part(record)
    footer = f"Made {when(record.made)} by Sourcewise {record.versions.get('sourcewise', '')}".rstrip() + "."
    return Document(f"Campaign: {record.name}", blocks, f"The target is {record.target}.", footer)


def campaign_json(record: CampaignRecord) -> str:
    """The record as strict JSON: every fact of the report, and all deliveries."""
    return json.dumps(cells.plain(plain(record)), allow_nan=False, ensure_ascii=False, indent=1) + "\n"


def write_campaign(record: CampaignRecord, path: str | Path) -> Path:
    """The report as .html or .md, or the record as .json."""
    place = Path(path)
    if place.suffix.lower() == ".json":
        return write_text(campaign_json(record), place)
    return write(campaign_document(record), place)


def _standing(record: CampaignRecord) -> str:
    states = {
        "ready": "The campaign is open, and no order is waiting.",
        "collecting": "The campaign is open, and an order is being filled.",
        "over": "The campaign is over.",
        "stopped": "The campaign was stopped.",
    }
    begun = f"Created {when(record.created)}" + (f" by {record.author}." if record.author else ".")
    return " ".join(part for part in (states[record.state], sentence(record.reason), begun) if part)


def _answer(record: CampaignRecord) -> list[Block]:
    look = record.current
    blocks: list[Block] = [Heading("Answer")]
    if look is None:
        blocks.append(Paragraph("There is no estimate yet: no rows, or not enough of them to estimate from."))
    else:
        blocks += [Lead(_lead(record, look)), Table("The estimate", _facts(record, look))]
    if record.advice:
        blocks += [Paragraph("What a careful reader should know:"), Bullets(record.advice)]
    return blocks


def _lead(record: CampaignRecord, look: Look) -> str:
    if look.value is None or look.stderr is None:
        return f"The data do not identify {record.target}."
    level = f"{100 * look.level:g} %"
    return f"{record.target} = {cells.shown(look.value)}, {level} anytime interval {interval(look.anytime)}"


def _facts(record: CampaignRecord, look: Look) -> list[list[Cell]]:
    level = f"{100 * look.level:g} %"
    rows: list[list[Cell]] = [
        [record.target, look.value],
        ["Standard error", look.stderr if look.stderr is not None else "the data do not identify the target"],
        [f"{level} interval, fixed: for one look that was planned in advance", interval(look.interval)],
        [f"{level} interval, anytime: holds at all looks together, so one may stop on it", interval(look.anytime)],
    ]
    if look.weak is not None:
        joined = " and ".join(map(interval, look.weak)) or "empty: the moments contradict each other"
        rows.append([f"{level} set that holds under weak identification", joined])
    if look.strength is not None:
        rows.append(["Strength (below 10, trust the set under weak identification only)", look.strength])
    rows += [
        ["Rows", sum(look.rows.values())],
        ["Search", look.status],
    ]
    return rows


def _question(record: CampaignRecord) -> list[Block]:
    facts: list[list[Cell]] = [
        ["Target", record.target],
        ["Weights of the moments", str(record.study.get("weights", "two-step"))],
        ["Policy", policy_in_words(record.policy)],
        ["Budget", money(record.money.budget)],
        [
            "Stops at a width of the anytime interval of",
            "no width set" if record.target_width is None else record.target_width,
        ],
    ]
    sources = [_source(source) for source in record.sources]
    blocks: list[Block] = [
        Heading("Question and design"),
        Table("Terms", facts),
        Table("Sources", sources, ["Source", "Columns", "Price of a row", "Rows it has", "Standing"]),
    ]
    moments = record.study.get("moments", ())
    if moments:
        rows = _moments(moments, record)
        blocks.append(Table("Zero on average at the true parameters", rows, ["Moment", "Computed from"]))
    if "graph" in record.study:
        blocks += [Paragraph("The moments follow from this graph:"), Code(str(record.study["graph"]))]
    return blocks


def _source(source: SourceStatus) -> list[Cell]:
    has = "no limit" if source.capacity is None else source.capacity
    return [source.name, ", ".join(source.observes), money(source.price), has, "retired" if source.retired else "open"]


def _moments(moments: object, record: CampaignRecord) -> list[list[Cell]]:
    given = moments if isinstance(moments, list | tuple) else ()
    texts = [moment if isinstance(moment, dict) else {"expr": moment} for moment in given]
    try:
        study = study_from_plain(dict(record.study))
        used = [[name for name in study.sources if j in study.moments_of(name)] for j in range(len(texts))]
    except SourcewiseError:  # a record need not hold a whole study to be reported
        used = [list(map(str, text.get("sources") or ("all that observe it",))) for text in texts]
    return [[str(text.get("expr", "")), ", ".join(names)] for text, names in zip(texts, used, strict=True)]


def _ledger(record: CampaignRecord) -> list[Block]:
    ledger, parts = record.money, record.sources
    total = sum(source.spent for source in parts)
    share = [f"{source.spent / total:.1%}" if total else None for source in parts]
    rows: list[list[Cell]] = [
        [source.name, source.rows, money(source.spent), part, source.ordered, source.received]
        for source, part in zip(parts, share, strict=True)
    ]
    sums = (sum(source.rows for source in parts), money(total), "100.0%" if total else None)
    rows.append(["All", *sums, sum(source.ordered for source in parts), sum(source.received for source in parts)])
    standing: list[list[Cell]] = [
        ["Budget", money(ledger.budget)],
        ["Spent", money(ledger.spent)],
        ["Reserved for the open order", money(ledger.reserved)],
        ["Left", money(ledger.left)],
    ]
    header = ["Source", "Rows", "Spent", "Share of the money", "Rows on order", "Came of these"]
    rule = "Money is reserved when an order is made, and settled when rows come, at the price of that moment."
    over = "More rows came than the budget pays for." if ledger.left < 0 else ""
    return [
        Heading("Money"),
        Table("Where the budget stands", standing, note=over),
        Table("By source", rows, header, rule),
    ]


def _agreement(record: CampaignRecord) -> list[Block]:
    look = record.current
    if look is None:
        return []
    tests = {"All moments together": look.overid} | dict(look.overid_by_source)
    rows: list[list[Cell]] = [
        [name, test.statistic, test.df, test.pvalue if test.df else "nothing to test"] for name, test in tests.items()
    ]
    return [
        Heading("Do the sources agree?"),
        Table(
            "Tests of over-identifying restrictions (J)",
            rows,
            ["Source against the others", "J", "Degrees of freedom", "P-value"],
            "A small p-value says that the moments cannot all be zero at once: a source or an assumption is wrong.",
        ),
    ]


def _orders(record: CampaignRecord) -> list[Block]:
    if not record.rounds:
        return [Heading("Orders"), Paragraph("Nothing has been ordered yet.")]
    rows: list[list[Cell]] = []
    for step in record.rounds:
        order = step.order
        ended = step.outcome + (f": {step.note}" if step.note else "")
        asked, came = rows_in_words(order.rows), rows_in_words(step.received)
        came = "all" if dict(step.received) == dict(order.rows) else came
        rows.append([order.round, when(order.time), asked, came, money(order.cost), money(step.settled), ended])
    header = ["Round", "Asked", "Rows asked for", "Rows that came", "Reserved", "Settled", "Outcome"]
    return [Heading("Orders"), Table("Every order, with its reason", rows, header, details=_reasons(record))]


def _reasons(record: CampaignRecord) -> list[str]:
    return [step.order.reason for step in record.rounds]


def _deliveries(record: CampaignRecord) -> list[Block]:
    if not record.batches:
        return []
    listed = record.batches[-MOST:]
    rows: list[list[Cell]] = [
        [
            when(batch.time),
            batch.round,
            batch.source,
            batch.rows,
            batch.dropped,
            money(batch.cost),
            batch.author,
            batch.key,
        ]
        for batch in listed
    ]
    hidden = len(record.batches) - len(listed)
    note = f"The last {len(listed)}; {hidden:,} earlier ones are in the JSON form of this report." if hidden else ""
    header = ["Time", "Round", "Source", "Rows", "Left out", "Cost", "By", "Key"]
    return [Heading("Deliveries"), Table("What came", rows, header, note)]


def _amendments(record: CampaignRecord) -> list[Block]:
    rows: list[list[Cell]] = [
        [when(change.time), change.author, term, value_in_words(before), value_in_words(after), change.reason]
        for change in record.amendments
        for term, (before, after) in change.changes.items()
    ]
    table: Block = (
        Table("Changes of the terms", rows, ["Time", "By", "Term", "Before", "After", "Reason"])
        if rows
        else Paragraph("The terms have not been changed.")
    )
    return [Heading("Amendments"), table]


def _again(record: CampaignRecord) -> list[Block]:
    blocks: list[Block] = [Heading("How to run it again")]
    if record.reproduce:
        blocks.append(Code("\n".join(record.reproduce)))
    if record.versions:
        blocks.append(Table("Software", [[name, version] for name, version in record.versions.items()]))
    return blocks
