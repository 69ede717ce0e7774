"""`plan`: from a pilot or an assumed world to the best mix, what it buys, and what each source is worth in it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from sourcewise.allocation.market import Market, market_of, positive
from sourcewise.allocation.objective import Objective, StackedObjective, objective_of
from sourcewise.errors import AllocationError
from sourcewise.fit import fit
from sourcewise.numerics.linalg import Array
from sourcewise.planning.assumed import fit_of_world
from sourcewise.results import Fit
from sourcewise.simulation.worlds import World
from sourcewise.spec.study import Study

BEST, EQUAL = "best mix", "equal rows"
HALVINGS = 80
FARTHEST = 2.0**63
"""The largest budget that is planned with."""


@dataclass(frozen=True, slots=True)
class Part:
    """What one source contributes at the plan's budget."""

    source: str
    price: float
    rows: float
    money: float
    share: float
    """Of the money."""
    worth: float
    """What one more unit of money buys here, where 1 is what it buys in the best mix; NaN if nothing is known."""
    without: float
    """Standard error of the best mix of the other sources; infinite if they do not identify the target."""
    extra: float
    """Money that the others need on top, as a share of the budget, to be as precise as with this source."""
    alone: float
    """Standard error if all the money went here; infinite if it does not identify the target alone."""


@dataclass(frozen=True)
class Plan:
    """What a budget buys at an assumed state of the world. Made by `sourcewise.plan`.

    It is the precision of a mix that is known from the start; a campaign, which has to find the mix first, ends a
    little above it.
    """

    study: Study
    fit: Fit
    budget: float
    parts: tuple[Part, ...]
    target_stderr: float | None = None
    _objective: Objective = field(repr=False, kw_only=True)

    def stderr(self, budget: float | None = None, way: str = BEST) -> float:
        """Standard error of the target after spending `budget` (the plan's own by default) in one of `ways`."""
        money = self.budget if budget is None else positive("a budget", budget)
        return math.sqrt(self._spend(money, way)[1])

    def budget_for(self, stderr: float, way: str = BEST) -> float:
        """The least money for a standard error; infinite where no money reaches it."""
        return _needed(self.study, self._objective, positive("a standard error", stderr), way)

    @property
    def ways(self) -> tuple[str, ...]:
        """Ways to spend: the best mix, equally many rows, and each source that identifies the target alone."""
        alone = (f"only {part.source}" for part in self.parts if math.isfinite(part.alone))
        return (BEST, EQUAL, *alone) if len(self.parts) > 1 else (BEST,)

    def rows(self, budget: float | None = None) -> dict[str, int]:
        """Whole rows of the best mix, rounded down."""
        money = self._spend(self.budget if budget is None else positive("a budget", budget), BEST)[0]
        pairs = zip(self.study.sources.items(), money, strict=True)
        return {name: math.floor(x / source.cost * (1 + 1e-12) + 1e-9) for (name, source), x in pairs}

    def curve(self, budgets: Sequence[float] | None = None) -> dict[str, list[Any]]:
        """Columns mix, budget and stderr, for a figure: by default from a fifth of the budget to twice it."""
        given = budgets if budgets is not None else [self.budget * x for x in np.geomspace(0.2, 2.0, 19).tolist()]
        rows = [(way, float(b), self.stderr(float(b), way)) for way in self.ways for b in given]
        return {name: [row[k] for row in rows] for k, name in enumerate(("mix", "budget", "stderr"))}

    def figure(self) -> Any:
        """What a budget buys, as an Altair chart; `sourcewise.plots.save` writes it to a file."""
        from sourcewise.plots.plans import stderr_by_budget

        title = f"What a budget buys: {self.study.target}"
        return stderr_by_budget(self.curve(), target=self.target_stderr, title=title)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and texts, ready for JSON; infinities and NaN become None."""
        ways = {
            way: {
                "stderr": _plain(self.stderr(way=way)),
                "budget_for_best_stderr": _plain(self.budget_for(self.stderr(), way)),
            }
            for way in self.ways
        }
        parts = [{key: _plain(getattr(part, key)) for key in Part.__slots__} for part in self.parts]
        needed = None if self.target_stderr is None else _plain(self.budget_for(self.target_stderr))
        return {
            "target": self.study.target,
            "assumed": self.fit.target.value,
            "budget": self.budget,
            "stderr": _plain(self.stderr()),
            "rows": self.rows(),
            "sources": parts,
            "ways": ways,
            "target_stderr": self.target_stderr,
            "budget_needed": needed,
        }

    def _spend(self, budget: float, way: str) -> tuple[Array, float]:
        return _spend(self.study, self._objective, budget, way)


def plan(
    study: Study,
    assumed: Fit | World | Mapping[str, object],
    *,
    budget: float | None = None,
    stderr: float | None = None,
) -> Plan:
    """What a budget, or a standard error to be reached, takes of each source.

    assumed: the world as it is believed to be; or a pilot, as data by source that `fit` reads; or the fit of one.
    """
    found = _fit(study, assumed)
    objective = objective_of(study, found, None)
    if not found.target.identified:
        raise AllocationError(
            f"the target {study.target!r} is not identified by what the plan assumes: add rows of another source to "
            f"the pilot, or a moment that bears on the target"
        )
    if budget is None and stderr is None:
        raise AllocationError("a plan needs a budget, or the standard error that is to be reached")
    if budget is None:
        assert stderr is not None
        budget = _needed(study, objective, positive("a standard error", stderr), BEST)
        if not math.isfinite(budget):
            why = ": the sources have too few rows" if _capped(study) else ""
            raise AllocationError(f"no budget reaches a standard error of {stderr:g}{why}")
    money = positive("a budget", budget)
    if not 1 / FARTHEST <= money <= FARTHEST:
        asked = "" if stderr is None else f", which a standard error of {stderr:g} takes,"
        raise AllocationError(f"a budget of {money:g}{asked} is out of reach: it must lie between 1e-18 and 9e18")
    best, variance = _spend(study, objective, money, BEST)
    if not math.isfinite(variance):
        raise AllocationError(f"no mix of the sources identifies the target {study.target!r} within this budget")
    parts = _parts(study, objective, money, best, variance)
    return Plan(study, found, money, parts, None if stderr is None else float(stderr), _objective=objective)


def _fit(study: Study, assumed: object) -> Fit:
    if isinstance(assumed, Fit):
        return assumed
    if isinstance(assumed, Mapping):
        return fit(study, assumed)
    if isinstance(assumed, World):
        return fit_of_world(study, assumed)
    raise AllocationError(f"a plan assumes a world, a pilot (data by source) or its fit, not {type(assumed).__name__}")


def _parts(study: Study, objective: Objective, budget: float, best: Array, variance: float) -> tuple[Part, ...]:
    market = market_of(study, budget, {}, {}, {})
    worth = objective.worth(market, best) * best.sum() / variance
    found = []
    for k, (name, source) in enumerate(study.sources.items()):
        without = _spend(study, objective, budget, f"without {name}")[1]
        alone = _spend(study, objective, budget, f"only {name}")[1]
        needed = _needed(study, objective, math.sqrt(variance), f"without {name}")
        money = float(best[k])
        shares = (money / source.cost, money, money / float(best.sum()), float(worth[k]))
        extra = max(needed / float(best.sum()) - 1.0, 0.0)
        found.append(Part(name, source.cost, *shares, math.sqrt(without), extra, math.sqrt(alone)))
    return tuple(found)


def _needed(study: Study, objective: Objective, stderr: float, way: str) -> float:
    """The least money for a standard error; infinite where no money reaches it."""

    def reached(money: float) -> float:
        return math.sqrt(_spend(study, objective, money, way)[1])

    limit = _limit(study)
    if not math.isfinite(limit) and not _capped(study):
        ratio = reached(1.0) / stderr
        return ratio * ratio
    high = min(limit, FARTHEST)
    if not reached(high) <= stderr * (1 + 1e-9):
        return math.inf
    low = high * 2.0**-HALVINGS
    while high > low * (1 + 1e-9):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if reached(middle) <= stderr else (middle, high)
    return high


def _capped(study: Study) -> bool:
    return any(source.capacity is not None for source in study.sources.values())


def _spend(study: Study, objective: Objective, budget: float, way: str) -> tuple[Array, float]:
    """Money by source (S,) and the variance of the target that it leads to."""
    market = market_of(study, budget, {}, {}, {})
    if way == BEST:
        money, variance, _ = objective.minimize(market)
        return money, variance
    if way == EQUAL:
        money = _equal(study, market)
        return money, objective.variance(market, money)
    kind, _, name = way.partition(" ")
    if kind not in ("only", "without") or name not in market.names:
        raise AllocationError(f"there is no way to spend called {way!r}")
    chosen = np.array([(other == name) == (kind == "only") for other in market.names])
    upper = np.where(chosen, market.upper, 0.0)
    total = min(market.total, float(upper.sum()))
    if total <= 0:
        return np.zeros_like(upper), math.inf
    if kind == "only":
        money = np.where(chosen, total, 0.0)
        return money, objective.variance(market, money)
    stacked = objective if isinstance(objective, StackedObjective) else objective.start
    money, variance, _ = stacked.minimize(replace(market, total=total, upper=upper))
    return money, variance


def _equal(study: Study, market: Market) -> Array:
    """Equally many rows of every source that computes a moment, until it has no more or the money is gone."""
    useful = np.array([bool(study.moments_of(name)) for name in market.names])
    most = np.where(useful, market.upper / market.costs, 0.0)
    low, high = 0.0, market.total / float(market.costs[useful].min())
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        spent = float(np.minimum(middle, most) @ market.costs)
        low, high = (middle, high) if spent <= market.total else (low, middle)
    return np.asarray(np.minimum(low, most) * market.costs)


def _limit(study: Study) -> float:
    """What all rows that there are cost."""
    return sum(math.inf if s.capacity is None else s.capacity * s.cost for s in study.sources.values())


def _plain(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
