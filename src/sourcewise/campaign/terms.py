"""What was agreed: study, policy, money, precision. It changes by amendment only."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, get_args

from sourcewise.campaign.requests import number_of
from sourcewise.errors import CampaignError, StudyError
from sourcewise.estimation.blocks import Stacking
from sourcewise.policies import Policy, policy_from_plain, policy_to_plain
from sourcewise.spec.plain import study_from_plain, study_to_plain
from sourcewise.spec.study import Source, Study


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of a campaign as of now: prices and capacities are those of `study`."""

    study: Study
    policy: Policy
    budget: float
    target_width: float | None = None
    level: float = 0.95
    stacking: Stacking = "stacked"
    keep_rows: bool = False
    retired: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.study, Study):
            raise CampaignError(f"a campaign needs a Study(...), not {type(self.study).__name__}")
        if not isinstance(self.policy, Policy):
            raise CampaignError(f"a policy is Fixed(...), ETG(...) or ETC(...), not {self.policy!r}")
        object.__setattr__(self, "budget", _positive("a budget", self.budget))
        if self.target_width is not None:
            object.__setattr__(self, "target_width", _positive("a target width", self.target_width))
        if not isinstance(self.level, float) or not 0.5 <= self.level < 1:
            raise CampaignError(f"the level of intervals must be 0.5 or more and below 1, not {self.level!r}")
        if self.stacking not in get_args(Stacking):
            raise CampaignError(f"stacking must be one of {', '.join(get_args(Stacking))}, not {self.stacking!r}")
        if not isinstance(self.keep_rows, bool):
            raise CampaignError(f"keep_rows must be True or False, not {self.keep_rows!r}")

    def to_json(self) -> str:
        plain = {
            "study": study_to_plain(self.study),
            "policy": policy_to_plain(self.policy),
            "budget": self.budget,
            "target_width": self.target_width,
            "level": self.level,
            "stacking": self.stacking,
            "keep_rows": self.keep_rows,
            "retired": list(self.retired),
        }
        return json.dumps(plain, ensure_ascii=False, allow_nan=False)


@lru_cache(maxsize=64)
def terms_from_json(text: str) -> Terms:
    """What `to_json` wrote. The same text gives the same object, whose study is compiled once."""
    plain = json.loads(text)
    plain["study"] = study_from_plain(plain["study"])
    plain["policy"] = policy_from_plain(plain["policy"])
    plain["retired"] = tuple(plain["retired"])
    return Terms(**plain)


Changes = dict[str, tuple[Any, Any]]
"""By term: what it was and what it is now, in plain values."""


def amended(
    terms: Terms,
    *,
    budget: float | None,
    policy: Policy | None,
    target_width: float | Literal["keep"] | None,
    cost: Mapping[str, float],
    capacity: Mapping[str, int | None],
    retire: tuple[str, ...],
    add: Mapping[str, Source],
) -> tuple[Terms, Changes]:
    """The new terms, and what changed."""
    for what, given in (("cost", cost), ("capacity", capacity), ("add", add)):
        if not isinstance(given, Mapping):
            raise CampaignError(f"{what} must map sources to what they get, as in {{'survey': …}}, not {given!r:.100}")
    new = terms
    if budget is not None:
        new = replace(new, budget=budget)
    if policy is not None:
        new = replace(new, policy=policy)
    if target_width != "keep":
        new = replace(new, target_width=target_width)
    for name in (*cost, *capacity, *retire):
        _check_known(terms.study, name)
    sources = dict(terms.study.sources)
    for name, source in sources.items():
        price, room = cost.get(name, source.cost), capacity.get(name, source.capacity)
        sources[name] = Source(source.observes, price, room)
    new = replace(new, study=_with_sources(terms.study, sources, add))
    new = replace(new, retired=(*terms.retired, *(name for name in retire if name not in terms.retired)))
    return new, _changes(terms, new)


def _check_known(study: Study, name: object) -> None:
    if not isinstance(name, str) or name not in study.sources:
        raise CampaignError(f"there is no source {name!r}; the campaign's sources are {', '.join(study.sources)}")


def _with_sources(study: Study, sources: dict[str, Source], add: Mapping[str, Source]) -> Study:
    """The study with other prices and capacities, and more sources; the moments keep their meaning."""
    for name in add:
        if name in sources:
            raise CampaignError(f"there is a source {name!r} already; amend its cost or capacity instead")
    if not add and sources == dict(study.sources):
        return study
    try:
        new = study.with_sources({**sources, **add})
    except StudyError as error:
        raise CampaignError(f"the campaign cannot go on with these sources: {error}") from error
    if study.model is None and tuple(new.parameters) != tuple(study.parameters):
        taken = sorted(set(study.parameters) - set(new.parameters))
        raise CampaignError(
            f"a new source cannot observe {', '.join(taken)}, which this study estimates as a parameter; rename it"
        )
    for name in add:
        if not new.moments_of(name):
            raise CampaignError(f"source {name!r} computes no moment of this study, so its rows would have no use")
    return new


def _changes(old: Terms, new: Terms) -> Changes:
    found: Changes = {}
    for term in ("budget", "target_width"):
        found[term] = (getattr(old, term), getattr(new, term))
    found["policy"] = (policy_to_plain(old.policy), policy_to_plain(new.policy))
    for name, source in new.study.sources.items():
        before = old.study.sources.get(name)
        if before is None:
            found[f"source {name}"] = (None, {"observes": list(source.observes), "cost": source.cost})
            continue
        found[f"cost of {name}"] = (before.cost, source.cost)
        found[f"capacity of {name}"] = (before.capacity, source.capacity)
        found[f"{name} retired"] = (name in old.retired, name in new.retired)
    return {term: pair for term, pair in found.items() if pair[0] != pair[1]}


def _positive(what: str, value: object) -> float:
    number = number_of(value)
    if not 0 < number < math.inf:
        raise CampaignError(f"{what} must be a finite number above 0, not {value!r:.100}")
    return number
