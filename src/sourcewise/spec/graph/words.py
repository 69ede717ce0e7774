"""What the readers of graphs share: numbers and names, and messages that show the line."""

from __future__ import annotations

import math
import re

from sourcewise.errors import StudyError
from sourcewise.spec.graph.model import NAME, Coefficient

_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WIDEST = 72

TextError = StudyError


def value_of(text: str) -> Coefficient | None:
    """A name, a finite number, or None for anything else."""
    if NAME.fullmatch(text):
        return text
    if len(text) > 64 or not _NUMBER.fullmatch(text):
        return None
    value = float(text)
    return value if math.isfinite(value) else None


def naming_rule(name: str) -> str:
    """How a variable may be called, with a name that is like the one that may not be."""
    rule = "use letters, digits and _ (not first a digit), at most 64"
    like = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_")
    like = f"_{like}" if like[:1].isdigit() else like
    return f"{rule}; {like} could, here and as the column's name" if NAME.fullmatch(like) else rule


def refusal(text: str, place: int, message: str) -> TextError:
    """The message under the line of the text in which it arose, or a window of it, with a caret."""
    start = text.rfind("\n", 0, place) + 1
    stop = text.find("\n", place)
    line = text[start : len(text) if stop < 0 else stop]
    column = place - start
    if len(line) > _WIDEST:
        first = max(0, min(column - _WIDEST // 2, len(line) - _WIDEST))
        line, column = line[first : first + _WIDEST], column - first
    shown = "".join(c if " " <= c <= "~" else "?" for c in line)
    return TextError(f"{message}\n  {shown}\n  {' ' * min(column, _WIDEST)}^")
