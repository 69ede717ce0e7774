"""Whole campaigns that answer themselves: to the end, interrupted anywhere, over tables that run out or change."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sourcewise as sw
from sourcewise.driver.sources import connectors_of
from sourcewise.driver.world import PIECE
from sourcewise.records import CampaignRecord, Status, plain
from sourcewise.studyfile.recipes import RECIPES, recipe


def small(name: str = "iv", budget: float = 2000.0) -> sw.StudyFile:
    return replace(sw.StudyFile.from_toml(recipe(name)), budget=budget, policy=sw.ETG(0.25))


def facts(record: CampaignRecord) -> Any:
    """Everything in a record but when it happened, and how often the program was started."""

    def timeless(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                k: timeless(v) for k, v in value.items() if k not in ("time", "made", "created", "ended", "updated")
            }
        return [timeless(item) for item in value] if isinstance(value, list) else value

    found = timeless(plain(record))
    found.pop("reproduce")
    return found


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_runs_to_its_end(name: str, tmp_path: Path) -> None:
    file = sw.StudyFile.from_toml(recipe(name))
    seen: list[Status] = []
    record = sw.run(file, tmp_path / "store.db", watch=seen.append)
    assert record.state == "over"
    assert record.current is not None
    assert record.current.status == "converged"
    assert file.budget is not None
    assert record.money.spent <= file.budget * (1 + 1e-9)
    assert record.money.left < max(s.cost for s in file.study.sources.values())
    truth = file.world["truth"] if file.world else None
    assert record.current.value is not None
    assert record.current.stderr is not None
    assert abs(record.current.value - truth) < 4 * record.current.stderr  # type: ignore[operator]
    assert sum(batch.rows for batch in record.batches) == sum(source.rows for source in record.sources)
    assert [status.money.spent for status in seen] == sorted(status.money.spent for status in seen)
    assert seen[-1].state == "over"


def interrupted(point: int, before: bool) -> Callable[..., Any]:
    """`Campaign.tell`, stopped as if by Ctrl-C before or after the delivery with this number."""
    tell, count = sw.Campaign.tell, iter(range(10**6))

    def stopped(self: sw.Campaign, *arguments: Any, **options: Any) -> Any:
        now = next(count)
        if before and now == point:
            raise KeyboardInterrupt
        found = tell(self, *arguments, **options)
        if now == point:
            raise KeyboardInterrupt
        return found

    return stopped


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("point", [0, 1, 2, 3, 7])
def test_an_interrupted_run_ends_as_one_that_was_not(
    point: int, before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = small()
    whole = sw.run(file, tmp_path / "whole.db")
    with monkeypatch.context() as patched:
        patched.setattr(sw.Campaign, "tell", interrupted(point, before))
        with pytest.raises(KeyboardInterrupt):
            sw.run(file, tmp_path / "parts.db")
    assert facts(sw.run(file, tmp_path / "parts.db")) == facts(whole)


def test_a_run_may_be_taken_round_by_round(tmp_path: Path) -> None:
    file = small()
    whole = sw.run(file, tmp_path / "whole.db")
    rounds = 0
    while (record := sw.run(file, tmp_path / "parts.db", rounds=1)).state != "over":
        rounds += 1
    assert rounds == len(whole.rounds)
    assert facts(record) == facts(whole)
    assert facts(sw.run(file, tmp_path / "parts.db")) == facts(whole)  # and once more changes nothing


@pytest.mark.parametrize("point", [0, 1, 2, 3, 5, 7])
def test_runs_that_cross_count_no_row_twice(point: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second run goes through two rounds while a delivery of the first is on its way."""
    file, store = small(), tmp_path / "crossed.db"
    whole = sw.run(file, tmp_path / "whole.db")
    tell, count = sw.Campaign.tell, iter(range(10**6))

    def crossed(self: sw.Campaign, *arguments: Any, **options: Any) -> Any:
        if next(count) == point:
            sw.run(file, store, rounds=2)
        return tell(self, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(sw.Campaign, "tell", crossed)
        found = sw.run(file, store)
    assert facts(found) == facts(whole)


def test_runs_that_start_together_share_the_work(tmp_path: Path) -> None:
    write(tmp_path, "left", "x", [float(k % 7) for k in range(60)])
    write(tmp_path, "right", "y", [float("nan") if k % 5 == 0 else float(k % 3) for k in range(400)])
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    store, together = tmp_path / "store.db", Barrier(4)

    def start(_: int) -> CampaignRecord:
        together.wait()
        return sw.run(tmp_path / "study.toml", store)

    whole = sw.run(tmp_path / "study.toml", tmp_path / "whole.db")
    with ThreadPoolExecutor(4) as pool:
        ends = list(pool.map(start, range(4)))
    assert [end.money for end in ends] == [whole.money] * 4
    assert [end.sources for end in ends] == [whole.sources] * 4
    for source in ("left", "right"):  # which of them comes first is chance, and no row is left out
        told = [[b for b in facts(end)["batches"] if b["source"] == source] for end in (ends[0], whole)]
        assert told[0] == told[1]


STUDY = """
target = "b - a"
moments = ["x - a", "y - b"]
budget = 300
policy = {kind = "etg", batch = 0.25}
[sources.left]
observes = ["x"]
data = {path = "left.csv"}
[sources.right]
observes = ["y"]
data = {path = "right.csv", missing = "drop"}
"""


def write(folder: Path, name: str, column: str, values: list[float]) -> None:
    text = "\n".join([column, *("" if np.isnan(v) else f"{v:g}" for v in values)])
    (folder / f"{name}.csv").write_text(text + "\n", encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """40 rows on the left, and on the right 200, of which every fourth lacks its value."""
    write(tmp_path, "left", "x", [float(2**k % 997) for k in range(40)])
    write(tmp_path, "right", "y", [np.nan if k % 4 == 0 else float(k * k % 991) for k in range(200)])
    (tmp_path / "study.toml").write_text(STUDY, encoding="utf-8")
    return tmp_path


def test_tables_that_run_out_end_the_campaign_and_every_row_counts_once(folder: Path) -> None:
    record = sw.run(folder / "study.toml", folder / "store.db")
    assert record.state == "over"
    assert "no source has rows left" in record.reason
    assert {source.name: source.rows for source in record.sources} == {"left": 40, "right": 150}
    assert {source.name: source.capacity for source in record.sources} == {"left": 40, "right": 150}
    assert any("ran out of rows" in amendment.reason for amendment in record.amendments)
    found = sw.Campaign.open(folder / "store.db").estimate()
    left = [float(2**k % 997) for k in range(40)]
    right = [float(k * k % 991) for k in range(200) if k % 4]
    assert found.parameters["a"].value == pytest.approx(np.mean(left), rel=1e-12)
    assert found.parameters["b"].value == pytest.approx(np.mean(right), rel=1e-12)


@pytest.mark.parametrize("point", range(0, 9, 2))
def test_an_interruption_between_rows_that_lack_values_loses_none(
    point: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = sw.run(folder / "study.toml", folder / "whole.db")
    with monkeypatch.context() as patched:
        patched.setattr(sw.Campaign, "tell", interrupted(point, before=False))
        with pytest.raises(KeyboardInterrupt):
            sw.run(folder / "study.toml", folder / "parts.db")
    parts = sw.run(folder / "study.toml", folder / "parts.db")
    assert {s.name: s.rows for s in parts.sources} == {s.name: s.rows for s in whole.sources}
    assert parts.current is not None
    assert whole.current is not None
    # rows that are read again after an interruption may be summed in another order
    assert parts.current.value == pytest.approx(whole.current.value, rel=1e-12)


def test_hundreds_of_tables_may_run_out_at_once(tmp_path: Path) -> None:
    names = [f"{'a source with a long name ':x<90}{k}" for k in range(120)]
    sources = {name: sw.Source("x", cost=1.0) for name in names}
    file = sw.StudyFile(sw.Study(["x - a"], "a", sources), budget=1e5, policy=sw.ETG(0.5))
    record = sw.run(file, tmp_path / "store.db", data={name: {"x": np.arange(3.0)} for name in names})
    assert "no source has rows left" in record.reason
    assert sum(source.rows for source in record.sources) == 360
    assert record.amendments[0].reason.endswith("and 100 more ran out of rows")


def test_a_table_that_changed_between_runs_stops_the_run_and_loses_nothing(folder: Path) -> None:
    before = sw.run(folder / "study.toml", folder / "store.db", rounds=1)
    write(folder, "left", "x", [1.0] * 50)
    with pytest.raises(sw.ConnectorError, match="has changed since rows were taken"):
        sw.run(folder / "study.toml", folder / "store.db")
    after = sw.Campaign.open(folder / "store.db").record()
    assert [batch.rows for batch in after.batches] == [batch.rows for batch in before.batches]


def test_frames_can_take_the_place_of_what_the_file_says(folder: Path) -> None:
    frame = {"x": np.arange(500.0)}
    record = sw.run(folder / "study.toml", folder / "store.db", data={"left": frame})
    assert record.state == "over"
    assert {s.name: s.rows for s in record.sources}["left"] > 40


def test_two_sources_may_be_one_table(tmp_path: Path) -> None:
    """Their rows have the same ranks in the same file, and are told under different keys."""
    (tmp_path / "both.csv").write_text("x,y\n" + "".join(f"{k},{k * k % 7}\n" for k in range(50)), encoding="utf-8")
    text = STUDY.replace("left.csv", "both.csv").replace("right.csv", "both.csv")
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    record = sw.run(tmp_path / "study.toml", tmp_path / "store.db")
    assert {source.name: source.rows for source in record.sources} == {"left": 50, "right": 50}


def test_what_stands_in_the_way_of_a_run_is_said(folder: Path) -> None:
    file = sw.StudyFile.from_toml(STUDY.replace('data = {path = "left.csv"}', ""), "study.toml", folder)
    store = folder / "store.db"
    with pytest.raises(sw.CampaignError, match="source 'left' has no data"):
        sw.run(file, store)
    with pytest.raises(sw.DataError, match="there is no source 'middle'"):
        sw.run(file, store, data={"middle": {"x": [1.0]}})
    with pytest.raises(sw.DataError, match="observes x, which its data do not have"):
        sw.run(file, store, data={"left": {"z": [1.0, 2.0]}})
    with pytest.raises(sw.CampaignError, match="rounds must be a whole number"):
        sw.run(folder / "study.toml", store, rounds=0)
    assert not store.exists()


def test_a_campaign_of_another_study_is_not_continued(folder: Path) -> None:
    file = replace(sw.StudyFile.read(folder / "study.toml"), name="one")
    sw.run(file, folder / "store.db", rounds=1)
    other = replace(sw.StudyFile.from_toml(STUDY.replace("b - a", "b"), "x", folder), name="one")
    with pytest.raises(sw.CampaignError, match="is of another study"):
        sw.run(other, folder / "store.db")


def test_a_precision_alone_makes_no_campaign(tmp_path: Path) -> None:
    file = sw.StudyFile.from_toml(recipe("iv").replace("budget = 20000", "precision = 0.1"))
    with pytest.raises(sw.CampaignError, match="a campaign needs a budget"):
        sw.run(file, tmp_path / "store.db")


def test_a_run_stops_when_it_is_precise_enough(tmp_path: Path) -> None:
    record = sw.run(replace(small("iv", 20000.0), precision=0.4), tmp_path / "store.db")
    assert record.current is not None
    assert record.current.width is not None
    assert record.current.width <= 0.4
    assert record.money.spent < 20000
    assert "precise enough" in record.reason


ranks = st.integers(0, 3 * PIECE)


@given(ranks, ranks, ranks)
def test_rows_of_a_world_do_not_depend_on_how_they_are_asked_for(start: int, first: int, second: int) -> None:
    tables = connectors_of(small())
    survey = tables["survey"]
    whole = survey.take(start, first + second, ["y", "z"])
    parts = [survey.take(start, first, ["y", "z"]), survey.take(start + first, second, ["y", "z"])]
    for name, values in whole.items():
        assert np.array_equal(values, np.concatenate([part[name] for part in parts]))
    assert len(whole["y"]) == first + second


def test_sources_of_a_world_draw_rows_of_their_own() -> None:
    tables = connectors_of(small())
    one, other = (tables[name].take(0, 500, ["z"])["z"] for name in ("registry", "survey"))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.2
    seeded = replace(small(), world={**(small().world or {}), "seed": 2})
    assert not np.array_equal(connectors_of(seeded)["registry"].take(0, 5, ["z"])["z"], one[:5])
    assert tables["survey"].fingerprint() != connectors_of(seeded)["survey"].fingerprint()
