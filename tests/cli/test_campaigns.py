"""Campaigns by hand: each command does what its help says, in words and as JSON."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cli.conftest import Run, write_rows


def fill(run: Run, seed: int = 0) -> None:
    """Deliver whatever the open order asks for."""
    for source, n in run("ask", "--json").json["order"]["rows"].items():
        assert run("tell", source, write_rows(source, n, seed)).code == 0


def test_the_same_order_until_it_is_filled(campaign: Run) -> None:
    first = campaign("ask", "--json").json
    assert campaign("ask", "--json").json == first
    assert (first["campaign"], first["state"]) == ("two-sample-iv", "collecting")
    assert first["order"]["rows"] == {"registry": 150, "survey": 150}
    assert first["order"]["cost"] == 600
    shown = campaign("ask").out
    assert "Order 1" in shown
    assert "sourcewise tell registry FILE" in shown


def test_a_delivery_is_counted_once_however_often_it_is_told(campaign: Run) -> None:
    campaign("ask")
    path = write_rows("survey", 40)
    first, again = campaign("tell", "survey", path, "--json").json, campaign("tell", "survey", path, "--json").json
    assert (first["rows"], first["cost"], first["repeated"]) == (40, 120, False)
    assert again["repeated"] is True
    assert "Known already" in campaign("tell", "survey", path).out
    assert campaign("status", "--json").json["sources"][1]["rows"] == 40


def test_a_key_that_was_used_for_other_rows_is_a_conflict(campaign: Run) -> None:
    campaign("tell", "survey", write_rows("survey", 30), "--key", "monday")
    answer = campaign("tell", "survey", write_rows("survey", 31), "--key", "monday")
    assert answer.code == 2
    assert "other content" in answer.err
    assert campaign("status", "--json").json["sources"][1]["rows"] == 30


def test_a_cost_of_its_own_is_settled(campaign: Run) -> None:
    campaign("tell", "survey", write_rows("survey", 10), "--cost", "17.5")
    assert campaign("status", "--json").json["money"]["spent"] == 17.5


def test_missing_values_are_refused_or_left_out(campaign: Run) -> None:
    Path("holes.csv").write_text("z,x\n1,2\n,3\n4,5\n", encoding="utf-8")
    refused = campaign("tell", "registry", "holes.csv")
    assert refused.code == 2
    assert "--drop-missing" in refused.err
    told = campaign("tell", "registry", "holes.csv", "--drop-missing", "--json").json
    assert (told["rows"], told["dropped"], told["cost"]) == (2, 1, 2)


def test_a_closed_order_gives_way_to_the_next(campaign: Run) -> None:
    campaign("ask")
    campaign("tell", "registry", write_rows("registry", 150))
    assert campaign("close", "--reason", "no answer", "--json").json["round"] == 1
    assert campaign("ask", "--json").json["order"]["round"] == 2
    assert campaign("close").code == 0
    nothing = campaign("close")
    assert nothing.code == 2
    assert "no open order" in nothing.err


def test_amendments_are_recorded_with_author_and_reason(campaign: Run) -> None:
    options = ("--cost", "survey=2.5", "--capacity", "registry=900", "--reason", "a new contract", "--author", "office")
    assert campaign("amend", "--budget", "7000", *options).code == 0
    (event,) = [event for event in campaign("history", "--json").json if event["kind"] == "amended"]
    assert (event["author"], event["body"]["reason"]) == ("office", "a new contract")
    assert event["body"]["changes"]["cost of survey"] == [3.0, 2.5]
    status = campaign("status", "--json").json
    assert status["money"]["budget"] == 7000
    assert status["sources"][0]["capacity"] == 900
    policy = campaign("amend", "--policy", '{kind = "etc", explore = 0.3}', "--precision", "0.2", "--json").json
    assert policy["changes"]["target_width"] == [None, 0.2]


def test_sources_come_and_go(campaign: Run) -> None:
    campaign("ask")
    assert campaign("amend", "--add", "clinic=z x y", "--cost", "clinic=5", "--retire", "survey").code == 0
    sources = {source["name"]: source for source in campaign("status", "--json").json["sources"]}
    assert sources["clinic"]["price"] == 5
    assert sources["survey"]["retired"]
    assert "survey" not in campaign("ask", "--json").json["order"]["rows"]


def test_to_the_end_by_hand(campaign: Run) -> None:
    campaign("amend", "--policy", "{kind = 'etc', explore = 0.5}")
    for seed in range(2):
        fill(campaign, seed)
    over = campaign("ask")
    assert over.code == 3
    assert "the budget is spent" in over.out
    assert campaign("ask", "--json").json["order"] is None
    found = campaign("estimate", "--json").json
    target = found["target"]
    assert abs(target["value"] - 1) < 4 * target["stderr"]
    assert found["spent"] == campaign("status", "--json").json["money"]["spent"]
    assert "Do the sources agree?" in campaign("estimate", "--level", "0.9").out
    assert "90 % interval" in campaign("estimate", "--level", "0.9").out
    campaign("amend", "--budget", "9000")
    assert campaign("ask").code == 0


def test_a_stopped_campaign_stays_stopped_and_may_still_be_told(campaign: Run) -> None:
    campaign("ask")
    assert campaign("stop", "--reason", "settled", "--json").json["state"] == "stopped"
    assert campaign("ask").code == 3
    assert campaign("amend", "--budget", "9000").code == 2
    assert campaign("tell", "survey", write_rows("survey", 12)).code == 0


def test_statistics_from_the_owner_count_like_the_rows(campaign: Run) -> None:
    Path("order.json").write_text(campaign("ask", "--json").out, encoding="utf-8")
    path = write_rows("registry", 150)
    sent = campaign("summarize", "order.json", "registry", path)
    assert (sent.code, sent.json["n"]) == (0, 150)
    assert "sums over 150 rows" in sent.err
    Path("registry.json").write_text(sent.out, encoding="utf-8")
    campaign("tell", "registry", "registry.json")
    campaign("tell", "survey", write_rows("survey", 150))
    by_sums = campaign("estimate", "--json").json["target"]["value"]
    campaign("create", "study.toml", "--name", "rows")
    for source in ("registry", "survey"):
        campaign("tell", source, write_rows(source, 150), "-c", "rows")
    assert campaign("estimate", "-c", "rows", "--json").json["target"]["value"] == pytest.approx(by_sums, rel=1e-12)


def test_rows_do_not_leave_unless_they_may(run: Run) -> None:
    Path("logit.toml").write_text(
        'target = "a"\nmoments = ["z*(y - logistic(a*z))"]\nbudget = 100\n[sources.clinic]\nobserves = "z y"\n',
        encoding="utf-8",
    )
    path = write_rows("survey", 20)
    assert run("summarize", "logit.toml", "clinic", path).code == 2
    assert run("summarize", "logit.toml", "clinic", path).out == ""
    assert run("summarize", "logit.toml", "clinic", path, "--allow-rows").json["format"] == "sourcewise.rows"


def test_a_campaign_is_carried_to_another_store_and_reports_the_same(campaign: Run) -> None:
    fill(campaign)
    assert campaign("export", "campaign.json", "--json").json == {"wrote": "campaign.json"}
    assert campaign("import", "campaign.json", "--store", "copy.db").code == 0
    assert campaign("report", "here.json").code == campaign("report", "there.json", "--store", "copy.db").code == 0
    here, there = (Path(name).read_text(encoding="utf-8") for name in ("here.json", "there.json"))
    changing = ('"made":', '"time":')
    assert [line for line in here.splitlines() if not line.strip().startswith(changing)] == [
        line for line in there.splitlines() if not line.strip().startswith(changing)
    ]


def test_tables_for_spreadsheets_hold_no_formulas(campaign: Run) -> None:
    fill(campaign)
    campaign("tell", "survey", write_rows("survey", 11), "--key", "=HYPERLINK(1)", "--author", "@office")
    assert campaign("export", "batches.csv", "--table", "batches").code == 0
    last = Path("batches.csv").read_text(encoding="utf-8").splitlines()[-1]
    assert last.endswith(",'=HYPERLINK(1)")
    assert ",'@office," in last
    campaign("export", "orders.csv")
    assert Path("orders.csv").read_text(encoding="utf-8").startswith("round,source,asked,came,")


@pytest.mark.parametrize("suffix", ["html", "md", "json"])
def test_reports_are_written(campaign: Run, suffix: str) -> None:
    fill(campaign)
    assert campaign("report", f"r.{suffix}").code == 0
    text = Path(f"r.{suffix}").read_text(encoding="utf-8")
    for fact in ("z*(y - y0 - first*effect*z)", "Exploring: equally many rows of every source", "sourcewise import"):
        assert fact in text.replace("\\", "")


def test_a_delivery_after_the_end_says_where_the_campaign_stands(campaign: Run) -> None:
    campaign("stop", "--reason", "settled")
    told = campaign("tell", "registry", write_rows("registry", 20)).out
    assert "20 so far" in told
    assert "Stopped: settled" in told
    assert "sourcewise ask" not in told


def test_a_new_source_may_have_a_price_and_a_capacity(campaign: Run) -> None:
    options = ("--add", "clinic=z x y", "--cost", "clinic=2", "--capacity", "clinic=90")
    assert campaign("amend", *options).code == 0
    clinic = campaign("status", "--json").json["sources"][2]
    assert (clinic["name"], clinic["price"], clinic["capacity"]) == ("clinic", 2, 90)


def test_an_estimate_shows_both_intervals_at_the_level_of_the_campaign(run: Run) -> None:
    assert run("new", "two-sample-iv").code == 0
    path = Path("study.toml")
    path.write_text("level = 0.8\n" + path.read_text(encoding="utf-8"), encoding="utf-8")
    assert run("create", path).code == 0
    fill(run)
    found = run("estimate", "--json").json["look"]
    shown = run("estimate").out
    assert found["level"] == 0.8
    assert f"80 % interval for one look [{found['interval'][0]:.4f}, {found['interval'][1]:.3f}]" in shown
    assert f"at any time [{found['anytime'][0]:.4f}, {found['anytime'][1]:.3f}]" in shown
    assert "80 % interval   p of 0" in shown
    assert "90 % interval   p of 0" in run("estimate", "--level", "0.9").out


def test_a_password_is_not_printed(postgres_database: Callable[[], str], run: Run) -> None:
    store = postgres_database().replace(":@", ":s3cret@")
    assert "s3cret" in store
    run("new", "iv")
    for words in (("create", "study.toml"), ("create", "study.toml"), ("status",), ("export", "c.json")):
        answer = run(*words, "--store", store)
        assert "s3cret" not in answer.out + answer.err
    answer = run("import", "c.json", "--name", "again", "--store", store)
    assert (answer.code, "s3cret" in answer.out + answer.err) == (0, False)
