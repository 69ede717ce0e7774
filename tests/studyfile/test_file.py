"""Study files come back as they were, and what is wrong in one is said with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sourcewise as sw
from sourcewise.errors import SourcewiseError
from sourcewise.policies import Policy
from sourcewise.spec.plain import study_to_plain
from sourcewise.studyfile import toml
from strategies import formulas

WHOLE = """\
name = "lottery"
target = "beta"
moments = [
    "z*(x - alpha*z)",
    {expr = "z*(y - alpha*beta*z)", sources = ["survey"], name = "second"},
]
budget = 16000
precision = 0.1

[policy]
kind = "etg"
batch = 0.1

[parameters.alpha]
lower = 0.0

[sources.registry]
observes = ["z", "x"]
cost = 1.5
data = {kind = "csv", path = "registry.csv"}

[sources."survey"]
observes = "z y"
capacity = 100

[world]
seed = 3
equations = {x = "z + u", y = "x + u"}
"""

names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20).filter(
    lambda text: text.isprintable() and text == text.strip() != ""
)
positive = st.floats(1e-300, 1e300)


@st.composite
def studies(draw: st.DrawFn) -> sw.Study:
    labels = draw(st.lists(names, min_size=2, max_size=4, unique=True))
    views = st.lists(st.sampled_from("xyz"), min_size=1, max_size=3, unique=True)
    sources = {
        label: sw.Source(
            "x y z" if k == 0 else draw(views), draw(positive), draw(st.none() | st.integers(1, 2**63 - 1))
        )
        for k, label in enumerate(labels)
    }
    chosen = st.none() | st.just((labels[0],))
    titles = st.none() | st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda t: bool(t.strip()))
    texts = draw(st.lists(formulas().map(lambda f: f"y - b + ({f.text})"), min_size=1, max_size=3))
    moments: list[str | sw.Moment] = [sw.Moment(t, draw(chosen), draw(titles)) for t in texts if _usable(t)]
    labelled = [m.name for m in moments if isinstance(m, sw.Moment) and m.name]
    if len(set(labelled)) < len(labelled):
        moments = []
    return sw.Study([*moments, "x - a - b"], "a/b", sources, {"b": draw(parameters())})


def _usable(text: str) -> bool:
    try:
        sw.Study([text, "x - a - b"], "a/b", {"s": sw.Source("x y z")})
    except sw.StudyError:
        return False
    return True


@st.composite
def parameters(draw: st.DrawFn) -> sw.Parameter:
    lower, start, upper = sorted(draw(st.lists(st.floats(-1e9, 1e9), min_size=3, max_size=3, unique=True)))
    return sw.Parameter(
        draw(st.sampled_from([None, start])),
        draw(st.sampled_from([lower, -float("inf")])),
        draw(st.sampled_from([upper, float("inf")])),
    )


share = st.floats(0.01, 1.0)
policies: st.SearchStrategy[Policy] = st.one_of(
    st.builds(sw.Fixed, st.sampled_from(["equal", "collect-all"])),
    st.builds(sw.Fixed, st.dictionaries(names, st.floats(0.001, 1.0), min_size=1)),
    st.builds(sw.ETC, st.floats(0.01, 0.99)),
    st.builds(sw.ETG, share, per=st.sampled_from(["budget", "rows"]), ridge=st.floats(0, 1)),
    st.builds(sw.ETG, st.builds(sw.Schedule, positive, st.floats(0.01, 0.99))),
    st.builds(sw.ETG, st.floats(0.1, 0.9).map(lambda mark: (mark, 1.0)), aim=st.sampled_from(["nearest", "variance"])),
)
values = st.recursive(
    st.text(st.characters(exclude_categories=["Cs"]))
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=8,
)
tables = st.dictionaries(names, values, max_size=4)


@st.composite
def files(draw: st.DrawFn) -> sw.StudyFile:
    study = draw(studies().filter(lambda made: all(source.cost < 2**63 for source in made.sources.values())))
    return sw.StudyFile(
        study,
        draw(policies),
        draw(st.none() | st.floats(1e-9, 1e18)),
        draw(st.none() | st.floats(1e-9, 1e18)),
        draw(st.just("") | names),
        {name: {**draw(tables), "kind": "any"} for name in draw(st.sets(st.sampled_from(sorted(study.sources))))},
        draw(st.none() | tables),
        level=draw(st.just(0.95) | st.floats(0.5, 0.999)),
    )


@given(files())
def test_a_study_file_comes_back_as_it_was(file: sw.StudyFile) -> None:
    text = file.to_toml()
    again = sw.StudyFile.from_toml(text)
    assert again == file
    assert json.dumps(again.to_plain()) == json.dumps(file.to_plain())  # to the last digit, and in the same order
    assert again.to_toml() == text


def test_everything_that_a_file_may_say_is_read() -> None:
    file = sw.StudyFile.from_toml(WHOLE)
    assert file.name == "lottery"
    assert (file.budget, file.precision) == (16000.0, 0.1)
    assert file.policy == sw.ETG(0.1)
    assert file.data == {"registry": {"kind": "csv", "path": "registry.csv"}}
    assert file.world == {"seed": 3, "equations": {"x": "z + u", "y": "x + u"}}
    assert file.study == sw.Study(
        ["z*(x - alpha*z)", sw.Moment("z*(y - alpha*beta*z)", ("survey",), "second")],
        "beta",
        {"registry": sw.Source("z x", 1.5), "survey": sw.Source("z y", capacity=100)},
        {"alpha": sw.Parameter(lower=0.0)},
    )


def test_a_study_can_be_written_from_python() -> None:
    study = sw.StudyFile.from_toml(WHOLE).study
    assert sw.StudyFile.from_toml(sw.StudyFile(study).to_toml()).study == study
    assert study_to_plain(study)["sources"]["registry"] == {"observes": ["z", "x"], "cost": 1.5}


MISTAKES = [
    ("cost = 1.5", "cost = -1", 19, "cost must be a finite number above 0, not -1"),
    ("capacity = 100", "capacity = 1.5", 24, "must be a whole number of rows"),
    ("capacity", "capicity", 24, "Did you mean 'capacity'?"),
    ('"z*(x - alpha*z)"', '"z*(x - alpha*z"', 4, "this parenthesis is never closed"),
    ('sources = ["survey"]', 'sources = ["survy"]', 5, "names source 'survy'"),
    ('target = "beta"', 'target = "gamma"', 2, "appears in no moment"),
    ("budget = 16000", "budget = inf", 7, "above 0 and below 2⁶³, not inf"),
    ("budget = 16000", "budget = nan", 7, "not nan"),
    ("budget = 16000", "budget = 1_000_000_000_000_000_000_000", 7, "below 2⁶³"),
    ("budget = 16000", "budget = true", 7, "must be a number"),
    ("precision = 0.1", "precision = 0", 8, "above 0"),
    ("batch = 0.1", "batch = 7", 12, "share of the budget"),
    ('kind = "etg"', 'kind = "best"', 11, "a policy's kind is one of"),
    ("lower = 0.0", 'lower = "low"', 15, "must be a number"),
    ("[parameters.alpha]", "[parameters.delta]", 14, "appears in no moment"),
    ('observes = "z y"', 'observes = "z 9y"', 23, "cannot name a variable"),
    ('observes = ["z", "x"]', 'observes = ["z", "z"]', 18, "listed twice"),
    ('path = "registry.csv"', "path = 2020-01-01", 20, "must be a text, a number"),
    ('{kind = "csv", path = "registry.csv"}', "[1]", 20, "must be a table"),
    ("[world]", "[word]", 26, "Did you mean 'world'?"),
    ("seed = 3", "seed = 3 3", 27, "this is not TOML"),
    ("seed = 3", "seed = 0xffffffffffffffffff", 27, "64 bits"),
    ('name = "lottery"', 'name = "\\u202e"', 1, "printable"),
    ('name = "lottery"', 'name = "lot\u202etery"', 1, "U+202E"),
    ("moments = [", 'graph = "x -> y"\nmoments = [', 3, "not both"),
]


@pytest.mark.parametrize(("right", "wrong", "line", "said"), MISTAKES, ids=[wrong for _, wrong, _, _ in MISTAKES])
def test_a_mistake_is_shown_in_its_line(right: str, wrong: str, line: int, said: str) -> None:
    text = WHOLE.replace(right, wrong, 1)
    assert text != WHOLE
    with pytest.raises(sw.StudyFileError) as refused:
        sw.StudyFile.from_toml(text, "study.toml")
    assert str(refused.value).startswith(f"study.toml, line {line}: ")
    assert refused.value.line == line
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "needs the key 'target'"),
        ('target = "b"', "needs the key 'sources'"),
        ('target = "b"\n[sources.s]\nobserves = ["x"]', "this one has neither"),
        ('moments = ["x"', "Unclosed array"),
        ("a = 1\na = 2", "line 2"),
        ("a = [1,,2]", "line 1"),
        ('a = """never closed', "Unterminated string"),
    ],
)
def test_what_is_missing_is_named(text: str, said: str) -> None:
    with pytest.raises(sw.StudyFileError, match=said):
        sw.StudyFile.from_toml(text)


places = st.lists(st.tuples(st.text("ab\"'.#= \n", min_size=1, max_size=4), st.integers(0, 99)), min_size=1, max_size=6)


@given(places, st.booleans())
def test_every_key_is_found_in_its_line(keys: list[tuple[str, int]], inline: bool) -> None:
    """Whatever quotes, comments and marks stand around a key."""
    wanted = dict(keys)
    lines = ['# a comment with [brackets] and "quotes"', "first = '''", "several [lines]", "'''", "[table] # x = 1"]
    expected: dict[Any, int] = {}
    for key, value in wanted.items():
        written = f"{{inner = {value}}}" if inline else f"[{value},\n\n  {value}]"
        expected["table", key] = len(lines) + 1
        expected["table", key, "inner" if inline else 1] = len(lines) + (1 if inline else 3)
        lines += f"{toml._key(key)} = {written}".split("\n")
    plain, found = toml.parse("\n".join(lines))
    assert set(plain["table"]) == set(wanted)
    assert {place: found[place] for place in expected} == expected


def test_arrays_of_tables_have_lines() -> None:
    _, lines = toml.parse("[[a]]\nx = 1\n[[a]]\nx = 2\n[a.b]\ny = 3\n")
    assert lines["a", 1, "x"] == 4


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    missing, folder = tmp_path / "no.toml", tmp_path / "folder.toml"
    folder.mkdir()
    binary, large = tmp_path / "binary.toml", tmp_path / "large.toml"
    binary.write_bytes(b'name = "a"\n\xff\xfe\x00')
    large.write_bytes(b"#" * (toml.LARGEST + 1))
    for path, said in (
        (missing, "there is no file"),
        (folder, "is a directory"),
        (binary, "line 2: this is not UTF-8"),
        (large, "larger than 1 MB"),
    ):
        with pytest.raises(sw.StudyFileError, match=said):
            sw.StudyFile.read(path)


def test_a_file_with_a_byte_order_mark_and_windows_lines_is_read(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_bytes(b"\xef\xbb\xbf" + WHOLE.replace("\n", "\r\n").encode())
    assert sw.StudyFile.read(path) == sw.StudyFile.from_toml(WHOLE)


def test_half_a_character_cannot_be_written() -> None:
    study = sw.Study([sw.Moment("x - m", name="\ud800")], "m", {"s": sw.Source("x")})
    with pytest.raises(SourcewiseError, match="half a character"):
        sw.StudyFile(study).to_toml()
