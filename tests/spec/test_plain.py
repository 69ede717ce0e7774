"""Studies and policies survive the way through plain values, and wrong values are named."""

from __future__ import annotations

import json

import pytest

import sourcewise as sw
from sourcewise.policies import Policy, policy_from_plain, policy_to_plain
from sourcewise.spec.plain import study_from_plain, study_to_plain

STUDY = sw.Study(
    [sw.Moment("z*(x - a*z)", name="first stage"), sw.Moment("z*(y - a*b*z)", sources=("survey",)), "y - m"],
    "b",
    {"registry": sw.Source("z x", cost=1.5, capacity=100), "survey": sw.Source("z y", cost=0.1)},
    {"a": sw.Parameter(start=1.0, lower=0.0), "b": sw.Parameter(upper=1 / 3)},
    weights="cue",
)


def test_a_study_comes_back_as_it_was() -> None:
    assert study_from_plain(json.loads(json.dumps(study_to_plain(STUDY)))) == STUDY


@pytest.mark.parametrize(
    "policy",
    [
        sw.Fixed(),
        sw.Fixed("collect-all"),
        sw.Fixed({"a": 0.1, "b": 0.7}),
        sw.ETC(0.3),
        sw.ETG([0.1, 0.5, 1.0]),
        sw.ETG(sw.Schedule(2.0, 0.5), per="rows", aim="variance", ridge=0.0),
    ],
)
def test_a_policy_comes_back_as_it_was(policy: Policy) -> None:
    assert policy_from_plain(json.loads(json.dumps(policy_to_plain(policy)))) == policy


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        (3, "a study must be a table"),
        ({"target": "b"}, "by moments or by a graph"),
        ({"target": "b", "moments": "x - b", "sources": {}}, "must be a list"),
        ({"target": "b", "moments": [1], "sources": {}}, "moment 1 must be a table"),
        ({"target": "b", "moments": ["x - b"], "sources": {"s": {"observes": "x", "price": 1}}}, "no key 'price'"),
        ({"target": "b", "moments": ["x - b"], "sources": {"s": {}}}, "needs the key 'observes'"),
        ({"target": "b", "moments": ["x - b"], "sources": [1]}, "sources must be a table of tables"),
    ],
)
def test_what_is_wrong_is_named(plain: object, said: str) -> None:
    with pytest.raises(sw.StudyError, match=said):
        study_from_plain(plain)


@pytest.mark.parametrize(
    "plain", [None, {}, {"kind": "best"}, {"kind": "etg", "explore": 1}, {"kind": "etg", "batch": {"factor": 1}}]
)
def test_a_policy_that_is_none_is_refused(plain: object) -> None:
    with pytest.raises(sw.AllocationError):
        policy_from_plain(plain)
