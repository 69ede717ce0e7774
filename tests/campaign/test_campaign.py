"""The life of a campaign: asking, telling, money, the end; on SQLite (`storage` tests the databases)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sourcewise as sw
from campaign.play import answer, begin, play
from campaign.worlds import deal, study
from sourcewise.records import plain


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "campaigns.db")


def test_a_campaign_from_the_first_order_to_the_last(store: str) -> None:
    campaign = begin(store)
    orders = play(campaign)
    assert [order.round for order in orders] == [1, 2, 3, 4]
    assert campaign.ask() is None
    status = campaign.status()
    assert (status.state, status.money.spent, status.money.reserved, status.money.left) == ("over", 2000.0, 0.0, 0.0)
    assert status.reason.startswith("the budget is spent")
    assert [source.rows for source in status.sources] == [
        sum(order.rows.get(name, 0) for order in orders) for name in ("registry", "survey")
    ]
    assert status.look is not None
    assert status.look.value == campaign.estimate().target.value


def test_orders_are_those_of_next_order(store: str) -> None:
    """A campaign adds memory, not another policy."""
    campaign, spec, policy = begin(store), study(), sw.ETG(0.25)
    data: dict[str, sw.Statistics] = {}
    rows, target = {"registry": 0, "survey": 0}, None
    while order := campaign.ask():
        found = sw.fit(spec, data, ridge=policy.ridge) if data else None
        expected = sw.next_order(spec, policy, budget=2000, rows=rows, fit=found, last_target=target)
        assert expected is not None
        assert (order.rows, order.cost, order.target, order.reason) == (
            {name: n for name, n in expected.rows.items() if n},
            expected.cost,
            expected.target,
            expected.reason,
        )
        answer(campaign, order)
        target = expected.target
        for k, (source, n) in enumerate(order.rows.items()):
            centre = data[source].centre if source in data else None
            batch = sw.summarize(spec, source, deal(spec, source, n, 10 * order.round + k), centre)
            assert isinstance(batch, sw.Statistics)
            data[source] = data[source] + batch if source in data else batch
            rows[source] += n
    assert campaign.estimate().to_dict() == sw.fit(spec, data).to_dict()


def test_the_same_order_until_it_is_filled(store: str) -> None:
    campaign = begin(store)
    order = campaign.ask()
    assert order is not None
    campaign.tell("registry", deal(study(), "registry", order.rows["registry"], 1))
    campaign.tell("survey", deal(study(), "survey", order.rows["survey"] - 1, 2))
    assert campaign.ask() == sw.Campaign.open(store).ask() == order
    status = campaign.status()
    assert (status.state, status.money.reserved) == ("collecting", 3.0)
    campaign.tell("survey", deal(study(), "survey", 1, 3))
    second = campaign.ask()
    assert second is not None
    assert second.round == 2


def test_money_is_reserved_when_asked_and_settled_when_told(store: str) -> None:
    campaign = begin(store)
    order = campaign.ask()
    assert order is not None
    money = campaign.status().money
    assert (money.spent, money.reserved, money.left) == (0.0, order.cost, 2000.0 - order.cost)
    batch = campaign.tell("survey", deal(study(), "survey", 25, 1))
    assert (batch.rows, batch.cost, batch.so_far, batch.round) == (25, 75.0, 25, 1)
    again = campaign.status().money
    assert (again.spent, again.reserved, again.left) == (75.0, order.cost - 75.0, money.left)
    surplus = campaign.tell("survey", deal(study(), "survey", order.rows["survey"], 2), cost=10)
    assert surplus.cost == 10.0
    assert campaign.status().money.spent == 85.0
    assert campaign.status().money.reserved == order.rows["registry"]


def test_shortfalls_and_late_rows_are_counted_as_they_come(store: str) -> None:
    campaign = begin(store)
    first = campaign.ask()
    assert first is not None
    campaign.tell("registry", deal(study(), "registry", 100, 1))
    campaign.tell("survey", deal(study(), "survey", 60, 2))
    assert campaign.close_order("the survey is slow") == first
    second = campaign.ask()
    assert second is not None
    assert second.cost == pytest.approx(500.0 - 280.0, abs=3.0)  # up to the first mark: exploring is not over
    late = campaign.tell("survey", deal(study(), "survey", 65, 3))
    assert (late.round, late.so_far) == (2, 125)
    answer(campaign, second)
    with pytest.raises(sw.CampaignError, match="no open order"):
        campaign.close_order()
    rounds = campaign.record().rounds
    assert [(r.outcome, r.note) for r in rounds] == [("closed", "the survey is slow"), ("filled", "")]
    assert rounds[0].received == {"registry": 100, "survey": 60}


def test_more_than_the_budget_pays_for_ends_the_campaign(store: str) -> None:
    campaign = begin(store)
    campaign.ask()
    for k, source in enumerate(campaign.study.sources):
        campaign.tell(source, deal(study(), source, 900, k))
    assert campaign.ask() is None
    assert campaign.status().money.left == -1600.0


class TestTheEnd:
    def test_a_target_width_is_reached_by_the_anytime_interval(self, store: str) -> None:
        campaign = begin(store, budget=20_000.0, policy=sw.ETG(0.05), target_width=0.3)
        orders = play(campaign)
        look = campaign.status().look
        assert look is not None
        assert look.width is not None
        assert look.interval[0] is not None
        assert look.anytime[0] is not None
        assert look.anytime[0] < look.interval[0]
        assert look.width <= 0.3
        assert "precise enough" in campaign.status().reason
        earlier = campaign.record().looks[-2].width
        assert earlier is not None
        assert earlier > 0.3
        assert 1 < len(orders) < 20
        campaign.amend(target_width=None)
        assert campaign.ask() is not None

    def test_by_hand_and_for_good(self, store: str) -> None:
        campaign = begin(store)
        order = campaign.ask()
        assert order is not None
        campaign.stop("the funding ended")
        assert campaign.ask() is None
        assert (campaign.status().state, campaign.status().reason) == ("stopped", "the funding ended")
        assert campaign.status().money.reserved == 0.0
        for act in (campaign.stop, campaign.close_order, lambda: campaign.amend(budget=9)):
            with pytest.raises(sw.CampaignError, match="the funding ended"):
                act()
        answer(campaign, order)
        assert campaign.estimate().rows == order.rows

    def test_when_no_source_has_rows_left(self, store: str) -> None:
        campaign = begin(store, study(capacity=60))
        campaign.amend(capacity={"survey": 50})
        play(campaign)
        assert campaign.status().reason.startswith("no source has rows left")


class TestOpening:
    def test_by_name_or_without_when_there_is_one(self, store: str) -> None:
        begin(store)
        assert sw.Campaign.open(store).name == "first"
        begin(store, name="second")
        with pytest.raises(sw.CampaignError, match="'first', 'second'"):
            sw.Campaign.open(store)
        with pytest.raises(sw.StorageError, match="no campaign 'third'"):
            sw.Campaign.open(store, "third")
        assert sw.campaigns(store) == ("first", "second")

    def test_a_name_is_taken_once(self, store: str) -> None:
        begin(store)
        with pytest.raises(sw.StorageError, match="already"):
            begin(store)

    def test_nothing_is_made_where_nothing_is(self, tmp_path: Path) -> None:
        with pytest.raises(sw.StorageError, match="no store"):
            sw.Campaign.open(tmp_path / "misspelt.db")
        assert not (tmp_path / "misspelt.db").exists()

    @pytest.mark.parametrize("options", [{"budget": 0}, {"budget": "9"}, {"level": 1.0}, {"name": " "}, {"policy": 1}])
    def test_bad_terms_make_no_store(self, store: str, options: Any) -> None:
        with pytest.raises(sw.CampaignError):
            begin(store, **options)
        assert not Path(store).exists()

    def test_a_first_round_that_cannot_work_is_refused_when_asked_for(self, store: str) -> None:
        campaign = begin(store, budget=3.0)
        with pytest.raises(sw.AllocationError, match="first round"):
            campaign.ask()
        assert len(campaign.history()) == 1


def test_bad_deliveries_change_nothing(store: str) -> None:
    campaign = begin(store)
    before = campaign.status()
    rows = deal(study(), "registry", 5, 1)
    calls: list[tuple[Any, ...]] = [
        ("panel", rows),
        (3, rows),
        ("registry", {"z": [1.0]}),
        ("registry", {"z": [], "x": []}),
    ]
    for call in calls:
        with pytest.raises(sw.SourcewiseError):
            campaign.tell(*call)
    for options in ({"key": ""}, {"key": "a\nb"}, {"cost": -1.0}, {"cost": float("inf")}, {"missing": "keep"}):
        with pytest.raises(sw.SourcewiseError):
            campaign.tell("registry", rows, **options)
    assert campaign.status() == before
    with pytest.raises(sw.CampaignError, match="nothing has been told"):
        campaign.estimate()


def test_missing_values_are_dropped_on_request(store: str) -> None:
    campaign = begin(store)
    rows = {"z": [1.0, 2.0, float("nan")], "x": [2.0, 1.0, 1.0]}
    batch = campaign.tell("registry", rows, missing="drop")
    assert (batch.rows, batch.dropped, batch.cost) == (2, 1, 2.0)


def test_the_history_says_who_did_what(store: str) -> None:
    campaign = begin(store)
    order = campaign.ask()
    assert order is not None
    answer(sw.Campaign.open(store, author="bob"), order)
    campaign.ask()
    campaign.close_order()
    campaign.amend(budget=2500)
    campaign.stop()
    events = campaign.history()
    assert [event.kind for event in events] == [
        *("created", "asked", "told", "told", "asked", "closed", "amended", "stopped")
    ]
    assert [event.author for event in events] == ["ann", "ann", "bob", "bob", "ann", "ann", "ann", "ann"]
    assert [event.seq for event in events] == list(range(1, 9))
    assert [event.time for event in events] == sorted(event.time for event in events)
    assert events[1].body["order"] == plain(order)
