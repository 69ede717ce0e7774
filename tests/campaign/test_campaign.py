"""The life of a campaign: asking, telling, money, amendments, the end; on SQLite (`storage` tests the databases)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sourcewise as sw
from campaign.worlds import deal, logistic, study
from sourcewise.records import plain


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "campaigns.db")


def begin(store: str, spec: sw.Study | None = None, **options: Any) -> sw.Campaign:
    chosen = {"budget": 2000.0, "policy": sw.ETG(0.25), "name": "first", "author": "ann", **options}
    return sw.Campaign.create(store, spec or study(), **chosen)


def answer(campaign: sw.Campaign, order: sw.Order, seed: int = 0) -> list[sw.Batch]:
    spec = campaign.study
    return [
        campaign.tell(source, deal(spec, source, n, 1000 * seed + 10 * order.round + k))
        for k, (source, n) in enumerate(order.rows.items())
    ]


def play(campaign: sw.Campaign, rounds: int = 100) -> list[sw.Order]:
    orders: list[sw.Order] = []
    while len(orders) < rounds and (order := campaign.ask()):
        orders.append(order)
        answer(campaign, order)
    return orders


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


class TestKeys:
    def test_a_repeated_delivery_gets_the_same_answer_and_counts_once(self, store: str) -> None:
        campaign = begin(store)
        campaign.ask()
        rows = deal(study(), "registry", 40, 1)
        batch = campaign.tell("registry", rows)
        again = sw.Campaign.open(store, author="bob").tell("registry", {name: rows[name].tolist() for name in rows})
        assert (again, again.repeated, batch.repeated) == (batch, True, False)
        assert again.author == "ann"
        assert campaign.status().sources[0].rows == 40

    def test_a_key_names_a_delivery(self, store: str) -> None:
        campaign = begin(store)
        rows = deal(study(), "registry", 40, 1)
        first = campaign.tell("registry", rows, "day 1")
        assert campaign.tell("registry", rows, "day 1") == first
        assert campaign.tell("registry", rows, "day 2").so_far == 80

    @pytest.mark.parametrize(
        ("source", "seed", "cost", "difference"),
        [
            ("registry", 2, None, "other content"),
            ("registry", 1, 7.0, "another cost"),
            ("survey", 1, None, "source 'registry'"),
        ],
    )
    def test_the_same_key_for_something_else_is_a_conflict(
        self, store: str, source: str, seed: int, cost: float | None, difference: str
    ) -> None:
        campaign = begin(store)
        campaign.tell("registry", deal(study(), "registry", 40, 1), "k")
        before = campaign.status()
        with pytest.raises(sw.ConflictError, match=difference):
            campaign.tell(source, deal(study(), source, 40, seed), "k", cost=cost)
        assert campaign.status() == before

    def test_a_key_of_another_event_is_a_conflict(self, store: str) -> None:
        campaign = begin(store)
        campaign.ask()
        with pytest.raises(sw.ConflictError, match="another event"):
            campaign.tell("registry", deal(study(), "registry", 40, 1), campaign.history()[1].key)

    def test_no_key_of_a_user_stands_in_the_way_of_an_order(self, store: str) -> None:
        campaign = begin(store)
        for k in range(3):
            campaign.tell("registry", deal(study(), "registry", 4, k), f"order {k}")
        assert campaign.ask() is not None

    def test_rows_that_differ_only_in_order_are_other_rows(self, store: str) -> None:
        campaign = begin(store)
        rows = deal(study(), "registry", 40, 1)
        campaign.tell("registry", rows)
        assert campaign.tell("registry", {name: rows[name][::-1] for name in rows}).so_far == 80


class TestStatisticsFromElsewhere:
    def test_an_owner_needs_only_the_order(self, store: str, tmp_path: Path) -> None:
        campaign, spec = begin(store), study()
        order = campaign.ask()
        assert order is not None
        assert order.centre == {}
        campaign.tell("registry", sw.summarize(spec, "registry", deal(spec, "registry", order.rows["registry"], 1)))
        letter = sw.summarize(spec, "survey", deal(spec, "survey", order.rows["survey"], 2))
        assert isinstance(letter, sw.Statistics)
        (tmp_path / "letter.json").write_text(letter.to_json(), encoding="utf-8")
        campaign.tell("survey", tmp_path / "letter.json")
        second = campaign.ask()
        assert second is not None
        assert second.centre["survey"] == letter.centre
        rows = deal(spec, "survey", 50, 3)
        third = sw.summarize(spec, "survey", rows, second.centre["survey"])
        assert campaign.tell("survey", third).so_far == order.rows["survey"] + 50
        both = sw.summarize(
            spec,
            "survey",
            {n: np.append(deal(spec, "survey", order.rows["survey"], 2)[n], rows[n]) for n in rows},
            letter.centre,
        )
        assert campaign.estimate().statistics["survey"].to_json() == both.to_json()

    @pytest.mark.parametrize("as_file", [True, False])
    def test_another_centre_is_refused_with_the_way_out(self, store: str, tmp_path: Path, as_file: bool) -> None:
        campaign, spec = begin(store), study()
        campaign.tell("registry", deal(spec, "registry", 100, 1))
        rows = {name: values + 1e6 for name, values in deal(spec, "registry", 100, 2).items()}
        letter = sw.summarize(spec, "registry", rows)
        path = tmp_path / "letter.json"
        path.write_text(letter.to_json(), encoding="utf-8")
        with pytest.raises(sw.DataError, match=r"order\.centre\['registry'\]"):
            campaign.tell("registry", path if as_file else letter)
        assert campaign.status().sources[0].rows == 100

    def test_files_that_hold_something_else_are_refused(self, store: str, tmp_path: Path) -> None:
        campaign = begin(store)
        path = tmp_path / "rows.json"
        for text, said in (('{"a": 1}', "sourcewise.statistics"), ('{"a": NaN}', "NaN"), ("[" * 100_000, "nested")):
            path.write_text(text, encoding="utf-8")
            with pytest.raises(sw.DataError, match=said):
                campaign.tell("registry", path)
        with pytest.raises(sw.DataError, match="cannot be read"):
            campaign.tell("registry", tmp_path / "absent.json")

    def test_statistics_of_another_source_are_refused(self, store: str) -> None:
        campaign = begin(store)
        with pytest.raises(sw.DataError, match="'registry'"):
            campaign.tell("survey", sw.summarize(study(), "registry", deal(study(), "registry", 9, 1)))


class TestRows:
    def test_moments_that_need_rows_get_them(self, store: str) -> None:
        spec = logistic()
        campaign = begin(store, spec, budget=600.0)
        orders = play(campaign)
        assert len(orders) == 4
        told: dict[str, list[dict[str, Any]]] = {"clinic": [], "panel": []}
        for order in orders:
            for k, (source, n) in enumerate(order.rows.items()):
                told[source].append(deal(spec, source, n, 10 * order.round + k))
        data = {s: {v: np.concatenate([part[v] for part in parts]) for v in parts[0]} for s, parts in told.items()}
        again = sw.Campaign.open(store).estimate()
        assert again.to_dict() == campaign.estimate().to_dict()
        assert again.target.value == pytest.approx(sw.fit(spec, data).target.value, rel=1e-12)

    @pytest.mark.parametrize("keep_rows", [True, False])
    def test_rows_are_kept_only_on_request(self, store: str, keep_rows: bool) -> None:
        campaign = begin(store, keep_rows=keep_rows)
        rows = {"z": np.array([3.25, 1.0, 2.0]), "x": np.array([777.125, 5.0, 4.0])}
        campaign.tell("registry", rows)
        content = Path(store).read_bytes() + Path(store + "-wal").read_bytes()
        assert (np.array([777.125, 5.0]).tobytes() in content) == keep_rows
        assert campaign.status().sources[0].rows == 3


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
