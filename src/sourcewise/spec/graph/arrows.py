"""Arrow text, DOT and dagitty: three dialects of nodes, arrows and attributes in brackets, read by one parser.

    graph     := [header "{"] {statement [";"]} ["}"]
    statement := group [attributes] {arrow group [attributes]}
    group     := name | "{" {name [","]} "}"
    arrow     := "->" | "<-" | "<->"
    attributes:= "[" {word ["=" value] [","]} "]"

In arrow text a line's end or ";" ends a statement; in DOT and dagitty they need not be there. Attributes behind a
single node belong to the node; behind the head of an arrow, to the arrow.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from sourcewise.errors import StudyError
from sourcewise.spec.graph.model import MOST_EDGES, NAME, Coefficient, Graph, Link, assemble
from sourcewise.spec.graph.words import TextError, refusal, value_of

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
_HEADER = re.compile(r"\s*(?:strict\s+)?(digraph|graph|dag|pdag|mag|pag)\b\s*(?:\w+|\"[^\"]*\")?\s*\{", re.IGNORECASE)
_COEFFICIENTS = ("coefficient", "coef", "beta", "label")
_DEFAULTS = ("graph", "node", "edge")
_MOST_TOKENS = 40_000
"""Words and marks: ten for each edge that a graph may have, and as many again."""


class Token(NamedTuple):
    kind: str
    text: str
    place: int


@dataclass(slots=True)
class _Found:
    """What has been read so far."""

    nodes: dict[str, None] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)
    latent: set[str] = field(default_factory=set)
    variances: dict[str, Coefficient] = field(default_factory=dict)
    intercepts: dict[str, Coefficient] = field(default_factory=dict)

    def graph(self) -> Graph:
        return assemble(self.nodes, self.links, self.latent, self.variances, self.intercepts)


def read_arrows(text: str) -> Graph:
    return _Parser(text).parse().graph()


class _Parser:
    """One pass over the tokens; nothing recurses."""

    __slots__ = ("dialect", "found", "position", "text", "tokens")

    def __init__(self, text: str) -> None:
        header = _HEADER.match(text)
        self.text, self.position, self.found = text, 0, _Found()
        self.dialect = header[1].lower() if header else ""
        if self.dialect in ("pdag", "mag", "pag"):
            raise StudyError(f"a {self.dialect} leaves directions open; write a dag, in which every arrow is decided")
        self.tokens = _tokens(text, header.end() if header else 0)
        if header:
            self._drop_closing()

    def _drop_closing(self) -> None:
        rest = [token for token in self.tokens if token.kind != "end"]
        if len(rest) < 2 or rest[-2].text != "}" or rest[-2].kind != "mark":
            raise self._error("the graph's opening { is never closed", len(self.text))
        self.tokens.remove(rest[-2])

    def parse(self) -> _Found:
        while self._peek().kind != "stop":
            if self._peek().kind == "end" or self._sees(","):
                self.position += 1
                continue
            self._statement()
        return self.found

    def _peek(self) -> Token:
        return self.tokens[self.position]

    def _take(self) -> Token:
        self.position += 1
        return self.tokens[self.position - 1]

    def _sees(self, mark: str) -> bool:
        return self._peek().kind == "mark" and self._peek().text == mark

    def _error(self, message: str, place: int) -> TextError:
        return refusal(self.text, place, message)

    def _statement(self) -> None:
        start = self._peek()
        tails = self._group()
        if self._sees("=") and self.dialect:  # rankdir=LR
            self.position += 2
            return
        attributes = self._attributes()
        if self._peek().kind != "arrow":
            self._describe(tails, attributes, start)
        elif attributes:
            raise self._error("attributes stand behind the head of an arrow, or behind a node alone", start.place)
        while self._peek().kind == "arrow":
            arrow = self._take()
            self._skip_ends()
            heads = self._group()
            self._join(tails, arrow, heads, self._attributes())
            tails = heads
        follows = self._peek()
        if not self.dialect and follows.kind not in ("end", "stop"):
            raise self._error(f"expected an arrow or ';' before {follows.text!r}", follows.place)

    def _skip_ends(self) -> None:
        while self._peek().kind == "end" and self._peek().text == "\n":
            self.position += 1

    def _group(self) -> list[str]:
        if not self._sees("{"):
            return [self._name()]
        opening, names = self._take(), list[str]()
        while not self._sees("}"):
            if self._peek().kind == "stop":
                raise self._error("this { is never closed", opening.place)
            if self._peek().kind == "end" or self._sees(","):
                self.position += 1
                continue
            names.append(self._name())
        self.position += 1
        if not names:
            raise self._error("the braces are empty", opening.place)
        return names

    def _name(self) -> str:
        token = self._take()
        name = token.text[1:-1] if token.kind == "text" else token.text
        if token.kind not in ("word", "text"):
            what = "the graph ends" if token.kind == "stop" else f"there is {token.text.strip() or 'a line end'!r}"
            raise self._error(f"{what} where a variable's name should be", token.place)
        if self.dialect and name == "subgraph":
            raise self._error("subgraphs have no meaning here: write the edges themselves", token.place)
        if not NAME.fullmatch(name):
            rule = "use letters, digits and _ (not first a digit), at most 64"
            raise self._error(f"{name[:80]!r} cannot name a variable: {rule}", token.place)
        return name

    def _attributes(self) -> dict[str, tuple[str, Token]]:
        """By word, its value ("" without one) and where it stands."""
        found: dict[str, tuple[str, Token]] = {}
        while self._sees("["):
            opening = self._take()
            while not self._sees("]"):
                token = self._take()
                if token.kind == "stop":
                    raise self._error("this [ is never closed", opening.place)
                if token.kind == "end" or token.text == ",":
                    continue
                if token.kind not in ("word", "text"):
                    raise self._error(f"{token.text!r} has no place between [ and ]", token.place)
                value = ""
                if self._sees("="):
                    self.position += 1
                    value = self._take().text
                word = token.text[1:-1] if token.kind == "text" else token.text
                found[word] = (value[1:-1] if value.startswith('"') else value, token)
            self.position += 1
        return found

    def _describe(self, names: list[str], attributes: dict[str, tuple[str, Token]], start: Token) -> None:
        """Nodes without an arrow, and what is said of them."""
        if self.dialect and names[0] in _DEFAULTS and attributes:
            return  # how a picture is to be drawn
        self.found.nodes |= dict.fromkeys(names)
        for word, (value, token) in attributes.items():
            if _says_latent(word, value.lower()):
                self.found.latent |= set(names)
            elif word in ("variance", "intercept"):
                kind = self.found.variances if word == "variance" else self.found.intercepts
                kind |= dict.fromkeys(names, self._value(value, token))
            elif not self.dialect:
                known = "latent, variance=... and intercept=..."
                raise self._error(f"of a node only {known} can be said, not {word[:80]!r}", token.place)

    def _value(self, text: str, token: Token) -> Coefficient:
        value = value_of(text)
        if value is None:
            raise self._error(f"{text[:80]!r} is neither a parameter's name nor a number", token.place)
        return value

    def _join(self, tails: list[str], arrow: Token, heads: list[str], attributes: dict[str, tuple[str, Token]]) -> None:
        if arrow.text == "--":
            raise self._error("'--' has no direction: write ->, <- or <->", arrow.place)
        coefficient = self._coefficient(attributes)
        both = arrow.text == "<->" or attributes.get("dir", ("",))[0] == "both"
        if arrow.text == "<-":
            tails, heads = heads, tails
        self.found.nodes |= dict.fromkeys([*tails, *heads] if arrow.text != "<-" else [*heads, *tails])
        if len(self.found.links) + len(tails) * len(heads) > 2 * MOST_EDGES:
            raise StudyError(f"the graph has more than {MOST_EDGES:,} edges: leave out what has no part")
        for tail, head in product(tails, heads):
            if both and tail == head:
                if coefficient is not None:
                    self.found.variances[tail] = coefficient
            else:
                self.found.links.append(Link(tail, head, both, coefficient))

    def _coefficient(self, attributes: dict[str, tuple[str, Token]]) -> Coefficient | None:
        """[beta], [0.5], [beta=0.5] (dagitty) or [label="beta"] (DOT)."""
        for word, (value, token) in attributes.items():
            if not value and not self.dialect:
                return self._value(word, token)
            if word in _COEFFICIENTS and (word != "label" or value_of(value) is not None):
                return self._value(value, token)
            if not value and value_of(word) is not None:
                return value_of(word)
            if not self.dialect:
                raise self._error(
                    f"of an edge its coefficient can be said, as in [beta] or [0.5], not {word!r}", token.place
                )
        return None


def _says_latent(word: str, value: str) -> bool:
    no = value in ("false", "no", "0")
    return (word in ("latent", "unobserved", "u") and not no) or (word == "observed" and no)


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
