"""A block of replications: every policy at every budget over the same rows, all of them at once.

What a campaign does round by round with `fit` and `next_order` is done here for (S, B) counts: the same policies,
the same estimator and the same allocation, with a batch axis.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sourcewise.allocation.market import capacities
from sourcewise.errors import SimulationError
from sourcewise.estimation.blocks import Blocks, Stacking
from sourcewise.estimation.gmm import EFFICIENT, MODELLED, Estimates, Scheme, Settings, estimate
from sourcewise.inference import Inference, infer
from sourcewise.moments.compiled import CompiledStudy, Integers, compile_study
from sourcewise.numerics.linalg import Array
from sourcewise.policies import ETG, Fixed, Policy, Position, Round, desired_rows, whole_round
from sourcewise.robust import criterion_at
from sourcewise.simulation.aim import Aims, Setting, best_mix, least_variance
from sourcewise.simulation.streams import Stream
from sourcewise.spec.study import Study

ROUNDS = 10_000
"""No policy needs as many rounds; a campaign that does not end is a fault, not a result."""

REMEMBERED = 24
"""Answers that a block keeps for policies that come to the same rows."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Strategy:
    """A policy, and how the data that it collects are turned into estimates: stacked, or pooled as in the paper;
    moments weighed as the study says, or otherwise."""

    policy: Policy
    stacking: Stacking = "stacked"
    weights: str | None = None

    def scheme(self, study: Study) -> Scheme:
        return cast(Scheme, self.weights or study.weights)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the replications of a block ended with at K budgets. Arrays are (K, replications), `rows` (S, K, ·)."""

    budgets: Array
    estimate: Array
    stderr: Array
    """NaN where the data do not identify the target."""
    converged: NDArray[np.bool_]
    rows: Integers
    spent: Array
    rounds: Integers
    astray: Integers
    """Rounds in which the policy could not follow an estimate."""
    weak: Array
    """The level at which the weak-identification interval just reaches the truth; NaN where it was not asked for."""


@dataclass(slots=True)
class Block:
    """The rows of some replications, and the questions that strategies ask of them."""

    study: Study
    streams: Mapping[str, Stream]
    truth: float
    setting: Setting = field(init=False)
    compiled: CompiledStudy = field(init=False)
    _known: dict[Hashable, Any] = field(default_factory=dict, init=False)
    """Answers to the last questions: policies often come to the same rows, such as after exploring equally."""

    def __post_init__(self) -> None:
        self.compiled = compile_study(self.study)
        costs = np.array([source.cost for source in self.study.sources.values()])
        positions = {name: self.study.moments_of(name) for name in self.study.sources}
        self.setting = Setting(self.compiled, positions, costs, capacities(self.study))

    def play(self, strategy: Strategy, budgets: Array, replications: int, weak: bool = False) -> Outcome:
        """All budgets side by side: problem b is budget b // replications of replication b % replications."""
        budget = np.repeat(budgets, replications)
        who = np.tile(np.arange(replications), len(budgets))
        rows, spent = np.zeros((len(self.setting.costs), len(budget))), np.zeros(len(budget))
        rounds, astray = np.zeros(len(budget), dtype=np.int64), np.zeros(len(budget), dtype=np.int64)
        last = self._even(len(budget))
        going = np.arange(len(budget))
        for _ in range(ROUNDS):
            place = self._position(rows[:, going], spent[going], budget[going])
            solvent = place.left >= place.cheapest * (1 - 1e-9)
            going, place = going[solvent], _narrow(place, solvent)
            if not going.size:
                break
            step = strategy.policy.next_round(place)
            wanted, last[:, going], lost = self._wanted(strategy, place, step, who[going], last[:, going])
            asked = whole_round(strategy.policy, place, step, wanted)
            rows[:, going] += asked
            spent[going] += self.setting.costs @ asked
            rounds[going] += 1
            astray[going] += lost
            going = going[asked.any(axis=0)]
        else:
            raise SimulationError(f"{strategy.policy!r} does not end after {ROUNDS} rounds")
        scheme = strategy.scheme(self.study)
        estimate, stderr, converged, level = self._once(
            ("end", strategy.stacking, scheme, weak, *_marks(rows, who)),
            lambda: self._finish(strategy.stacking, scheme, rows, who, weak),
        )
        shape = (len(budgets), replications)
        return Outcome(
            budgets,
            estimate.reshape(shape),
            stderr.reshape(shape),
            converged.reshape(shape),
            rows.astype(np.int64).reshape(-1, *shape),
            spent.reshape(shape),
            rounds.reshape(shape),
            astray.reshape(shape),
            level.reshape(shape),
        )

    def _position(self, rows: Array, spent: Array, budget: Array) -> Position:
        return Position(rows, spent, budget, self.setting.costs, self.setting.capacity)

    def _even(self, batch: int) -> Array:
        useful = np.array([float(bool(places)) for places in self.setting.positions.values()])
        return np.repeat((useful / useful.sum())[:, None], batch, axis=1)

    def _wanted(
        self, strategy: Strategy, place: Position, step: Round, who: Integers, last: Array
    ) -> tuple[Array, Array, NDArray[np.bool_]]:
        """New rows (S, B), not yet whole; the ratio aimed at; and where a policy had no estimate to follow.

        `last` is the ratio aimed at before: a failed estimate never stops a campaign.
        """
        policy, lost = strategy.policy, np.zeros(len(who), dtype=bool)
        if isinstance(policy, Fixed):
            kappa = np.repeat(policy.kappa(self.study)[:, None], len(who), axis=1)
            return desired_rows(policy, place, step, kappa), kappa, lost
        kappa, wanted = last.copy(), np.empty_like(last)
        explore = np.flatnonzero(step.explores)
        if explore.size:
            kappa[:, explore] = policy.exploring(self.study)[:, None]
            there, now = _narrow(place, explore), _narrow_round(step, explore)
            wanted[:, explore] = desired_rows(policy, there, now, kappa[:, explore])
        greedy = np.flatnonzero(~step.explores)
        for some in _alike(place.rows[:, greedy]):
            chosen = greedy[some]
            there, now = _narrow(place, chosen), _narrow_round(step, chosen)
            found = self.aims(strategy, there, who[chosen])
            kappa[:, chosen] = np.where(found.sound, found.kappa, last[:, chosen])
            lost[chosen] = ~found.sound
            nearest = desired_rows(policy, there, now, kappa[:, chosen])
            if policy.aim == "variance":
                nearest = least_variance(self.setting, policy, there, found, nearest)
            wanted[:, chosen] = nearest
        return wanted, kappa, lost

    def aims(self, strategy: Strategy, place: Position, who: Integers) -> Aims:
        """κ̂ from the rows so far, as `next_order` finds it for one campaign."""
        assert isinstance(strategy.policy, ETG)
        ridge, scheme = strategy.policy.ridge, strategy.scheme(self.study)

        def find() -> Aims:
            blocks = self.blocks(place.rows, who, strategy.stacking, scheme)
            return best_mix(self.setting, blocks, self._estimate(blocks, scheme, ridge), place)

        return self._once(("aims", strategy.stacking, scheme, ridge, *_marks(place.rows, place.budget, who)), find)

    def _once(self, question: Hashable, answer: Callable[[], T]) -> T:
        if question in self._known:
            self._known[question] = self._known.pop(question)  # the oldest go first
        else:
            self._known[question] = answer()
            if len(self._known) > REMEMBERED:
                del self._known[next(iter(self._known))]
        found: T = self._known[question]
        return found

    def blocks(self, rows: Array, who: Integers, stacking: Stacking, scheme: Scheme) -> Blocks:
        """The evidence of problems in which the same sources have rows."""
        parts = {
            name: self.streams[name].evidence(counts.astype(np.int64), who)
            for name, counts in zip(self.study.sources, rows, strict=True)
            if counts[0] > 0 and name in self.streams
        }
        return Blocks(parts, stacking, "robust", False, len(self.study.moments), MODELLED.get(scheme))

    def _estimate(self, blocks: Blocks, scheme: Scheme, ridge: float = 0.0) -> Estimates:
        settings = Settings(scheme, ridge)
        given = np.repeat(self.compiled.start[:, None], len(blocks.rows), axis=1)
        return estimate(self.study, self.compiled, blocks, settings, given)

    def _finish(
        self, stacking: Stacking, scheme: Scheme, rows: Array, who: Integers, weak: bool
    ) -> tuple[Array, Array, NDArray[np.bool_], Array]:
        """The final estimates, with the efficient weight: value, standard error, converged, and level of the truth."""
        value, stderr, level = np.full((3, rows.shape[1]), np.nan)
        converged = np.zeros(rows.shape[1], dtype=bool)
        for some in _alike(rows):
            blocks = self.blocks(rows[:, some], who[some], stacking, scheme)
            if not blocks.evidence:
                continue
            found = self._estimate(blocks, scheme)
            known = infer(self.compiled, blocks, found, "robust", None, scheme in EFFICIENT)
            value[some], stderr[some], converged[some] = known.target, known.stderr, found.converged
            if weak:
                height = criterion_at(self.compiled, blocks, found.theta, known, self.truth)
                level[some] = _level(height, known)
        return value, stderr, converged, level


def _alike(rows: Array) -> Iterator[Integers]:
    """Problems by the set of sources that have rows: a source without any takes no part in an estimate."""
    if not rows.size:
        return
    has = rows > 0
    if (has == has[:, :1]).all():  # nearly always
        yield np.arange(rows.shape[1])
        return
    patterns, which = np.unique(has, axis=1, return_inverse=True)
    for k in range(patterns.shape[1]):
        yield np.flatnonzero(which.ravel() == k)


def _level(criterion: Array, inference: Inference) -> Array:
    from scipy.special import chdtr

    return np.asarray(chdtr(inference.degrees + 1.0, criterion))


def _marks(*arrays: Array | Integers) -> tuple[bytes, ...]:
    return tuple(array.tobytes() for array in arrays)


def _narrow(place: Position, which: NDArray[np.int64] | NDArray[np.bool_]) -> Position:
    return Position(place.rows[:, which], place.spent[which], place.budget[which], place.costs, place.capacity)


def _narrow_round(step: Round, which: Integers) -> Round:
    return Round(step.money[which], step.rows[which], step.explores[which])
