"""Texts written to hang a reader of TOML, or to eat its memory: each is refused or read in bounded work.

Time is not measured here: the text of every attack is far larger than what an unbounded reader would survive, and
the test of what is bounded is that tokens, depth and size are counted before anything else happens.
"""

from __future__ import annotations

import tracemalloc

import pytest

from sourcewise.driver.sources import check_data
from sourcewise.errors import SourcewiseError, StudyFileError
from sourcewise.studyfile.file import StudyFile
from sourcewise.studyfile.scan import MOST_TOKENS
from sourcewise.studyfile.toml import LARGEST

STUDY = 'target = "b"\nmoments = ["x - b"]\n[sources.s]\nobserves = ["x"]\n'

ATTACKS = {
    "arrays nested 100,000 deep": ("a = " + "[" * 100_000, "nested more than 16 deep"),
    "closed arrays nested 100,000 deep": ("a = " + "[" * 100_000 + "]" * 100_000, "nested more than 16 deep"),
    "tables nested 100,000 deep": ("a = " + "{b = " * 100_000, "nested more than 16 deep"),
    "a dotted key of 20,000 parts": ("a" + ".a" * 20_000 + " = 1", "more than 16 parts"),
    "a header of 20,000 parts": ("[a" + ".a" * 20_000 + "]", "more than 16 parts"),
    "a number of a million digits": ("a = " + "1" * 10**6, "at most 400 are read"),
    "a hexadecimal number of a million digits": ("a = 0x" + "f" * 10**6, "at most 400 are read"),
    "a key of a million letters": ("a" * 10**6 + " = 1", "at most 400 are read"),
    "a million commas": ("a = [" + "," * 10**6, "words and marks"),
    "a million equals signs": ("=" * 10**6, "words and marks"),
    "many tables": ("[[a]]\n" * 150_000, "words and marks"),
    "many keys": ("".join(f"k{i} = 1\n" for i in range(80_000)), "words and marks"),
    "a megabyte of quotes": ('"' * 10**6, "more than 16 parts"),
    "a string that never ends": ('a = """' + '\\"""' * 200_000, "Unterminated string"),
    "too large": ("#" * (LARGEST + 1), "at most 1 MB"),
    "NUL": (STUDY + "#\0", "line 5"),
    "an escape of half a character": ('a = "\\ud800"', "not TOML"),
    "infinity as a price": (STUDY + "cost = inf\n", "line 5"),
    "a price beyond 64 bits": (STUDY + "cost = 9223372036854775808\n", "line 5"),
    "a level that is certain": ("level = 1.0\n" + STUDY, "line 1"),
    "a level that is no number": ("level = true\n" + STUDY, "line 1"),
    "a price that is no number": (STUDY + "cost = nan\n", "line 5"),
    "rows beyond 64 bits": (STUDY + "capacity = 9223372036854775808\n", "line 5"),
    "an infinite budget": ("budget = inf\n" + STUDY, "line 1"),
    "a budget that is no number": ("budget = nan\n" + STUDY, "line 1"),
    "a budget below all numbers": ("budget = -1e400\n" + STUDY, "line 1"),
    "a precision that is no number": ("precision = nan\n" + STUDY, "line 1"),
    "a batch that is no number": ('policy = {kind = "etg", batch = nan}\n' + STUDY, "line 1"),
    "an infinite start": (STUDY + "[parameters.b]\nstart = inf\n", "line 5"),
    "code as a name": ('target = "b"\nmoments = ["x - b"]\n[sources.s]\nobserves = ["__import__(\'os\')"]\n', "line 4"),
    "code as a moment": ('target = "b"\nmoments = ["x - b + exec(1)"]\n[sources.s]\nobserves = ["x"]\n', "line 2"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_refused(attack: str) -> None:
    text, said = ATTACKS[attack]
    tracemalloc.start()
    try:
        with pytest.raises(StudyFileError, match=said) as refused:
            StudyFile.from_toml(text)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 128 * 2**20
    assert len(str(refused.value)) < 1000


@pytest.mark.parametrize("seed", ["inf", "nan", "9223372036854775808", "-1", "1.5", '"1"', "true"])
def test_a_seed_that_is_none(seed: str) -> None:
    text = STUDY + f'data = {{kind = "world"}}\n[world]\nkind = "linear"\nseed = {seed}\nequations = {{x = "1"}}\n'
    with pytest.raises(SourcewiseError) as refused:
        check_data(StudyFile.from_toml(text))
    assert "seed" in str(refused.value)


def test_a_study_of_ten_thousand_sources_is_no_attack() -> None:
    many = "".join(f"[sources.s{k}]\nobserves = ['x']\ncost = 1.5\n" for k in range(10_000))
    text = 'target = "b"\nmoments = ["x - b"]\n' + many
    assert MOST_TOKENS > 100_000
    assert len(StudyFile.from_toml(text).study.sources) == 10_000
