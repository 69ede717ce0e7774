"""`identify`: is the target identified, by which sources, and if not, what would make it so."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from sourcewise.allocation.generic import Generic, GraphRank, generic
from sourcewise.errors import StudyError
from sourcewise.identification.strategies import Strategy, strategies
from sourcewise.identification.words import described
from sourcewise.spec.graph.ask import GraphModel, implied_by
from sourcewise.spec.graph.derive import Pair
from sourcewise.spec.graph.target import asked_effect, target_node
from sourcewise.spec.study import Study

MOST_SETS = 2000
"""Sets of sources that are tried in the search for the least ones."""
MOST_PAIRS = 4


@dataclass(frozen=True, slots=True)
class Identification:
    """What can be known of a target before there are data. Made by `sourcewise.identify`.

    Identified means: for almost all values of the parameters only finitely many agree with what the sources see.
    """

    target: str
    identified: bool
    by: tuple[tuple[str, ...], ...]
    """Sets of sources that identify the target, none of which could spare a source."""
    all_sets: bool
    """Whether `by` holds every such set; with very many sources the search stops early."""
    parameters: dict[str, bool]
    """Whether each parameter is identified by all sources together."""
    strategies: tuple[Strategy, ...]
    """Names for why, where a criterion of the graph applies."""
    remedies: tuple[tuple[Pair, ...], ...]
    """Where the target is not identified: pairs of variables to be seen together; any one of these lists would do."""
    exact: bool
    """Ranks are exact for graphs; for moments that were written down they are those of drawn numbers."""
    from_graph: bool = field(repr=False)

    @property
    def unidentified(self) -> tuple[str, ...]:
        return tuple(name for name, known in self.parameters.items() if not known)

    def to_dict(self) -> dict[str, Any]:
        """Plain texts and truth values, ready for JSON."""
        return {
            "target": self.target,
            "identified": self.identified,
            "by": [list(names) for names in self.by],
            "all_sets": self.all_sets,
            "unidentified_parameters": list(self.unidentified),
            "strategies": [str(strategy) for strategy in self.strategies],
            "remedies": [[list(pair) for pair in pairs] for pairs in self.remedies],
            "exact": self.exact,
        }

    def __str__(self) -> str:
        return described(self)


def identify(study: Study) -> Identification:
    """Whether the study's sources identify its target, by which least sets of them, and what would if they do not."""
    if not isinstance(study, Study):
        raise StudyError(f"identify needs a Study(...) first, not {type(study).__name__}")
    ranks = generic(study)
    every = tuple(study.sources)
    known = ranks.determined(every)
    identified = ranks.identifies(every)
    sets, complete = least_sets(ranks, every) if identified else ((), True)
    return Identification(
        study.target,
        identified,
        sets,
        complete,
        {name: name in known for name in study.parameters},
        _named(study) if identified else (),
        () if identified else _remedies(study),
        ranks.exact,
        study.model is not None,
    )


def least_sets(ranks: Generic, sources: Sequence[str]) -> tuple[tuple[tuple[str, ...], ...], bool]:
    """Sets that identify the target and could not spare a source, the smallest first; whether these are all of them.

    What no set can do without is found first, so that thousands of sources cost as many tests, not their subsets.
    """
    needed = [name for name in sources if not ranks.identifies([other for other in sources if other != name])]
    if ranks.identifies(needed):
        return (tuple(needed),), True
    rest = [name for name in sources if name not in needed]
    found: list[frozenset[str]] = []
    tries = 0
    for some in _growing(rest):
        if any(known <= some for known in found):
            continue
        tries += 1
        if tries > MOST_SETS:
            return _ordered(sources, found or [_pruned(ranks, sources)], needed), False
        if ranks.identifies([*needed, *some]):
            found.append(some)
    return _ordered(sources, found, needed), True


def _growing(names: Sequence[str]) -> Iterator[frozenset[str]]:
    return (frozenset(some) for size in range(1, len(names) + 1) for some in combinations(names, size))


def _pruned(ranks: Generic, sources: Sequence[str]) -> frozenset[str]:
    """One least set, by leaving out what can be left out."""
    kept = list(sources)
    for name in sources:
        without = [other for other in kept if other != name]
        kept = without if ranks.identifies(without) else kept
    return frozenset(kept)


def _ordered(
    sources: Sequence[str], found: Sequence[frozenset[str]], needed: Sequence[str]
) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(name for name in sources if name in some or name in needed) for some in found)


def _named(study: Study) -> tuple[Strategy, ...]:
    if study.model is None:
        return ()
    ends = asked_effect(study.target)
    if ends is None:
        return ()
    observed = {name: source.observes for name, source in study.sources.items()}
    return strategies(study.model.graph, *ends, observed)


def _remedies(study: Study) -> tuple[tuple[Pair, ...], ...]:
    """Single pairs that would identify the target; otherwise one short list of pairs that would together."""
    model = study.model
    if model is None:
        return ()
    ranks, missing = _hypothetical(study, model)
    groups = [source.observes for source in study.sources.values()]
    space = ranks.space(groups)
    if ranks.settles(space) or not ranks.settles(ranks.space([*groups, *missing])):
        return ()
    single = [(pair,) for pair in missing if ranks.settles(ranks.space([*groups, pair]))]
    if single:
        return tuple(single)
    kept = list(missing)
    for pair in missing:
        without = [other for other in kept if other != pair]
        kept = without if ranks.settles(ranks.space([*groups, *without])) else kept
    return (tuple(kept),)


def _hypothetical(study: Study, model: GraphModel) -> tuple[GraphRank, list[Pair]]:
    """The same question where whatever is not latent could be observed, and the pairs that no source sees."""
    observed = {name: source.observes for name, source in study.sources.items()}
    open_ones = [node for node in model.graph.nodes if node not in model.graph.latent]
    implied = implied_by(model, {**observed, "": tuple(open_ones)})
    seen = {frozenset(pair) for names in observed.values() for pair in combinations(names, 2)}
    target = target_node(implied, study.target)
    ranks = GraphRank(implied, target, observed)
    missing = [pair for pair in combinations(open_ones, 2) if frozenset(pair) not in seen]
    return ranks, missing
