"""Whole campaigns, order by order: money, capacities, reasons, and what happens when estimates fail."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sourcewise as sw
from allocation import worlds
from sourcewise.estimation.gmm import Status
from sourcewise.policies import Policy

MOMENTS = ["z*(x - alpha*z)", "z*(y - alpha*beta*z)"]
VIEWS = ("z x", "z y", "z x y", "y z x", "x z")
LONGEST = 12_000


def streams(count: int, seed: int) -> list[dict[str, np.ndarray]]:
    """What the rows of each source will hold, however many a policy asks for."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        z, u, e_x, e_y = random.normal(size=(4, LONGEST))
        x = z + u + e_x
        found.append({"z": z, "x": x, "y": x + u + e_y})
    return found


@st.composite
def studies(draw: st.DrawFn) -> sw.Study:
    extra = draw(st.lists(st.sampled_from(VIEWS), max_size=2))
    sources = {}
    for i, view in enumerate(("z x", "z y", *extra)):
        cost = draw(st.one_of(st.sampled_from([0.1, 0.3, 1.0, 10.0]), st.floats(0.1, 10.0)))
        sources[f"s{i}"] = sw.Source(view, cost, draw(st.one_of(st.none(), st.integers(2, 60))))
    return sw.Study(MOMENTS, "beta", sources)


def policies() -> st.SearchStrategy[Policy]:
    aim, per = st.sampled_from(["nearest", "variance"]), st.sampled_from(["budget", "rows"])
    batch = st.one_of(
        st.floats(0.15, 1.0),
        st.sampled_from([(0.3, 0.35, 1.0), (0.5, 1.0)]),
        st.builds(sw.Schedule, st.just(2.0), st.just(0.6)),
    )
    shares = st.fixed_dictionaries({"s0": st.floats(0.1, 1), "s1": st.floats(0.1, 1)})
    return st.one_of(
        st.builds(sw.Fixed, st.one_of(st.just("equal"), shares)),
        st.builds(lambda e, a: sw.ETC(e, aim=a), st.floats(0.2, 0.8), aim),
        st.builds(lambda b, p, a: sw.ETG(b, per=p, aim=a), batch, per, aim),
        st.builds(lambda b, p, a: sw.ETG(b, per=p, aim=a), batch, per, aim),
    )


def run(study: sw.Study, policy: Policy, budget: float, seed: int) -> list[tuple[dict[str, int], sw.Order]]:
    """Every order of a campaign with the rows before it. Estimates are real ones."""
    data = dict(zip(study.sources, streams(len(study.sources), seed), strict=True))
    rows = dict.fromkeys(study.sources, 0)
    target: Mapping[str, float] | None = None
    taken: list[tuple[dict[str, int], sw.Order]] = []
    for _ in range(2000):
        fit = estimate(study, data, rows) if any(rows.values()) and not isinstance(policy, sw.Fixed) else None
        order = sw.next_order(study, policy, budget=budget, rows=rows, fit=fit, last_target=target)
        if order is None:
            return taken
        taken.append((dict(rows), order))
        target = order.target
        rows = {name: n + order.rows[name] for name, n in rows.items()}
    raise AssertionError("the campaign does not end")


def estimate(study: sw.Study, data: Mapping[str, Any], rows: Mapping[str, int]) -> sw.Fit:
    parts = {name: {v: data[name][v][:n] for v in study.sources[name].observes} for name, n in rows.items() if n > 0}
    return sw.fit(study, parts, ridge=0.01)


@given(studies(), policies(), st.floats(5.0, 150.0), st.integers(0, 3))
@settings(max_examples=40, derandomize=True, deadline=None, database=None)
def test_any_campaign(study: sw.Study, policy: Policy, budget: float, seed: int) -> None:
    try:
        taken = run(study, policy, budget, seed)
    except sw.AllocationError as refused:
        assert "first round" in str(refused)  # noqa: PT017 - a refusal is one of the allowed endings
        assert "smallest equal first round that would do" in str(refused)  # noqa: PT017
        return
    costs = np.array([source.cost for source in study.sources.values()])
    most = np.array([math.inf if s.capacity is None else s.capacity for s in study.sources.values()])
    spent, had = 0.0, np.zeros(len(costs))
    for before, order in taken:
        asked = np.array(list(order.rows.values()))
        assert list(before.values()) == had.tolist()
        assert list(order.rows) == list(study.sources)
        assert (asked >= 0).all()
        assert asked.any()
        assert order.cost == pytest.approx(costs @ asked, rel=1e-12)
        assert sum(order.target.values()) == pytest.approx(1.0, rel=1e-9)
        within_the_round(policy, order, had, asked, costs, most, budget)
        had, spent = had + asked, spent + order.cost
        assert spent <= budget * (1 + 1e-9)
        assert (had <= most).all()
    free = costs[had < most]
    assert not len(free) or free.min() > (budget - spent) * (1 - 1e-6), "money is left that buys a row"
    assert run(study, policy, budget, seed) == taken


def within_the_round(
    policy: Policy,
    order: sw.Order,
    had: np.ndarray,
    asked: np.ndarray,
    costs: np.ndarray,
    most: np.ndarray,
    budget: float,
) -> None:
    """The ratio reached lies in the feasible region of the round: as much as it may take, up to a row, and no more."""
    left = budget - costs @ had
    room = had + asked < most
    if isinstance(policy, sw.Fixed):
        money = left
    elif policy.per == "budget":
        ends = [mark * budget - costs @ had for mark in policy.marks(budget / costs.max())]
        cheapest = costs[had < most].min()
        money = next((end for end in ends if end >= cheapest * (1 - 1e-9)), left)
    else:
        ends_in_rows = np.floor(np.array(policy.marks(budget / costs.max())) * np.floor(budget / costs.max()) + 1e-9)
        later = ends_in_rows[ends_in_rows > had.sum()]
        size = later[0] - had.sum() if len(later) else max(np.diff(ends_in_rows, prepend=0.0)[-1], 1.0)
        bought_up = not room.any() or costs[room].min() > (left - order.cost) * (1 - 1e-6)
        assert asked.sum() == size or (asked.sum() < size and bought_up) or (asked.sum() > size and bought_up)
        return
    assert order.cost <= money * (1 + 1e-9) + 1e-9 * budget
    assert not room.any() or costs[room].min() > (money - order.cost) * (1 - 1e-6) - 1e-8 * budget


@given(studies(), st.floats(0.01, 0.5))
@settings(max_examples=40, derandomize=True, deadline=None, database=None)
def test_a_first_round_that_cannot_work_is_refused_and_the_one_suggested_works(study: sw.Study, share: float) -> None:
    least = max(len(study.moments_of(name)) for name in study.sources)
    smallest = sum(least * source.cost for source in study.sources.values())
    budget = smallest / share
    order = sw.next_order(study, sw.ETG([share * (1 + 1e-6), 1.0]), budget=budget, rows={})
    assert order is not None
    assert order.explores
    assert list(order.rows.values()) == [least] * len(study.sources)
    if len(study.sources) > 2:
        return
    with pytest.raises(sw.AllocationError, match="first round") as caught:
        sw.next_order(study, sw.ETG([0.7 * share, 1.0]), budget=budget, rows={})
    rows = "1 row" if least == 1 else f"{least} rows"
    assert f"first round that would do is {rows} of each source, at a cost of {smallest:g}." in str(caught.value)


def test_a_first_round_without_the_target_is_refused() -> None:
    study = worlds.instrument().study
    with pytest.raises(sw.AllocationError, match=r"cannot identify the target 'beta' \(from registry\)"):
        sw.next_order(study, sw.Fixed({"registry": 1.0}), budget=100, rows={})
    ihdp = worlds.ihdp().study
    with pytest.raises(sw.AllocationError, match="cannot identify the target"):
        sw.next_order(ihdp, sw.Fixed({"first": 0.5, "second": 0.5}), budget=1000, rows={})
    parts = sw.Study(MOMENTS, "beta", {"registry": sw.Source("z x")})
    with pytest.raises(sw.AllocationError, match="All sources together do not identify it"):
        sw.next_order(parts, sw.ETG(), budget=100, rows={})


def test_a_source_with_fewer_rows_than_moments_is_named() -> None:
    sources = {"registry": sw.Source("z x"), "survey": sw.Source("z y"), "both": sw.Source("z x y", 1.0, 1)}
    study = sw.Study(MOMENTS, "beta", sources)
    with pytest.raises(sw.AllocationError, match="fewer rows of both than moments"):
        sw.next_order(study, sw.ETG(), budget=100, rows={})


def test_exploring_asks_nothing_of_a_source_without_moments() -> None:
    sources = {"registry": sw.Source("z x"), "survey": sw.Source("z y"), "useless": sw.Source("q")}
    order = sw.next_order(sw.Study(MOMENTS, "beta", sources), sw.ETG(0.1), budget=100, rows={})
    assert order is not None
    assert order.rows == {"registry": 5, "survey": 5, "useless": 0}


def test_failed_estimates_fall_back_to_the_last_target_and_then_to_equal() -> None:
    population = worlds.instrument()
    study = population.study
    rows = {"registry": 50, "survey": 50}
    unidentified = sw.fit(study, {"registry": population._mirror("registry", 50)})
    for fit, trouble in ((None, "no estimate"), (unidentified, "not identified")):
        last = {"registry": 0.2, "survey": 0.8}
        kept = sw.next_order(study, sw.ETG(0.25), budget=1000, rows=rows, fit=fit, last_target=last, spent=250.0)
        assert kept is not None
        assert kept.target == pytest.approx(last)
        assert kept.rows == {"registry": 20, "survey": 230}
        assert trouble in kept.reason
        assert "the last one aimed at is kept" in kept.reason
        equal = sw.next_order(study, sw.ETG(0.25), budget=1000, rows=rows, fit=fit, spent=250.0)
        assert equal is not None
        assert equal.rows == {"registry": 125, "survey": 125}
        assert trouble in equal.reason
        assert "equally many rows" in equal.reason


@pytest.mark.parametrize("status", [Status.ITERATIONS, Status.CYCLE, Status.NOT_FINITE])
def test_an_estimate_that_did_not_converge_is_not_followed(status: Status) -> None:
    population = worlds.instrument()
    found = population.fit("stacked", 50)
    fit = replace(found, estimates=replace(found.estimates, status=np.array([status])))
    rows, last = {"registry": 50, "survey": 50}, {"registry": 0.5, "survey": 0.5}
    order = sw.next_order(population.study, sw.ETG(0.2), budget=250, rows=rows, fit=fit, last_target=last)
    assert order is not None
    assert order.target == pytest.approx(last)
    assert f"the last estimate failed: {fit.status}" in order.reason


def test_a_campaign_goes_on_with_rows_that_say_nothing() -> None:
    """Two rows a source, constant columns: no estimate can come of it, and none of it may stop the orders."""
    study = worlds.instrument().study
    flat = {"z": np.zeros(2), "x": np.zeros(2), "y": np.zeros(2)}
    ones = {"z": np.ones(2), "x": np.ones(2), "y": np.ones(2)}
    for rows in (flat, ones):
        data = {name: {v: rows[v] for v in source.observes} for name, source in study.sources.items()}
        for aim in ("nearest", "variance"):
            policy = sw.ETG(0.2, aim=aim)
            order = sw.next_order(
                study, policy, budget=20, rows={"registry": 2, "survey": 2}, fit=sw.fit(study, data, ridge=0.01)
            )
            assert order is not None
            assert order.cost == pytest.approx(4.0)


def test_reasons_say_the_mix_where_we_are_and_what_more_buys() -> None:
    population = worlds.instrument()
    study, fit = population.study, population.fit("stacked")
    first = sw.next_order(study, sw.ETG(0.1), budget=1000, rows={})
    assert first is not None
    assert first.explores
    assert "Exploring" in first.reason
    order = sw.next_order(study, sw.ETG(0.1), budget=1000, rows={"registry": 50, "survey": 50}, fit=fit)
    assert order is not None
    assert "best mix of rows: registry 36.6 %, survey 63.4 %" in order.reason
    assert "So far: registry 50.0 %, survey 50.0 %" in order.reason
    registry = (50 + order.rows["registry"]) / 2
    assert f"After this round: registry {registry:.1f} %, survey {100 - registry:.1f} %" in order.reason
    # V = (2/r + 2·3/s)·... : at equal rows one more unit is worth (4, 12)/(8 + 4√3) of the best mix.
    assert (
        f"one more unit of money buys, relative to the best mix: registry {8 / (8 + 4 * math.sqrt(3)):.2f}"
        in order.reason
    )
    assert f"survey {24 / (8 + 4 * math.sqrt(3)):.2f}." in order.reason
    fixed = sw.next_order(study, sw.Fixed(), budget=1000, rows={})
    assert fixed is not None
    assert "fixed ratio" in fixed.reason


def test_a_source_never_seen_gets_its_part_of_the_round() -> None:
    """Else no estimate would ever ask for it: one that joined late, or that delivered nothing in the first round."""
    base = worlds.instrument()
    sources = {"registry": sw.Source("z x"), "survey": sw.Source("z y"), "both": sw.Source("z x y")}
    world = worlds.Population(sw.Study(MOMENTS, "beta", sources), base.columns, base.mass)
    fit = sw.fit(world.study, {name: world._mirror(name, 40) for name in ("registry", "survey")})
    rows = {"registry": 40, "survey": 40}
    order = sw.next_order(world.study, sw.ETG(0.5), budget=200, rows=rows, fit=fit, spent=100.0)
    assert order is not None
    assert "both unknown" in order.reason
    assert "Nothing is known yet of both" in order.reason
    assert order.rows["both"] == pytest.approx(100 / 3, abs=1)
    assert order.cost == 100
    closed = sw.next_order(
        world.study, sw.ETG(0.5), budget=200, rows=rows, fit=fit, spent=100.0, most_rows={"both": 0, "survey": 40}
    )
    assert closed is not None
    assert closed.rows == {"registry": 100, "survey": 0, "both": 0}
    assert "Nothing is known yet" not in closed.reason


@given(st.data())
@settings(max_examples=40, derandomize=True, deadline=None, database=None)
def test_aiming_at_the_variance_is_never_worse_and_the_same_where_the_best_mix_is_in_reach(data: st.DataObject) -> None:
    """Rounds of many rows, so that whole rows move the variance by less than 1e-6."""
    base = worlds.instrument()
    stacking: Any = data.draw(st.sampled_from(["stacked", "stacked", "pooled"]))
    prices = data.draw(st.lists(st.floats(0.1, 10.0), min_size=3, max_size=3))
    views = dict(zip(("registry", "survey", "both"), ("z x", "z y", "z x y"), strict=True))
    sources = {name: sw.Source(view, cost) for (name, view), cost in zip(views.items(), prices, strict=True)}
    study = sw.Study(MOMENTS, "beta", sources)
    world = worlds.Population(study, base.columns, base.mass)
    fit = world.fit(stacking)
    rows = {name: data.draw(st.integers(10_000, 3_000_000)) for name in sources}
    per: Any = data.draw(st.sampled_from(["budget", "rows"]))
    spent = sum(sources[name].cost * n for name, n in rows.items())
    if per == "rows":  # a horizon of which half has been had
        budget = max(2 * sum(rows.values()) * max(prices), 1.5 * spent)
    else:
        budget = spent * data.draw(st.floats(1.2, 6.0))
    start = 0.1 * min(1.0, spent / budget)
    results = {}
    for aim in ("nearest", "variance"):
        policy = sw.ETG([start, 1.0], per=per, aim=aim)
        order = sw.next_order(study, policy, budget=budget, rows=rows, fit=fit)
        assert order is not None
        after = {name: n + order.rows[name] for name, n in rows.items()}
        results[aim] = order, sw.variance(study, fit, after)
    nearest, aimed = results["nearest"], results["variance"]
    assert aimed[1] <= nearest[1] * (1 + 1e-6)
    total = sum(rows.values()) + sum(nearest[0].rows.values())
    reached = {name: (rows[name] + n) / total for name, n in nearest[0].rows.items()}
    if all(abs(reached[name] - share) < 1e-6 for name, share in nearest[0].target.items()):
        assert aimed[1] == pytest.approx(nearest[1], rel=1e-6)
        assert aimed[1] == pytest.approx(sw.allocate(study, fit).variance, rel=1e-6)


@pytest.mark.parametrize("per", ["budget", "rows"])
def test_aiming_at_the_variance_finds_the_best_mix_in_reach(per: Any) -> None:
    """Rounds too small for the best mix: no random use of them is better, and the nearest point often is worse."""
    random = np.random.default_rng(0)
    gains = []
    for _ in range(8):
        costs, had = 10 ** random.uniform(-1, 1, 3), np.floor(10 ** random.uniform(4, 6.5, 3))
        names = ("registry", "survey", "both")
        views = zip(names, ("z x", "z y", "z x y"), costs, strict=True)
        study = sw.Study(MOMENTS, "beta", {name: sw.Source(view, cost) for name, view, cost in views})
        base = worlds.instrument()
        fit = worlds.Population(study, base.columns, base.mass).fit("stacked")
        rows = dict(zip(names, map(int, had), strict=True))
        new = float(random.uniform(0.1, 1.0))
        if per == "budget":
            budget, marks = (1 + new) * float(had @ costs), [0.01, 1.0]
            size = new * float(had @ costs) / costs
        else:
            budget = 4 * float(had.sum() * costs.max())
            marks, size = [0.01, (1 + new) / 4, 1.0], np.full(3, new * had.sum())
        values = []
        for aim in ("nearest", "variance"):
            policy = sw.ETG(marks, per=per, aim=aim)
            order = sw.next_order(study, policy, budget=budget, rows=rows, fit=fit)
            assert order is not None
            values.append(sw.variance(study, fit, {name: rows[name] + n for name, n in order.rows.items()}))
        gains.append(values[1] / values[0])
        for spread in random.dirichlet(np.full(3, 0.5), 40):
            mix = dict(zip(names, map(float, had + spread * size), strict=True))
            assert values[1] <= sw.variance(study, fit, mix) * (1 + 1e-6)
    assert max(gains) <= 1 + 1e-6
    assert min(gains) < (0.98 if per == "rows" else 1 - 1e-6)


BAD: list[tuple[dict[str, Any], str]] = [
    ({"budget": 0}, "not 0"),
    ({"budget": math.nan}, "nan"),
    ({"budget": "9"}, "'9'"),
    ({"rows": {"registry": -5}}, "-5"),
    ({"rows": {"registry": 5.5}}, "5.5"),
    ({"rows": {"registry": math.nan}}, "nan"),
    ({"rows": {"registry": "x"}}, "'x'"),
    ({"rows": {"office": 5}}, "'office'"),
    ({"rows": None}, "None"),
    ({"spent": -1}, "-1"),
    ({"spent": math.nan}, "nan"),
    ({"spent": "x"}, "'x'"),
    ({"last_target": {"registry": 0}}, "registry"),
    ({"last_target": {"registry": math.nan}}, "nan"),
    ({"last_target": {"office": 1}}, "'office'"),
    ({"policy": "equal"}, "'equal'"),
]


@pytest.mark.parametrize(("options", "named"), BAD)
def test_bad_calls_are_refused_and_the_value_is_named(options: dict[str, Any], named: str) -> None:
    study = worlds.instrument().study
    call: dict[str, Any] = {"policy": sw.ETG(0.1), "budget": 100, "rows": {"registry": 10, "survey": 10}, **options}
    policy = call.pop("policy")
    with pytest.raises(sw.AllocationError) as caught:
        sw.next_order(study, policy, **call)
    assert named in str(caught.value)


def test_nothing_is_ordered_when_the_money_is_gone_or_every_row_is_had() -> None:
    sources = {"registry": sw.Source("z x", 1.0, 20), "survey": sw.Source("z y", 2.0, 10)}
    study = sw.Study(MOMENTS, "beta", sources)
    for rows, budget in (
        ({"registry": 20, "survey": 10}, 1000),
        ({"registry": 9, "survey": 5}, 19.5),
        ({"survey": 30}, 50),
    ):
        for policy in (sw.Fixed(), sw.ETG(0.1), sw.ETG(0.1, per="rows"), sw.ETC(aim="variance")):
            assert sw.next_order(study, policy, budget=budget, rows=rows) is None
