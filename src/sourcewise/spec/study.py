"""What the user declares: sources, moments, parameters and the target, checked against each other on creation."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Self

from sourcewise.errors import StudyError, at
from sourcewise.spec.expression import parse
from sourcewise.spec.graph.ask import GraphModel, Latent, derive
from sourcewise.spec.nodes import Compare, Node, children
from sourcewise.spec.values import NAME, as_float, check_observed, price_of, rows_of, texts_of

WEIGHTS = ("two-step", "iterated", "cue", "normal", "shrunk", "ml", "identity")
"""How moments can be weighted; see `sourcewise.fit`."""

NORMAL_THEORY = ("normal", "shrunk", "ml")
"""Those that look at the means and covariances of the data behind the moments."""

GRAPH_WEIGHTS = "shrunk"
"""Of studies derived from a causal graph, unless they say otherwise; docs/weights-by-simulation.md says why."""


@dataclass(frozen=True, slots=True, init=False)
class Source:
    """A place that rows come from: the variables it observes, its price per row, how many rows it has.

    `observes` is a text of names ("z x") or a sequence of them.
    """

    observes: tuple[str, ...]
    cost: float
    capacity: int | None

    def __init__(self, observes: str | Iterable[str], cost: float = 1.0, capacity: int | None = None) -> None:
        with at("observes"):
            names = texts_of(observes.replace(",", " ").split() if isinstance(observes, str) else observes, "observes")
            check_observed(names)
        object.__setattr__(self, "observes", names)
        with at("cost"):
            object.__setattr__(self, "cost", price_of(cost))
        with at("capacity"):
            object.__setattr__(self, "capacity", rows_of(capacity))


@dataclass(frozen=True, slots=True)
class Moment:
    """A formula whose expectation is zero at the true parameters.

    `sources` restricts it to some of the sources that could compute it; by default all of them do.
    """

    expr: str
    sources: tuple[str, ...] | None = None
    name: str | None = None
    node: Node = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "node", parse(self.expr))
        if self.sources is not None:
            chosen = texts_of(self.sources, "sources")
            if not chosen:
                raise StudyError(f"moment {self.expr!r} is restricted to no source; leave `sources` out to allow all")
            object.__setattr__(self, "sources", tuple(dict.fromkeys(chosen)))
        if self.name is not None and not (isinstance(self.name, str) and self.name.strip()):
            raise StudyError(f"a moment's name must be a text that is not empty, or None, not {self.name!r}")

    @property
    def label(self) -> str:
        return self.name or self.expr

    @classmethod
    def _of(cls, node: Node, expr: str) -> Self:
        """A moment that was derived, not read; `expr` is what a reader gets to see of it."""
        moment = object.__new__(cls)
        for key, value in (("expr", expr), ("sources", None), ("name", None), ("node", node)):
            object.__setattr__(moment, key, value)
        return moment


@dataclass(frozen=True, slots=True)
class Parameter:
    """Where to start the search for a parameter, and the bounds it must respect."""

    start: float | None = None
    lower: float = -math.inf
    upper: float = math.inf

    def __post_init__(self) -> None:
        for field_name in ("start", "lower", "upper"):
            value = getattr(self, field_name)
            if value is None and field_name == "start":
                continue
            number = as_float(value)
            if number is None:
                with at(field_name):
                    raise StudyError(f"a parameter's {field_name} must be a number, not {value!r}")
            object.__setattr__(self, field_name, number)
        if not self.lower < self.upper:
            raise StudyError(
                f"a parameter's lower bound must lie below its upper bound, not {self.lower!r}, {self.upper!r}"
            )
        if self.start is not None and not (math.isfinite(self.start) and self.lower <= self.start <= self.upper):
            raise StudyError(
                f"a parameter's start must be a finite number within its bounds "
                f"[{self.lower!r}, {self.upper!r}], not {self.start!r}"
            )


@dataclass(frozen=True, slots=True, init=False, eq=False)
class Study:
    """Moments, target and sources that fit together.

    A name that some source observes is a variable; every other name in a moment is a parameter. `weights` is how
    estimates of this study weigh its moments wherever nothing else is asked for: in fits, campaigns, simulations.
    """

    moments: tuple[Moment, ...]
    target: str
    sources: Mapping[str, Source]
    parameters: Mapping[str, Parameter]
    weights: str
    target_node: Node = field(repr=False)
    model: GraphModel | None
    """The causal graph that the moments were derived from."""

    def __init__(
        self,
        moments: Sequence[str | Moment],
        target: str,
        sources: Mapping[str, Source],
        parameters: Mapping[str, Parameter] | None = None,
        weights: str = "two-step",
    ) -> None:
        if isinstance(moments, str | Moment):
            moments = [moments]
        if not isinstance(moments, Iterable):
            raise StudyError(f"moments must be a list of formulas, not {moments!r}")
        checked = tuple(m if isinstance(m, Moment) else Moment(m) for m in moments)
        self._set(moments=checked, sources=MappingProxyType(_check_sources(sources)), target=target, model=None)
        with at("target"):
            self._set(target_node=parse(target))
        self._finish(_names_in(self), parameters, weights)

    @classmethod
    def from_graph(
        cls,
        graph: object,
        target: str,
        sources: Mapping[str, Source],
        *,
        intercepts: bool = True,
        latent: Latent = "keep",
        parameters: Mapping[str, Parameter] | None = None,
        weights: str = GRAPH_WEIGHTS,
    ) -> Self:
        """The study that a causal graph of linear effects implies: a moment for the mean of each variable, and one for
        the covariance of each pair that some source sees together.

        graph: arrow text such as "Z -> X; X -> Y; X <-> Y", DOT, dagitty, lavaan syntax, or a networkx.DiGraph.
        target: "effect(X -> Y)" (total), "direct(X -> Y)", or a formula in these and in names of coefficients.
        intercepts: whether means are parameters; without, every variable has the mean 0.
        latent: "keep" variables that no source observes as parts of the model, or "project" them out.
        parameters: starting values and bounds of coefficients that have a name.
        """
        found = _check_sources(sources)
        model = GraphModel.read(graph, target, intercepts, latent)
        derived = derive(model, {name: source.observes for name, source in found.items()})
        study = object.__new__(cls)
        moments = tuple(Moment._of(node, text) for node, text in derived.moments)
        study._set(moments=moments, sources=MappingProxyType(found), target=model.target, model=model)
        study._set(target_node=derived.target)
        study._finish(derived.parameters, _with_bounds(derived.variances, parameters), weights)
        return study

    def _set(self, **values: object) -> None:
        for key, value in values.items():
            object.__setattr__(self, key, value)

    def _finish(self, names: Sequence[str], parameters: Mapping[str, Parameter] | None, weights: str) -> None:
        """Check that everything fits together; `names` are the parameters in order."""
        if not isinstance(parameters, Mapping | None):
            raise StudyError(f"parameters must map names to Parameter(...), not {parameters!r}")
        with at("weights"):
            self._set(weights=check_weights(weights))
        given = dict(parameters or {})
        _check_moments(self)
        _check_parameters(self, tuple(names), given)
        with at("target"):
            _check_target(self, tuple(names))
        self._set(parameters=MappingProxyType({name: given.get(name, Parameter()) for name in names}))

    def with_sources(self, sources: Mapping[str, Source]) -> Self:
        """The same question to other sources."""
        own = dict(self.parameters)
        if self.model is None:
            return type(self)(self.moments, self.target, sources, own, self.weights)
        return self._derived(self.model, sources, own, self.weights)

    @classmethod
    def _derived(
        cls, model: GraphModel, sources: Mapping[str, Source], parameters: Mapping[str, Parameter], weights: str
    ) -> Self:
        asked = {"intercepts": model.intercepts, "latent": model.latent, "weights": weights}
        return cls.from_graph(model, model.target, sources, parameters=parameters, **asked)  # type: ignore[arg-type]

    @property
    def variables(self) -> tuple[str, ...]:
        """Every variable that some source observes, in the order of the sources."""
        return tuple(dict.fromkeys(v for source in self.sources.values() for v in source.observes))

    def moments_of(self, source: str) -> tuple[int, ...]:
        """Positions of the moments that `source` computes."""
        observed = set(self.sources[source].observes)
        known = set(self.variables)
        return tuple(
            j
            for j, moment in enumerate(self.moments)
            if moment.node.symbols & known <= observed and (moment.sources is None or source in moment.sources)
        )

    def _key(self) -> tuple[Any, ...]:
        # Equal graphs may list their variables in another order, and then moments and parameters have another one.
        declared = tuple(self.sources.items()), tuple(self.parameters.items())
        return (self.moments, self.target, *declared, self.weights, self.model)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Study) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        rest = dict(self.sources), dict(self.parameters), self.weights
        return (Study, (self.moments, self.target, *rest)) if self.model is None else (_again, (self.model, *rest))


def _again(
    model: GraphModel, sources: Mapping[str, Source], parameters: Mapping[str, Parameter], weights: str
) -> Study:
    return Study._derived(model, sources, parameters, weights)


def _with_bounds(variances: Iterable[str], given: Mapping[str, Parameter] | None) -> Mapping[str, Parameter]:
    """No variance is searched for below 0."""
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        return given  # to be refused with all others
    found = dict(given)
    for name in variances:
        own = given.get(name, Parameter())
        if isinstance(own, Parameter):
            found[name] = Parameter(own.start, max(own.lower, 0.0), own.upper)
    return found


def check_weights(weights: object) -> str:
    if not isinstance(weights, str) or weights not in WEIGHTS:
        raise StudyError(f"a study's weights must be one of {', '.join(map(repr, WEIGHTS))}, not {weights!r}")
    return weights


def _check_sources(sources: Mapping[str, Source]) -> dict[str, Source]:
    if not isinstance(sources, Mapping) or not sources:
        raise StudyError("a study needs at least one source: sources={'name': Source('x y', cost=1.0)}")
    for name, source in sources.items():
        with at("sources", name):
            if not isinstance(name, str) or not name.strip() or len(name) > 100 or not name.isprintable():
                raise StudyError(f"a source's name must be a printable text of 1 to 100 characters, not {name!r}")
            if not isinstance(source, Source):
                raise StudyError(f"source {name!r} must be a Source(...), not {type(source).__name__}")
    return dict(sources)


def _check_moments(study: Study) -> None:
    if not study.moments:
        raise StudyError("a study needs at least one moment")
    labels = set[str]()
    for place, moment in enumerate(study.moments):
        with at("moments", place):
            if moment.name in labels:
                raise StudyError(f"two moments are named {moment.name!r}; names must differ")
            labels |= {moment.name} if moment.name is not None else set()
            _check_computable(study, moment)
            _check_comparisons(study, moment)


def _check_computable(study: Study, moment: Moment) -> None:
    used = moment.node.symbols & set(study.variables)
    if not used:
        raise StudyError(f"moment {moment.label!r} uses no variable that a source observes, so no data can bear on it")
    lacks = {name: sorted(used - set(source.observes)) for name, source in study.sources.items()}
    if all(lacks.values()):
        detail = "; ".join(f"{name} lacks {', '.join(missing)}" for name, missing in list(lacks.items())[:5])
        raise StudyError(
            f"no source can compute moment {moment.label!r}, which needs {', '.join(sorted(used))} together: {detail}"
        )
    for name in moment.sources or ():
        if name not in study.sources:
            known = ", ".join(study.sources)
            raise StudyError(f"moment {moment.label!r} names source {name!r}; the study's sources are {known}")
        if lacks[name]:
            raise StudyError(
                f"moment {moment.label!r} is assigned to source {name!r}, which lacks {', '.join(lacks[name])}"
            )


def _check_comparisons(study: Study, moment: Moment) -> None:
    names = _compared_names(moment.node) - set(study.variables)
    if names:
        raise StudyError(
            f"moment {moment.label!r} compares with parameter {', '.join(sorted(names))}: the moment would jump, "
            f"and its derivative says nothing; compare variables and numbers only"
        )


def _compared_names(node: Node) -> frozenset[str]:
    """Names inside comparisons. Parts that stand in several places are looked at once."""
    found, seen, waiting = set[str](), {node}, [node]
    while waiting:
        part = waiting.pop()
        if isinstance(part, Compare):
            found |= part.symbols
        fresh = set(children(part)) - seen
        seen |= fresh
        waiting += fresh
    return frozenset(found)


def _names_in(study: Study) -> tuple[str, ...]:
    """Parameters in the order in which a reader of the moments meets them."""
    known = set(study.variables)
    names: dict[str, None] = {}
    for moment in study.moments:
        met = (name for name in NAME.findall(moment.expr) if name in moment.node.symbols - known)
        names.update(dict.fromkeys(met))
    return tuple(names)


def _check_parameters(study: Study, names: tuple[str, ...], given: Mapping[str, Parameter]) -> None:
    if not names:
        raise StudyError("the moments contain no parameter: every name in them is observed by a source")
    for name, parameter in given.items():
        with at("parameters", name):
            if name in study.variables:
                raise StudyError(f"{name!r} is declared as a parameter and observed by a source; rename one of the two")
            if name not in names:
                raise StudyError(f"parameter {name!r} appears in no moment; the parameters are {', '.join(names)}")
            if not isinstance(parameter, Parameter):
                raise StudyError(f"parameter {name!r} must be a Parameter(...), not {type(parameter).__name__}")


def _check_target(study: Study, names: tuple[str, ...]) -> None:
    used = study.target_node.symbols
    for name in sorted(used):
        if name in study.variables:
            raise StudyError(
                f"the target {study.target!r} uses {name!r}, which a source observes; "
                f"a target is a formula in the parameters {', '.join(names)}"
            )
        if name not in names:
            raise StudyError(
                f"the target {study.target!r} uses {name!r}, which appears in no moment; "
                f"the parameters are {', '.join(names)}"
            )
    if not used:
        raise StudyError(f"the target {study.target!r} contains no parameter; the parameters are {', '.join(names)}")
    if _compared_names(study.target_node):
        raise StudyError(
            f"the target {study.target!r} contains a comparison; a target must be smooth in the parameters"
        )
