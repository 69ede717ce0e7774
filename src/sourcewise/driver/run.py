"""`run`: ask, let every source answer, tell, until the campaign is over. It may be interrupted anywhere.

What was told is in the store, with the ranks of its rows in its key, so the next run goes on at the next row of every
source, and comes to the same end as a run that was never interrupted.
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
from sourcewise.errors import CampaignError, at
from sourcewise.records import CampaignRecord, Order, Status
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

    def to_the_end(self, rounds: int | None) -> None:
        self._remember()
        done = 0
        while (order := self.campaign.ask()) is not None:
            self.watch(self.campaign.status())
            self._fill(order)
            done += 1
            if rounds is not None and done >= rounds:
                return
        self.watch(self.campaign.status())

    def _remember(self) -> None:
        """Which rows earlier runs used up."""
        for event in self.campaign.history():
            if event.kind == "told":
                source = event.body["batch"]["source"]
                ranks = Delivery.read_key(event.key.removeprefix(f"{source}: "))
                if ranks is not None and ranks[1] > self.taken.get(source, (0, ""))[0]:
                    self.taken[source] = ranks[1], ranks[2]

    def _fill(self, order: Order) -> None:
        """Until every row of the order came, or the sources that lack some have no more."""
        gone: list[str] = []
        for name in order.rows:
            while (lacking := self._outstanding(name)) > 0:
                if self._deliver(order, name, lacking):
                    gone.append(name)
                    break
                self.watch(self.campaign.status())
        if gone:
            self._exhausted(gone)

    def _outstanding(self, name: str) -> int:
        for source in self.campaign.status().sources:
            if source.name == name:
                return source.ordered - source.received
        return 0

    def _deliver(self, order: Order, name: str, rows: int) -> bool:
        """Tell the next rows of a source; True when it gave fewer, because it has no more."""
        start, mark = self.taken.get(name, (0, None))
        connector, centre = self.connectors[name], self.centres.get(name) or order.centre.get(name)
        with at("sources", name, "data"):
            found = connector.deliver(self.campaign.study, name, start, rows, centre, mark)
        self.taken[name] = found.stop, found.fingerprint
        if found.statistics is not None:
            data: object = found.statistics
            if isinstance(data, Statistics):
                if start and centre is None:  # the first batch of this order came before an interruption
                    data = connector.take(start, found.stop - start, self.campaign.study.sources[name].observes)
                else:
                    self.centres[name] = data.centre
            self.campaign.tell(name, data, key=f"{name}: {found.key}", missing="drop")
        return found.exhausted and self._outstanding(name) > 0

    def _exhausted(self, names: list[str]) -> None:
        """What a table has is its capacity; the next order is made from what came."""
        rows = {source.name: source.rows for source in self.campaign.status().sources}
        more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
        reason = f"{', '.join(names[:MOST_NAMED])}{more} ran out of rows"
        capacity = {name: rows[name] for name in names if rows[name] > 0}
        retire = [name for name in names if rows[name] == 0]
        known = self.campaign.study.sources
        if retire or any(known[name].capacity != most for name, most in capacity.items()):
            self.campaign.amend(capacity=capacity, retire=retire, reason=reason)
        if self.campaign.status().order is not None:
            self.campaign.close_order(reason)
