"""`run`: ask, let every source answer, tell, until the campaign is over. It may be interrupted anywhere.

What was told is in the store, with the ranks of its rows in its key, so the next run goes on at the next row of every
source, and comes to the same end as a run that was never interrupted. Several runs of one campaign at once share its
work: each reads before every delivery which rows are taken, and a delivery that crossed another's is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from sourcewise.campaign.campaign import Campaign, Store
from sourcewise.connectors.base import Connector, Delivery
from sourcewise.driver.sources import check_columns, connectors_of
from sourcewise.driver.start import open_or_create
from sourcewise.errors import CampaignError, ConflictError, at
from sourcewise.records import CampaignRecord, Order, SourceStatus, Status
from sourcewise.statistics.gram import Statistics
from sourcewise.studyfile.file import StudyFile

MOST_NAMED = 20
"""Sources in the reason of an amendment; with thousands of them, the others are counted."""

Watch = Callable[[Status], None]


def run(
    study: StudyFile | str | Path,
    store: Store = "sourcewise.db",
    *,
    data: Mapping[str, object] | None = None,
    name: str | None = None,
    rounds: int | None = None,
    watch: Watch | None = None,
    author: str | None = None,
) -> CampaignRecord:
    """A whole campaign whose sources answer by themselves. Called again, it goes on where it was.

    study: a study file, or its path. data: frames or tables by source, in place of what the file says.
    rounds: end after this many rounds, finished or not. watch: is called with the status after every step.
    """
    file = study if isinstance(study, StudyFile) else StudyFile.read(study)
    if rounds is not None and (isinstance(rounds, bool) or not isinstance(rounds, int) or rounds < 1):
        raise CampaignError(f"rounds must be a whole number, 1 or more, not {rounds!r}")
    with ExitStack() as stack:
        connectors = connectors_of(file, data)
        for connector in connectors.values():
            stack.callback(connector.close)
        _check(file, connectors)
        campaign = stack.enter_context(open_or_create(file, store, name=name, author=author))
        _check_newcomers(campaign.status(), connectors)
        _Run(campaign, connectors, watch or (lambda status: None)).to_the_end(rounds)
        return campaign.record()


def _check(file: StudyFile, connectors: Mapping[str, Connector]) -> None:
    silent = [name for name in file.study.sources if name not in connectors]
    if silent:
        with at("sources", silent[0]):
            raise CampaignError(
                f"source {silent[0]!r} has no data, so it cannot answer by itself: give it data, or collect by hand "
                f"with `sourcewise create`, `ask` and `tell`"
            )
    for name, connector in connectors.items():
        with at("sources", name, "data"):
            check_columns(file.study, name, connector.columns())


def _check_newcomers(status: Status, connectors: Mapping[str, Connector]) -> None:
    """A source that joined by amendment is not in the file, and cannot answer."""
    for source in status.sources:
        if source.name not in connectors and not source.retired:
            raise CampaignError(
                f"source {source.name!r} joined campaign {status.name!r} later and has no data: add it to the study "
                f"file with its data, or retire it with `sourcewise amend --retire`, or collect by hand with "
                f"`sourcewise ask` and `tell`"
            )


@dataclass(slots=True)
class _Run:
    campaign: Campaign
    connectors: Mapping[str, Connector]
    watch: Watch
    taken: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By source: the rank of the next row, and the fingerprint of the table that the ranks are of."""
    centres: dict[str, Mapping[str, float]] = field(default_factory=dict)
    read: int = 0
    """Number of the last event that `taken` knows of."""

    def to_the_end(self, rounds: int | None) -> None:
        done = 0
        while (order := self.campaign.ask()) is not None:
            self.watch(self.campaign.status())
            self._fill(order)
            done += 1
            if rounds is not None and done >= rounds:
                return
        self.watch(self.campaign.status())

    def _remember(self) -> None:
        """Which rows earlier runs used up, and others that run now."""
        for event in self.campaign.history(after=self.read):
            self.read = event.seq
            if event.kind == "told":
                source = event.body["batch"]["source"]
                ranks = Delivery.read_key(event.key.removeprefix(f"{source}: "))
                if ranks is not None and ranks[1] > self.taken.get(source, (0, ""))[0]:
                    self.taken[source] = ranks[1], ranks[2]

    def _fill(self, order: Order) -> None:
        """Until every row of the order came, or the sources that lack some have no more."""
        gone: list[str] = []
        for name in order.rows:
            while (source := self._source(name)).received < source.ordered:
                self._remember()
                if self._deliver(order, source):
                    gone.append(name)
                    break
                self.watch(self.campaign.status())
        if gone:
            self._exhausted(order, gone)

    def _source(self, name: str) -> SourceStatus:
        return next(source for source in self.campaign.status().sources if source.name == name)

    def _deliver(self, order: Order, source: SourceStatus) -> bool:
        """Tell the next rows of a source; True when it gave fewer, because it has no more."""
        name, rows = source.name, source.ordered - source.received
        start, mark = self.taken.get(name, (0, None))
        connector, centre = self.connectors[name], self.centres.get(name) or order.centre.get(name)
        with at("sources", name, "data"):
            found = connector.deliver(self.campaign.study, name, start, rows, centre, mark)
        if found.statistics is not None:
            data: object = found.statistics
            if isinstance(data, Statistics):
                if start and centre is None:  # the first batch of this order came before an interruption
                    data = connector.take(start, found.stop - start, self.campaign.study.sources[name].observes)
                else:
                    self.centres[name] = data.centre
            try:
                self.campaign.tell(name, data, key=f"{name}: {found.key}", missing="drop", after=source.rows)
            except ConflictError:
                if self._source(name).rows == source.rows:
                    raise
                return False  # another run was quicker, and may have told some of these rows
        self.taken[name] = found.stop, found.fingerprint
        now = self._source(name)
        return found.exhausted and now.received < now.ordered

    def _exhausted(self, order: Order, names: list[str]) -> None:
        """What a table has is its capacity; the next order is made from what came."""
        rows = {source.name: source.rows for source in self.campaign.status().sources}
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        reason = f"{', '.join(names[:MOST_NAMED])}{more} ran out of rows"
        capacity = {name: rows[name] for name in names if rows[name] > 0}
        retire = [name for name in names if rows[name] == 0]
        if self._is_news(capacity, retire):
            try:
                self.campaign.amend(capacity=capacity, retire=retire, reason=reason)
            except CampaignError:
                if self._is_news(capacity, retire):  # else another run said it at the same moment
                    raise
        if self._is_open(order):
            try:
                self.campaign.close_order(reason, order=order)
            except CampaignError:
                if self._is_open(order):
                    raise

    def _is_news(self, capacity: Mapping[str, int], retire: list[str]) -> bool:
        known = {source.name: source for source in self.campaign.status().sources}
        limited = all(known[name].capacity == most for name, most in capacity.items())
        return not (limited and all(known[name].retired for name in retire))

    def _is_open(self, order: Order) -> bool:
        current = self.campaign.status().order
        return current is not None and current.round == order.round
