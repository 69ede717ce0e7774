"""The words of a formula, the limits on them, and messages that point at a place in the text."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass
from typing import Literal, NamedTuple

from sourcewise.errors import ExpressionError


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one expression may hold. `exponent` bounds numerators' size and denominators alike."""

    characters: int = 2048
    depth: int = 50
    nodes: int = 500
    name: int = 64
    exponent: int = 64


LIMITS = Limits()


class Token(NamedTuple):
    kind: Literal["number", "name", "operator", "end"]
    text: str
    place: int


_SPACE = re.compile(r"[ \t\r\n]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NUMBER = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_OPERATOR = re.compile(r"\*\*|<=|>=|==|!=|[-+*/<>()]")
_AND = "for 'and' multiply the conditions, as in (a > 0)*(b > 0)"
_OR = "for 'or' write ((a > 0) + (b > 0) > 0)"
_NOT = "for 'not' subtract the condition from 1, as in 1 - (a > 0)"
_IF = "for 'if' multiply by the condition, as in x*(a > 0)"
WORD_HINTS = {"and": _AND, "or": _OR, "not": _NOT, "if": _IF}
_MARKS = {
    "^": "'^' is not an operator: write ** for a power",
    "=": "'=' is not an operator: write == to compare",
    "!": f"'!' is not an operator: write != for 'unequal'; {_NOT}",
    "&": f"'&' is not an operator: {_AND}",
    "|": f"'|' is not an operator: {_OR}",
    "~": f"'~' is not an operator: {_NOT}",
    "%": "'%' is not an operator: write 0.05 for 5 %, and take remainders in the data",
    "@": "'@' is not an operator: write * to multiply",
    ",": "a comma has no place here: functions take one argument, and decimals are written with a point",
    ".": "a dot belongs inside a number only: names are made of letters, digits and _",
    ":": "a colon has no place here: there are no slices, assignments or lambdas",
    "'": "text in quotes has no place here: use names and numbers",
    '"': "text in quotes has no place here: use names and numbers",
    **dict.fromkeys("[]{}", "only round parentheses group, and there are no subscripts, lists or sets"),
}
_LOOKALIKES = {"\u2212": "-", "\u2013": "-", "\u00d7": "*", "\u00b7": "*", "\u22c5": "*", "\u00f7": "/"}
_LOOKALIKES |= {"\u2264": "<=", "\u2265": ">=", "\u2260": "!=", "\u00b2": "**2", "\u00b3": "**3"}


def scan(text: str, position: int) -> Token:
    """The first token at or after `position`."""
    start = _SPACE.match(text, position).end()  # type: ignore[union-attr]  # this pattern matches anywhere
    if start == len(text):
        return Token("end", "", max(position, len(text.rstrip(" \t\r\n"))))
    if found := _NAME.match(text, start):
        if len(found[0]) > LIMITS.name:
            message = f"a name of {len(found[0])} characters: names may have {LIMITS.name}"
            raise error_at(text, start, message)
        return Token("name", found[0], start)
    if found := _NUMBER.match(text, start):
        return Token("number", found[0], start)
    if text.startswith("//", start):
        raise error_at(text, start, "'//' is not an operator: write / to divide")
    if found := _OPERATOR.match(text, start):
        return Token("operator", found[0], start)
    character = text[start]
    if " " <= character <= "~":
        raise error_at(text, start, _MARKS.get(character, f"'{character}' has no place in an expression"))
    raise error_at(text, start, _foreign(character))


def _foreign(character: str) -> str:
    """What to say of a character that is not printable ASCII, without repeating it."""
    name = unicodedata.name(character, "")
    if not name:
        name = "(a control character)" if unicodedata.category(character) == "Cc" else "(not a character)"
    hint = "use ASCII letters, digits and operators"
    if character in _LOOKALIKES:
        hint = f"write {_LOOKALIKES[character]}"
    elif name.startswith("GREEK ") and name.count(" ") == 3:
        hint = f"write its name, such as {name.rpartition(' ')[2].lower()}"
    return f"U+{ord(character):04X} {name} has no place in an expression: {hint}"


def error_at(text: str, place: int, message: str) -> ExpressionError:
    """The message under the text, or a window of it, and a caret under the place."""
    width = 72 if text[max(0, place - 72) : place + 72].isascii() else 40  # escapes are wide
    start = 0 if len(text) <= width else max(0, min(place - width // 2, len(text) - width))
    stop = min(len(text), start + width)
    left, right = "..." if start > 0 else "", "..." if stop < len(text) else ""
    before = left + "".join(map(_visible, text[start:place]))
    line = before + "".join(map(_visible, text[place:stop])) + right
    return ExpressionError(f'in "{line}": {message}\n  {line}\n  {" " * len(before)}^')


def _visible(character: str) -> str:
    # All but printable ASCII is escaped: marks that reorder or widen a line would move the caret away.
    if " " <= character <= "~":
        return character
    if character in "\t\r\n":
        return " "
    code = ord(character)
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
