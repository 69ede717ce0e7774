"""Where each key of a TOML text stands, found in one pass that cannot be made slow or deep.

`tomllib` says nothing of the lines of what it has read, and takes time in the square of a dotted key's length. This
pass comes first: it notes lines, and refuses what no study needs. It does not judge syntax; `tomllib` does that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from sourcewise.errors import StudyFileError

Place = tuple[str | int, ...]
Lines = Mapping[Place, int]

DEEPEST = 16
LONGEST_WORD = 400
MOST_TOKENS = 250_000

_TOKEN = re.compile(
    r"""
      (?P<newline>\n)
    | (?P<blank>[ \t\r]+|\#[^\n]*)
    | (?P<text>\"{3}(?:\\.|[^\\])*?\"{3,5}|'{3}.*?'{3,5}|"(?:\\.|[^"\\\n])*"|'[^'\n]*')
    | (?P<mark>[\[\]{}=,.])
    | (?P<word>[^\s\[\]{}=,."'\#]+)
    """,
    re.VERBOSE | re.DOTALL,
)
_REORDERING = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


@dataclass(slots=True)
class _Frame:
    """A table, an array or an inline table that is open, and the place of what comes next in it."""

    kind: str
    place: Place
    at: Place = ()
    key: list[str] = field(default_factory=list)
    in_value: bool = False
    count: int = 0


def scan(text: str) -> dict[Place, int]:
    """The line of every key and every element of an array, from 1. Stops early where the text is no TOML."""
    _refuse_reordering(text)
    return _Scanner(text).run()


def _refuse_reordering(text: str) -> None:
    found = _REORDERING.search(text)
    if found:
        line = text.count("\n", 0, found.start()) + 1
        raise _refusal(line, f"U+{ord(found[0]):04X} changes the order in which text is shown: remove it")


class _Scanner:
    __slots__ = ("header", "headers", "line", "lines", "stack", "text")

    def __init__(self, text: str) -> None:
        self.text, self.line, self.header = text, 1, 0
        self.lines: dict[Place, int] = {}
        self.headers: dict[Place, int] = {}
        self.stack = [_Frame("table", ())]

    def run(self) -> dict[Place, int]:
        position = tokens = 0
        while position < len(self.text):
            token = _TOKEN.match(self.text, position)
            if token is None or (self.text.startswith(('"""', "'''"), position) and len(token[0]) < 6):
                break  # a text that is never closed, or a character that has no place here
            position, tokens = token.end(), tokens + 1
            if tokens > MOST_TOKENS:
                raise _refusal(self.line, f"more than {MOST_TOKENS:,} words and marks: a study file is smaller")
            if not self._step(str(token.lastgroup), token[0]):
                break
            self.line += token[0].count("\n")
        return self.lines

    def _step(self, kind: str, token: str) -> bool:
        frame = self.stack[-1]
        if kind == "newline":
            if frame.kind == "table":
                frame.key, frame.in_value, self.header = [], False, 0
            return True
        if kind == "blank":
            return True
        if kind == "word" and len(token) > LONGEST_WORD:
            raise _refusal(self.line, f"a number or name of {len(token):,} characters; at most {LONGEST_WORD} are read")
        if self.header:
            return self._in_header(kind, token, frame)
        if frame.in_value or frame.kind == "array":
            return self._in_value(kind, token, frame)
        return self._in_key(kind, token, frame)

    def _in_header(self, kind: str, token: str, frame: _Frame) -> bool:
        if self.header < 0:
            return True  # what follows a header is a comment, or an error
        if token == "[":
            self.header += 1
        elif token == "]":
            place: Place = tuple(frame.key)
            self._note(place)
            if self.header > 1:
                self.headers[place] = self.headers.get(place, -1) + 1
                place = (*place, self.headers[place])
                self._note(place)
            frame.place, self.header = place, -1
        elif kind in ("word", "text"):
            self._part(frame, kind, token)
        return True

    def _in_key(self, kind: str, token: str, frame: _Frame) -> bool:
        if kind in ("word", "text"):
            self._part(frame, kind, token)
        elif token == "[" and frame.kind == "table" and not frame.key:
            self.header = 1
        elif token == "=":
            frame.at, frame.in_value = (*frame.place, *frame.key), True
            for depth in range(len(frame.place) + 1, len(frame.at) + 1):
                self._note(frame.at[:depth])
        elif token == "}" and frame.kind == "inline":
            self.stack.pop()
        elif token == ",":
            frame.key = []
        return True

    def _in_value(self, kind: str, token: str, frame: _Frame) -> bool:
        place = (*frame.place, frame.count) if frame.kind == "array" else frame.at
        if kind == "mark" and token in "]}":
            if frame.kind == "table":
                return False
            self.stack.pop()
        elif token == ",":
            frame.count, frame.in_value, frame.key = frame.count + 1, frame.kind == "array", []
        else:
            if frame.kind == "array":
                self._note(place)
            if token in ("[", "{"):
                if len(self.stack) >= DEEPEST:
                    raise _refusal(self.line, f"brackets are nested more than {DEEPEST} deep")
                self.stack.append(_Frame("array" if token == "[" else "inline", place))
        return True

    def _part(self, frame: _Frame, kind: str, token: str) -> None:
        frame.key.append(_unquoted(token) if kind == "text" else token)
        if len(frame.key) > DEEPEST:
            raise _refusal(self.line, f"a key of more than {DEEPEST} parts")

    def _note(self, place: Place) -> None:
        self.lines.setdefault(place, self.line)


def _unquoted(token: str) -> str:
    if token.startswith("'"):
        return token.strip("'")
    try:  # TOML's escapes are JSON's and a few more
        return str(json.loads(token))
    except ValueError:
        return token.strip('"')


def _refusal(line: int, message: str) -> StudyFileError:
    error = StudyFileError(message)
    error.line = line
    return error
