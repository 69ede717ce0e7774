"""Campaigns carried from store to store in one file."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import sourcewise as sw
from campaign.crashes import timeless
from campaign.worlds import deal, logistic, study
from sourcewise.records import plain


def campaign_in(store: str, spec: sw.Study, **options: Any) -> sw.Campaign:
    campaign = sw.Campaign.create(store, spec, budget=900, policy=sw.ETG(0.25), name="c", author="ann", **options)
    for _ in range(2):
        order = campaign.ask()
        assert order is not None
        for name, n in order.rows.items():
            campaign.tell(name, deal(spec, name, n, n))
    campaign.amend(budget=1000, reason="more")
    campaign.ask()
    return campaign


def everything(campaign: sw.Campaign) -> Any:
    record = plain(campaign.record())
    return record | {"made": "", "current": timeless(record["current"]), "looks": timeless(record["looks"])}


@pytest.mark.parametrize(("spec", "keep_rows"), [(study(), False), (study(), True), (logistic(), False)])
def test_a_campaign_goes_on_where_it_was(store: str, tmp_path: Path, spec: sw.Study, keep_rows: bool) -> None:
    """From either database to SQLite, with all that there is to know, and to the same next orders."""
    there = campaign_in(store, spec, keep_rows=keep_rows)
    sw.export_campaign(store, "c", tmp_path / "c.json")
    here = sw.import_campaign(tmp_path / "copy.db", tmp_path / "c.json", author="ann")
    assert everything(here) == everything(there)
    assert here.history() == there.history()
    for campaign in (here, there):
        order = campaign.ask()
        assert order is not None
        for name, n in order.rows.items():
            campaign.tell(name, deal(spec, name, n, 77))
    assert timeless(plain(here.ask())) == timeless(plain(there.ask()))
    assert here.estimate().to_dict() == there.estimate().to_dict()
    sw.export_campaign(tmp_path / "copy.db", "c", tmp_path / "again.json")
    assert here.tell(name, deal(spec, name, n, 77)).repeated


def test_under_another_name(tmp_path: Path) -> None:
    campaign_in(str(tmp_path / "a.db"), study())
    sw.export_campaign(tmp_path / "a.db", "c", tmp_path / "c.json")
    path = _altered(tmp_path, lambda found: found["events"][0].update(key="another"))
    with pytest.raises(sw.StorageError, match="already"):
        sw.import_campaign(tmp_path / "a.db", path)
    assert sw.import_campaign(tmp_path / "a.db", path, "copy").name == "copy"
    assert sw.campaigns(tmp_path / "a.db") == ("c", "copy")


def _altered(tmp_path: Path, alter: Callable[[Any], Any]) -> Path:
    found = json.loads((tmp_path / "c.json").read_text(encoding="utf-8"))
    alter(found)
    path = tmp_path / "altered.json"
    path.write_text(json.dumps(found), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    "alter",
    [
        lambda found: found["totals"]["survey"].update(rows=7),
        lambda found: found["totals"]["survey"].update(spent=7.0),
        lambda found: found["totals"].pop("survey"),
        lambda found: found["contents"].pop(),
        lambda found: found["contents"][0]["statistics"].update(n=7),
        lambda found: found["events"].pop(1),
        lambda found: found["events"].clear(),
        lambda found: found["events"][0].update(extra=1),
        lambda found: found["design"].update(budget=-1),
        lambda found: found["design"]["study"].update(target="os.system"),
        lambda found: found["progress"].update(extra=1),
        lambda found: found["events"][1].update(key=found["events"][0]["key"]),
        lambda found: found["events"][1]["body"].pop("order"),
        lambda found: found["events"][0].update(author="\ud800"),
        lambda found: found["events"][-1]["body"].update(look={"round": 1}),
        lambda found: found["totals"].update(panel={"rows": 0, "spent": 0.0, "content": None}),
        lambda found: found.pop("progress"),
        lambda found: found.update(totals=3),
    ],
)
def test_a_file_that_was_changed_is_refused(tmp_path: Path, alter: Callable[[Any], Any]) -> None:
    campaign_in(str(tmp_path / "a.db"), study())
    sw.export_campaign(tmp_path / "a.db", "c", tmp_path / "c.json")
    path = _altered(tmp_path, alter)
    with pytest.raises(sw.DataError, match="was changed since"):
        sw.import_campaign(tmp_path / "new.db", path)
    assert not (tmp_path / "new.db").exists()


@pytest.mark.parametrize("content", ["", "[]", '{"format": "sourcewise.statistics", "version": 1}', "[" * 100_000])
def test_another_file_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "c.json").write_text(content, encoding="utf-8")
    with pytest.raises(sw.DataError):
        sw.import_campaign(tmp_path / "new.db", tmp_path / "c.json")
    with pytest.raises(sw.DataError, match="cannot be read"):
        sw.import_campaign(tmp_path / "new.db", tmp_path / "absent.json")
    assert not (tmp_path / "new.db").exists()


def test_a_place_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    campaign_in(str(tmp_path / "a.db"), study())
    with pytest.raises(sw.CampaignError, match="cannot be written"):
        sw.export_campaign(tmp_path / "a.db", "c", tmp_path / "absent" / "c.json")
