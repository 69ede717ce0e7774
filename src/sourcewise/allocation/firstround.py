"""Can a first round work at all? Judged before any money is spent, from the moments alone.

The target is identified by a set of sources when ∇f lies in the row space of the moments' mean derivative. Its rank
for structural reasons shows at any generic parameters and any generic population *in which all moments hold*, so such
ones are drawn; a set that identifies the target for one of them does so almost everywhere. (Where the moments do not
hold the rank may be higher: two IHDP sources would seem to identify an effect that they do not.)
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

import numpy as np

from sourcewise.errors import AllocationError
from sourcewise.inference import target_and_gradient
from sourcewise.moments.compiled import CompiledSource, CompiledStudy, compile_study
from sourcewise.numerics.linalg import Array, information
from sourcewise.spec.study import Study

ROWS = 400
TRIES = 5


def check_first_round(study: Study, rows: Mapping[str, int]) -> None:
    """Refuse a first round that could not be estimated from, and say which smallest one could."""
    asked = {name: n for name, n in rows.items() if n > 0}
    short = {name: need for name, need in needed_rows(study, asked).items() if asked[name] < need}
    if identifies(study, asked) and not short:
        return
    if short:
        detail = ", ".join(f"{name} gets {asked[name]} rows for {need} moments" for name, need in short.items())
        problem = f"gives a source fewer rows than its moments need ({detail})"
    else:
        problem = f"cannot identify the target {study.target!r} (from {', '.join(asked) or 'no source'})"
    raise AllocationError(f"this first round {problem}. {_suggestion(study)}")


def needed_rows(study: Study, sources: Collection[str]) -> dict[str, int]:
    """Rows below which the moments of a source cannot have a variance of full rank."""
    return {name: len(study.moments_of(name)) for name in study.sources if name in sources}


def identifies(study: Study, sources: Collection[str]) -> bool:
    """Whether these sources together identify the target, for almost all parameters and populations."""
    compiled = compile_study(study)
    used = [name for name in compiled.sources if name in sources]
    random = np.random.Generator(np.random.SFC64(0))
    return any(_identifies_once(study, compiled, used, random) for _ in range(TRIES if used else 0))


def _identifies_once(study: Study, compiled: CompiledStudy, used: list[str], random: np.random.Generator) -> bool:
    theta = np.clip(random.normal(size=len(compiled.parameters)), compiled.lower, compiled.upper)
    table = dict(zip(study.variables, _population(len(study.variables), random), strict=True))
    parts = {name: _rowwise(source, theta, table) for name, source in compiled.sources.items()}
    everything = np.concatenate([part.reshape(-1, ROWS) for both in parts.values() for part in both])
    finite = np.isfinite(everything).all(axis=0)
    if not finite.any():
        return False
    mass = _balanced(np.concatenate([moments for moments, _ in parts.values()])[:, finite])
    jacobian = np.concatenate([parts[name][1][..., finite] @ mass for name in used])
    gradient = target_and_gradient(compiled, theta[:, None])[1][:, 0]
    if not np.isfinite(jacobian).all() or not np.isfinite(gradient).all():
        return False
    return information(jacobian).identifies(gradient)


def _rowwise(source: CompiledSource, theta: Array, table: Mapping[str, Array]) -> tuple[Array, Array]:
    """Moments (M, ROWS) of each row and their derivatives (M, D, ROWS)."""
    values = source.rowwise([*theta, *(table[v] for v in source.variables)])
    rows = np.array([np.broadcast_to(value, ROWS) for value in values])
    size = len(source.moments)
    return rows[:size], rows[size:].reshape(size, len(theta), ROWS)


def _balanced(moments: Array) -> Array:
    """Weights (ROWS,), some of them negative, under which all moments (M, ROWS) have mean zero."""
    even = np.full(moments.shape[1], 1.0 / moments.shape[1])
    rules = np.concatenate([moments, np.ones_like(even)[None]])
    lack = np.append(np.zeros(len(moments)), 1.0) - rules @ even
    return np.asarray(even + rules.T @ (information(rules.T).inverse @ lack))


def _population(count: int, random: np.random.Generator) -> Array:
    """Correlated columns (count, ROWS), positive so that logarithms exist; some rows binary, for indicators' sake."""
    mixing = random.normal(size=(count, count)) / np.sqrt(count)
    smooth = np.exp(0.5 * mixing @ random.normal(size=(count, ROWS)))
    binary = (random.uniform(size=(count, ROWS)) < 0.5).astype(float)
    return np.where(random.uniform(size=ROWS) < 0.3, binary, smooth)


def _suggestion(study: Study) -> str:
    useful = compile_study(study).sources
    needed = needed_rows(study, useful)
    scarce = [name for name in needed if (study.sources[name].capacity or math.inf) < needed[name]]
    if scarce:
        return f"There are fewer rows of {', '.join(scarce)} than moments: declare the study without."
    if not identifies(study, useful):
        return "All sources together do not identify it either: add a source or a moment that bears on the target."
    least = max(needed.values())
    cost = sum(least * study.sources[name].cost for name in useful)
    rows = "1 row" if least == 1 else f"{least} rows"
    return f"The smallest equal first round that would do is {rows} of each source, at a cost of {cost:g}."
