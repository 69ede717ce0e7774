"""The runner: the same numbers whoever computes them, finished runs that are kept, and calls that make no sense."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sourcewise as sw
from simulation.problems import IV, IV_STUDY, MEANS_STUDY, people
from sourcewise.errors import SimulationError
from sourcewise.experiments import EXPERIMENTS
from sourcewise.policies import Policy
from sourcewise.simulation import runner
from sourcewise.simulation.play import Outcome
from sourcewise.simulation.results import Simulation
from sourcewise.simulation.streams import GROUP

RUNS = 3 * GROUP + 5
POLICIES: dict[str, Policy | sw.Strategy] = {"etg": sw.ETG(0.2), "pooled": sw.Strategy(sw.ETC(0.2), "pooled")}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "BLOCK", GROUP)


def simulated(runs: int = RUNS, **options: Any) -> Simulation:
    return sw.simulate(IV, IV_STUDY, POLICIES, [60, 200], runs=runs, seed=8, **options)


def same(one: Simulation, other: Simulation, runs: int = RUNS) -> None:
    for name, outcome in one.outcomes.items():
        for part in Outcome.__slots__:
            left, right = getattr(outcome, part), getattr(other.outcomes[name], part)
            assert np.array_equal(left[..., :runs], right[..., :runs], equal_nan=part != "converged"), (name, part)


@pytest.fixture(scope="module")
def reference() -> Simulation:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "BLOCK", GROUP)
        return simulated()


@contextmanager
def threads() -> Iterator[Executor]:
    with ThreadPoolExecutor(2) as pool:
        yield pool


@contextmanager
def processes() -> Iterator[Executor]:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


@contextmanager
def dask() -> Iterator[Executor]:
    """A real cluster: a scheduler and two worker processes that talk over sockets of this machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from dask.distributed import Client, LocalCluster

        options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
        cluster = LocalCluster(**options)  # type: ignore[no-untyped-call]
        client = Client(cluster)  # type: ignore[no-untyped-call]
        with cluster, client:
            client.wait_for_workers(2)
            yield client.get_executor()  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("cluster", [threads, processes, dask])
def test_any_executor_gives_the_same_numbers(cluster: Any, reference: Simulation) -> None:
    with cluster() as pool:
        same(simulated(executor=pool), reference)


def test_workers_give_the_same_numbers(reference: Simulation) -> None:
    same(simulated(workers=2), reference)


def test_blocks_of_another_size_give_the_same_numbers(reference: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows and rounds exactly; sums over a batch may be taken in another order, which is worth a few last digits."""
    monkeypatch.setattr(runner, "BLOCK", 4 * GROUP)
    other = simulated()
    for name, outcome in reference.outcomes.items():
        assert (outcome.rows == other.outcomes[name].rows).all()
        assert outcome.estimate == pytest.approx(other.outcomes[name].estimate, rel=1e-9)


def test_more_runs_begin_with_the_fewer(reference: Simulation) -> None:
    few = simulated(runs=GROUP)
    same(few, reference, GROUP)
    assert reference.runs == RUNS
    other = sw.simulate(IV, IV_STUDY, POLICIES, [60, 200], runs=GROUP, seed=9)
    assert (other.outcomes["etg"].estimate != few.outcomes["etg"].estimate).all()


def test_a_policy_and_a_budget_are_as_if_they_were_alone(reference: Simulation) -> None:
    """All read the same rows: what else is played changes nothing."""
    alone = sw.simulate(IV, IV_STUDY, {"etg": sw.ETG(0.2)}, [200], runs=RUNS, seed=8)
    assert alone.outcomes["etg"].rows[:, 0] == pytest.approx(reference.outcomes["etg"].rows[:, 1])
    assert alone.outcomes["etg"].estimate[0] == pytest.approx(reference.outcomes["etg"].estimate[1], rel=1e-9)


class Stop:
    """Progress at which somebody presses Ctrl-C after so many reports."""

    def __init__(self, after: int) -> None:
        self.after, self.reports = after, list[tuple[int, int]]()

    def __call__(self, done: int, total: int) -> None:
        self.reports.append((done, total))
        if len(self.reports) == self.after:
            raise KeyboardInterrupt


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupted_simulation_keeps_what_is_finished_and_goes_on(
    workers: int, tmp_path: Path, reference: Simulation
) -> None:
    with pytest.raises(
        sw.SimulationInterrupted, match=r"stopped after 128 of 197 runs; .*the same call goes on"
    ) as stop:
        simulated(save=tmp_path, progress=Stop(3), workers=workers)
    assert stop.value.results is not None
    assert stop.value.results.runs == 2 * GROUP
    second = Stop(-1)
    same(simulated(save=tmp_path, progress=second, workers=workers), reference)
    assert second.reports[0] == (128, 197)  # not computed again
    assert second.reports[-1] == (197, 197)


def test_an_interruption_without_a_folder_says_what_was_lost() -> None:
    with pytest.raises(sw.SimulationInterrupted, match="with save= they would be kept"):
        simulated(progress=Stop(2))
    with pytest.raises(KeyboardInterrupt) as stop:  # a script that catches Ctrl-C as usual catches this too
        simulated(progress=Stop(1))
    assert getattr(stop.value, "results", "nothing") is None


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_job_is_recognised_by_another_process(name: str) -> None:
    """Whatever the order of its sets there."""
    code = f"""
from sourcewise.experiments import EXPERIMENTS
from sourcewise.simulation.runner import Job, games_of
import hashlib
it = EXPERIMENTS[{name!r}]()
job = Job(it.world, it.study, tuple(games_of(it.policies, it.budgets)), 1, False)
print(hashlib.sha256(job.mark()).hexdigest())
"""
    found = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


def test_a_torn_file_is_computed_again(tmp_path: Path, reference: Simulation) -> None:
    simulated(save=tmp_path)
    files = sorted(tmp_path.glob("runs-*.npz"))
    assert len(files) == 4
    files[0].write_bytes(files[0].read_bytes()[:1000])
    files[1].write_bytes(b"")
    files[2].unlink()
    same(simulated(save=tmp_path), reference)


def test_more_runs_use_the_finished_ones(tmp_path: Path, reference: Simulation) -> None:
    simulated(runs=2 * GROUP, save=tmp_path)
    progress = Stop(-1)
    same(simulated(save=tmp_path, progress=progress), reference)
    assert progress.reports[0] == (2 * GROUP, RUNS)


def test_a_folder_belongs_to_one_simulation(tmp_path: Path) -> None:
    simulated(runs=10, save=tmp_path)
    with pytest.raises(SimulationError, match="holds parts of another simulation"):
        sw.simulate(IV, IV_STUDY, POLICIES, [60, 200], runs=10, seed=9, save=tmp_path)
    (tmp_path / "simulation.json").write_text("[1, 2")
    with pytest.raises(SimulationError, match="holds parts of another simulation"):
        simulated(runs=10, save=tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(SimulationError, match="cannot be kept in"):
        simulated(runs=10, save=tmp_path / "file")


def test_a_function_that_cannot_travel_is_refused_before_any_work(tmp_path: Path) -> None:
    local = sw.FunctionWorld(lambda random, n: people(random, n), 2.0)
    impossible: list[dict[str, Any]] = [{"save": tmp_path}, {"workers": 2}]
    for options in impossible:
        with pytest.raises(SimulationError, match="neither saved nor sent to other processes"):
            sw.simulate(local, MEANS_STUDY, {"equal": sw.Fixed()}, [100], runs=RUNS, **options)
    sw.simulate(local, MEANS_STUDY, {"equal": sw.Fixed()}, [100], runs=3)
    there = sw.FunctionWorld(people, 2.0)
    assert sw.simulate(there, MEANS_STUDY, {"equal": sw.Fixed()}, [100], runs=RUNS, workers=2).runs == RUNS


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"runs": 0}, "runs must be a whole number, 1 or more, not 0"),
        ({"runs": 2.5}, "runs must be a whole number"),
        ({"runs": True}, "runs must be a whole number"),
        ({"seed": -1}, "seed must be a whole number, 0 or more"),
        ({"workers": 0}, "workers must be a whole number, 1 or more"),
        ({"budgets": []}, "budgets must be one or more different amounts"),
        ({"budgets": [100, 100]}, "budgets must be one or more different amounts"),
        ({"budgets": [-1]}, "a budget"),
        ({"policies": {}}, "policies must be given by name"),
        ({"policies": [sw.Fixed()]}, "policies must be given by name"),
        ({"policies": {"mine": "equal"}}, r"policy 'mine' must be Fixed\(...\), ETG\(...\) or ETC\(...\)"),
        ({"study": "study.toml"}, r"needs a Study\(...\), not str"),
    ],
)
def test_calls_that_make_no_sense(options: dict[str, Any], message: str) -> None:
    call: dict[str, Any] = {"study": IV_STUDY, "policies": POLICIES, "budgets": [100], "runs": 2} | options
    call_it: Callable[..., Simulation] = sw.simulate
    with pytest.raises(sw.SourcewiseError, match=message):
        call_it(IV, **call)
