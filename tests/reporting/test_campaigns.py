"""The report of a campaign says everything that its record holds, and executes none of it."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import sourcewise as sw
from reporting.pages import HOSTILE, harmless, read, strict_json
from reporting.records import BAD, look, record, untouched
from sourcewise.plots.table import printable
from sourcewise.records import plain
from sourcewise.reporting import Figure, Table, campaign_document, campaign_json, to_html, to_markdown, write_campaign
from sourcewise.reporting.campaign import MOST
from sourcewise.reporting.progress import EQUAL, FIXED, progress
from sourcewise.reporting.words import interval, money, policy_in_words, sentence, value_in_words, when
from sourcewise.spec.plain import study_to_plain
from sourcewise.studyfile.recipes import recipe


def table(title: str, **changes: Any) -> Table:
    blocks = campaign_document(record(**changes)).blocks
    return next(block for block in blocks if isinstance(block, Table) and block.title == title)


def test_a_page_of_hostile_names_is_harmless_and_says_them() -> None:
    page = read(to_html(campaign_document(record())))
    assert harmless(page)
    whole = "".join(page.texts)
    assert f"Campaign: lottery {HOSTILE}" in whole
    assert len(page.of("svg")) == 3


@pytest.mark.parametrize(
    "words",
    [
        "2026-03-01 12:34 UTC",
        "The campaign is open, and an order is being filled. Fill the open order.",
        "95 % interval, fixed: for one look that was planned in advance",
        "95 % interval, anytime: holds at all looks together",
        "[1.5100, 2.4900]",
        "[1.250, 2.750]",
        "[0.500, 1.500] and [1.75, ∞)",
        "rounds of 25 % of the budget",
        "z*(x - alpha*z)",
        "718",
        "sourcewise report report.html",
        "Made 2026-03-01 12:34 UTC by Sourcewise 9.8.7.",
        "ran out",
    ],
)
def test_facts_are_in_the_page(words: str) -> None:
    assert words in "".join(read(to_html(campaign_document(record()))).texts)


def test_every_order_has_its_reason() -> None:
    orders = table("Every order, with its reason")
    assert [row[0] for row in orders.rows] == [1, 2, 3]
    assert list(orders.details) == [f"Reason {k} {HOSTILE}" for k in (1, 2, 3)]
    assert [row[3] for row in orders.rows] == ["all", f"registry 10, {BAD} 13", "all"]
    whole = "".join(read(to_html(campaign_document(record()))).texts)
    assert all(f"Reason {k} {printable(HOSTILE)}" in whole for k in (1, 2, 3))


def test_the_ledger_adds_up() -> None:
    standing = {row[0]: row[1] for row in table("Where the budget stands").rows}
    assert standing == {"Budget": "1,000", "Spent": "211.50", "Reserved for the open order": "70.50", "Left": "718"}
    *_, total = table("By source").rows
    assert total == ["All", 90, "211.50", "100.0%", 20, 5]


def test_more_rows_than_the_budget_pays_for_are_said() -> None:
    from sourcewise.records import Money

    assert "More rows came" in table("Where the budget stands", money=Money(100.0, 130.0, 0.0)).note


def test_every_source_has_its_test() -> None:
    tests = table("Tests of over-identifying restrictions (J)")
    assert [row[0] for row in tests.rows] == ["All moments together", "registry", BAD]
    assert tests.rows[1] == ["registry", None, 0, "nothing to test"]
    assert tests.rows[2] == [BAD, 1.5, 1, 0.221]


def test_each_changed_term_has_a_row() -> None:
    changes = table("Changes of the terms")
    assert [list(row[2:5]) for row in changes.rows] == [["budget", "900", "1,000"], [f"cost of {BAD}", "2.5", "none"]]


def test_the_counterfactual_is_the_fixed_interval_at_the_other_standard_error() -> None:
    figures = [block for block in progress(record()) if isinstance(block, Figure)]
    rows = [row for rows in figures[1].chart.to_dict()["datasets"].values() for row in rows if "series" in row]
    widths = {row["series"]: row["width"] for row in rows if row["spent"] == 211.5}
    assert widths[EQUAL] == pytest.approx(1.1 * widths[FIXED], rel=1e-12)
    assert widths[FIXED] == pytest.approx(2 * 1.96 * 0.25, rel=1e-12)
    # Variance is inversely proportional to money: 1.1² − 1.
    assert "would need 21% more money" in figures[1].caption


@pytest.mark.parametrize(
    ("equal", "words"), [(0.2, "would need 36% less money"), (None, "is not known"), (0.25, "would need 0% more money")]
)
def test_the_gain_is_said_as_it_is(equal: float | None, words: str) -> None:
    last = replace(look(3, 211.5, 0.25), stderr_equal=equal)
    figures = [block for block in progress(record(looks=(last,))) if isinstance(block, Figure)]
    assert words in figures[1].caption


def test_a_campaign_without_rows_has_a_report() -> None:
    text = to_markdown(campaign_document(untouched()))
    for words in ("no estimate yet", "Nothing has been ordered yet", "nothing to draw", "terms have not been changed"):
        assert words in text
    assert harmless(read(to_html(campaign_document(untouched()))))


def test_a_target_that_is_not_identified_is_not_given_a_number() -> None:
    lost = look(1, 70.5, None)
    page = to_markdown(campaign_document(record(looks=(lost,), current=lost)))
    assert "The data do not identify beta" in page
    assert "the whole line" in page


def test_old_deliveries_are_left_to_the_json_form() -> None:
    many = tuple(record().batches) * 100
    found = table("What came", batches=many)
    assert len(found.rows) == MOST
    assert "100 earlier ones" in found.note
    assert len(strict_json(campaign_json(record(batches=many)))["batches"]) == 300


def test_json_is_the_record(tmp_path: Path) -> None:
    written = write_campaign(record(), tmp_path / "r.json").read_text(encoding="utf-8")
    found = strict_json(written)
    assert found == plain(record())
    wild = strict_json(campaign_json(record(target_width=math.inf)))
    assert wild["target_width"] is None


def test_the_report_is_written_as_a_page_and_as_markdown(tmp_path: Path) -> None:
    assert write_campaign(record(), tmp_path / "r.html").read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    assert "(r-3.svg)" in write_campaign(record(), str(tmp_path / "r.md")).read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("ends", "text"),
    [
        ((None, None), "the whole line"),
        ((None, 1.5), "(−∞, 1.5]"),
        ((-1.0, None), "[−1, ∞)"),
        ((0.960017, 1.10258), "[0.9600, 1.1026]"),
        ((-12345.6, 12345.6), "[−12,346, 12,346]"),
        ((1.0, 1.0), "[1, 1]"),
        ((1e-12, 3e-12), "[1.000e−12, 3.000e−12]"),
    ],
)
def test_intervals_in_words(ends: tuple[float | None, float | None], text: str) -> None:
    assert interval(ends) == text


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        (0.0, "0"),
        (1234567.89, "1,234,567.89"),
        (0.001, "0.001"),
        (-5.5, "−5.50"),
        (1e6, "1,000,000"),
        (0.1 + 0.2, "0.30"),
    ],
)
def test_money_is_never_rounded_to_thousands(amount: float, text: str) -> None:
    assert money(amount) == text


@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ({"kind": "fixed", "mix": "equal"}, "A fixed mix: equal"),
        ({"kind": "fixed", "mix": {"a": 0.5}}, 'A fixed mix: {"a": 0.5}'),
        ({"kind": "etc", "explore": 0.2}, "Explore equally with 20 % of the budget, then commit the rest"),
        (
            {"kind": "etg", "batch": [0.2, 1.0], "per": "budget"},
            "Explore equally with 20 % of the budget, estimate once",
        ),
        ({"kind": "etg", "batch": [0.2, 0.4, 1.0], "per": "rows"}, "end at 20 %, 40 %, 100 % of the rows"),
        ({"kind": "etg", "batch": {"factor": 1.0, "exponent": 0.5}}, "rounds that shrink"),
        ({"kind": "etg", "batch": 0.1, "aim": "variance"}, "smallest variance within reach"),
        ({"kind": "own", "x": 1}, '{"kind": "own", "x": 1}'),
    ],
)
def test_policies_in_words(policy: dict[str, Any], words: str) -> None:
    assert words in policy_in_words(policy)


def test_times_sentences_and_values_in_words() -> None:
    assert when("2026-03-01T13:34:56+01:00") == "2026-03-01 12:34 UTC"
    assert when("yesterday") == "yesterday"
    assert [sentence(text) for text in ("", "a b", "Done.", "Why?")] == ["", "A b.", "Done.", "Why?"]
    assert [value_in_words(value) for value in (None, True, 5, [1, "é"])] == ["none", "yes", "5", '[1, "é"]']


def test_each_moment_says_what_it_is_computed_from() -> None:
    study = sw.StudyFile.from_toml(recipe("iv")).study
    page = to_html(campaign_document(record(study=study_to_plain(study))))
    for moment, sources in (("z*(x - x0 - first*z)", "interview, registry"), ("y - y0 - first*", "interview, survey")):
        (row,) = [row for row in page.split("<tr>") if f">{moment}" in row]
        assert sources in row
