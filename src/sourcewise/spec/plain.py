"""A study as plain values, as TOML and JSON hold them, and back without loss."""

from __future__ import annotations

import math
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from sourcewise.errors import StudyError, at
from sourcewise.spec.study import Moment, Parameter, Source, Study

STUDY_KEYS = ("target", "moments", "sources", "parameters", "weights")
SOURCE_KEYS = ("observes", "cost", "capacity")
MOMENT_KEYS = ("expr", "sources", "name")
PARAMETER_KEYS = ("start", "lower", "upper")


def study_to_plain(study: Study) -> dict[str, Any]:
    """What is at its default is left out; `study_from_plain` restores an equal study."""
    plain: dict[str, Any] = {
        "target": study.target,
        "moments": [_moment(moment) for moment in study.moments],
        "sources": {name: _source(source) for name, source in study.sources.items()},
    }
    parameters = {name: _parameter(parameter) for name, parameter in study.parameters.items()}
    declared = {name: value for name, value in parameters.items() if value}
    plain |= {"parameters": declared} if declared else {}
    return plain | ({} if study.weights == "two-step" else {"weights": study.weights})


def study_from_plain(plain: object) -> Study:
    """A study from a table of plain values; what is wrong is said with the place where it stands."""
    table = fields(plain, "a study", STUDY_KEYS, needed=("target", "moments", "sources"))
    moments = table["moments"]
    with at("moments"):
        if not isinstance(moments, list):
            raise StudyError(f"moments must be a list of formulas, not {moments!r}")
        read = [_read_moment(moment, k) for k, moment in enumerate(moments, 1)]
    sources, parameters = read_sources(table["sources"]), read_parameters(table.get("parameters", {}))
    return Study(read, table["target"], sources, parameters, table.get("weights", "two-step"))


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
