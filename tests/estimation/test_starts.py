"""Where searches start, and that it is never a truth."""

from __future__ import annotations

import numpy as np
import pytest

import sourcewise as sw
from estimation.plain import Array
from estimation.problems import PROBLEMS
from replication.batch import evidence
from replication.small import ABILITIES_HEAVY
from sourcewise.estimation.blocks import Blocks
from sourcewise.estimation.gmm import Settings, estimate
from sourcewise.estimation.starts import plan, starting_points
from sourcewise.moments.compiled import compile_study
from sourcewise.statistics.summarize import evidence_of

NOTHING: frozenset[int] = frozenset()


def stages(study: sw.Study, known: frozenset[int] = NOTHING) -> list[tuple[list[str], list[int]]]:
    """Parameters and moments of every stage, in order."""
    names = list(study.parameters)
    found = plan(study, known, frozenset(range(len(study.moments))))
    return [([names[d] for d in stage.parameters], list(stage.moments)) for stage in found]


def points(study: sw.Study, data: object, seed: int = 0, given: Array | None = None) -> list[Array]:
    compiled = compile_study(study)
    assert isinstance(data, dict)
    evidence = {name: evidence_of(study, name, part, "error")[0] for name, part in data.items()}
    blocks = Blocks(evidence, "stacked", "robust", False, len(study.moments))
    start = compiled.start[:, None] if given is None else given
    return starting_points(study, compiled, blocks, start, seed)


def test_the_linear_pass_solves_first_what_others_need() -> None:
    study = PROBLEMS["product"].study
    assert stages(study) == [(["a1", "a2"], [0, 1]), (["c", "beta"], [2, 3, 4])]


def test_moments_that_are_linear_together_are_one_stage() -> None:
    assert stages(PROBLEMS["linear"].study) == [(["c", "b"], [0, 1, 2])]


def test_what_is_known_opens_the_way_for_the_rest() -> None:
    study = sw.Study(["x - exp(a) - b", "y - b*c"], "c", {"s": sw.Source("x y")})
    names = list(study.parameters)
    assert names == ["a", "b", "c"]
    assert stages(study, frozenset({0})) == [(["b"], [0]), (["c"], [1])]


def test_what_no_moment_makes_linear_is_drawn_and_the_rest_solved() -> None:
    study = sw.Study(["y - a*exp(b*x)", "x*(y - a*exp(b*x))"], "b", {"s": sw.Source("x y")})
    drawn, solved = stages(study)
    assert drawn == (["b"], [])
    assert solved == (["a"], [0, 1])


def test_the_linear_pass_alone_answers_a_just_identified_study() -> None:
    """Two-sample instruments: α = E[zx]/E[z²] in one sample, β = E[zy]/(α E[z²]) in the other."""
    random = np.random.default_rng(1)
    a, b = ({"z": random.normal(size=50)} for _ in range(2))
    a["x"], b["y"] = a["z"] + random.normal(size=50), b["z"] + random.normal(size=50)
    study = sw.Study(
        ["z*(x - alpha*z)", "z*(y - alpha*beta*z)"], "beta", {"a": sw.Source("z x"), "b": sw.Source("z y")}
    )
    (start,) = points(study, {"a": a, "b": b})
    alpha = (a["z"] @ a["x"]) / (a["z"] @ a["z"])
    assert start[:, 0] == pytest.approx([alpha, (b["z"] @ b["y"]) / (b["z"] @ b["z"]) / alpha], rel=1e-12)


@pytest.mark.parametrize("shift", [0.0, 1e2, 1e4])
def test_the_linear_pass_answers_with_an_instrument_far_from_its_origin(shift: float) -> None:
    """As the line through the points does, less the digits that E z² = shift² + Var z costs."""
    random = np.random.default_rng(2)
    z = random.normal(size=200)
    x = 2.0 + z + random.normal(size=200)
    study = sw.Study(["x - c - alpha*z", "z*(x - c - alpha*z)"], "alpha", {"s": sw.Source("x z")})
    (start,) = points(study, {"s": {"x": x, "z": z + shift}})
    slope, intercept = np.polyfit(z, x, 1)
    alpha = start[list(study.parameters).index("alpha"), 0]
    c = start[list(study.parameters).index("c"), 0]
    assert alpha == pytest.approx(slope, rel=1e-12 + 1e-15 * shift**2)
    assert c + alpha * shift == pytest.approx(intercept, rel=1e-12 + 1e-15 * shift**2)


def test_the_linear_pass_leads_factor_models_home() -> None:
    """A moment p11*l hardly depends on p11 where l is small: brought to slopes of one length, such moments led 8 of
    these 50 searches away."""
    world = ABILITIES_HEAVY
    blocks = Blocks(evidence(world, 100, 50, 0), "stacked", "robust", False, len(world.study.moments))
    compiled = compile_study(world.study)
    start = np.repeat(compiled.start[:, None], 50, axis=1)
    with np.errstate(all="ignore"):  # as `fit` does
        found = estimate(world.study, compiled, blocks, Settings("two-step"), start)
    assert found.converged.all()


CURVE = {"x": np.linspace(0, 1, 40), "y": 3 * np.exp(-2 * np.linspace(0, 1, 40)) + 0.01 * np.cos(np.arange(40))}


def curve(**parameters: sw.Parameter) -> sw.Study:
    residual = "(y - a*exp(b*x))"
    return sw.Study([residual, f"x*{residual}", f"x**2*{residual}"], "b", {"s": sw.Source("x y")}, parameters)


def test_drawn_values_respect_the_bounds_and_depend_on_the_seed_alone() -> None:
    study = curve(b=sw.Parameter(lower=-4, upper=-1))
    drawn = [start[list(study.parameters).index("b"), 0] for start in points(study, {"s": CURVE})]
    assert len(drawn) > 4
    assert len(set(drawn)) == len(drawn)
    assert all(-4 <= value <= -1 for value in drawn)
    assert [s.tolist() for s in points(study, {"s": CURVE}, 3)] == [s.tolist() for s in points(study, {"s": CURVE}, 3)]
    assert points(study, {"s": CURVE}, 3)[0].tolist() != points(study, {"s": CURVE}, 4)[0].tolist()
    one_sided = curve(b=sw.Parameter(upper=-1))
    assert all(start[1, 0] <= -1 for start in points(one_sided, {"s": CURVE}))


def test_a_study_s_start_is_used_and_a_call_s_start_overrides_it() -> None:
    study = curve(b=sw.Parameter(start=-2.5))
    (start,) = points(study, {"s": CURVE})
    assert start[1, 0] == -2.5
    stuck = sw.fit(study, {"s": CURVE}, max_iterations=1, weights="identity", start={"a": 40.0, "b": 1.5})
    free = sw.fit(study, {"s": CURVE}, max_iterations=1, weights="identity")
    assert abs(stuck.target.value + 2) > 10 * abs(free.target.value + 2)


def test_every_start_leads_to_the_same_estimate() -> None:
    found = [sw.fit(curve(), {"s": CURVE}, start=start) for start in (None, {"b": 1.0}, {"a": -1.0, "b": -6.0})]
    assert all(fit.converged for fit in found)
    assert [fit.target.value for fit in found] == pytest.approx([found[0].target.value] * 3, rel=1e-9)
    assert found[0].target.value == pytest.approx(-2.0, abs=0.05)


def test_a_seed_makes_a_fit_reproducible() -> None:
    one, two = (sw.fit(curve(), {"s": CURVE}, seed=9) for _ in range(2))
    assert one.to_dict() == two.to_dict()
    assert sw.fit(curve(), {"s": CURVE}, seed=10).target.value == pytest.approx(one.target.value, rel=1e-9)


def test_bounds_are_respected_and_reaching_one_is_said() -> None:
    """The data want b near −2."""
    inside = sw.fit(curve(b=sw.Parameter(lower=-3, upper=-1.0)), {"s": CURVE})
    assert inside.at_bounds == {}
    stopped = sw.fit(curve(b=sw.Parameter(lower=-1.5, upper=0.0)), {"s": CURVE})
    assert stopped.target.value == -1.5
    assert stopped.at_bounds == {"b": -1.5}
    assert any("'b' ended at its bound -1.5" in line for line in stopped.advice)
