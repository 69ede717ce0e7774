"""Worlds declared in a study file: linear equations as formulas, or the lottery of the paper's last experiment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from numbers import Real
from typing import Any

from sourcewise.errors import SimulationError, at
from sourcewise.simulation.worlds import LinearWorld, LotteryWorld, World
from sourcewise.spec.expression import parse
from sourcewise.spec.nodes import Node, Number, Sum, Symbol
from sourcewise.spec.study import Study

KINDS: dict[str, tuple[str, ...]] = {
    "linear": ("equations", "variances"),
    "lottery": tuple(f.name for f in fields(LotteryWorld)),
}
COMMON = ("kind", "seed", "truth")


@dataclass(frozen=True, slots=True)
class Declared:
    """A world, the seed that its rows are drawn with, and the true target if it was given."""

    world: World
    seed: int
    truth: float | None


def world_from_plain(plain: Mapping[str, Any], study: Study) -> Declared:
    """The world of a study file's table; what is wrong carries its place in the file."""
    with at("world"):
        kind = plain.get("kind", "linear")
        if not isinstance(kind, str) or kind not in KINDS:
            raise SimulationError(f"a world's kind is one of {', '.join(map(repr, KINDS))}, not {kind!r}")
        for key in plain:
            if key not in (*COMMON, *KINDS[kind]):
                with at(key):
                    known = ", ".join((*COMMON, *KINDS[kind]))
                    raise SimulationError(f"a {kind} world has no key {key!r}; it may have {known}")
        seed = _seed(plain.get("seed", 0))
        truth = _number(plain, "truth") if "truth" in plain else None
        world = _linear(plain, truth) if kind == "linear" else _lottery(plain)
        names = world.order if isinstance(world, LinearWorld) else ("z", "x", "y")
    for source, declared in study.sources.items():
        lacking = [name for name in declared.observes if name not in names]
        if lacking:
            with at("sources", source):
                raise SimulationError(
                    f"source {source!r} observes {', '.join(lacking)}, which the world does not have; "
                    f"its variables are {', '.join(names)}"
                )
    return Declared(world, seed, truth)


def _linear(plain: Mapping[str, Any], truth: float | None) -> LinearWorld:
    equations: dict[str, dict[str, float]] = {}
    intercepts: dict[str, float] = {}
    for name, text in _table(plain, "equations").items():
        with at("equations", name):
            constant, causes = _linear_parts(name, parse(text))
            equations[name] = causes
            intercepts |= {name: constant} if constant else {}
    variances = {}
    for name, value in _table(plain, "variances").items():
        with at("variances", name):
            variances[name] = _finite(value, f"the variance of {name}")
    return LinearWorld(equations, math.nan if truth is None else truth, variances, intercepts)


def _linear_parts(name: str, node: Node) -> tuple[float, dict[str, float]]:
    """Constant and coefficients of a formula that is linear in other variables."""
    if isinstance(node, Number):
        return node.value, {}
    terms = node.terms if isinstance(node, Sum) else ((node, 1.0),)
    causes: dict[str, float] = {}
    for term, coefficient in terms:
        if not isinstance(term, Symbol) or term.name == name:
            raise SimulationError(
                f'{name} must be a sum of other variables times numbers, such as {name} = "1 + 0.5*u"; '
                f"normal noise is added by itself, with the variance that world.variances gives"
            )
        causes[term.name] = coefficient
    return node.constant if isinstance(node, Sum) else 0.0, causes


def _lottery(plain: Mapping[str, Any]) -> LotteryWorld:
    values = {}
    for key in KINDS["lottery"]:
        if key not in plain:
            raise SimulationError(f"a lottery world needs the key {key!r}")
        values[key] = _number(plain, key)
    if not 0 < values["chance"] < 1 or values["variance"] < 0:
        raise SimulationError("a lottery world needs a chance between 0 and 1, and a variance of 0 or more")
    return LotteryWorld(**values)


def _table(plain: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    table = plain.get(key, {})
    if not isinstance(table, Mapping):
        with at(key):
            raise SimulationError(f"a world's {key} must be a table with one line a variable, not {table!r}")
    return table


def _number(plain: Mapping[str, Any], key: str) -> float:
    with at(key):
        return _finite(plain[key], f"a world's {key}")


def _finite(value: object, what: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise SimulationError(f"{what} must be a finite number, not {value!r}")
    return float(value)


def _seed(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        with at("seed"):
            raise SimulationError(f"a world's seed must be a whole number from 0 to 2⁶³ − 1, not {value!r}")
    return value
