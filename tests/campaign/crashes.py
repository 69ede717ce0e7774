"""Campaigns whose processes are killed. Run as a script, in a process of its own, because it forks.

    python crashes.py boundaries STORE…     a short campaign, killed at every statement boundary in turn
    python crashes.py moments STORE COUNT   … at random moments
    python crashes.py tellers STORE PROCESSES BATCHES
    python crashes.py askers STORE PROCESSES

A child reports through a pipe what was acknowledged to it. Prints one JSON object; a broken promise is an
AssertionError.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import alembic.operations
import alembic.runtime.migration
import alembic.script  # noqa: F401
from sqlalchemy import Engine, event
from sqlalchemy.pool import Pool

import sourcewise as sw
from campaign.worlds import deal, study
from sourcewise.records import plain
from sourcewise.storage.sql import SqlStorage

BOUNDARIES: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (Engine, ("before_cursor_execute", "after_cursor_execute", "begin", "commit", "rollback")),
    (Pool, ("connect", "checkin")),  # behind a commit, and before its answer
)

Report = Callable[[Any], None]
Step = Callable[[str], Any]


def script() -> list[Step]:
    """A campaign in steps, each of which may be taken again by whoever does not know whether it was taken."""
    spec = study()

    opened_in: dict[str, sw.Campaign] = {}

    def opened(store: str) -> sw.Campaign:
        if store not in opened_in:
            opened_in[store] = sw.Campaign.open(store, "c", author="ann")
        return opened_in[store]

    def create(store: str) -> str:
        try:
            opened_in[store] = sw.Campaign.create(store, spec, budget=2000, policy=sw.ETG(0.25), name="c", author="ann")
        except sw.StorageError as error:
            if "already" not in str(error):
                raise
        return "c"

    def ask(store: str) -> Any:
        return timeless(plain(opened(store).ask()))

    def tell(source: str, n: int, key: str) -> Callable[[str], Any]:
        return lambda store: timeless(plain(opened(store).tell(source, deal(spec, source, n, len(key)), key)))

    def amend(store: str) -> str:
        try:
            opened(store).amend(budget=2400.0, cost={"survey": 2.0}, reason="a grant")
        except sw.CampaignError as error:
            if "nothing would change" not in str(error):
                raise
        return "amended"

    return [
        create,
        ask,
        tell("registry", 125, "a"),
        tell("survey", 125, "bb"),
        ask,
        amend,
        tell("registry", 90, "ccc"),
        tell("survey", 400, "dddd"),
        tell("registry", 400, "eeeee"),
        ask,
    ]


def timeless(found: Any) -> Any:
    """Without what no twin can share: the time, keys that are drawn, and whether an answer was repeated."""
    if isinstance(found, dict):
        hidden = {"time", "updated", "repeated", "versions"}
        drawn = {"key"} if found.get("kind", "told") != "told" else set()
        return {key: timeless(value) for key, value in found.items() if key not in hidden | drawn}
    return [timeless(item) for item in found] if isinstance(found, list) else found


def state_of(store: str) -> dict[str, Any]:
    """All that a campaign is, but for times."""
    storage = SqlStorage(store)
    assert storage.problems() == (), storage.problems()
    found = storage.read("c", lambda view: (view.design, view.progress, view.totals()))
    state = {
        "design": json.loads(found[0]),
        "progress": timeless(json.loads(found[1])),
        "totals": plain(found[2]),
        "events": timeless(plain(tuple(storage.events("c")))),
        "contents": [(c.seq, c.source, c.data.hex()) for c in storage.contents("c")],
        "estimate": sw.Campaign.open(storage, "c").estimate().to_dict(),
    }
    storage.close()
    return state


def in_child(work: Callable[[Report], None], *, kill_after: float | None = None) -> tuple[list[Any], bool]:
    """What the child reported, and whether it came to its end; killed after so many seconds if it has not by then."""
    inlet, outlet = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(inlet)
        status = 1
        try:
            work(lambda fact: _send(outlet, fact))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(outlet)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(pid, signal.SIGKILL)
    with os.fdopen(inlet) as pipe:
        facts = [json.loads(line) for line in pipe if line.endswith("\n")]
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, "the child failed; see above"
    return facts, not os.WIFSIGNALED(status)


def _send(outlet: int, fact: Any) -> None:
    os.write(outlet, json.dumps(fact).encode() + b"\n")


def kill_at(boundary: int) -> None:
    """SIGKILL this process at so many statement boundaries from now: before and after each statement and commit."""
    left = count(boundary, -1)

    def cross(*_: Any, **__: Any) -> None:
        if next(left) == 1:
            os.kill(os.getpid(), signal.SIGKILL)

    for target, names in BOUNDARIES:
        for name in names:
            event.listen(target, name, cross)


def play(store: str, report: Report, begin: int = 0) -> None:
    for step in script()[begin:]:
        report(step(store))


def check_recovery(store: str, facts: list[Any], twin: dict[str, Any], answers: list[Any]) -> None:
    """What was acknowledged is what the undisturbed twin was told, and going on leads to the twin's state."""
    assert facts == answers[: len(facts)]
    if facts:
        check_as_it_is(store)
    play(store, lambda fact: facts.append(json.loads(json.dumps(fact))), len(facts))
    assert facts == answers
    assert state_of(store) == twin


def check_as_it_is(store: str) -> None:
    """What the crash left behind is whole before anybody repairs anything: no delivery stands without its money."""
    storage = SqlStorage(store)
    assert storage.problems() == (), storage.problems()
    told = [found.body["batch"] for found in storage.events("c") if found.kind == "told"]
    for name, total in storage.read("c", lambda view: view.totals()).items():
        counted = [(batch["rows"], batch["cost"]) for batch in told if batch["source"] == name]
        assert (total.rows, total.spent) == tuple(map(sum, zip(*counted, strict=True)))
    storage.close()


def boundaries(stores: Iterator[str], step: int = 1) -> dict[str, Any]:
    """Killed at boundary 1, 1 + step, … until the script ends before its killer comes."""
    twin_store = next(stores)
    answers, ended = in_child(lambda report: play(twin_store, report))
    assert ended
    twin = state_of(twin_store)
    for boundary in count(1, step):
        store = next(stores)

        def work(report: Report, at: int = boundary, where: str = store) -> None:
            kill_at(at)
            play(where, report)

        facts, ended = in_child(work)
        check_recovery(store, facts, twin, answers)
        if ended:
            return {"boundaries": boundary - 1}
    raise AssertionError


def moments(stores: Iterator[str], times: int) -> dict[str, Any]:
    twin_store = next(stores)
    answers, _ = in_child(lambda report: play(twin_store, report))
    twin, draw = state_of(twin_store), random.Random(5)
    steps: list[int] = []
    whole = min(_seconds(next(stores)) for _ in range(3))
    while len(steps) < times:
        store = next(stores)
        facts, ended = in_child(lambda report, s=store: play(s, report), kill_after=draw.uniform(0, whole))  # type: ignore[misc]
        known = len(facts)
        check_recovery(store, facts, twin, answers)
        if ended:
            whole *= 0.97  # it was quicker than its killer, and is no kill
        else:
            steps.append(known)
    return {"moments": times, "after steps": {step: steps.count(step) for step in sorted(set(steps))}}


def _seconds(store: str) -> float:
    begin = time.monotonic()
    in_child(lambda report: play(store, report))
    return time.monotonic() - begin


def batch_of(worker: int, number: int) -> tuple[str, str, int, int]:
    """Source, key, rows and seed of a batch."""
    return ("registry", "survey")[number % 2], f"{worker}-{number}", 1 + number % 3, 1000 * worker + number


def tellers(store: str, processes: int, batches: int) -> dict[str, Any]:
    """Every batch is sent one to three times, and one teller in twenty dies on the way to the store or back."""
    sw.Campaign.create(store, study(), budget=1e9, name="c").tell("registry", {"z": [0.0], "x": [0.0]}, "first")
    sw.Campaign.open(store, "c").tell("survey", {"z": [0.0], "y": [0.0]}, "first of survey")
    begin, killed = time.monotonic(), 0
    pids = {_fork_teller(store, w, 0, batches): (w, 0) for w in range(processes)}
    while pids:
        pid, status = os.wait()
        worker, life = pids.pop(pid)
        if os.WIFSIGNALED(status):
            killed += 1
            pids[_fork_teller(store, worker, life + 1, batches)] = (worker, life + 1)
        else:
            assert os.WEXITSTATUS(status) == 0, "a teller failed; see above"
    seconds = time.monotonic() - begin
    _check_totals(store, processes, batches)
    return {"batches": processes * batches, "killed": killed, "seconds": round(seconds, 1)}


def _fork_teller(store: str, worker: int, life: int, batches: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        _tell_all(store, worker, life, batches)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _tell_all(store: str, worker: int, life: int, batches: int) -> None:
    """A teller that died sends what it sent last again: it does not know what arrived."""
    campaign, draw, spec = sw.Campaign.open(store, "c"), random.Random(worker), study()
    deaths = sorted(draw.sample(range(batches), max(1, batches // 20)))
    if life < len(deaths):
        draw = random.Random(1000 * life + worker)
    died = deaths[life - 1] if life else 0
    for number in range(max(0, died - 20), batches):
        source, key, rows, seed = batch_of(worker, number)
        if life < len(deaths) and number == deaths[life]:
            kill_at(draw.randint(1, 25))
        for _ in range(draw.choice((1, 1, 2, 3))):
            told = campaign.tell(source, deal(spec, source, rows, seed), key)
            assert (told.rows, told.cost) == (rows, rows * spec.sources[source].cost)


def _check_totals(store: str, processes: int, batches: int) -> None:
    spec, campaign = study(), sw.Campaign.open(store, "c")
    expected = {
        name: sw.summarize(spec, name, {v: [0.0] for v in source.observes}) for name, source in spec.sources.items()
    }
    for worker in range(processes):
        for number in range(batches):
            source, _, rows, seed = batch_of(worker, number)
            centre = expected[source].centre  # type: ignore[union-attr]
            expected[source] += sw.summarize(spec, source, deal(spec, source, rows, seed), centre)  # type: ignore[operator]
    kept = campaign.estimate().statistics
    for name, total in expected.items():
        assert kept[name].to_json() == total.to_json(), name
        found = next(source for source in campaign.status().sources if source.name == name)
        assert (found.rows, found.spent) == (total.n, total.n * spec.sources[name].cost)
    assert len(campaign.history()) == 3 + processes * batches
    storage = SqlStorage(store)
    assert storage.problems() == ()
    storage.close()


def askers(store: str, processes: int) -> dict[str, Any]:
    warm, campaign = (
        sw.Campaign.create(store, study(), budget=2000, policy=sw.ETG(0.25), name=name) for name in ("warm", "c")
    )
    for made in (warm, campaign):
        for name, rows in (("registry", 90), ("survey", 160)):
            made.tell(name, deal(study(), name, rows, rows))
    warm.ask()  # imports what is imported late, so that the askers meet at the store and not on their way
    gate, barrier = os.pipe()
    inlets = []
    for _ in range(processes):
        inlet, outlet = os.pipe()
        if os.fork() == 0:
            status = 1
            try:
                os.close(barrier)
                os.read(gate, 1)  # until the parent opens the gate
                _send(outlet, plain(sw.Campaign.open(store, "c").ask()))
                status = 0
            finally:
                os._exit(status)
        os.close(outlet)
        inlets.append(inlet)
    os.close(barrier)
    answers = []
    for inlet in inlets:
        with os.fdopen(inlet) as pipe:
            answers.append(json.loads(pipe.read()))
        assert os.wait()[1] == 0
    assert all(answer == answers[0] for answer in answers)
    assert [found.kind for found in campaign.history()].count("asked") == 1
    return {"askers": len(answers)}


def stores_from(place: str) -> Iterator[str]:
    """A new store every time: files in a directory, or databases on a server."""
    if "://" not in place:
        for k in count():
            directory = Path(place) / str(k)
            directory.mkdir()
            yield str(directory / "c.db")
            shutil.rmtree(directory)
    import psycopg

    base, _, query = place.partition("?")
    server, _, own = base.rpartition("/")  # the server is everybody's, the name of this database is ours alone
    with psycopg.connect(place, autocommit=True) as connection:
        for k in count():
            connection.execute(f"CREATE DATABASE {own}_{k}")
            yield f"{server}/{own}_{k}?{query}"
            connection.execute(f"DROP DATABASE {own}_{k} WITH (FORCE)")


def main() -> None:
    mode, place, *numbers = sys.argv[1:]
    amounts = [int(number) for number in numbers]
    if mode == "boundaries":
        found = boundaries(stores_from(place), *amounts)
    elif mode == "moments":
        found = moments(stores_from(place), *amounts)
    elif mode == "tellers":
        found = tellers(place, *amounts)
    else:
        found = askers(place, *amounts)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
