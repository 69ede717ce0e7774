"""A block of replications: every policy at every budget over the same rows, all of them at once.

What a campaign does round by round with `fit` and `next_order` is done here for (S, B) counts: the same policies,
the same estimator and the same allocation, with a batch axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from sourcewise.allocation.batched import solve_batch
from sourcewise.allocation.information import information, population
from sourcewise.allocation.market import capacities
from sourcewise.allocation.pooled_batch import PooledBatch, minimize_batch
from sourcewise.errors import SimulationError
from sourcewise.estimation.blocks import Blocks, Stacking
from sourcewise.estimation.gmm import Estimates, Settings, estimate
from sourcewise.inference import Inference, infer, sensitivity_of, target_and_gradient
from sourcewise.moments.compiled import CompiledStudy, Integers, compile_study
from sourcewise.numerics.linalg import Array
from sourcewise.policies import ETG, Fixed, Policy, Position, Round, desired_rows, whole_round
from sourcewise.robust import criterion_at
from sourcewise.simulation.streams import Stream
from sourcewise.spec.study import Study

ROUNDS = 10_000
"""No policy needs as many rounds; a campaign that does not end is a fault, not a result."""


@dataclass(frozen=True, slots=True)
class Strategy:
    """A policy, and how the data that it collects are turned into estimates: stacked, or pooled as in the paper."""

    policy: Policy
    stacking: Stacking = "stacked"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What B replications ended with. Arrays are (B,), `rows` (S, B)."""

    estimate: Array
    stderr: Array
    converged: NDArray[np.bool_]
    identified: NDArray[np.bool_]
    rows: Integers
    spent: Array
    rounds: Integers
    astray: Integers
    """Rounds in which the policy could not follow an estimate."""
    weak: Array
    """T·min Q at the true target as a level: the weak-identification interval of this level just reaches the truth."""


@dataclass(frozen=True, slots=True)
class Mix:
    """The estimated best mixes (S, B) of rows, where there is one, and what they were computed from."""

    kappa: Array
    sound: NDArray[np.bool_]
    theta: Array
    roots: Array | None
    """Information of one row (S, R, D, B), of the stacked objective."""
    gradient: Array
    pooled: PooledBatch | None


@dataclass(slots=True)
class Block:
    """The rows of some replications, and the questions that strategies ask of them."""

    study: Study
    streams: Mapping[str, Stream]
    truth: float
    compiled: CompiledStudy = field(init=False)
    costs: Array = field(init=False)
    capacity: Array = field(init=False)

    def __post_init__(self) -> None:
        self.compiled = compile_study(self.study)
        self.costs = np.array([source.cost for source in self.study.sources.values()])
        self.capacity = capacities(self.study)

    def play(self, strategy: Strategy, budgets: Array, replications: int, weak: bool) -> Outcome:
        """All budgets side by side: problem b is budget b // replications of replication b % replications."""
        budget = np.repeat(budgets, replications)
        who = np.tile(np.arange(replications), len(budgets))
        rows, spent = np.zeros((len(self.costs), len(budget))), np.zeros(len(budget))
        rounds, astray = np.zeros(len(budget), dtype=np.int64), np.zeros(len(budget), dtype=np.int64)
        memory = _Memory(self._even(len(budget)), np.full((len(self.compiled.parameters), len(budget)), np.nan))
        open_ones = np.arange(len(budget))
        for _ in range(ROUNDS):
            position = Position(rows[:, open_ones], spent[open_ones], budget[open_ones], self.costs, self.capacity)
            going = position.left >= position.cheapest * (1 - 1e-9)
            open_ones, position = open_ones[going], _narrow(position, going)
            if not open_ones.size:
                break
            step = strategy.policy.next_round(position)
            wanted, lost = self._wanted(strategy, position, step, who[open_ones], memory, open_ones)
            asked = whole_round(strategy.policy, position, step, wanted)
            rows[:, open_ones] += asked
            spent[open_ones] += self.costs @ asked
            rounds[open_ones] += 1
            astray[open_ones] += lost
            open_ones = open_ones[asked.any(axis=0)]
        else:
            raise SimulationError(f"{strategy.policy!r} does not end after {ROUNDS} rounds")
        return self._finish(strategy, rows, spent, who, memory.theta, rounds, astray, weak)

    def _even(self, batch: int) -> Array:
        useful = np.array([float(bool(self.study.moments_of(name))) for name in self.study.sources])
        return np.repeat((useful / useful.sum())[:, None], batch, axis=1)

    def _wanted(
        self, strategy: Strategy, position: Position, step: Round, who: Integers, memory: _Memory, at: Integers
    ) -> tuple[Array, NDArray[np.bool_]]:
        """New rows (S, B), not yet whole, and where the policy had no estimate to follow."""
        policy, lost = strategy.policy, np.zeros(len(at), dtype=bool)
        if isinstance(policy, Fixed):
            kappa = np.repeat(policy.kappa(self.study)[:, None], len(at), axis=1)
            return desired_rows(policy, position, step, kappa), lost
        kappa = self._even(len(at))
        greedy = np.flatnonzero(~step.explores)
        wanted = np.empty_like(kappa)
        explore = np.flatnonzero(step.explores)
        wanted[:, explore] = desired_rows(
            policy, _narrow(position, explore), _narrow_round(step, explore), kappa[:, explore]
        )
        for some in self._alike(position.rows[:, greedy]):
            chosen = greedy[some]
            here, now = _narrow(position, chosen), _narrow_round(step, chosen)
            found = self.best_mix(strategy, here, who[chosen], memory.theta[:, at[chosen]])
            aim = np.where(found.sound, found.kappa, memory.kappa[:, at[chosen]])
            memory.kappa[:, at[chosen]], memory.theta[:, at[chosen]] = aim, found.theta
            lost[chosen] = ~found.sound
            nearest = desired_rows(policy, here, now, aim)
            wanted[:, chosen] = self._projected(policy, here, now, found, nearest)
        return wanted, lost

    def _alike(self, rows: Array) -> Iterator[Integers]:
        """Problems by the set of sources that have rows: a source without any takes no part in an estimate."""
        if not rows.size:
            return
        patterns, which = np.unique(rows > 0, axis=1, return_inverse=True)
        for k in range(patterns.shape[1]):
            yield np.flatnonzero(which.ravel() == k)

    def blocks(self, rows: Array, who: Integers, stacking: Stacking) -> Blocks:
        """The evidence of problems in which the same sources have rows."""
        parts = {
            name: self.streams[name].evidence(counts.astype(np.int64), who)
            for name, counts in zip(self.study.sources, rows, strict=True)
            if counts[0] > 0 and name in self.streams
        }
        return Blocks(parts, stacking, "robust", False, len(self.study.moments))

    def _estimate(self, blocks: Blocks, settings: Settings, before: Array) -> Estimates:
        """From the estimate of the round before, where there is one for all of them, else as `fit` starts."""
        given = (
            before if np.isfinite(before).all() else np.repeat(self.compiled.start[:, None], before.shape[1], axis=1)
        )
        return estimate(self.study, self.compiled, blocks, settings, given)

    def best_mix(self, strategy: Strategy, position: Position, who: Integers, before: Array) -> Mix:
        """κ̂ from the rows so far, as `allocate` finds it for one campaign."""
        policy = strategy.policy
        assert isinstance(policy, ETG)
        blocks = self.blocks(position.rows, who, strategy.stacking)
        found = self._estimate(blocks, Settings(ridge=policy.ridge), before)
        theta = found.theta
        gradient = target_and_gradient(self.compiled, theta)[1]
        known = sensitivity_of(blocks, found.weight, theta, gradient)
        limited = bool(np.isfinite(self.capacity).any())
        total = position.budget if limited else np.ones_like(position.budget)
        roots = _padded(information(blocks, theta, self._positions()).roots, theta.shape)
        most = self.capacity * self.costs
        designs = solve_batch(self._per_money(roots), gradient, total, upper=most[:, None])
        money, value, pooled = designs.money, designs.value, None
        if strategy.stacking == "pooled":
            if limited:
                raise SimulationError("simulations of pooled estimates need sources without a capacity")
            everyone = population(blocks, theta)
            pooled = PooledBatch(
                self._masks(), everyone.omega, everyone.slope, gradient, self.costs, total, np.zeros_like(money)
            )
            even = np.full_like(money, 1.0 / len(money))
            money, value = minimize_batch(pooled, [0.98 * money / total + 0.02 * even, even])
        rows = money / self.costs[:, None]
        sound = found.converged & known.target_identified & np.isfinite(value)
        with np.errstate(invalid="ignore", divide="ignore"):
            kappa = rows / rows.sum(axis=0)
        return Mix(kappa, sound & np.isfinite(kappa).all(axis=0), theta, roots, gradient, pooled)

    def _positions(self) -> dict[str, tuple[int, ...]]:
        return {name: self.study.moments_of(name) for name in self.study.sources}

    def _masks(self) -> Array:
        count = len(self.study.moments)
        return np.array([[float(j in places) for j in range(count)] for places in self._positions().values()])

    def _per_money(self, roots: Array) -> Array:
        return np.asarray(roots / np.sqrt(self.costs)[:, None, None, None])

    def _projected(self, policy: ETG, position: Position, step: Round, found: Mix, nearest: Array) -> Array:
        """`nearest`, or with aim="variance" the rows of the same price that leave the smallest variance."""
        if policy.aim == "nearest":
            return nearest
        costs = self.costs[:, None]
        if policy.per == "rows" and (self.costs != self.costs[0]).any():
            raise SimulationError('aim="variance" with rounds counted in rows is simulated for equal prices only')
        have = position.rows * costs
        total = have.sum(axis=0) + (nearest * costs).sum(axis=0)
        if found.pooled is not None:
            lower = PooledBatch(
                found.pooled.masks, found.pooled.omega, found.pooled.slope, found.gradient, self.costs, total, have
            )
            spend = nearest * costs
            money, value = minimize_batch(lower, [spend / spend.sum(axis=0)])
        else:
            assert found.roots is not None
            most = np.maximum(self.capacity[:, None] * costs, have)
            designs = solve_batch(self._per_money(found.roots), found.gradient, total, have, most)
            money, value = designs.money, designs.value
        better = found.sound & np.isfinite(value)
        return np.where(better, np.maximum(money / costs - position.rows, 0.0), nearest)

    def _finish(
        self,
        strategy: Strategy,
        rows: Array,
        spent: Array,
        who: Integers,
        before: Array,
        rounds: Integers,
        astray: Integers,
        weak: bool,
    ) -> Outcome:
        batch = len(spent)
        numbers = np.full((3, batch), np.nan)
        flags = np.zeros((2, batch), dtype=bool)
        for some in self._alike(rows):
            blocks = self.blocks(rows[:, some], who[some], strategy.stacking)
            if not blocks.evidence:
                continue
            found = self._estimate(blocks, Settings(), before[:, some])
            inference = infer(self.compiled, blocks, found, "robust", None, True)
            numbers[0, some], numbers[1, some] = inference.target, inference.stderr
            flags[0, some], flags[1, some] = found.converged, inference.identified
            if weak:
                numbers[2, some] = _weakly(
                    criterion_at(self.compiled, blocks, found.theta, inference, self.truth), inference
                )
        whole = rows.astype(np.int64)
        return Outcome(numbers[0], numbers[1], flags[0], flags[1], whole, spent, rounds, astray, numbers[2])


@dataclass(slots=True)
class _Memory:
    """What a campaign remembers from round to round: the ratio aimed at last, and the last estimate to start from."""

    kappa: Array
    theta: Array


def _weakly(criterion: Array, inference: Inference) -> Array:
    from scipy.special import chdtr

    return np.asarray(chdtr(inference.degrees + 1.0, criterion))


def _narrow(position: Position, which: NDArray[np.int64] | NDArray[np.bool_]) -> Position:
    return Position(
        position.rows[:, which], position.spent[which], position.budget[which], position.costs, position.capacity
    )


def _narrow_round(step: Round, which: Integers) -> Round:
    return Round(step.money[which], step.rows[which], step.explores[which])


def _padded(roots: Mapping[str, Array | None], shape: tuple[int, ...]) -> Array:
    """(S, R, D, B), rows of zeros below the short ones and for sources that cannot be predicted."""
    height = max((root.shape[0] for root in roots.values() if root is not None), default=1)
    out = np.zeros((len(roots), height, *shape))
    for place, root in zip(out, roots.values(), strict=True):
        if root is not None:
            place[: len(root)] = root
    return out
