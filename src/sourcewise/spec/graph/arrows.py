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

from dataclasses import dataclass, field
from itertools import product

from sourcewise.errors import StudyError
from sourcewise.spec.graph.model import MOST_EDGES, NAME, Coefficient, Graph, Link, assemble
from sourcewise.spec.graph.scan import Token, scan
from sourcewise.spec.graph.words import TextError, naming_rule, refusal, value_of

_COEFFICIENTS = ("coefficient", "coef", "beta", "label")
_DEFAULTS = ("graph", "node", "edge")
_DIRECTIONS = {"forward": "->", "back": "<-", "both": "<->"}
"""What DOT's `dir` makes of an arrow."""

Attributes = dict[str, tuple[str, Token]]
"""By word, its value ("" without one) and where it stands."""


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
        self.text, self.position, self.found = text, 0, _Found()
        self.dialect, self.tokens = scan(text)

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
        self._chain(tails)
        follows = self._peek()
        if not self.dialect and follows.kind not in ("end", "stop"):
            hint = "; several variables stand in braces, {A, B}" if follows.text == "," else ""
            raise self._error(f"expected an arrow or ';' before {follows.text!r}{hint}", follows.place)

    def _chain(self, tails: list[str]) -> None:
        """A -> B -> C. In DOT and dagitty what stands at its end holds for all of its arrows."""
        steps: list[tuple[list[str], Token, list[str], Attributes]] = []
        while self._peek().kind == "arrow":
            arrow = self._take()
            self._skip_ends()
            heads = self._group()
            steps.append((tails, arrow, heads, self._attributes()))
            tails = heads
        common: Attributes = {}
        for *_, attributes in steps if self.dialect else ():
            common |= attributes
        for before, arrow, after, attributes in steps:
            self._join(before, arrow, after, common or attributes)

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
            name = self._name()
            if self.dialect and self._sees("="):  # rank=same
                self.position += 2
            else:
                names.append(name)
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
        if not NAME.fullmatch(name):
            raise self._error(f"{name[:80]!r} cannot name a variable: {naming_rule(name)}", token.place)
        return name

    def _attributes(self) -> Attributes:
        found: Attributes = {}
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

    def _describe(self, names: list[str], attributes: Attributes, start: Token) -> None:
        """Nodes without an arrow, and what is said of them."""
        if self.dialect and names[0] in _DEFAULTS and attributes:
            if "dir" in attributes:
                raise self._error("say `dir` at each edge, not for all of them", attributes["dir"][1].place)
            return  # how a picture is to be drawn
        self.found.nodes |= dict.fromkeys(names)
        for word, (value, token) in attributes.items():
            if _says_latent(word, value.lower()):
                self.found.latent |= set(names)
            elif self.dialect == "dag" and word in ("selected", "s"):
                raise self._error(
                    f"rows that were selected by {names[0]!r} no longer have the covariances of the graph: leave "
                    f"[{word}] out if every source is a sample of the whole population",
                    token.place,
                )
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

    def _join(self, tails: list[str], arrow: Token, heads: list[str], attributes: Attributes) -> None:
        if arrow.text == "--":
            raise self._error("'--' has no direction: write ->, <- or <->", arrow.place)
        kind = self._direction(arrow, attributes)
        coefficient = self._coefficient(attributes)
        self.found.nodes |= dict.fromkeys([*tails, *heads])
        if kind == "<-":
            tails, heads = heads, tails
        if len(self.found.links) + len(tails) * len(heads) > 2 * MOST_EDGES:
            raise StudyError(f"the graph has more than {MOST_EDGES:,} edges: leave out what has no part")
        for tail, head in product(tails, heads):
            if kind == "<->" and tail == head:
                if coefficient is not None:
                    self.found.variances[tail] = coefficient
            else:
                self.found.links.append(Link(tail, head, kind == "<->", coefficient))

    def _direction(self, arrow: Token, attributes: Attributes) -> str:
        said, token = attributes.get("dir", ("", arrow))
        if not said:
            return arrow.text
        if said not in _DIRECTIONS:
            raise self._error(f"dir={said[:80]} has no direction: write forward, back or both", token.place)
        return _DIRECTIONS[said]

    def _coefficient(self, attributes: Attributes) -> Coefficient | None:
        """[beta], [0.5], [beta=0.5] (dagitty) or [label="beta"] (DOT)."""
        if len(attributes) > 1 and not self.dialect:
            word, (_, token) = list(attributes.items())[1]
            raise self._error(f"an edge has one coefficient, and {word[:80]!r} is a second one", token.place)
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
    return (word in ("latent", "unobserved", "u", "l") and not no) or (word == "observed" and no)
