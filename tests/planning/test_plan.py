"""Plans: against closed forms, against simulation, and what must hold of any plan."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sourcewise as sw
from sourcewise.planning.assumed import fit_of_world
from sourcewise.plots.save import to_svg
from sourcewise.simulation.declared import world_from_plain
from sourcewise.simulation.worlds import FunctionWorld, LinearWorld

IV = ["z*(x - alpha*z)", "z*(y - alpha*beta*z)"]
WORLD = LinearWorld({"x": {"z": 1.0, "u": 1.0}, "y": {"x": 1.0, "u": 1.0}}, 1.0)


def study(first: sw.Source, second: sw.Source, **more: sw.Source) -> sw.Study:
    return sw.Study(IV, "beta", {"registry": first, "survey": second, **more})


@pytest.mark.parametrize(("c1", "c2"), [(1.0, 1.0), (1.0, 3.0), (0.2, 5.0)])
def test_two_samples_cost_what_the_closed_form_says(c1: float, c2: float) -> None:
    """One row is worth 1/2 and 1/6 (the paper's V = 2/κ₁ + 6/κ₂): the best shares go as √(2c₁) and √(6c₂)."""
    plan = sw.plan(study(sw.Source("z x", c1), sw.Source("z y", c2)), WORLD, budget=1000)
    roots = math.sqrt(2 * c1), math.sqrt(6 * c2)
    assert plan.stderr() == pytest.approx(sum(roots) / math.sqrt(1000), rel=1e-9)
    assert plan.budget_for(0.1) == pytest.approx(sum(roots) ** 2 / 0.01, rel=1e-9)
    assert [part.share for part in plan.parts] == pytest.approx([r / sum(roots) for r in roots], rel=1e-6)
    equal = (2 + 6) * (c1 + c2)
    assert plan.stderr(way="equal rows") == pytest.approx(math.sqrt(equal / 1000), rel=1e-9)
    for part in plan.parts:
        assert (part.without, part.extra, part.alone) == (math.inf, math.inf, math.inf)
    assert plan.ways == ("best mix", "equal rows")


def test_a_source_that_identifies_alone_is_compared() -> None:
    """The interview knows z, x and y: V = 2 when it is alone, because y − βx has variance 2."""
    plan = sw.plan(study(sw.Source("z x"), sw.Source("z y"), interview=sw.Source("z x y", 2.0)), WORLD, budget=800)
    interview = plan.parts[2]
    assert plan.ways[-1] == "only interview"
    assert interview.alone == pytest.approx(math.sqrt(2 * 2.0 / 800), rel=1e-9)
    assert interview.without == pytest.approx((math.sqrt(2) + math.sqrt(6)) / math.sqrt(800), rel=1e-9)
    assert interview.extra == pytest.approx((interview.without / plan.stderr()) ** 2 - 1, rel=1e-9)
    assert interview.worth == pytest.approx(1.0, rel=1e-6)


def test_a_plan_from_a_pilot_is_a_plan_from_its_fit() -> None:
    random = np.random.default_rng(1)
    declared = study(sw.Source("z x"), sw.Source("z y", 2.0))
    deal = WORLD.deal(random, 500), WORLD.deal(random, 400)
    pilot = {
        name: {v: d[v] for v in declared.sources[name].observes} for name, d in zip(declared.sources, deal, strict=True)
    }
    fit = sw.fit(declared, pilot)
    assert sw.plan(declared, pilot, budget=100).to_dict() == sw.plan(declared, fit, budget=100).to_dict()
    best = sw.allocate(declared, fit)
    assert sw.plan(declared, fit, budget=100).stderr() == pytest.approx(best.stderr(100), rel=1e-9)


def test_the_planned_precision_is_what_campaigns_of_that_mix_reach() -> None:
    """600 samples of the planned rows: the spread of a spread has a relative error of 1/√(2·600) = 2.9 %."""
    declared = study(sw.Source("z x"), sw.Source("z y", 2.0))
    plan = sw.plan(declared, WORLD, budget=4000)
    random, found = np.random.default_rng(2), []
    for _ in range(600):
        data = {}
        for name, n in plan.rows().items():
            deal = WORLD.deal(random, n)
            data[name] = {v: deal[v] for v in declared.sources[name].observes}
        found.append(sw.fit(declared, data).target.value)
    assert np.std(found) == pytest.approx(plan.stderr(), rel=4 * 0.029)


@st.composite
def markets(draw: st.DrawFn) -> sw.Study:
    def source(view: str) -> sw.Source:
        return sw.Source(view, draw(st.floats(0.05, 20)), draw(st.none() | st.integers(20, 3000)))

    extra = {
        f"s{k}": source(view) for k, view in enumerate(draw(st.lists(st.sampled_from(["z x y", "z x"]), max_size=2)))
    }
    return study(source("z x"), source("z y"), **extra)


@settings(max_examples=20, deadline=None)
@given(markets(), st.floats(50, 5000), st.floats(1.1, 4.0))
def test_what_holds_of_any_plan(declared: sw.Study, budget: float, factor: float) -> None:
    plan = sw.plan(declared, WORLD, budget=budget)
    best = plan.stderr()
    for way in plan.ways:
        assert best <= plan.stderr(way=way) * (1 + 1e-7)
        assert plan.stderr(budget * factor, way) <= plan.stderr(budget, way) * (1 + 1e-7)
        needed = plan.budget_for(best, way)
        assert needed >= plan.budget_for(best) * (1 - 1e-6)
        if math.isfinite(needed):
            assert plan.stderr(needed, way) == pytest.approx(best, rel=1e-6)
    rows = plan.rows()
    assert sum(declared.sources[name].cost * n for name, n in rows.items()) <= budget * (1 + 1e-9)
    assert all(n <= (declared.sources[name].capacity or math.inf) for name, n in rows.items())
    assert sum(part.share for part in plan.parts) == pytest.approx(1.0)
    for part in plan.parts:
        assert part.without >= best * (1 - 1e-7)
        assert part.extra >= 0
        if part.share > 1e-6 and all(source.capacity is None for source in declared.sources.values()):
            assert part.worth == pytest.approx(1.0, abs=1e-5)


def test_a_precision_that_no_money_buys_is_refused() -> None:
    declared = study(sw.Source("z x", capacity=50), sw.Source("z y", capacity=50))
    with pytest.raises(sw.AllocationError, match=r"no budget reaches a standard error of 0\.001"):
        sw.plan(declared, WORLD, stderr=0.001)
    plan = sw.plan(declared, WORLD, budget=1000)
    assert plan.budget_for(0.001) == math.inf
    assert plan.stderr(100) == pytest.approx(plan.stderr(10**6))


def test_a_goal_alone_sets_the_budget() -> None:
    plan = sw.plan(study(sw.Source("z x"), sw.Source("z y")), WORLD, stderr=0.05)
    assert plan.stderr() == pytest.approx(0.05, rel=1e-9)
    assert plan.to_dict()["budget_needed"] == pytest.approx(plan.budget)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "needs a budget, or the standard error"),
        ({"budget": -1}, "finite number above 0"),
        ({"budget": math.nan}, "finite number above 0"),
        ({"stderr": 0}, "finite number above 0"),
    ],
)
def test_a_plan_without_a_goal_is_refused(options: dict[str, float], said: str) -> None:
    with pytest.raises(sw.AllocationError, match=said):
        sw.plan(study(sw.Source("z x"), sw.Source("z y")), WORLD, **options)


def test_what_a_pilot_lacks_is_said() -> None:
    declared = study(sw.Source("z x"), sw.Source("z y"))
    half = WORLD.deal(np.random.default_rng(3), 100)
    with pytest.raises(sw.AllocationError, match="not identified by what the plan assumes"):
        sw.plan(declared, {"registry": {"z": half["z"], "x": half["x"]}}, budget=10)
    with pytest.raises(sw.AllocationError, match="a world, a pilot"):
        sw.plan(declared, 3, budget=10)  # type: ignore[arg-type]


def _logit(random: np.random.Generator, rows: int) -> dict[str, Any]:
    z = random.standard_normal(rows)
    return {"z": z, "y": (random.random(rows) < 1 / (1 + np.exp(-0.5 * z))).astype(float)}


def test_moments_that_need_rows_are_planned_from_rows() -> None:
    """The slope of a logit at β = 0.5: the information of one row is E[z² p (1 − p)]."""
    declared = sw.Study(["z*(y - logistic(b*z))"], "b", {"clinic": sw.Source("z y", 2.0)})
    fit = fit_of_world(declared, FunctionWorld(_logit, 0.5))
    points, mass = np.polynomial.hermite_e.hermegauss(60)
    p = 1 / (1 + np.exp(-0.5 * points))
    information = float((points**2 * p * (1 - p)) @ (mass / mass.sum()))
    # 65,536 rows stand for the world: their information is known to about 1 %
    assert sw.plan(declared, fit, budget=500).stderr() == pytest.approx(math.sqrt(2 / 500 / information), rel=0.02)


def test_the_figure_and_the_curve_show_every_way() -> None:
    plan = sw.plan(study(sw.Source("z x"), sw.Source("z y"), both=sw.Source("z x y", 9.0)), WORLD, budget=100)
    curve = plan.curve([50, 100])
    assert curve["mix"] == ["best mix", "best mix", "equal rows", "equal rows", "only both", "only both"]
    assert curve["stderr"][1] == plan.stderr()
    assert "only both" in to_svg(plan.figure())


LINEAR = sw.Study(["x - a"], "a", {"s": sw.Source("x")})


@pytest.mark.parametrize(
    ("world", "said", "place"),
    [
        ({"kind": "flat"}, "kind is one of 'linear', 'lottery'", ("world",)),
        ({"equation": {}}, "has no key 'equation'", ("world", "equation")),
        ({"equations": {"x": "z*u"}}, "sum of other variables times numbers", ("world", "equations", "x")),
        ({"equations": {"x": "x + 1"}}, "sum of other variables", ("world", "equations", "x")),
        ({"equations": {"x": "z +"}}, "ends", ("world", "equations", "x")),
        ({"equations": {"x": "z", "z": "x"}}, "form a circle", ("world",)),
        ({"equations": [1]}, "must be a table", ("world", "equations")),
        ({"equations": {"x": "1"}, "variances": {"x": "1"}}, "finite number", ("world", "variances", "x")),
        ({"equations": {"x": "1"}, "variances": {"x": -1}}, "0 or more", ("world",)),
        ({"equations": {"x": "1"}, "seed": -1}, "whole number from 0", ("world", "seed")),
        ({"equations": {"x": "1"}, "truth": "1"}, "finite number", ("world", "truth")),
        ({"equations": {"y": "1"}}, "observes x, which the world does not have", ("sources", "s")),
        ({"kind": "lottery"}, "needs the key 'chance'", ("world",)),
    ],
)
def test_a_world_that_is_none_is_refused_at_its_place(world: dict[str, Any], said: str, place: tuple[str, ...]) -> None:
    with pytest.raises(sw.SourcewiseError, match=said) as refused:
        world_from_plain(world, LINEAR)
    assert refused.value.place == place


def test_a_declared_world_is_the_world_it_declares() -> None:
    plain = {"equations": {"x": "2 + 0.5*u - z", "y": "x"}, "variances": {"x": 0.0, "y": 4}, "truth": 3, "seed": 7}
    found = world_from_plain(plain, sw.Study(["x - a"], "a", {"s": sw.Source("x y")}))
    assert (found.seed, found.truth) == (7, 3.0)
    wanted = LinearWorld({"x": {"u": 0.5, "z": -1.0}, "y": {"x": 1.0}}, 3.0, {"x": 0.0, "y": 4.0}, {"x": 2.0})
    one, other = (w.deal(np.random.default_rng(5), 50) for w in (found.world, wanted))
    assert all(np.array_equal(one[name], other[name]) for name in ("x", "y"))


def test_the_lottery_of_the_paper_can_be_declared() -> None:
    """κ* = (.15215, .84785) and V* = 338.692 for the data of the paper's text (paper's last experiment)."""
    lottery = {
        **{"kind": "lottery", "chance": 25 / 73, "alpha": 0.4766, "cut": -1.050257, "beta": -0.43127},
        **{"gamma": 0.083441, "mixed": -0.5, "variance": 0.605823},
    }
    moments = ["x - a0 - a1*z", "z*(x - a0 - a1*z)", "y - b0 - a1*beta*z", "z*(y - b0 - a1*beta*z)"]
    declared = sw.Study(moments, "beta", {"registry": sw.Source("z x"), "survey": sw.Source("z y")})
    plan = sw.plan(declared, world_from_plain(lottery, declared).world, budget=16000)
    assert plan.fit.target.value == pytest.approx(-0.43127, abs=1e-4)
    assert plan.stderr() ** 2 * 16000 == pytest.approx(338.692, rel=1e-3)
    assert plan.parts[0].share == pytest.approx(0.15215, abs=1e-4)
