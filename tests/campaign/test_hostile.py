"""Requests that are meant to break a campaign: each is refused in words, and the campaign goes on as if it never came.

What a table can do to a reader is in tests/statistics, what a study file can do in tests/studyfile; `test_transfer`
has campaigns that were tampered with.
"""

from __future__ import annotations

import gzip
import json
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sourcewise as sw
from campaign.worlds import deal, study
from sourcewise.statistics import csv_files, wire

CODE = "'; DROP TABLE sourcewise_event; --"
UNPRINTABLE = ("", " ", "\ud800", "a\0b", "a\nb", "\u202e", "x" * 201, 5, b"a")


@pytest.fixture
def place(tmp_path: Path) -> str:
    """Most requests are refused before they reach a database; those that must not be are tried on both."""
    return str(tmp_path / "campaigns.db")


@pytest.fixture
def campaign(place: str) -> Iterator[sw.Campaign]:
    with sw.Campaign.create(place, study(), budget=2000.0, policy=sw.ETG(0.25), name="c", author="ann") as made:
        yield made


def goes_on(campaign: sw.Campaign) -> None:
    """Rows are counted, an order is made, and the report can be written."""
    before = campaign.status().sources[0].rows
    assert campaign.tell("registry", deal(study(), "registry", 7, 99), "and on").so_far == before + 7
    assert campaign.ask() is not None
    assert campaign.record().batches[-1].key == "and on"


def letter(change: Callable[[dict[str, Any]], Any], n: int = 50) -> str:
    """Statistics of the registry, tampered with."""
    made = sw.summarize(study(), "registry", deal(study(), "registry", n, 1))
    assert isinstance(made, sw.Statistics)
    found = json.loads(made.to_json())
    change(found)
    return json.dumps(found)


def contradictory(found: dict[str, Any]) -> None:
    """Every pair of sums could be, all together could not: no three numbers correlate by 0.98, 0.98 and −0.98."""
    gram = 50.0 * np.eye(5)
    for i, j, value in ((1, 2, 49.0), (1, 3, 49.0), (2, 3, -49.0)):
        gram[i, j] = gram[j, i] = value
    found["gram"] = gram[np.tril_indices(5)].tolist()


def as_if(n: int) -> Callable[[dict[str, Any]], None]:
    def change(found: dict[str, Any]) -> None:
        found["gram"] = [value * n / found["n"] for value in found["gram"]]
        found["n"] = n

    return change


LETTERS: dict[str, tuple[str, str]] = {
    "NaN": (letter(lambda found: found["gram"].__setitem__(1, float("nan"))), "NaN is not a number"),
    "an infinity": (letter(lambda found: found.update(n=float("inf"))), "Infinity is not a number"),
    "too deep": ("[" * 200_000, "nested too deeply"),
    "a key twice": (letter(lambda found: None).replace('"n": 50', '"n": 50, "n": 51'), "a key twice"),
    "a number of 10,000 digits": (letter(lambda found: None).replace('"n": 50', '"n": ' + "9" * 10_000), "not a"),
    "sums that no rows have": (letter(contradictory), "no rows could have produced it"),
    "more rows than can be counted": (letter(as_if(2**54)), "at most 2⁵³"),
    "more rows left out than can be counted": (letter(lambda found: found.update(dropped=2**54)), "at most 2⁵³"),
    "another source": (letter(lambda found: found.update(source="survey")), "source 'survey'"),
    "terms that are code": (letter(lambda found: found["terms"].__setitem__(1, "__import__('os')")), "another study"),
}


@pytest.mark.parametrize(("text", "said"), LETTERS.values(), ids=LETTERS)
def test_statistics_made_to_harm_are_refused(campaign: sw.Campaign, tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "letter.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(sw.DataError, match=said) as refused:
        campaign.tell("registry", path)
    assert len(str(refused.value)) < 1000
    assert len(campaign.history()) == 1
    goes_on(campaign)


def test_statistics_that_overflow_only_together_are_refused(store: str) -> None:
    campaign = sw.Campaign.create(store, study(), budget=2000.0, name="c")
    half = sw.Statistics.from_json(letter(as_if(2**53 - 1)))
    campaign.amend(budget=1e30)
    campaign.tell("registry", half, "first")
    with pytest.raises(sw.DataError, match="at most 2⁵³"):
        campaign.tell("registry", half, "second")
    assert campaign.status().sources[0].rows == 2**53 - 1
    large = sw.Statistics.from_json(letter(lambda found: found.update(dropped=2**53)))
    campaign.tell("survey", sw.summarize(study(), "survey", deal(study(), "survey", 50, 1)))
    with pytest.raises(sw.DataError, match="at most 2⁵³"):
        campaign.tell("registry", large)
    assert campaign.estimate().converged


def gzip_bomb(path: Path) -> None:
    path.write_bytes(gzip.compress(b"z,x\n" + b"0,0\n" * (1 << 21)))


def xlsx_bomb(path: Path) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        book.writestr("xl/worksheets/sheet1.xml", b"0" * (1 << 24))


def giant_field(path: Path) -> None:
    path.write_bytes(b'z,x\n1,"' + b"1" * (1 << 23) + b'"\n')


def formula(path: Path) -> None:
    path.write_text("z,x\n1,=1+1\n", encoding="utf-8")


BOMBS: dict[str, tuple[Callable[[Path], None], str]] = {
    "rows.csv.gz": (gzip_bomb, "unpacks to more than 200 times its size"),
    "rows.xlsx": (xlsx_bomb, "of unknown kind"),
    "rows.csv": (giant_field, "is longer than 1 MB"),
    "workbook.csv": (xlsx_bomb, "no column 'z'"),
    "workbook.csv.gz": (xlsx_bomb, "cannot be read"),
    "workbook.parquet": (xlsx_bomb, "cannot be read"),
    "workbook.json": (xlsx_bomb, "cannot be read"),
    "formula.csv": (formula, "is not numeric"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_files_made_to_fill_memory_are_refused(
    campaign: sw.Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(csv_files, "INFLATION_FREE", 1 << 20)
    make, said = BOMBS[name]
    make(tmp_path / name)
    campaign.tell("registry", deal(study(), "registry", 5, 1))  # imports what is imported late
    tracemalloc.start()
    try:
        with pytest.raises(sw.DataError, match=said) as refused:
            campaign.tell("registry", tmp_path / name)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 * 2**20
    assert len(str(refused.value)) < 1000
    goes_on(campaign)


def test_a_file_of_any_size_is_not_read(campaign: sw.Campaign, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "LARGEST", 1 << 20)
    (tmp_path / "letter.json").write_text(" " * (1 << 21), encoding="utf-8")
    with pytest.raises(sw.DataError, match="larger than 1 MB"):
        campaign.tell("registry", tmp_path / "letter.json")
    with pytest.raises(sw.DataError, match="cannot be read"):
        campaign.tell("registry", "\0.json")


@pytest.mark.parametrize("cost", [True, "9", -1, float("nan"), float("inf"), 10**400, 1e101, 3j])
def test_costs_that_no_ledger_can_hold(campaign: sw.Campaign, cost: Any) -> None:
    with pytest.raises(sw.CampaignError, match="the cost of a batch"):
        campaign.tell("registry", deal(study(), "registry", 5, 1), cost=cost)
    goes_on(campaign)


@pytest.mark.parametrize("cost", [np.int64(5), np.float32(5.0), Fraction(5), 5])
def test_any_kind_of_number_is_a_cost(campaign: sw.Campaign, cost: Any) -> None:
    rows = deal(study(), "registry", 5, 1)
    assert campaign.tell("registry", rows, cost=cost).cost == 5.0
    assert campaign.tell("registry", rows, cost=5.0).repeated


def test_money_never_becomes_infinite(campaign: sw.Campaign) -> None:
    campaign.amend(cost={"registry": 1e300})
    with pytest.raises(sw.CampaignError, match="the cost of a batch"):
        campaign.tell("registry", deal(study(), "registry", 5, 1))
    for k in range(3):
        campaign.tell("registry", deal(study(), "registry", 5, k), cost=1e100)
    assert campaign.ask() is None
    assert campaign.status().money.spent == 1e100 + 1e100 + 1e100


@pytest.mark.parametrize("name", UNPRINTABLE)
def test_names_that_no_page_can_show(place: str, campaign: sw.Campaign, name: Any) -> None:
    rows = deal(study(), "registry", 5, 1)
    calls: list[Callable[[], Any]] = [
        lambda: sw.Campaign.create(place, study(), budget=9.0, name=name),
        lambda: sw.Campaign.create(place, study(), budget=9.0, author=name),
        lambda: sw.Campaign.open(place, name),
        lambda: campaign.tell("registry", rows, name),
        lambda: sw.export_campaign(place, name, "c.json"),
    ]
    for call in calls:
        with pytest.raises(sw.CampaignError, match="printable text") as refused:
            call()
        assert len(str(refused.value)) < 250
    assert (sw.campaigns(place), len(campaign.history())) == (("c",), 1)


@pytest.mark.parametrize("reason", ["\ud800", "a\0b", "\x1b[2J", "x" * 5001, 5, None, b"a"])
def test_reasons_that_no_database_can_hold(campaign: sw.Campaign, reason: Any) -> None:
    campaign.ask()
    for call in (lambda: campaign.amend(budget=9e3, reason=reason), lambda: campaign.close_order(reason)):
        with pytest.raises(sw.CampaignError, match="a reason must be a text"):
            call()
    with pytest.raises(sw.CampaignError, match="a reason must be a text"):
        campaign.stop(reason)
    assert (campaign.status().state, len(campaign.history())) == ("collecting", 2)


@pytest.mark.parametrize(
    "text", [CODE, '"}], "budget": 0, "x": [{"', "${7*7} {{7*7}} %s %(a)s {0}", "=1+1", "café ↗ 👩‍🔬"]
)
def test_texts_are_kept_as_they_are(store: str, text: str) -> None:
    named = text if text.isprintable() else "named"
    first = sw.Campaign.create(store, study(), budget=2000.0, name=named, author=named)
    first.tell("registry", deal(study(), "registry", 5, 1), named)
    first.amend(budget=3000.0, reason=f"{text}\n{text}")
    found = sw.Campaign.open(store, named)
    assert found.record().amendments[0].reason == f"{text}\n{text}"
    assert [event.author for event in found.history()][:2] == [named, named]
    assert found.tell("registry", deal(study(), "registry", 5, 1), named).repeated
    goes_on(found)


def test_sources_with_hostile_names(store: str) -> None:
    names = [CODE, '<script>alert("x")</script>', "=1+1", "x" * 100, "a,b", "../../etc"]
    sources = {name: sw.Source("x", cost=1.0) for name in names}
    with sw.Campaign.create(store, sw.Study(["x - b"], "b", sources), budget=100.0, name="c") as campaign:
        order = campaign.ask()
        assert order is not None
        for name, n in order.rows.items():
            campaign.tell(name, {"x": np.arange(float(n))})
        assert [source.rows for source in campaign.status().sources] == [order.rows[name] for name in names]
        assert campaign.ask() is not None
        assert campaign.record().current is not None


@pytest.mark.parametrize(
    ("terms", "said"),
    [
        ({"cost": 5}, "cost must map sources"),
        ({"cost": ["registry"]}, "cost must map sources"),
        ({"capacity": 5}, "capacity must map sources"),
        ({"add": 5}, "add must map sources"),
        ({"retire": 5}, "no source 5"),
        ({"retire": [["x"]]}, "no source"),
        ({"budget": 10**400}, "a budget must be"),
        ({"target_width": 10**400}, "a target width must be"),
        ({"target_width": "narrow"}, "a target width must be"),
        ({"capacity": {"registry": 2**70}}, "capacity must be"),
        ({"add": {"\ud800": sw.Source("z x")}}, "printable"),
    ],
)
def test_terms_of_no_kind(campaign: sw.Campaign, terms: Any, said: str) -> None:
    with pytest.raises(sw.SourcewiseError, match=said) as refused:
        campaign.amend(**terms)
    assert len(str(refused.value)) < 400
    assert len(campaign.history()) == 1


@pytest.mark.parametrize(
    "where", [5, None, b"a.db", object(), "\0.db", "x" * 5000, "sqlite:///a.db?mode=memory", "postgresql://\ud800"]
)
def test_places_that_are_no_store(where: Any) -> None:
    with pytest.raises((sw.StorageError, sw.CampaignError)):
        sw.Campaign.open(where)
    with pytest.raises((sw.StorageError, sw.CampaignError)):
        sw.Campaign.create(where, study(), budget=9.0)


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    for name in ("a?mode=memory.db", "50%20.db", "a#b.db", "a;b 'c'.db"):
        with sw.Campaign.create(tmp_path / name, study(), budget=9.0, name="c") as made:
            made.tell("registry", deal(study(), "registry", 5, 1))
        assert sw.Campaign.open(tmp_path / name).status().sources[0].rows == 5
        assert (tmp_path / name).exists()
