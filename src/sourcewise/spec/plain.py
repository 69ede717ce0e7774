"""A study as plain values, as TOML and JSON hold them, and back without loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from sourcewise.errors import StudyError, at
from sourcewise.spec.graph.ask import GraphModel
from sourcewise.spec.study import GRAPH_WEIGHTS, Moment, Parameter, Source, Study

STUDY_KEYS = ("target", "moments", "graph", "intercepts", "latent", "sources", "parameters", "weights")
SOURCE_KEYS = ("observes", "cost", "capacity")
MOMENT_KEYS = ("expr", "sources", "name")
PARAMETER_KEYS = ("start", "lower", "upper")


def study_to_plain(study: Study) -> dict[str, Any]:
    """What is at its default is left out; `study_from_plain` restores an equal study."""
    usual = _derived_parameters(study)
    plain: dict[str, Any] = {
        "target": study.target,
        **(_moments(study) if study.model is None else _graph(study.model)),
        "sources": {name: _source(source) for name, source in study.sources.items()},
    }
    parameters = {name: _parameter(own) for name, own in study.parameters.items() if own != usual.get(name)}
    declared = {name: value for name, value in parameters.items() if value}
    plain |= {"parameters": declared} if declared else {}
    default = "two-step" if study.model is None else GRAPH_WEIGHTS
    return plain | ({} if study.weights == default else {"weights": study.weights})


def _moments(study: Study) -> dict[str, Any]:
    return {"moments": [_moment(moment) for moment in study.moments]}


def _graph(model: GraphModel) -> dict[str, Any]:
    found: dict[str, Any] = {"graph": model.text}
    found |= {} if model.intercepts else {"intercepts": False}
    return found | ({} if model.latent == "keep" else {"latent": model.latent})


def _derived_parameters(study: Study) -> Mapping[str, Parameter]:
    """The parameters as the graph alone declares them."""
    if study.model is None:
        return {}
    return Study.from_graph(study.model, study.target, study.sources).parameters


def study_from_plain(plain: object) -> Study:
    """A study from a table of plain values; what is wrong is said with the place where it stands."""
    table = fields(plain, "a study", STUDY_KEYS, needed=("target",))
    if ("moments" in table) == ("graph" in table):
        many = "not both" if "graph" in table else "and this one has neither"
        with at("graph"):
            raise StudyError(f"a study says what holds by moments or by a graph, {many}")
    if "sources" not in table:
        raise StudyError("a study needs the key 'sources'")
    if "graph" in table:
        return _read_graph(table)
    for key in ("intercepts", "latent"):
        if key in table:
            with at(key):
                raise StudyError(f"{key} says how a graph is to be read, and this study has moments")
    moments = table["moments"]
    with at("moments"):
        if not isinstance(moments, list):
            raise StudyError(f"moments must be a list of formulas, not {moments!r}")
        read = [_read_moment(moment, k) for k, moment in enumerate(moments, 1)]
    sources, parameters = read_sources(table["sources"]), read_parameters(table.get("parameters", {}))
    return Study(read, table["target"], sources, parameters, table.get("weights", "two-step"))


def _read_graph(table: Mapping[str, Any]) -> Study:
    if not isinstance(table["graph"], str):
        with at("graph"):
            raise StudyError(f'a graph is a text such as "Z -> X; X -> Y; X <-> Y", not {table["graph"]!r}')
    asked = {key: table[key] for key in ("intercepts", "latent", "weights") if key in table}
    sources, parameters = read_sources(table["sources"]), read_parameters(table.get("parameters", {}))
    return Study.from_graph(table["graph"], table["target"], sources, parameters=parameters, **asked)


def read_sources(plain: object) -> dict[str, Source]:
    with at("sources"):
        return {name: _read_source(value, name) for name, value in named_tables(plain, "sources").items()}


def read_parameters(plain: object) -> dict[str, Parameter]:
    with at("parameters"):
        return {name: _read_parameter(value, name) for name, value in named_tables(plain, "parameters").items()}


def fields(plain: object, what: str, allowed: tuple[str, ...], needed: tuple[str, ...] = ()) -> dict[str, Any]:
    """A table that holds no key but those allowed, and all that are needed."""
    if not isinstance(plain, Mapping):
        raise StudyError(f"{what} must be a table with {', '.join(allowed)}, not {plain!r}")
    for key in plain:
        if key not in allowed:
            with at(key):
                raise StudyError(f"{what} has no key {key!r}; it may have {', '.join(allowed)}{_meant(key, allowed)}")
    for key in needed:
        if key not in plain:
            raise StudyError(f"{what} needs the key {key!r}")
    return dict(plain)


def _meant(key: object, allowed: tuple[str, ...]) -> str:
    close = get_close_matches(str(key), allowed, n=1)
    return f". Did you mean {close[0]!r}?" if close else ""


def named_tables(plain: object, what: str) -> dict[str, Any]:
    if not isinstance(plain, Mapping):
        raise StudyError(f"{what} must be a table of tables, one a name, not {plain!r}")
    return dict(plain)


def _moment(moment: Moment) -> str | dict[str, Any]:
    if moment.sources is None and moment.name is None:
        return moment.expr
    found: dict[str, Any] = {"expr": moment.expr}
    if moment.sources is not None:
        found["sources"] = list(moment.sources)
    return found | ({} if moment.name is None else {"name": moment.name})


def _read_moment(plain: object, place: int) -> Moment:
    with at(place - 1):
        if isinstance(plain, str):
            return Moment(plain)
        found = fields(plain, f"moment {place}", MOMENT_KEYS, needed=("expr",))
        return Moment(found["expr"], found.get("sources"), found.get("name"))


def _source(source: Source) -> dict[str, Any]:
    found: dict[str, Any] = {"observes": list(source.observes), "cost": source.cost}
    return found | ({} if source.capacity is None else {"capacity": source.capacity})


def _read_source(plain: object, name: str) -> Source:
    with at(name):
        return Source(**fields(plain, f"source {name!r}", SOURCE_KEYS, needed=("observes",)))


def _parameter(parameter: Parameter) -> dict[str, float]:
    values = {"start": parameter.start, "lower": parameter.lower, "upper": parameter.upper}
    return {key: value for key, value in values.items() if value is not None and math.isfinite(value)}


def _read_parameter(plain: object, name: str) -> Parameter:
    with at(name):
        return Parameter(**fields(plain, f"parameter {name!r}", PARAMETER_KEYS))
