"""A run of a simulation is a campaign: the orders and the estimate are those of `next_order` and `fit`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import sourcewise as sw
from simulation.problems import IV, IV_STUDY, MEANS, MEANS_STUDY
from sourcewise.estimation.blocks import Stacking
from sourcewise.experiments import EXPERIMENTS
from sourcewise.policies import Policy
from sourcewise.simulation.streams import Stream, plan_source

COSTLY = sw.Study(IV_STUDY.moments, "beta", {"treatment": sw.Source("z x", 1.5), "outcome": sw.Source("z y")})

POLICIES: dict[str, Policy] = {
    "equal": sw.Fixed(),
    "etc": sw.ETC(0.2),
    "etg": sw.ETG(0.2),
    "etg rows": sw.ETG(0.2, per="rows"),
    "etg variance": sw.ETG(0.1, aim="variance"),
    "first": sw.ETC(0.3, first={"treatment": 3, "outcome": 1}),
}


def campaign(study: sw.Study, policy: Policy, stacking: Stacking, budget: float, tables: dict[str, Any]) -> Any:
    """Rows by source and the last fit, order by order."""
    rows = dict.fromkeys(study.sources, 0)
    target, fit = None, None
    while True:
        if any(rows.values()):
            taken = {name: {v: col[:n] for v, col in tables[name].items()} for name, n in rows.items() if n}
            fit = sw.fit(study, taken, stacking=stacking, ridge=getattr(policy, "ridge", 0.0))
        order = sw.next_order(study, policy, budget=budget, rows=rows, fit=fit, last_target=target)
        if order is None:
            return rows, sw.fit(study, taken, stacking=stacking)
        target = order.target
        rows = {name: rows[name] + order.rows[name] for name in rows}


@pytest.mark.parametrize("stacking", ["stacked", "pooled"])
@pytest.mark.parametrize("name", POLICIES)
def test_the_orders_and_the_estimate_are_those_of_a_campaign(name: str, stacking: Stacking) -> None:
    """Both solve for the same mix to 1e-7 or better; a mix on the edge of a whole row may fall to either side of it."""
    study = IV_STUDY if name == "etg variance" else COSTLY
    policy, budget, runs = POLICIES[name], 250.0, 4
    found = sw.simulate(
        IV, study, {"it": sw.Strategy(policy, stacking), "oracle": sw.Fixed()}, [budget], runs=runs, seed=5
    )
    streams = {n: Stream(IV, study, plan_source(IV, study, n), 5, 0, runs, 300) for n in study.sources}
    outcome = found.outcomes["it"]
    for r in range(runs):
        tables = {
            n: dict(zip(plan_source(IV, study, n).source.variables, s._columns[:, :, r], strict=True))
            for n, s in streams.items()
        }
        rows, fit = campaign(study, policy, stacking, budget, tables)
        assert outcome.rows[:, 0, r].tolist() == list(rows.values())
        assert outcome.estimate[0, r] == pytest.approx(fit.target.value, rel=1e-7)
        assert outcome.stderr[0, r] == pytest.approx(fit.target.stderr, rel=1e-6)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_no_policy_overspends_and_none_leaves_money_for_a_wanted_row(name: str) -> None:
    experiment = EXPERIMENTS[name]()
    policies = {k: s for k, s in experiment.strategies.items() if s.stacking == "stacked" or k == "oracle"}
    budgets = experiment.budgets[:2] if name == "draft-lottery" else experiment.budgets[::4]
    found = sw.simulate(experiment.world, experiment.study, policies, budgets, runs=8, seed=2)
    prices = np.array([source.cost for source in experiment.study.sources.values()])
    for outcome in found.outcomes.values():
        money = np.einsum("s,skr->kr", prices, outcome.rows)
        assert money == pytest.approx(outcome.spent)
        assert (money <= outcome.budgets[:, None] * (1 + 1e-9)).all()
        dearest = np.where(outcome.rows > 0, prices[:, None, None], 0.0).max(axis=0)  # the last to be wanted, at worst
        assert (money > outcome.budgets[:, None] - dearest).all()


def test_a_source_that_a_mix_leaves_out_gets_no_stray_rows() -> None:
    """Money is left for two rows at 1 each; two rows are no sample, and moments of theirs ruined one estimate in 20."""
    it = EXPERIMENTS["ihdp"]()
    found = sw.simulate(it.world, it.study, {"all": it.strategies["collect_all stacked"]}, [800.0], runs=64, seed=1)
    assert (found.outcomes["all"].rows[:, 0] == np.array([[0], [0], [228]])).all()
    assert found.cell("all", 800.0).not_converged == 0


def test_a_round_too_small_for_a_wanted_row_does_not_end_a_campaign() -> None:
    study = sw.Study(["x - m"], "m", {"dear": sw.Source("x", 50.0), "cheap": sw.Source("x", 60.0)})
    world = sw.FunctionWorld(lambda random, n: {"x": random.normal(size=n)}, 0.0)
    found = sw.simulate(world, study, {"small": sw.ETG(0.02)}, [2000.0], runs=8, seed=1)
    assert (found.outcomes["small"].spent > 2000 - 60).all()


def test_policies_that_come_to_the_same_rows_get_the_same_answer() -> None:
    """Whatever was played before: answers are kept by rows, and nothing else may decide them."""
    pooled = sw.Strategy(sw.ETG(0.1), "pooled")
    both: dict[str, Policy | sw.Strategy] = {
        "etc": sw.ETC(0.2),
        "etg": sw.ETG(0.1),
        "again": sw.ETG(0.1),
        "pooled": pooled,
    }
    together = sw.simulate(IV, IV_STUDY, both, [200, 300], runs=20, seed=3)
    for name, policy in both.items():
        alone = sw.simulate(IV, IV_STUDY, {name: policy}, [200, 300], runs=20, seed=3)
        for part in ("estimate", "stderr", "rows"):
            assert (getattr(alone.outcomes[name], part) == getattr(together.outcomes[name], part)).all()


def test_the_mean_squared_error_is_what_theory_says() -> None:
    """Estimates of a difference of two means: V × cost = (1·√1 + 3·√2)² at the best mix, exactly and at any budget.

    Within four standard errors, which are 1.4 % of it at 10,000 runs; coverage likewise. Whole rows cost a little."""
    found = sw.simulate(MEANS, MEANS_STUDY, {"equal": sw.Fixed()}, [600], runs=10_000, seed=11)
    oracle, equal = found.cell("oracle", 600), found.cell("equal", 600)
    assert abs(oracle.mse - (1 + 3 * math.sqrt(2)) ** 2) < 4 * oracle.mse_se
    assert abs(equal.mse - 3 * (1 + 9)) < 4 * equal.mse_se
    noise = math.sqrt(0.95 * 0.05 / 10_000)
    assert abs(oracle.coverage - 0.95) < 4 * noise
    assert oracle.width == pytest.approx(2 * 1.959964 * (1 + 3 * math.sqrt(2)), rel=0.01)
    assert oracle.kappa["left"] == pytest.approx(math.sqrt(2) / (math.sqrt(2) + 3), abs=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "policy", "value"),
    [
        ("iv", "oracle", 8 + 4 * math.sqrt(3)),
        ("two-ivs", "oracle", 0.5),
        ("two-ivs", "published oracle", 1 / (2 - 1.5 * 0.05)),
        ("confounder-mediator", "oracle", 1.027057),
        ("confounder-mediator", "fixed_equal", 1.250799),
    ],
)
def test_experiments_tend_to_their_closed_forms(name: str, policy: str, value: float) -> None:
    """At a budget of 8,000 what is left of finite samples (below 1 %) is less than the standard error of 2.2 %."""
    experiment = EXPERIMENTS[name]()
    only = {"oracle": experiment.strategies["oracle"], policy: experiment.strategies[policy]}
    cell = sw.simulate(experiment.world, experiment.study, only, [8000], runs=4000, seed=4).cell(policy, 8000)
    assert abs(cell.mse - value) < 4 * cell.mse_se
