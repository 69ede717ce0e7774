"""Campaigns of many kinds, cut off anywhere and gone on with by another program. Run as a script, because it forks.

    python resumes.py twins PLACE COUNT     every campaign to its end, undisturbed
    python resumes.py begin PLACE COUNT     every campaign, killed at a random statement boundary
    python resumes.py end PLACE COUNT       every campaign that was begun, to its end
    python resumes.py compare PLACE COUNT   which campaigns differ from their twins, as a JSON object

PLACE is a directory, or URL#DIRECTORY of a server and of a directory for notes. What a campaign is about, and what is
delivered to it, follows from its number alone.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sqlalchemy import event

import sourcewise as sw
from campaign.crashes import BOUNDARIES, in_child, kill_at, state_of
from campaign.worlds import deal, logistic, study


def kind_of(number: int) -> tuple[sw.Study, dict[str, Any]]:
    """Study and terms of a campaign."""
    draw = random.Random(number)
    policies = [sw.ETG(draw.choice((0.1, 0.2, 0.25))), sw.ETC(draw.choice((0.3, 0.5))), sw.Fixed()]
    options: dict[str, Any] = {"policy": draw.choice(policies), "budget": float(draw.randint(600, 3000))}
    if draw.random() < 0.2:
        return logistic(), options
    capacity = draw.choice((None, None, 150))
    spec = study(registry=draw.choice((1.0, 2.5)), survey=draw.choice((0.5, 3.0)), capacity=capacity)
    options |= {"keep_rows": draw.random() < 0.2, "stacking": draw.choice(("stacked", "pooled"))}
    return spec, options | {"target_width": draw.choice((None, None, 1.0))}


def parts_of(number: int, order: sw.Order) -> list[tuple[str, int]]:
    """What comes of an order: in parts, with a surplus or a shortfall, and the last part is what fills it."""
    draw = random.Random(f"{number} {order.round}")
    found: list[tuple[str, int]] = []
    for source, n in order.rows.items():
        first = draw.randint(1, n)
        found += [(source, rows) for rows in (first, n - first) if rows]
    source, rows = found.pop()
    changed = rows + draw.choice((0, 0, draw.randint(1, 9), -draw.randint(0, rows)))
    return [*found, (source, changed)] if changed else found


def play(store: str, number: int) -> None:
    """From wherever it is to its end."""
    spec, terms = kind_of(number)
    try:
        campaign = sw.Campaign.open(store, "c", author="ann")
    except sw.StorageError:
        campaign = sw.Campaign.create(store, spec, name="c", author="ann", **terms)
    while (order := campaign.ask()) is not None:
        if order.round == 2 and number % 3 == 0 and campaign.status().money.budget == terms["budget"]:
            campaign.amend(budget=1.25 * terms["budget"], reason="more")
        for k, (source, rows) in enumerate(parts_of(number, order)):
            campaign.tell(source, deal(spec, source, rows, 100 * order.round + k), f"{order.round} {source} {k}")
        if campaign.status().order == order:
            campaign.close_order("no more came")


def boundaries_of(work: Callable[[], None]) -> int:
    """How many statement boundaries the work crosses."""
    crossed = count()
    for target, names in BOUNDARIES:
        for name in names:
            event.listen(target, name, lambda *_, **__: next(crossed) and None)
    work()
    return next(crossed)


def twin(place: str, number: int) -> None:
    facts, ended = in_child(lambda report: report(boundaries_of(lambda: play(store_of(place, "twin", number), number))))
    assert ended
    Path(notes(place), f"{number}.json").write_text(json.dumps(facts[0]), encoding="utf-8")


def begin(place: str, number: int) -> None:
    crossed = json.loads(Path(notes(place), f"{number}.json").read_text(encoding="utf-8"))
    fatal = random.Random(-1 - number).randint(1, crossed)

    def work(_: Any) -> None:
        kill_at(fatal)
        play(store_of(place, "cut", number), number)

    in_child(work)


def end(place: str, number: int) -> None:
    assert in_child(lambda _: play(store_of(place, "cut", number), number))[1]


def compare(place: str, number: int) -> bool:
    facts, _ = in_child(
        lambda report: report([state_of(store_of(place, kind, number)) for kind in ("twin", "cut")]),
    )
    assert facts[0][0]["events"][-1]["kind"] == "over"
    return bool(facts[0][0] == facts[0][1])


def notes(place: str) -> str:
    """A directory, also where the stores are on a server."""
    return place.partition("#")[2] if "://" in place else place


def store_of(place: str, kind: str, number: int) -> str:
    if "://" not in place:
        return str(Path(place) / f"{kind}{number}.db")
    url = place.partition("#")[0]
    base, _, query = url.partition("?")
    return f"{base.rpartition('/')[0]}/{kind}{number}?{query}"


def make_databases(place: str, amount: int) -> None:
    import psycopg

    with psycopg.connect(place.partition("#")[0], autocommit=True) as connection:
        for number in range(amount):
            for kind in ("twin", "cut"):
                connection.execute(f"CREATE DATABASE {kind}{number}")


def main() -> None:
    mode, place, amount = sys.argv[1], sys.argv[2], int(sys.argv[3])
    if mode == "twins" and "://" in place:
        make_databases(place, amount)
    with TemporaryDirectory() as elsewhere:  # imports what is imported late, once for all children
        play(str(Path(elsewhere) / "c.db"), -1)
    work = {"twins": twin, "begin": begin, "end": end, "compare": compare}[mode]
    answers = [work(place, number) for number in range(amount)]
    if mode == "compare":
        print(json.dumps({"same": sum(map(bool, answers)), "differ": [n for n, a in enumerate(answers) if not a]}))


if __name__ == "__main__":
    main()
