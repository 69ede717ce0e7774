"""Terms that change while a campaign runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import sourcewise as sw
from campaign.play import begin, play
from campaign.worlds import deal, study


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "campaigns.db")


class TestAmendments:
    def test_each_is_recorded_with_author_and_time(self, store: str) -> None:
        campaign = begin(store)
        play(campaign, 1)
        boss = sw.Campaign.open(store, author="boss")
        boss.amend(budget=2400, cost={"survey": 2.0}, target_width=0.5, policy=sw.ETG(0.5), reason="a grant")
        (amendment,) = campaign.record().amendments
        assert (amendment.author, amendment.reason) == ("boss", "a grant")
        assert amendment.time >= campaign.record().created
        assert amendment.changes["budget"] == (2000.0, 2400.0)
        assert amendment.changes["cost of survey"] == (3.0, 2.0)
        assert amendment.changes["target_width"] == (None, 0.5)
        assert set(amendment.changes) == {"budget", "cost of survey", "target_width", "policy"}

    def test_new_prices_hold_from_now_on(self, store: str) -> None:
        campaign = begin(store)
        play(campaign, 1)
        spent = campaign.status().money.spent
        before = campaign.ask()
        assert before is not None
        campaign.amend(cost={"survey": 30.0})
        assert campaign.status().money == sw.Campaign.open(store).status().money
        assert campaign.status().money.reserved == before.cost
        assert campaign.tell("survey", deal(study(), "survey", 2, 5)).cost == 60.0
        campaign.close_order()
        after = campaign.ask()
        assert after is not None
        assert after.prices["survey"] == 30.0
        assert after.rows.get("survey", 0) < before.rows["survey"] / 5
        assert campaign.status().money.spent == spent + 60.0

    def test_a_campaign_that_is_over_goes_on(self, store: str) -> None:
        campaign = begin(store)
        play(campaign)
        assert campaign.ask() is None
        campaign.amend(budget=3000)
        assert campaign.ask() is not None

    def test_a_retired_source_is_asked_for_nothing_more(self, store: str) -> None:
        campaign = begin(store)
        play(campaign, 1)
        order = campaign.ask()
        assert order is not None
        campaign.amend(retire="survey")
        assert campaign.status().order is None
        for order in play(campaign):
            assert "survey" not in order.rows
        assert campaign.tell("survey", deal(study(), "survey", 3, 77)).rows == 3  # was on its way
        assert [r.outcome for r in campaign.record().rounds[:2]] == ["filled", "closed"]
        assert campaign.status().money.left < 1.0

    def test_what_equal_rows_would_have_given_leaves_retired_sources_out(self, store: str) -> None:
        campaign = begin(store)
        campaign.amend(add={"both": sw.Source("z x y", 50.0)})
        campaign.amend(retire="both")
        play(campaign, rounds=2)
        look, fit = campaign.record().current, campaign.estimate()
        assert look is not None
        equal = sw.variance(campaign.study, fit, {"registry": 1.0, "survey": 1.0})
        assert look.stderr_equal == pytest.approx((equal / look.spent) ** 0.5)

    def test_a_source_that_never_gave_a_row_can_be_retired(self, store: str) -> None:
        both = sw.Source("z x y", 3.0)
        spec = sw.Study(study().moments, "beta", {**study().sources, "both": both})
        campaign = begin(store, spec)
        campaign.amend(retire=["both"])
        orders = play(campaign)
        assert len(orders) == 4
        assert all("both" not in order.rows for order in orders)

    def test_a_new_source_joins(self, store: str) -> None:
        campaign = begin(store)
        play(campaign, 1)
        amendment = campaign.amend(add={"both": sw.Source("z x y", 0.5)})
        assert amendment.changes["source both"][0] is None
        rows = dict.fromkeys(("registry", "survey", "both"), 0)
        for order in play(campaign):
            rows = {name: n + order.rows.get(name, 0) for name, n in rows.items()}
        assert rows["both"] > rows["registry"] + rows["survey"]
        assert set(campaign.estimate().rows) == {"registry", "survey", "both"}

    def test_capacities(self, store: str) -> None:
        campaign = begin(store)
        play(campaign, 1)
        had = campaign.status().sources[1].rows
        campaign.amend(capacity={"survey": had + 10})
        play(campaign)
        assert campaign.status().sources[1].rows == had + 10
        campaign.amend(capacity={"survey": None}, budget=3000)
        play(campaign)
        assert campaign.status().sources[1].rows > had + 10

    @pytest.mark.parametrize(
        ("options", "said"),
        [
            ({}, "nothing would change"),
            ({"budget": 2000.0}, "nothing would change"),
            ({"budget": -1}, "a budget"),
            ({"target_width": float("nan")}, "a target width"),
            ({"policy": "etg"}, "a policy is"),
            ({"cost": {"panel": 2.0}}, "no source 'panel'"),
            ({"cost": {"survey": -2.0}}, "cost"),
            ({"capacity": {"survey": 0}}, "capacity"),
            ({"retire": "panel"}, "no source 'panel'"),
            ({"add": {"survey": sw.Source("z y")}}, "already"),
            ({"add": {"panel": sw.Source("q")}}, "no moment"),
            ({"add": {"panel": sw.Source("z x alpha")}}, "alpha"),
        ],
    )
    def test_what_cannot_be_is_refused_and_nothing_is_written(self, store: str, options: Any, said: str) -> None:
        campaign = begin(store)
        with pytest.raises(sw.SourcewiseError, match=said):
            campaign.amend(**options)
        assert len(campaign.history()) == 1
