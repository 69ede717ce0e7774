"""`allocate` and `variance`: fields, units, constraints against brute force, invariances and what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import sourcewise as sw
from allocation import worlds
from sourcewise.allocation.objective import StackedObjective, objective_of

Array = NDArray[np.float64]
MOMENTS = ["z*(x - alpha*z)", "z*(y - alpha*beta*z)"]


def market(capacity: int | None = None) -> worlds.Population:
    """The IV study with a third, dearer source that sees everything."""
    base = worlds.instrument()
    sources = {
        "registry": sw.Source("z x", 1.0, capacity),
        "survey": sw.Source("z y", 2.0),
        "both": sw.Source("z x y", 2.6),
    }
    return worlds.Population(sw.Study(MOMENTS, "beta", sources), base.columns, base.mass)


def brute_force(study: sw.Study, fit: sw.Fit, choices: list[range], budget: float, **terms: Array) -> float:
    """The least variance over all whole rows from `choices` whose price, with charges, is within the budget."""
    objective = objective_of(study, fit, "stacked")
    assert isinstance(objective, StackedObjective)
    grams = np.array([root.T @ root for root in objective.roots])
    costs = np.array([source.cost for source in study.sources.values()])
    charges, bought = terms.get("charges", np.zeros(len(costs))), terms.get("bought", np.zeros(len(costs)))
    rows = np.stack([axis.ravel() for axis in np.meshgrid(*choices, indexing="ij")], axis=1)
    price = rows @ costs + ((rows > 0) & (bought == 0)) @ charges
    known = np.tensordot(rows[price <= budget * (1 + 1e-12)], grams, 1)
    known = known[np.linalg.det(known) > 1e-12]
    gradient = objective.gradient
    return float(
        np.min(np.linalg.solve(known, np.broadcast_to(gradient, known.shape[:2])[..., None])[..., 0] @ gradient)
    )


def test_fields_agree_with_each_other_and_with_variance() -> None:
    population = market()
    fit = population.fit("stacked")
    best = sw.allocate(population.study, fit)
    costs = {name: source.cost for name, source in population.study.sources.items()}
    assert sum(best.shares.values()) == pytest.approx(1, abs=1e-14)
    assert sum(best.kappa.values()) == pytest.approx(1, abs=1e-14)
    price = sum(costs[name] * share for name, share in best.kappa.items())
    for name, share in best.kappa.items():
        assert best.shares[name] == pytest.approx(share * costs[name] / price, abs=1e-14)
    assert sw.variance(population.study, fit, best.kappa) == pytest.approx(best.variance, rel=1e-12)
    assert not best.local
    assert best.must_explore == ()
    assert best.gap < 1e-9


def test_stderr_is_that_of_a_fit_with_this_money() -> None:
    """The unit of `variance`: rows in the best mix that cost B have the standard error √(variance/B)."""
    population = market()
    best = sw.allocate(population.study, population.fit("stacked"))
    budget = 1e7
    rows = {name: round(share * budget / population.study.sources[name].cost) for name, share in best.shares.items()}
    data = {name: population._mirror(name, n) for name, n in rows.items() if n}
    assert best.stderr(budget) == pytest.approx(sw.fit(population.study, data).target.stderr, rel=1e-5)
    assert best.budget_for(best.stderr(123.0)) == pytest.approx(123.0, rel=1e-12)


@pytest.mark.parametrize("stacking", ["stacked", "pooled"])
@pytest.mark.parametrize(
    ("capacity", "terms"),
    [
        (12, {}),
        (None, {"spent": {"registry": 50}}),
        (None, {"least_rows": {"both": 9}}),
        (7, {"spent": {"registry": 3}, "least_rows": {"survey": 40}}),
        (None, {"least_share": {"registry": 0.7}}),
    ],
)
def test_limits_are_kept_and_nothing_within_them_is_better(
    stacking: Any, capacity: int | None, terms: dict[str, Any]
) -> None:
    population = market(capacity)
    study, budget = population.study, 120.0
    fit = population.fit(stacking)
    best = sw.allocate(study, fit, budget=budget, **terms)
    costs = np.array([source.cost for source in study.sources.values()])
    rows = np.array(list(best.shares.values())) * budget / costs

    def given(term: str) -> Array:
        return np.array([terms.get(term, {}).get(name, 0.0) for name in study.sources])

    least = np.maximum(np.maximum(given("spent"), given("least_rows")), given("least_share") * budget / costs)
    most = np.array([math.inf if capacity is None else capacity, math.inf, math.inf])
    assert (rows >= least - 1e-6).all()
    assert (rows <= most + 1e-6).all()
    random = np.random.default_rng(3)
    for spread in random.dirichlet(np.ones(3), 200):
        other = least + spread * (budget - least @ costs) / costs
        if (other <= most).all():
            kappa = dict(zip(study.sources, other, strict=True))
            assert sw.variance(study, fit, kappa) >= best.variance * (1 - 1e-8)


def test_limits_bound_whole_rows_from_below_and_closely() -> None:
    """Rows are whole and the optimum is not: it may be better, by no more than a row in a hundred makes."""
    population = market(12)
    fit = population.fit("stacked")
    best = sw.allocate(population.study, fit, budget=150, spent={"survey": 2})
    least = brute_force(population.study, fit, [range(13), range(2, 76), range(58)], 150)
    assert best.variance / 150 <= least * (1 + 1e-12)
    assert best.variance / 150 == pytest.approx(least, rel=0.01)


@pytest.mark.parametrize("budget", [37.0, 60.0])
@pytest.mark.parametrize(
    ("lots", "opening", "spent"),
    [
        ({"registry": 5, "survey": 4, "both": 3}, {}, {}),
        ({"registry": 7}, {"both": 6.0}, {}),
        ({}, {"registry": 5.0, "survey": 5.0, "both": 9.0}, {}),
        ({"survey": 3}, {"registry": 20.0, "survey": 20.0, "both": 1.0}, {}),
        ({"registry": 2}, {"registry": 9.0, "both": 9.0}, {"registry": 4}),
    ],
)
def test_lots_and_charges_against_all_whole_rows(
    budget: float, lots: dict[str, int], opening: dict[str, float], spent: dict[str, int]
) -> None:
    population = market(30)
    study, fit = population.study, population.fit("stacked")
    best = sw.allocate(study, fit, budget=budget, lots=lots, opening=opening, spent=spent)
    ranges = []
    for name, source in study.sources.items():
        start = spent.get(name, 0)
        ranges.append(range(start, min(source.capacity or 10**6, int(budget / source.cost)) + 1, lots.get(name, 1)))
    charges = np.array([opening.get(name, 0.0) for name in study.sources])
    bought = np.array([spent.get(name, 0) for name in study.sources])
    least = brute_force(study, fit, ranges, budget, charges=charges, bought=bought)
    paid = sum(opening.get(name, 0.0) for name, share in best.shares.items() if share > 0 and not spent.get(name))
    mix = sw.variance(study, fit, best.kappa)
    rows_money = mix / least  # money on rows if the mix is the best one
    assert best.variance == pytest.approx(least * (rows_money + paid), rel=2e-6)
    assert rows_money + paid <= budget * (1 + 1e-6)
    rows = np.array(list(best.shares.values())) * rows_money / [s.cost for s in study.sources.values()]
    sizes = np.array([lots.get(name, 1) for name in study.sources])
    assert np.abs((rows - bought) / sizes - np.round((rows - bought) / sizes)).max() < 1e-3
    assert best.gap <= 1e-6


BAD: list[tuple[dict[str, Any], str]] = [
    ({"stacking": "piled"}, "'piled'"),
    ({"budget": 0}, "not 0"),
    ({"budget": math.nan}, "nan"),
    ({"budget": "100"}, "'100'"),
    ({"budget": True}, "True"),
    ({"spent": {"registry": 3}}, "budget"),
    ({"least_rows": {"registry": 3}}, "budget"),
    ({"budget": 10, "spent": {"registry": 30}}, "30"),
    ({"budget": 10, "least_rows": {"registry": 30}}, "30"),
    ({"budget": 10, "least_rows": {"registry": 3.5}}, "3.5"),
    ({"budget": 10, "spent": {"registry": -3}}, "-3"),
    ({"budget": 10, "spent": {"office": 3}}, "'office'"),
    ({"budget": 10, "spent": 3}, "not 3"),
    ({"least_share": {"registry": "x"}}, "'x'"),
    ({"least_share": {"registry": None}}, "None"),
    ({"least_share": {"registry": math.nan}}, "nan"),
    ({"least_share": {"registry": -0.25}}, "-0.25"),
    ({"least_share": {"registry": 0.8, "survey": 0.4}}, "0.8"),
    ({"budget": 100, "spent": {"registry": 60}, "least_share": {"survey": 0.5}}, "110"),
    ({"lots": {"registry": 2}}, "budget"),
    ({"opening": {"registry": 2}}, "budget"),
    ({"budget": 10, "lots": {"registry": 2.5}}, "2.5"),
    ({"budget": 10, "lots": {"registry": 0}}, "0"),
    ({"budget": 10, "lots": {"registry": -2}}, "-2"),
    ({"budget": 10, "lots": {"office": 2}}, "'office'"),
    ({"budget": 10, "opening": {"registry": -1.5}}, "-1.5"),
    ({"budget": 10, "opening": {"registry": math.inf}}, "inf"),
    ({"budget": 10, "lots": {"registry": 2}, "stacking": "pooled"}, "stacked"),
    ({"budget": 10, "lots": {"registry": 20, "survey": 20}}, "10"),
    ({"budget": 10, "opening": {"registry": 20}}, "10"),
]


@pytest.mark.parametrize(("options", "named"), BAD)
def test_bad_calls_are_refused_and_the_value_is_named(options: dict[str, Any], named: str) -> None:
    population = worlds.instrument()
    with pytest.raises(sw.AllocationError) as caught:
        sw.allocate(population.study, population.fit("stacked"), **options)
    assert named in str(caught.value)


def test_more_rows_than_there_are_and_mixes_that_are_none() -> None:
    population = market(20)
    fit = population.fit("stacked")
    for limit in ("spent", "least_rows"):
        terms: dict[str, Any] = {limit: {"registry": 30}}
        with pytest.raises(sw.AllocationError, match="'registry' must give at least 30 rows but has only 20"):
            sw.allocate(population.study, fit, budget=200, **terms)
    bad: list[Any] = [
        {"registry": 0},
        {"office": 1},
        {"registry": -1},
        {"registry": math.inf},
        {"registry": "x"},
        {},
        1,
    ]
    for kappa in bad:
        with pytest.raises(sw.AllocationError):
            sw.variance(population.study, fit, kappa)
    best = sw.allocate(population.study, fit)
    for value in (0, -1, math.nan, math.inf, "1", True):
        with pytest.raises(sw.AllocationError, match="finite number above 0"):
            best.stderr(value)  # type: ignore[arg-type]
        with pytest.raises(sw.AllocationError, match="finite number above 0"):
            best.budget_for(value)  # type: ignore[arg-type]
    other = worlds.two_instruments()
    with pytest.raises(sw.AllocationError, match="another study"):
        sw.allocate(other.study, fit)


def test_numbers_of_numpy_are_numbers() -> None:
    population = market(20)
    fit = population.fit("stacked")
    found = sw.allocate(population.study, fit, budget=np.int64(200), spent={"registry": np.int64(3)})  # type: ignore[dict-item,arg-type]
    assert found == sw.allocate(population.study, fit, budget=200, spent={"registry": 3})
    assert found.stderr(np.float32(4)) == found.stderr(4)  # type: ignore[arg-type]


@pytest.mark.parametrize("stacking", ["stacked", "pooled"])
@pytest.mark.parametrize("factor", [1e-4, 7.0, 1e5])
def test_the_unit_of_money_does_not_matter(stacking: Any, factor: float) -> None:
    population = market()
    fit = population.fit(stacking)
    sources = {n: sw.Source(s.observes, s.cost * factor) for n, s in population.study.sources.items()}
    study = sw.Study(MOMENTS, "beta", sources)
    plain, scaled = sw.allocate(population.study, fit), sw.allocate(study, fit)
    tolerance = 1e-9 if stacking == "stacked" else 1e-6
    assert scaled.kappa == pytest.approx(plain.kappa, abs=tolerance)
    assert scaled.variance == pytest.approx(plain.variance * factor, rel=1e-9)


@pytest.mark.parametrize("stacking", ["stacked", "pooled"])
@pytest.mark.parametrize("unit", [1e-3, 1e3])
def test_units_of_variables_and_parameters_do_not_matter(stacking: Any, unit: float) -> None:
    population = market()
    plain = sw.allocate(population.study, population.fit(stacking))
    columns = {**population.columns, "x": unit * population.columns["x"]}  # β is in units of y per unit of x
    other = worlds.Population(population.study, columns, population.mass)
    scaled = sw.allocate(other.study, other.fit(stacking))
    moments = [text.replace("alpha", f"({unit!r}*gamma)") for text in MOMENTS]
    renamed = worlds.Population(
        sw.Study(moments, "beta", population.study.sources), population.columns, population.mass
    )
    reparametrised = sw.allocate(renamed.study, renamed.fit(stacking))
    tolerance = 1e-8 if stacking == "stacked" else 1e-6
    assert scaled.kappa == pytest.approx(plain.kappa, abs=tolerance)
    assert scaled.variance * unit**2 == pytest.approx(plain.variance, rel=1e-8)
    assert reparametrised.kappa == pytest.approx(plain.kappa, abs=tolerance)
    assert reparametrised.variance == pytest.approx(plain.variance, rel=1e-8)


@pytest.mark.parametrize("make", [market, worlds.two_instruments, worlds.ihdp, worlds.draft_lottery])
def test_the_best_stacked_mix_is_never_worse_than_the_best_pooled_one(make: Any) -> None:
    population = make()
    stacked = sw.allocate(population.study, population.fit("stacked"))
    pooled = sw.allocate(population.study, population.fit("pooled"))
    assert stacked.variance <= pooled.variance * (1 + 1e-9)


@pytest.mark.parametrize("stacking", ["stacked", "pooled"])
def test_a_source_alone_that_does_not_identify_the_target(stacking: Any) -> None:
    population = market()
    fit = population.fit(stacking)
    for name in ("registry", "survey"):
        assert sw.variance(population.study, fit, {name: 1.0}) == math.inf
    assert sw.variance(population.study, fit, {"both": 1.0}) < math.inf
    alone = sw.Study(MOMENTS, "beta", {"registry": sw.Source("z x")})
    part = {"registry": population._mirror("registry", 1000)}
    nothing = sw.allocate(alone, sw.fit(alone, part, stacking=stacking))
    assert nothing.variance == math.inf
    assert nothing.worth == {"registry": 0.0}


@pytest.mark.parametrize("stacking", ["stacked", "pooled"])
@pytest.mark.parametrize("make", [market, worlds.ihdp, lambda: worlds.confounder_mediator(published=False)])
def test_worth_is_the_derivative_of_the_variance(make: Any, stacking: Any) -> None:
    """Also at sources that get nothing, where only money can be added."""
    population = make()
    study, fit = population.study, population.fit(stacking)
    best = sw.allocate(study, fit)

    def variance(money: dict[str, float]) -> float:
        rows = {name: x / study.sources[name].cost for name, x in money.items()}
        return sw.variance(study, fit, rows) / sum(money.values())

    level = variance(dict(best.shares))
    assert level == pytest.approx(best.variance, rel=1e-12)
    step = 1e-5
    for name, share in best.shares.items():
        more = variance({**best.shares, name: share + step})
        # With a second point the error of the difference is of order step².
        twice = variance({**best.shares, name: share + 2 * step})
        slope = (4 * (more - level) - (twice - level)) / (2 * step)
        assert best.worth[name] == pytest.approx(-slope / level, abs=1e-5)
        if share > 0:
            assert best.worth[name] == pytest.approx(1.0, abs=1e-5)
        elif stacking == "stacked":
            assert best.worth[name] <= 1 + 1e-6


@pytest.mark.parametrize("stacking", ["stacked", "pooled"])
def test_a_source_with_a_parameter_of_its_own_is_worth_nothing_alone(stacking: Any) -> None:
    """w tells of m only through an unknown shift that nothing else knows: a pseudo-inverse would take it as zero."""
    (y, e), mass = worlds.normals(2)
    sources = {"a": sw.Source("y"), "b": sw.Source("w")}
    study = sw.Study(["y - m", "w - m - shift"], "m", sources)
    population = worlds.Population(study, {"y": y + 1, "w": y + e + 3}, mass)
    best = sw.allocate(study, population.fit(stacking))
    assert best.shares == {"a": 1.0, "b": 0.0}
    assert best.worth["a"] == pytest.approx(1.0, rel=1e-9)
    assert best.worth["b"] == pytest.approx(0.0, abs=1e-9)


def test_charges_count_as_spent() -> None:
    population = worlds.instrument()
    fit = population.fit("stacked")
    best = sw.allocate(population.study, fit, budget=100, opening={"registry": 10, "survey": 10})
    rows = {name: round(80 * share) for name, share in best.shares.items()}
    assert sum(rows.values()) == 80
    assert best.stderr(100) ** 2 == pytest.approx(sw.variance(population.study, fit, rows) / 80, rel=1e-9)
