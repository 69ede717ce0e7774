"""A study is checked as a whole when it is made: what contradicts itself is refused with a message that names it."""

from __future__ import annotations

import copy
import dataclasses
import math
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from sourcewise.errors import StudyError
from sourcewise.spec.study import Moment, Parameter, Source, Study

SOURCES = {"registry": Source("z x", cost=2.0), "survey": Source("z y")}
HUGE = 10**400


def study(**changes: Any) -> Study:
    """Two-sample instrumental variables, with some of its declarations replaced."""
    declared: dict[str, Any] = {
        "moments": ["z*(x - alpha*z)", "z*(y - alpha*beta*z)"],
        "target": "beta",
        "sources": SOURCES,
    }
    return Study(**{**declared, **changes})


BAD_SOURCES: list[tuple[tuple[Any, ...], str]] = [
    (("",), "at least one variable"),
    (([],), "at least one variable"),
    ((None,), "None"),
    ((5,), "5"),
    ((["x", 5],), "5"),
    (({"x", "y"},), "list of texts"),
    ((b"x y",), "texts only"),
    (("x y x",), "'x' is listed twice"),
    (("1x",), "'1x'"),
    (("x.y",), "'x.y'"),
    (("\uff58",), "'\uff58'"),
    (("x" * 65,), "x" * 65),
    *((("x", cost), "cost") for cost in (0, -1.0, math.nan, math.inf, True, "1", None, HUGE, 1j)),
    *((("x", 1.0, capacity), "capacity") for capacity in (0, -1, 1.5, True, "3", 2**63, math.nan)),
]


@pytest.mark.parametrize(("arguments", "named"), BAD_SOURCES)
def test_a_source_that_cannot_be_is_refused(arguments: tuple[Any, ...], named: str) -> None:
    with pytest.raises(StudyError) as refusal:
        Source(*arguments)
    assert named in str(refusal.value)


BAD_PARAMETERS: list[tuple[dict[str, Any], str]] = [
    ({"lower": 1, "upper": 0}, "1.0, 0.0"),
    ({"lower": 2.0, "upper": 2.0}, "lower bound"),
    ({"lower": math.nan}, "nan"),
    ({"lower": None}, "lower must be a number, not None"),
    ({"upper": "big"}, "'big'"),
    ({"upper": HUGE}, "upper must be a number"),
    ({"start": "0"}, "'0'"),
    ({"start": True}, "True"),
    ({"start": math.nan}, "nan"),
    ({"start": math.inf}, "inf"),
    ({"start": HUGE}, "start must be a number"),
    ({"start": 2.0, "upper": 1.0}, "[-inf, 1.0], not 2.0"),
]


@pytest.mark.parametrize(("declared", "named"), BAD_PARAMETERS)
def test_a_parameter_that_cannot_be_is_refused(declared: dict[str, Any], named: str) -> None:
    with pytest.raises(StudyError) as refusal:
        Parameter(**declared)
    assert named in str(refusal.value)


BAD_STUDIES: dict[str, tuple[dict[str, Any], str]] = {
    "no moments": ({"moments": []}, "at least one moment"),
    "moments of no kind": ({"moments": 5}, "moments must be a list of formulas, not 5"),
    "a moment of no kind": ({"moments": [5]}, "int"),
    "not an expression": ({"moments": ["z*(x - alpha*"]}, "z*(x - alpha*"),
    "no source has both": ({"moments": ["x*y - beta"]}, "registry lacks y; survey lacks x"),
    "no variable": ({"moments": ["beta - 1"]}, "'beta - 1' uses no variable"),
    "variables cancel": ({"moments": ["x - x + beta"]}, "'x - x + beta' uses no variable"),
    "no parameter": ({"moments": ["z*x"]}, "no parameter"),
    "parameter cancels": (
        {"moments": ["x - beta + k - k"], "parameters": {"k": Parameter()}},
        "'k' appears in no moment",
    ),
    "parameter in no moment": ({"parameters": {"gamma": Parameter()}}, "'gamma' appears in no moment"),
    "a name used as both": ({"parameters": {"x": Parameter()}}, "'x' is declared as a parameter and observed"),
    "parameter of no kind": ({"parameters": {"beta": 1.0}}, "'beta' must be a Parameter(...), not float"),
    "parameters of no kind": ({"parameters": ["beta"]}, "['beta']"),
    "target observed": ({"target": "beta*x"}, "'beta*x' uses 'x'"),
    "target unknown": ({"target": "gamma"}, "'gamma', which appears in no moment"),
    "target without parameters": ({"target": "2 + 3"}, "'2 + 3' contains no parameter"),
    "target in which they cancel": ({"target": "beta - beta"}, "'beta - beta' contains no parameter"),
    "target that jumps": ({"target": "beta*(alpha > 0)"}, "a comparison"),
    "target of no kind": ({"target": None}, "NoneType"),
    "moment that jumps": ({"moments": ["z*(x > beta)"]}, "compares with parameter beta"),
    "a jump deep inside": ({"moments": ["z - exp(2*abs(x > beta))"]}, "compares with parameter beta"),
    "two of one name": (
        {"moments": [Moment("x - beta", name="mean"), Moment("y - beta", name="mean")]},
        "two moments are named 'mean'",
    ),
    "source unknown": ({"moments": [Moment("x - beta", sources=("census",))]}, "'census'"),
    "source that lacks": (
        {"moments": [Moment("x - beta", name="mean", sources=("registry", "survey"))]},
        "moment 'mean' is assigned to source 'survey', which lacks x",
    ),
    "no sources": ({"sources": {}}, "at least one source"),
    "sources of no kind": ({"sources": [Source("z x y")]}, "at least one source"),
    "a source of no kind": ({"sources": {"registry": "z x y"}}, "'registry' must be a Source(...), not str"),
    "source without a name": ({"sources": {" ": Source("z x y")}}, "' '"),
    "source with a number for a name": ({"sources": {5: Source("z x y")}}, "5"),
    "source with a line for a name": ({"sources": {"a\nb": Source("z x y")}}, r"'a\nb'"),
}


@pytest.mark.parametrize(("changes", "named"), BAD_STUDIES.values(), ids=BAD_STUDIES)
def test_a_study_that_contradicts_itself_is_refused(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(StudyError) as refusal:
        study(**changes)
    assert named in str(refusal.value)


@pytest.mark.parametrize(
    ("declared", "named"),
    [
        ({"sources": ()}, "restricted to no source"),
        ({"sources": 5}, "5"),
        ({"sources": [["registry"]]}, "['registry']"),
        ({"sources": {"registry", "survey"}}, "list of texts"),
        ({"name": 5}, "5"),
        ({"name": " "}, "' '"),
    ],
)
def test_a_moment_that_cannot_be_is_refused(declared: dict[str, Any], named: str) -> None:
    with pytest.raises(StudyError) as refusal:
        Moment("x - beta", **declared)
    assert named in str(refusal.value)


def test_which_source_computes_which_moment_follows_from_variables() -> None:
    moments = ["z - mu", "z*(x - alpha*z)", "z*(y - alpha*beta*z)", "x*y - rho"]
    made = study(moments=moments, sources={**SOURCES, "both": Source("y x z")})
    found = {name: made.moments_of(name) for name in made.sources}
    assert found == {"registry": (0, 1), "survey": (0, 2), "both": (0, 1, 2, 3)}


def test_a_moment_may_be_kept_from_sources_that_could_compute_it() -> None:
    moments = [
        Moment("z - mu", sources=("survey",)),
        Moment("z*(x - alpha*z)", sources=("both", "both")),
        "y - alpha*mu",
    ]
    made = study(moments=moments, target="alpha", sources={**SOURCES, "both": Source("x y z")})
    found = {name: made.moments_of(name) for name in made.sources}
    assert found == {"registry": (), "survey": (0, 2), "both": (1, 2)}
    assert made.moments[1].sources == ("both",)


def test_a_variable_that_cancels_is_not_needed() -> None:
    made = study(moments=["x - beta + y - y"])
    assert made.moments_of("registry") == (0,)


def test_parameters_come_in_the_order_in_which_moments_name_them() -> None:
    moments = ["z*(y - delta*z) + e5*1e5", "exp(alpha*z) - delta - beta", "x - alpha + charlie"]
    made = study(moments=moments, parameters={"beta": Parameter(1, 0, 2)})
    assert list(made.parameters) == ["delta", "e5", "alpha", "beta", "charlie"]
    assert made.parameters["beta"] == Parameter(1.0, 0.0, 2.0)
    assert made.parameters["delta"] == Parameter()


def test_variables_come_in_the_order_of_the_sources() -> None:
    assert study().variables == ("z", "x", "y")


def test_fewer_moments_than_parameters_may_still_identify_the_target() -> None:
    made = study(moments=["z*(x - alpha*z) + kappa", "x - beta"])
    assert len(made.moments) < len(made.parameters)


def test_plain_arguments_mean_what_they_say() -> None:
    assert Source("z, x") == Source(["z", "x"]) == Source("z x", 1, None)
    price: Any = np.float32(2)
    rows: Any = np.int64(5)
    assert Source("x", price, rows) == Source("x", 2.0, 5)
    assert type(Source("x", price, rows).capacity) is int
    alone: Any = "registry"
    assert Moment("x - beta", sources=alone) == Moment("x - beta", sources=("registry",))
    assert study(moments="z*(x - beta*z)") == study(moments=[Moment("z*(x - beta*z)")])


def test_a_study_cannot_be_changed() -> None:
    made = study()
    records = {"target": made, "cost": SOURCES["survey"], "expr": made.moments[0], "start": Parameter()}
    for name, record in records.items():
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(record, name, None)
    for mapping in (made.sources, made.parameters):
        with pytest.raises(TypeError):
            mapping["new"] = None  # type: ignore[index]


def test_a_study_does_not_follow_what_it_was_made_from() -> None:
    sources, parameters = dict(SOURCES), {"beta": Parameter(1.0)}
    made = study(sources=sources, parameters=parameters)
    sources["census"], parameters["beta"] = Source("y"), Parameter(2.0)
    assert made == study(parameters={"beta": Parameter(1.0)})


CHANGES: dict[str, dict[str, Any]] = {
    "moment": {"moments": ["z*(x - alpha*z)", "z*(y - alpha*beta)"]},
    "order of moments": {"moments": ["z*(y - alpha*beta*z)", "z*(x - alpha*z)"]},
    "name of a moment": {"moments": [Moment("z*(x - alpha*z)", name="first"), "z*(y - alpha*beta*z)"]},
    "restriction": {"moments": [Moment("z*(x - alpha*z)", sources=("registry",)), "z*(y - alpha*beta*z)"]},
    "target": {"target": "alpha"},
    "cost": {"sources": {**SOURCES, "survey": Source("z y", 3.0)}},
    "capacity": {"sources": {**SOURCES, "survey": Source("z y", 1.0, 10)}},
    "start": {"parameters": {"beta": Parameter(1.0)}},
}


@pytest.mark.parametrize("changes", CHANGES.values(), ids=CHANGES)
def test_studies_are_equal_when_all_they_declare_is(changes: dict[str, Any]) -> None:
    assert study() == study()
    assert hash(study()) == hash(study())
    assert study(**changes) == study(**changes) != study()
    assert len({study(), study(**changes), study()}) == 2


@pytest.mark.parametrize("changes", [{}, *CHANGES.values()], ids=["plain", *CHANGES])
def test_a_study_survives_copies(changes: dict[str, Any]) -> None:
    made = study(**changes)
    for other in (pickle.loads(pickle.dumps(made)), copy.copy(made), copy.deepcopy(made)):
        assert other == made
        assert hash(other) == hash(made)
        assert list(other.parameters) == list(made.parameters)
        assert [m.node for m in other.moments] == [m.node for m in made.moments]


def test_a_study_survives_the_way_to_another_process() -> None:
    """Texts hash differently there, so whatever a hash was kept of would give itself away."""
    code = (
        "import pickle, sys; made = pickle.load(sys.stdin.buffer); "
        "print(list(made.parameters), made.moments_of('survey'), made in {made: 1})"
    )
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(study()), capture_output=True, check=True)
    assert done.stdout.decode().strip() == "['alpha', 'beta'] (1,) True"
