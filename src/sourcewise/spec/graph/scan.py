"""The words and marks of arrow text, DOT and dagitty, and the braces of DOT that only group statements."""

from __future__ import annotations

import re
from typing import NamedTuple

from sourcewise.errors import StudyError
from sourcewise.spec.graph.words import refusal

_TOKEN = re.compile(
    r"""
      (?P<end>[;\n])
    | (?P<blank>[ \t\r]+|\#[^\n]*|//[^\n]*|/\*.*?\*/)
    | (?P<arrow><->|->|<-|--)
    | (?P<text>"(?:\\.|[^"\\])*")
    | (?P<mark>[\[\]{}=,])
    | (?P<word>[A-Za-z_0-9.+-](?:[A-Za-z_0-9.+*]|-(?!>))*)
    """,
    re.VERBOSE | re.DOTALL,
)
_HEADER = re.compile(
    # possessive, so that a text of many comments is looked at once
    r"(?>\s+|\#[^\n]*|//[^\n]*|/\*(?>.*?\*/))*+"
    r"(?:strict\s+)?(digraph|graph|dag|pdag|mag|pag)\b\s*(?:\w+|\"[^\"]*\")?\s*\{",
    re.IGNORECASE | re.DOTALL,
)
_MOST_TOKENS = 40_000
"""Words and marks: ten for each edge that a graph may have, and as many again."""
_DEEPEST = 50
"""Braces within braces."""


class Token(NamedTuple):
    kind: str
    text: str
    place: int


def scan(text: str) -> tuple[str, list[Token]]:
    """The dialect ("" for arrow text) and the tokens between its outer braces, closed by one of kind "stop"."""
    header = _HEADER.match(text)
    dialect = header[1].lower() if header else ""
    if dialect in ("pdag", "mag", "pag"):
        raise StudyError(f"a {dialect} leaves directions open; write a dag, in which every arrow is decided")
    tokens = _tokens(text, header.end() if header else 0)
    if header:
        rest = [token for token in tokens if token.kind != "end"]
        if len(rest) < 2 or rest[-2].text != "}" or rest[-2].kind != "mark":
            raise refusal(text, len(text), "the graph's opening { is never closed")
        tokens.remove(rest[-2])
        tokens = _flattened(text, tokens)
    return dialect, tokens


def _tokens(text: str, start: int) -> list[Token]:
    found, place = list[Token](), start
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            raise refusal(text, place, f"{text[place]!r} has no place in a graph: write edges such as X -> Y")
        if match.lastgroup != "blank":
            found.append(Token(str(match.lastgroup), match[0], place))
        if len(found) > _MOST_TOKENS:
            raise StudyError(
                f"the graph's text has more than {_MOST_TOKENS:,} words and marks: leave out what has no part"
            )
        place = match.end()
    return [*found, Token("stop", "", len(text))]


def _flattened(text: str, tokens: list[Token]) -> list[Token]:
    """DOT's subgraphs say how statements are drawn: braces that hold more than names become ends of statements."""
    found: list[Token] = []
    opened: list[tuple[int, bool]] = []
    for token in _without_headings(tokens):
        is_mark = token.kind == "mark"
        if opened and (token.kind == "arrow" or (is_mark and token.text in "{[")):
            opened[-1] = opened[-1][0], True
        if is_mark and token.text == "{":
            opened.append((len(found), False))
            if len(opened) > _DEEPEST:
                raise refusal(text, token.place, f"braces may stand within each other {_DEEPEST} deep")
        elif is_mark and token.text == "}" and opened:
            place, holds = opened.pop()
            if holds:
                _check_alone(text, found, place)
                found[place] = token = Token("end", ";", token.place)
        found.append(token)
    return found


def _without_headings(tokens: list[Token]) -> list[Token]:
    """Without `subgraph` and its name, where braces follow."""
    found, k = list[Token](), 0
    while k < len(tokens):
        if tokens[k].text.lower() == "subgraph" and tokens[k].kind == "word":
            after = k + 2 if tokens[k + 1].kind in ("word", "text") else k + 1
            while tokens[after].text == "\n":
                after += 1
            k = after if tokens[after].text == "{" else k
        found.append(tokens[k])
        k += 1
    return found


def _check_alone(text: str, found: list[Token], place: int) -> None:
    before = place - 1
    while before >= 0 and found[before].text == "\n":
        before -= 1
    if before >= 0 and found[before].kind == "arrow":
        raise refusal(text, found[before].place, "this arrow leads to braces that hold more than names: write it out")
