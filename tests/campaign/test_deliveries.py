"""What is told: keys that are told twice, statistics made elsewhere, rows that are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sourcewise as sw
from campaign.play import begin, play
from campaign.worlds import deal, logistic, study


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "campaigns.db")


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

    def test_rows_that_were_chosen_before_others_came_are_not_counted(self, store: str) -> None:
        campaign = begin(store)
        first, second = deal(study(), "registry", 40, 1), deal(study(), "registry", 40, 2)
        assert campaign.tell("registry", first, after=0).so_far == 40
        with pytest.raises(sw.ConflictError, match="has 40 rows, and these were chosen when it had 0"):
            campaign.tell("registry", second, after=0)
        assert campaign.tell("registry", first, after=0).repeated
        assert campaign.tell("survey", deal(study(), "survey", 5, 3), after=0).so_far == 5
        assert campaign.tell("registry", second, after=40).so_far == 80
        assert [event.seq for event in campaign.history(after=2)] == [3, 4]

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


def test_only_the_order_that_is_meant_is_closed(store: str) -> None:
    campaign = begin(store)
    first = campaign.ask()
    assert campaign.close_order("late", order=first) == first
    second = campaign.ask()
    with pytest.raises(sw.CampaignError, match="order 1 is closed already; order 2 is open"):
        campaign.close_order("late", order=first)
    assert campaign.ask() == second
