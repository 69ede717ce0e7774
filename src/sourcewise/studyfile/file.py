"""`StudyFile`: everything that a study file says, checked, and the way to TOML and back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from numbers import Real
from pathlib import Path
from typing import Any, Self

from sourcewise.errors import SourcewiseError, StudyFileError, at
from sourcewise.policies import ETG, Policy, policy_from_plain, policy_to_plain
from sourcewise.spec.plain import STUDY_KEYS, fields, named_tables, study_from_plain, study_to_plain
from sourcewise.spec.study import Study
from sourcewise.studyfile import toml
from sourcewise.studyfile.scan import Lines

KEYS = (
    "name",
    "target",
    "moments",
    "graph",
    "intercepts",
    "latent",
    "weights",
    "budget",
    "precision",
    "level",
    "policy",
    "parameters",
    "sources",
    "world",
)
DATA_KEYS = ("kind", "path", "url", "table", "query")
LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Origin:
    """The text that a study file was read from, so that what is found wrong later can still be shown in it."""

    name: str = "the study"
    folder: Path | None = None
    text: str = ""
    lines: Lines = field(default_factory=dict)

    @contextmanager
    def placing_errors(self) -> Iterator[None]:
        """Errors that know their place in the file are raised with its line."""
        try:
            yield
        except StudyFileError as error:
            raise error if str(error).startswith(self.name) else self.placed(error) from None
        except SourcewiseError as error:
            raise self.placed(error) from error.__cause__

    def placed(self, error: SourcewiseError) -> StudyFileError:
        return toml.with_line(error, self.name, self.text, self.lines)


@dataclass(frozen=True, slots=True)
class StudyFile:
    """A study, how much to spend on it and how, and where the rows of each source come from.

    budget: all the money there is. precision: stop when the anytime-valid interval of the target, of this
        `level`, is no wider.
    data: by source, a table of plain values that says where its rows are: such a source answers orders by itself.
    world: the simulated world that sources with `data = {kind = "world"}` draw their rows from.
    """

    study: Study
    policy: Policy = field(default_factory=ETG)
    budget: float | None = None
    precision: float | None = None
    name: str = ""
    data: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    world: Mapping[str, Any] | None = None
    origin: Origin = field(default_factory=Origin, compare=False, repr=False)
    level: float = 0.95

    def __post_init__(self) -> None:
        for key in ("budget", "precision"):
            if getattr(self, key) is not None:
                with at(key):
                    object.__setattr__(self, key, _positive(key, getattr(self, key)))
        with at("level"):
            _check_level(self.level)
        for source, declared in self.study.sources.items():
            with at("sources", source, "cost"):
                _positive("cost", declared.cost)
        with at("name"):
            _check_name(self.name)
        for source in self.data:
            with at("sources", source, "data"):
                if source not in self.study.sources:
                    known = ", ".join(self.study.sources)
                    raise StudyFileError(f"data are given for {source!r}; the study's sources are {known}")
                _check_plain(self.data[source], "data")
                if not any(isinstance(self.data[source].get(key), str) for key in DATA_KEYS):
                    raise StudyFileError(f"data say where they are by one of {', '.join(DATA_KEYS)}")
        if self.world is not None:
            with at("world"):
                _check_plain(self.world, "world")

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Read a study file; what is wrong in it is said with its line."""
        path = Path(path)
        return cls.from_toml(toml.read_text(path), str(path), path.parent)

    @classmethod
    def from_toml(cls, text: str, name: str = "the study", folder: Path | None = None) -> Self:
        """The study file in a text; `name` is how errors call it, `folder` where its data files are looked for."""
        with Origin(name, folder, text).placing_errors():
            plain, lines = toml.parse(text)
        origin = Origin(name, folder, text, lines)
        with origin.placing_errors():
            return cls.from_plain(plain, origin)

    def to_toml(self) -> str:
        """A text from which `from_toml` restores an equal study file."""
        return toml.dump(self.to_plain())

    @classmethod
    def from_plain(cls, plain: object, origin: Origin | None = None) -> Self:
        """From a table of plain values, as TOML and JSON hold them."""
        table = fields(plain, "a study file", KEYS, needed=("target", "sources"))
        sources, data = _split(table["sources"])
        study = study_from_plain({key: table[key] for key in STUDY_KEYS if key in table} | {"sources": sources})
        with at("policy"):
            policy = _policy(table["policy"]) if "policy" in table else ETG()
        rest = {key: table[key] for key in ("budget", "precision", "level", "name", "world") if key in table}
        return cls(study, policy, data=data, origin=origin or Origin(), **rest)

    def to_plain(self) -> dict[str, Any]:
        """A table of plain values from which `from_plain` restores an equal study file."""
        study = study_to_plain(self.study)
        for name, table in self.data.items():
            study["sources"][name]["data"] = dict(table)
        sources, parameters = study.pop("sources"), study.pop("parameters", None)
        tables = {"policy": policy_to_plain(self.policy), "parameters": parameters, "sources": sources}
        optional = {"name": self.name or None, **study, "budget": self.budget, "precision": self.precision}
        optional["level"] = None if self.level == 0.95 else self.level
        every = {**optional, **tables, "world": None if self.world is None else dict(self.world)}
        return {key: value for key, value in every.items() if value is not None}


def _policy(plain: object) -> Policy:
    """A policy; of its options, the one that cannot stand even alone is named."""
    try:
        return policy_from_plain(plain)
    except SourcewiseError as error:
        options = dict(plain) if isinstance(plain, Mapping) else {}
        for key, value in options.items():
            with at(key):
                policy_from_plain({"kind": options.get("kind"), key: value})
        raise error


def _split(plain: object) -> tuple[dict[str, Any], dict[str, Any]]:
    """Sources without their data, and the data of those that have any."""
    with at("sources"):
        tables = named_tables(plain, "sources")
    data = {name: table["data"] for name, table in tables.items() if isinstance(table, Mapping) and "data" in table}
    bare = {
        name: {key: value for key, value in table.items() if key != "data"} if isinstance(table, Mapping) else table
        for name, table in tables.items()
    }
    return bare, data


def _positive(key: str, value: object) -> float:
    good = isinstance(value, Real) and not isinstance(value, bool)
    if not good or not 0 < value < math.inf or value >= 2**63:  # type: ignore[operator]  # it is a number
        raise StudyFileError(f"the {key} must be a number above 0 and below 2⁶³, not {value!r}")
    return float(value)  # type: ignore[arg-type]


def _check_level(level: object) -> None:
    if not isinstance(level, float) or not 0.5 <= level < 1:
        raise StudyFileError(f"the level of the intervals must be 0.5 or more and below 1, such as 0.9, not {level!r}")


def _check_name(name: object) -> None:
    if not isinstance(name, str) or len(name) > LONGEST_NAME or not (name.isprintable() and name == name.strip()):
        raise StudyFileError(
            f"a study's name must be a printable text of at most {LONGEST_NAME} characters without spaces around it, "
            f"not {name!r}"
        )


def _check_plain(value: object, what: str) -> None:
    """A table of texts, finite numbers, lists and tables; nothing that TOML knows and JSON does not."""
    if not isinstance(value, Mapping):
        raise StudyFileError(f'{what} must be a table such as {{kind = "csv", path = "rows.csv"}}, not {value!r}')
    waiting: list[tuple[tuple[str, ...], object]] = [((key,), item) for key, item in value.items()]
    while waiting:
        place, item = waiting.pop()
        if isinstance(item, Mapping):
            waiting += [((*place, key), inner) for key, inner in item.items()]
        elif isinstance(item, list | tuple):
            waiting += [(place, inner) for inner in item]
        else:
            with at(*place):
                _check_scalar(item, f"{place[-1]} in {what}")


def _check_scalar(item: object, what: str) -> None:
    if isinstance(item, float) and not math.isfinite(item):
        raise StudyFileError(f"{what} must be a finite number, not {item!r}")
    if isinstance(item, int) and not -(2**63) <= item < 2**63:
        raise StudyFileError(f"{what} must be a number that 64 bits can hold")
    if not isinstance(item, str | int | float):
        raise StudyFileError(f"{what} must be a text, a number, true or false, not {item!r}")
