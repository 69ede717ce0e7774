"""Can a first round work at all? Judged before any money is spent, from the moments alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from sourcewise.allocation.generic import identifies
from sourcewise.errors import AllocationError
from sourcewise.moments.compiled import compile_study
from sourcewise.spec.study import Study


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
