"""An identification as a reader wants it: a few sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sourcewise.identification.identify import Identification

SHOWN = 6
"""Sets, strategies, parameters and pairs that are written out."""


def described(found: Identification) -> str:
    if not found.identified:
        return "\n".join([f"{found.target} is not identified by these sources.", *_parameters(found), *_ways(found)])
    sets = _some([" + ".join(names) for names in found.by], "  or  ")
    more = "" if found.all_sets else " (there may be further sets: there are too many sources to try all)"
    lines = [f"{found.target} is identified by {sets}{more}."]
    lines += [f"Why: {_some([str(strategy) for strategy in found.strategies], '; ')}."] if found.strategies else []
    return "\n".join([*lines, *_parameters(found), *_basis(found)])


def _parameters(found: Identification) -> list[str]:
    if not found.unidentified:
        return ["Every parameter is identified."]
    beside = " (the target does without)" if found.identified else ""
    return [f"Not identified: {_some(found.unidentified)}{beside}."]


def _ways(found: Identification) -> list[str]:
    if not found.from_graph:
        return ["Add a source or a moment that bears on it."]
    if not found.remedies:
        return [
            "No further data on the variables of this graph would identify it: it takes another variable (an "
            "instrument, a mediator, a measured confounder) or an assumption (an edge less, a fixed coefficient)."
        ]
    if len(found.remedies) > 1 or len(found.remedies[0]) == 1:
        pairs = [" with ".join(pairs[0]) for pairs in found.remedies]
        return [f"It would be with a source that sees {_some(pairs, ', or ')} together."]
    pairs = [" with ".join(pair) for pair in found.remedies[0]]
    return [f"It would be if these were seen together: {_some(pairs)}."]


def _basis(found: Identification) -> list[str]:
    if found.exact:
        return []
    return ["This holds for almost all populations in which the moments hold, judged at drawn numbers."]


def _some(texts: Sequence[str], between: str = ", ") -> str:
    hidden = len(texts) - SHOWN
    return between.join(texts[:SHOWN]) + (f"{between}and {hidden} more" if hidden > 0 else "")
