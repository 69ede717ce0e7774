"""Thousands of replications of a study in a known world, on one core, on many, or on a cluster.

Replications are dealt in blocks whose size follows from the study and the budgets alone, so the results are the same
whoever computes the blocks, and in whatever order.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from numbers import Integral
from pathlib import Path

import numpy as np

from sourcewise.allocation.market import positive
from sourcewise.errors import SimulationError
from sourcewise.policies import Policy
from sourcewise.simulation.history import History
from sourcewise.simulation.oracle import best_fixed, oracle_policy
from sourcewise.simulation.parts import Parts, travels
from sourcewise.simulation.play import Block, Outcome, Strategy
from sourcewise.simulation.results import ORACLE, Simulation, joined
from sourcewise.simulation.streams import GROUP, Plan, Stream, plan_source
from sourcewise.simulation.worlds import World, target_truth
from sourcewise.spec.plain import study_to_plain
from sourcewise.spec.study import WEIGHTS, Study
from sourcewise.statistics.summarize import one_blas_thread

BLOCK = 1024
"""Replications of a block: fewer cost calls, many more leave the cache."""

BLOCK_BYTES = 2**28
"""Rows of a block in memory; large budgets make smaller blocks."""

Progress = Callable[[int, int], None]
"""Told how many replications of how many are done."""


class SimulationInterrupted(KeyboardInterrupt):
    """Ctrl-C during a simulation. `results` holds the replications that were finished, if any."""

    def __init__(self, message: str, results: Simulation | None) -> None:
        super().__init__(message)
        self.results = results


@dataclass(frozen=True, slots=True)
class Game:
    """A strategy and the budgets that it is played at."""

    name: str
    strategy: Strategy
    budgets: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Job:
    """All that a block needs to know; it travels to other processes."""

    world: World | History
    study: Study
    games: tuple[Game, ...]
    seed: int
    weak: bool

    def size(self) -> int:
        """Replications of a block."""
        numbers = sum(plan.numbers_per_row() * self.rows(name) for name, plan in self.plans().items())
        fitting = int(BLOCK_BYTES / (8 * max(numbers, 1.0)))
        return min(max(fitting // GROUP, 1) * GROUP, BLOCK)

    def mark(self) -> bytes:
        """What the numbers depend on. The study as text: the order of sets in its pickle differs between processes."""
        study = json.dumps(study_to_plain(self.study)).encode()
        return study + travels((self.world, self.games, self.seed, self.weak, self.size()))

    def plans(self) -> dict[str, Plan]:
        useful = (name for name in self.study.sources if self.study.moments_of(name))
        schemes = {game.strategy.scheme(self.study) for game in self.games}
        return {name: plan_source(self.world, self.study, name, schemes) for name in useful}

    def rows(self, name: str) -> int:
        """As many rows of a source as any policy could buy."""
        source = self.study.sources[name]
        most = int(max(max(game.budgets) for game in self.games) / source.cost * (1 + 1e-9)) + 1
        return most if source.capacity is None else min(most, source.capacity)


def run_block(job: Job, first: int, count: int) -> tuple[Outcome, ...]:
    """Replications first, …, first + count − 1 of every game."""
    with one_blas_thread(), np.errstate(all="ignore"):
        streams = {
            name: Stream(job.world, job.study, plan, job.seed, first, count, job.rows(name))
            for name, plan in job.plans().items()
        }
        block = Block(job.study, streams, target_truth(job.world, job.study))
        return tuple(block.play(game.strategy, np.array(game.budgets), count, job.weak) for game in job.games)


def simulate(
    world: World,
    study: Study,
    policies: Mapping[str, Policy | Strategy],
    budgets: Sequence[float],
    *,
    runs: int = 1000,
    seed: int = 0,
    weak: bool = False,
    workers: int = 1,
    executor: Executor | None = None,
    save: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Simulation:
    """Play every policy at every budget in `runs` replications of the world.

    All policies and budgets of a replication read the same rows, one stream a source, so that their differences are
    far less noisy than they are themselves. An oracle, which keeps to the best mix at the true parameters, plays
    along under the name "oracle" unless `policies` has its own.

    policies: by name; a bare policy estimates stacked, `Strategy(policy, "pooled")` as in the paper.
    runs, seed: more runs of one seed begin with the fewer.
    weak: also judge the interval that stays valid under weak identification (slower).
    workers: processes on this machine; executor: any other `concurrent.futures` executor, such as a Dask client's.
    save: a folder for finished blocks. The same call continues where an earlier one was stopped.
    """
    if not isinstance(world, World):
        raise SimulationError(f"a world needs `truth` and `deal(random, rows)`, which {type(world).__name__} lacks")
    check_call(study, runs, seed, workers)
    job = Job(world, study, _games(world, study, policies, budgets), int(seed), bool(weak))
    return carry_out(job, int(runs), workers=workers, executor=executor, save=save, progress=progress)


def carry_out(
    job: Job,
    runs: int,
    *,
    workers: int = 1,
    executor: Executor | None = None,
    save: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
) -> Simulation:
    """The replications of a job, those that a folder has kept excepted."""
    size = job.size()
    pieces = {first: min(size, runs - first) for first in range(0, runs, size)}
    parts = None if save is None else Parts.at(Path(save), job.mark(), size)
    done = {} if parts is None else parts.finished(pieces)
    report = progress or (lambda finished, total: None)
    to_do = {first: count for first, count in pieces.items() if first not in done}
    try:
        report(sum(pieces[first] for first in done), runs)
        with _executor(executor, min(workers, len(to_do)), job) as pool:
            for first, outcomes in _played(job, to_do, pool):
                done[first] = outcomes
                if parts is not None:
                    parts.keep(first, outcomes)
                report(sum(pieces[f] for f in done), runs)
    except BrokenExecutor:
        kept = f"; finished runs are kept in {save}, and the same call goes on from there" if save else ""
        raise SimulationError(f"a worker process died, maybe for want of memory: try fewer workers{kept}") from None
    except KeyboardInterrupt:
        finished = sum(pieces[f] for f in done)
        how = (
            f"they are kept in {save}, and the same call goes on from there"
            if save
            else "with save= they would be kept on disk"
        )
        results = _results(job, done) if done else None
        raise SimulationInterrupted(f"stopped after {finished} of {runs} runs; {how}", results) from None
    return _results(job, done)


def _played(job: Job, pieces: Mapping[int, int], pool: Executor | None) -> Iterator[tuple[int, tuple[Outcome, ...]]]:
    """Blocks as they are finished."""
    if pool is None:
        for first, count in pieces.items():
            yield first, run_block(job, first, count)
        return
    futures: dict[Future[tuple[Outcome, ...]], int] = {
        pool.submit(run_block, job, first, count): first for first, count in pieces.items()
    }
    try:
        for future in as_completed(futures):
            yield futures.pop(future), future.result()
    finally:
        for future in futures:
            future.cancel()


@contextmanager
def _executor(given: Executor | None, workers: int, job: Job) -> Iterator[Executor | None]:
    """The caller's executor, which stays the caller's; or processes of our own; or none, for one worker."""
    if given is not None or workers <= 1:
        yield given
        return
    travels(job)
    # Not forked: threads of this process (BLAS, Arrow) would leave locks behind in the child.
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_leave_ctrl_c_to_parent) as pool:
        yield pool


def _leave_ctrl_c_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _results(job: Job, done: Mapping[int, tuple[Outcome, ...]]) -> Simulation:
    names = [game.name for game in job.games]
    return joined(job.study, target_truth(job.world, job.study), names, [done[first] for first in sorted(done)])


def check_call(study: object, runs: object, seed: object, workers: object) -> None:
    if not isinstance(study, Study):
        raise SimulationError(f"simulate needs a Study(...), not {type(study).__name__}")
    for what, value, least in (("runs", runs, 1), ("seed", seed, 0), ("workers", workers, 1)):
        if isinstance(value, bool) or not isinstance(value, Integral) or not least <= int(value) < 2**63:
            raise SimulationError(f"{what} must be a whole number, {least} or more, not {value!r}")


def _games(
    world: World, study: Study, policies: Mapping[str, Policy | Strategy], budgets: Sequence[float]
) -> tuple[Game, ...]:
    played, amounts = games_of(policies, budgets), amounts_of(budgets)
    return (*_oracles(world, study, policies, amounts), *played)


def amounts_of(budgets: Sequence[float]) -> tuple[float, ...]:
    amounts = tuple(positive("a budget", budget) for budget in budgets)
    if not amounts or len(set(amounts)) < len(amounts):
        raise SimulationError(f"budgets must be one or more different amounts, not {list(budgets)!r}")
    return amounts


def games_of(policies: Mapping[str, Policy | Strategy], budgets: Sequence[float]) -> list[Game]:
    """Every policy at every budget."""
    if not isinstance(policies, Mapping) or not policies:
        raise SimulationError("policies must be given by name: {'etg 0.1': ETG(0.1), ...}")
    amounts, games = amounts_of(budgets), []
    for name, given in policies.items():
        strategy = given if isinstance(given, Strategy) else Strategy(given)
        if not isinstance(strategy.policy, Policy):
            raise SimulationError(f"policy {name!r} must be Fixed(...), ETG(...) or ETC(...), not {given!r}")
        if strategy.weights not in (None, *WEIGHTS):
            known = ", ".join(map(repr, WEIGHTS))
            raise SimulationError(f"the weights of policy {name!r} must be one of {known}, not {strategy.weights!r}")
        games.append(Game(name, strategy, amounts))
    return games


def _oracles(world: World, study: Study, policies: Mapping[str, object], budgets: tuple[float, ...]) -> list[Game]:
    if ORACLE in policies:
        return []
    if all(source.capacity is None for source in study.sources.values()):
        return [Game(ORACLE, Strategy(oracle_policy(best_fixed(world, study))), budgets)]
    # Where sources can run out, the best mix depends on the budget.
    mixes = (oracle_policy(best_fixed(world, study, budget=budget)) for budget in budgets)
    return [Game(ORACLE, Strategy(mix), (budget,)) for mix, budget in zip(mixes, budgets, strict=True)]
