"""`Campaign`: what a user sees. Every method is one read or one transaction, and all that matters is in the store."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from sourcewise.campaign import record
from sourcewise.campaign.delivery import Delivery, centre_of, merged, read_delivery
from sourcewise.campaign.progress import Progress
from sourcewise.campaign.requests import (
    author_of,
    check_after,
    check_cost,
    check_reason,
    check_text,
    new_key,
    same_batch,
    storage_of,
    time_now,
)
from sourcewise.campaign.seen import KeptRows, Seen, see, see_state
from sourcewise.campaign.steps import next_step
from sourcewise.campaign.terms import Terms, amended, terms_from_json
from sourcewise.errors import CampaignError, DataError
from sourcewise.fit import fit
from sourcewise.policies import ETG, Policy
from sourcewise.records import Amendment, Batch, CampaignRecord, Event, Order, Status, plain
from sourcewise.results import Fit
from sourcewise.spec.study import Source, Study
from sourcewise.statistics.frames import Missing
from sourcewise.storage.base import Change, Snapshot, Storage, Total, View

if TYPE_CHECKING:
    from sourcewise.estimation.blocks import Stacking

TRIES = 3
"""Attempts to compute an order without holding others up; the next one locks the campaign meanwhile."""

Store = str | os.PathLike[str] | Storage
T = TypeVar("T")


class Campaign:
    """A study in progress: ask for rows, tell what came. Made by `Campaign.create` and `Campaign.open`.

    Everything is in the store. Any number of processes may have the same campaign open.
    """

    def __init__(self, storage: Storage, name: str, author: str) -> None:
        self._storage = storage
        self._name = name
        self._author = author
        self._kept = KeptRows(storage, name)

    @classmethod
    def create(
        cls,
        store: Store,
        study: Study,
        *,
        budget: float,
        policy: Policy | None = None,
        name: str = "campaign",
        target_width: float | None = None,
        level: float = 0.95,
        stacking: Stacking = "stacked",
        keep_rows: bool = False,
        author: str | None = None,
    ) -> Self:
        """A new campaign in `store`: the path of a SQLite file, sqlite:///FILE or postgresql://….

        policy: ETG(batch=0.1) by default.
        target_width: stop as soon as the anytime interval of this `level` is that narrow.
        keep_rows: keep the rows of each delivery too, where they are told as rows; by default only their statistics.
        author: who is recorded beside what is done here; the user's name on this machine by default.
        """
        terms = Terms(study, policy or ETG(), budget, target_width, level, stacking, keep_rows)
        check_text("a campaign's name", name, 200)
        who, now = author_of(author), time_now()
        body = {"terms": record.plain_terms(terms), "versions": record.versions()}
        first = Event(1, "created", now, who, new_key(), body)
        storage = storage_of(store, create=True)
        storage.create(name, Snapshot(terms.to_json(), Progress(now).to_json(), (first,)))
        return cls(storage, name, who)

    @classmethod
    def open(cls, store: Store, name: str | None = None, *, author: str | None = None) -> Self:
        """A campaign that exists. Its name may be left out when the store has only one."""
        storage = storage_of(store, create=False)
        if name is not None:
            check_text("a campaign's name", name, 200)
        else:
            known = storage.names()
            if len(known) != 1:
                listed = f"it has {', '.join(map(repr, known))}" if known else "it has none"
                raise CampaignError(f"say which campaign of this store you mean; {listed}")
            (name,) = known
        storage.read(name, lambda view: view.seq)
        return cls(storage, name, author_of(author))

    @property
    def name(self) -> str:
        return self._name

    @property
    def study(self) -> Study:
        """As amended: with the prices, capacities and sources of now."""
        return self._storage.read(self._name, lambda view: terms_from_json(view.design)).study

    def ask(self) -> Order | None:
        """The open order, or a new one when there is none; None when the campaign is over."""
        for attempt in range(TRIES + 1):
            seen, now = self._storage.read(self._name, see), time_now()
            if seen.progress.state != "ready":
                return seen.progress.order
            ready = next_step(self._kept.complete(seen), now) if attempt < TRIES else None
            done, order = self._storage.change(self._name, partial(self._ask, seq=seen.seq, ready=ready, now=now))
            if done:
                return order
        raise AssertionError("the last attempt holds the lock")

    def _ask(
        self, view: View, seq: int, ready: Progress | None, now: str
    ) -> tuple[tuple[bool, Order | None], Change | None]:
        """`ready`: the next progress if nothing happened since event `seq`; None to compute it here."""
        seen = see(view)
        if seen.progress.state != "ready":
            return (True, seen.progress.order), None
        if ready is not None and seq != view.seq:
            return (False, None), None
        new = ready or next_step(self._kept.complete(seen), now)
        look = plain(new.look)
        if new.order is None:
            change = Change("over", new_key(), now, self._author, {"reason": new.over, "look": look}, new.to_json())
        else:
            body = {"order": plain(new.order), "look": look}
            change = Change("asked", new_key(), now, self._author, body, new.to_json())
        return (True, new.order), change

    def tell(
        self,
        source: str,
        data: object,
        key: str | None = None,
        *,
        cost: float | None = None,
        missing: Missing = "error",
        after: int | None = None,
    ) -> Batch:
        """Count a delivery: a frame, a dict of arrays, the path of a file, or `Statistics` made where the rows are.

        key: names this delivery, so that it can be sent again without being counted twice; by default a fingerprint
            of the rows in their order. Use one where two deliveries may hold the very same rows.
        cost: what it cost, if not its rows at the price of now.
        missing: "drop" leaves rows with missing values out, and they are not paid for.
        after: rows that this source had when these were chosen. If others came since, nothing is counted, and a
            ConflictError says so; for programs that share the rows of one table among them.
        """
        if key is not None:
            check_text("a key", key, 200)
        if cost is not None:
            cost = check_cost(cost)
        for _ in range(2):  # the centre may be fixed by somebody else meanwhile, but only once
            seen, total = self._storage.read(self._name, lambda view: (see_state(view), view.total(source)))
            centre = None if total is None else centre_of(total.content)
            delivery = read_delivery(seen.terms.study, source, data, centre, missing, seen.terms.keep_rows)
            count = partial(self._tell, source=source, delivery=delivery, key=key, cost=cost, after=after)
            batch = self._storage.change(self._name, partial(count, now=time_now()))
            if batch is not None:
                return batch
        raise DataError(
            f"these statistics of source {source!r} are about another centre than its first batch: summarize the rows "
            f"again with the order's, summarize(..., centre=order.centre[{source!r}])"
        )

    def _tell(
        self,
        view: View,
        source: str,
        delivery: Delivery,
        key: str | None,
        cost: float | None,
        after: int | None,
        now: str,
    ) -> tuple[Batch | None, Change | None]:
        """The batch, or None when another first batch has fixed the centre meanwhile."""
        name = key or f"rows {delivery.fingerprint}"
        mark = {"fingerprint": delivery.fingerprint, "cost": cost}
        known = view.event(name)
        if known is not None:
            return same_batch(known, source, mark), None
        seen, total = see_state(view), view.total(source) or Total(0, 0.0)
        check_after(source, total.rows, after)
        centre = centre_of(total.content)
        if centre is not None and centre != delivery.centre:
            return None, None
        n = delivery.kept.n
        price = seen.terms.study.sources[source].cost
        paid = cost if cost is not None else check_cost(price * n)
        progress = replace(seen.progress.with_rows(source, n), updated=now)
        batch = Batch(
            source, n, paid, total.rows + n, seen.progress.round, name, delivery.kept.dropped, now, self._author
        )
        new = Total(batch.so_far, total.spent + paid, merged(total.content, delivery.kept))
        filled = seen.progress.order is not None and progress.order is None
        body = {"batch": plain(batch), **mark, "filled": filled}
        change = Change("told", name, now, self._author, body, progress.to_json(), None, source, new, delivery.content)
        return batch, change

    def estimate(self, **options: Any) -> Fit:
        """The estimate from all rows so far; `options` are those of `fit`."""
        seen = self._kept.complete(self._storage.read(self._name, see))
        if not seen.data:
            raise CampaignError("nothing has been told yet, so there is nothing to estimate from")
        return fit(seen.terms.study, seen.data, **{"stacking": seen.terms.stacking, **options})

    def status(self) -> Status:
        """Where the campaign stands, from what is stored: no estimate is computed."""
        return record.status_of(self._name, self._storage.read(self._name, see))

    def amend(
        self,
        *,
        budget: float | None = None,
        policy: Policy | None = None,
        target_width: float | Literal["keep"] | None = "keep",
        cost: Mapping[str, float] | None = None,
        capacity: Mapping[str, int | None] | None = None,
        retire: str | Iterable[str] = (),
        add: Mapping[str, Source] | None = None,
        reason: str = "",
    ) -> Amendment:
        """Change the terms from now on; rows that came keep what they cost. A campaign that was over goes on if it can.

        target_width: None to stop at the budget only.
        cost, capacity: new prices of a row, and rows that exist, by source.
        retire: sources to ask for nothing more. An open order that waits for one of them is closed.
        add: new sources; they must compute moments of the study as it is.
        """
        check_reason(reason)
        chosen = tuple(retire) if isinstance(retire, Iterable) and not isinstance(retire, str) else (retire,)
        wanted: dict[str, Any] = {"budget": budget, "policy": policy, "target_width": target_width, "retire": chosen}
        wanted |= {"cost": cost or {}, "capacity": capacity or {}, "add": add or {}}
        return self._storage.change(
            self._name, partial(self._amend, wanted=wanted, reason=reason, key=new_key(), now=time_now())
        )

    def _amend(
        self, view: View, wanted: Mapping[str, Any], reason: str, key: str, now: str
    ) -> tuple[Amendment, Change | None]:
        known = view.event(key)
        if known is not None:
            return record.amendment_of(known), None
        seen = see_state(view)
        self._refuse_stopped(seen.progress)
        terms, changes = amended(seen.terms, **wanted)
        if not changes:
            raise CampaignError("nothing would change: name at least one new term")
        progress = replace(seen.progress, over="", updated=now)
        closes = bool(set(progress.outstanding()) & set(wanted["retire"]))
        progress = progress.without_order() if closes else progress
        body = {"changes": plain(changes), "reason": reason, "closed": closes}
        change = Change("amended", key, now, self._author, body, progress.to_json(), terms.to_json())
        return Amendment(now, self._author, changes, reason), change

    def close_order(self, reason: str = "", *, order: Order | None = None) -> Order:
        """Wait no longer for the open order, and free its money; the next `ask` makes a new one from what came.

        order: the one that is meant, so that nobody closes the next one by mistake.
        """

        def close(seen: Seen) -> tuple[Order, Progress]:
            self._refuse_stopped(seen.progress)
            if seen.progress.order is None:
                raise CampaignError("there is no open order to close")
            if order is not None and order.round != seen.progress.order.round:
                raise CampaignError(f"order {order.round} is closed already; order {seen.progress.order.round} is open")
            return seen.progress.order, seen.progress.without_order()

        check_reason(reason)
        return self._act("closed", {"reason": reason}, close)

    def stop(self, reason: str = "") -> None:
        """End the campaign for good. What is still on its way may be told, but nothing more is asked for."""

        def stop(seen: Seen) -> tuple[None, Progress]:
            self._refuse_stopped(seen.progress)
            return None, replace(seen.progress.without_order(), stopped=reason or "by hand")

        check_reason(reason)
        self._act("stopped", {"reason": reason}, stop)

    def history(self, after: int = 0) -> tuple[Event, ...]:
        """Every event, oldest first, or those with a number above `after`."""
        return tuple(self._storage.events(self._name, after))

    def record(self) -> CampaignRecord:
        """Everything there is to report, with an estimate from all rows so far."""
        seen = self._kept.complete(self._storage.read(self._name, see))
        events = tuple(event for event in self.history() if event.seq <= seen.seq)
        return record.record_of(self._name, seen, events, time_now())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._storage.close()

    def __repr__(self) -> str:
        return f"Campaign({self._name!r})"

    def _act(self, kind: str, body: Mapping[str, Any], move: Callable[[Seen], tuple[T, Progress]]) -> T:
        """Write one event that changes the progress only. Done twice, it is done once."""
        key, now = new_key(), time_now()
        answers: list[T] = []

        def decide(view: View) -> tuple[T, Change | None]:
            if view.event(key) is not None:
                return answers[-1], None
            answer, progress = move(see_state(view))
            answers.append(answer)
            return answer, Change(kind, key, now, self._author, body, replace(progress, updated=now).to_json())

        return self._storage.change(self._name, decide)

    def _refuse_stopped(self, progress: Progress) -> None:
        if progress.stopped:
            raise CampaignError(
                f"campaign {self._name!r} was stopped ({progress.stopped}); it can only be told and read"
            )
