"""An experiment as data: a world, a study, budgets, and the policies that are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from sourcewise.allocation.allocate import Allocation
from sourcewise.estimation.blocks import Stacking
from sourcewise.policies import ETG, Fixed, Policy
from sourcewise.reporting import Verdict
from sourcewise.simulation.oracle import best_fixed, oracle_policy
from sourcewise.simulation.play import Strategy
from sourcewise.simulation.results import ORACLE, Simulation
from sourcewise.simulation.worlds import World
from sourcewise.spec.study import Study

STACKED = " stacked"
BY_VARIANCE = ", by variance"
PLAIN = ", two-step weights"


@dataclass(frozen=True)
class Experiment:
    """`policies` are the paper's, whose estimates pool all rows as the paper does; ours are derived from them."""

    name: str
    figure: str
    """Of the paper."""
    title: str
    world: World
    study: Study
    budgets: tuple[float, ...]
    policies: Mapping[str, Policy]
    claims: Callable[[Findings], list[Verdict]]
    weights: str = "two-step"
    """Of the stacked estimates: "shrunk" where few rows of a source have to weigh many moments."""
    by_variance: tuple[str, ...] = ()
    """Policies that also aim at the least variance instead of the nearest mix."""
    mixes: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Further fixed mixes, such as the oracle that the paper printed."""
    large_budget: float | None = None
    """A budget at which the fixed mixes alone are compared, without the troubles of small samples."""
    weak_budgets: tuple[float, ...] = ()
    """Budgets, mostly small, at which the interval that weak identification does not harm is looked at."""
    notes: tuple[str, ...] = ()

    def best(self, stacking: Stacking) -> Allocation:
        return self._best[stacking]

    @cached_property
    def _best(self) -> dict[Stacking, Allocation]:
        kinds: tuple[Stacking, ...] = ("pooled", "stacked")
        return {kind: best_fixed(self.world, self.study, kind) for kind in kinds}

    @cached_property
    def strategies(self) -> dict[str, Strategy]:
        """Every policy that plays, the oracle first: the paper's, then each of them with stacked estimates. What
        shrunk weights change is seen at the oracle, which plays with the others as well."""
        known: dict[str, Policy] = {ORACLE: oracle_policy(self.best("pooled")), **self.policies}
        found = {name: Strategy(policy, "pooled") for name, policy in known.items()}
        found |= {name: Strategy(Fixed(mix), "pooled") for name, mix in self.mixes.items()}
        best = oracle_policy(self.best("stacked"))
        ours: dict[str, Policy] = {ORACLE + STACKED: best}
        ours |= {name + STACKED: policy for name, policy in self.policies.items()}
        for name in self.by_variance:
            policy = self.policies[name]
            assert isinstance(policy, ETG)
            ours[name + STACKED + BY_VARIANCE] = replace(policy, aim="variance")
        found |= {name: Strategy(policy, "stacked", self.weights) for name, policy in ours.items()}
        if self.weights != "two-step":
            found[ORACLE + STACKED + PLAIN] = Strategy(best, "stacked", "two-step")
        return found

    def adaptive(self) -> list[str]:
        return [name for name, policy in self.policies.items() if isinstance(policy, ETG)]


@dataclass(frozen=True)
class Findings:
    """What came of an experiment: the figure's simulation, and those on the side."""

    experiment: Experiment
    main: Simulation
    large: Simulation | None
    weak: Simulation | None

    @property
    def smallest(self) -> float:
        return min(self.experiment.budgets)

    @property
    def largest(self) -> float:
        return max(self.experiment.budgets)

    @cached_property
    def verdicts(self) -> list[Verdict]:
        return self.experiment.claims(self)

    def tables(self) -> Sequence[tuple[str, Simulation]]:
        parts = (("figure", self.main), ("large budget", self.large), ("weak identification", self.weak))
        return [(name, part) for name, part in parts if part is not None]
