"""lavaan's model syntax, with the defaults of its functions sem() and cfa().

    visual =~ x1 + x2 + x3       a latent variable and its indicators; the first loading is 1
    y ~ b*x + z                  a regression
    y1 ~~ y2                     a covariance of errors, or a variance
    y ~ 1                        an intercept

In front of a variable stands a number (fixed), a name (the same name, the same value) or NA (free). As sem() does,
exogenous latent variables covary, so do exogenous observed ones, and so do the errors of outcomes that cause nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import combinations

from sourcewise.spec.graph.model import MOST_NODES, NAME, Coefficient, Graph, Link, assemble
from sourcewise.spec.graph.words import TextError, refusal, value_of

_COMMENT = re.compile(r"[#!][^\n]*")
_OPERATOR = re.compile(r"=~|~~|<~|~\*~|:=|==|~|\||<|>")
_READ = ("=~", "~~", "~")
_WIDEST = 500
"""Terms of one formula."""


@dataclass(slots=True)
class _Found:
    nodes: dict[str, None] = field(default_factory=dict)
    links: dict[tuple[str, str, bool], Coefficient | None] = field(default_factory=dict)
    latent: dict[str, None] = field(default_factory=dict)
    indicators: set[str] = field(default_factory=set)
    outcomes: dict[str, None] = field(default_factory=dict)
    causes: dict[str, None] = field(default_factory=dict)
    variances: dict[str, Coefficient] = field(default_factory=dict)
    intercepts: dict[str, Coefficient | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Term:
    variable: str
    modifier: str | None
    place: int


def is_lavaan(text: str) -> bool:
    """No other text that a graph is written in has a tilde outside quotes."""
    bare = re.sub(r'"[^"\n]*"', "", _COMMENT.sub("", text))
    return "~" in bare and "->" not in bare


def read_lavaan(text: str) -> Graph:
    found = _Found()
    for start, formula in _formulas(text):
        _read_formula(text, start, formula, found)
    free = {node for node, value in found.intercepts.items() if value is None}
    intercepts = {node: value for node, value in found.intercepts.items() if value is not None}
    names = {*found.nodes, *_said(found)}
    intercepts |= {node: _fresh_intercept(node, names) for node in sorted(free)}
    links = [Link(*place, value) for place, value in {**found.links, **_automatic(found)}.items()]
    return assemble(found.nodes, links, found.latent, found.variances, intercepts)


def _said(found: _Found) -> Iterator[str]:
    values = [*found.links.values(), *found.variances.values(), *found.intercepts.values()]
    return (value for value in values if isinstance(value, str))


def _fresh_intercept(node: str, names: set[str]) -> str:
    wanted = f"intercept_{node}"
    while wanted in names or len(wanted) > 64:
        wanted = f"i_{wanted[:60]}"
    return wanted


def _formulas(text: str) -> Iterator[tuple[int, str]]:
    """Formulas with the place where they begin. A formula that ends in + or an operator goes on in the next line."""
    clean = _COMMENT.sub(lambda match: " " * len(match[0]), text)
    start, kept = 0, ""
    for match in re.finditer(r"[^\n;]*[\n;]?", clean):
        piece = match[0].rstrip("\n;")
        if not kept.strip():
            start, kept = match.start(), ""
        kept += " " * (match.start() - start - len(kept)) + piece
        goes_on = match[0].endswith("\n") and kept.rstrip().endswith(("+", "~", "*"))
        if kept.strip() and not goes_on:
            yield start, kept
            kept = ""
    if kept.strip():
        yield start, kept


def _read_formula(text: str, start: int, formula: str, found: _Found) -> None:
    operator = _OPERATOR.search(formula)
    if operator is None:
        raise refusal(text, start + len(formula) - len(formula.lstrip()), "expected a formula with =~, ~ or ~~")
    if operator[0] not in _READ:
        hint = "share a name between coefficients to make them equal; let `target` be the formula of an estimate"
        raise refusal(text, start + operator.start(), f"'{operator[0]}' cannot be read, only =~, ~ and ~~: {hint}")
    left = list(_terms(text, start, formula[: operator.start()]))
    right = list(_terms(text, start + operator.end(), formula[operator.end() :], numbers=operator[0] == "~"))
    for term in left:
        if term.modifier is not None:
            raise refusal(text, term.place, "a coefficient stands in front of a variable on the right")
        found.nodes[term.variable] = None
        if operator[0] == "=~":
            _measure(text, term.variable, right, found)
        elif operator[0] == "~":
            _regress(text, term.variable, right, found)
        else:
            _covary(text, term.variable, right, found)


def _terms(text: str, start: int, side: str, numbers: bool = False) -> Iterator[_Term]:
    place = start
    pieces = side.split("+")
    if len(pieces) > _WIDEST:
        raise refusal(text, start, f"a formula of {len(pieces):,} terms; at most {_WIDEST} can be read")
    for piece in pieces:
        here = place + len(piece) - len(piece.lstrip())
        place += len(piece) + 1
        modifier, star, variable = piece.strip().rpartition("*")
        variable, modifier = variable.strip(), modifier.strip()
        if not (NAME.fullmatch(variable) or (numbers and variable == "1")):
            raise refusal(text, min(here, len(text)), f"{variable[:80]!r} is not a variable's name")
        if star and value_of(modifier) is None:
            rule = "in front of * stands a number, a name or NA"
            raise refusal(text, here, f"{modifier[:80]!r} cannot be read: {rule}")
        yield _Term(variable, modifier if star else None, here)


def _value(term: _Term) -> Coefficient | None:
    return None if term.modifier in (None, "NA") else value_of(term.modifier or "")


def _measure(text: str, latent: str, terms: list[_Term], found: _Found) -> None:
    first = latent not in found.latent
    found.latent[latent] = None
    for k, term in enumerate(terms):
        marker = first and k == 0 and term.modifier is None
        _join(text, latent, term, False, 1.0 if marker else _value(term), found)
        found.indicators.add(term.variable)


def _regress(text: str, outcome: str, terms: list[_Term], found: _Found) -> None:
    for term in terms:
        if term.variable == "1":
            found.intercepts[outcome] = _value(term)
            continue
        found.outcomes[outcome] = None
        found.causes[term.variable] = None
        _join(text, term.variable, term, False, _value(term), found, head=outcome)


def _covary(text: str, one: str, terms: list[_Term], found: _Found) -> None:
    for term in terms:
        value = _value(term)
        if term.variable == one:
            found.variances |= {} if value is None else {one: value}
        else:
            _join(text, min(one, term.variable), term, True, value, found, head=max(one, term.variable))


def _join(
    text: str,
    tail: str,
    term: _Term,
    both: bool,
    value: Coefficient | None,
    found: _Found,
    head: str | None = None,
) -> None:
    head = term.variable if head is None else head
    found.nodes |= dict.fromkeys((tail, head))
    place = (tail, head, both)
    if place in found.links:
        raise _twice(text, term, place)
    found.links[place] = value


def _twice(text: str, term: _Term, place: tuple[str, str, bool]) -> TextError:
    edge = f"{place[0]} {'~~' if place[2] else '->'} {place[1]}"
    return refusal(text, term.place, f"{edge} is given twice; keep one")


def _automatic(found: _Found) -> dict[tuple[str, str, bool], Coefficient | None]:
    """The covariances that sem() sets free without being asked, but for those that were written."""
    if len(found.nodes) > MOST_NODES:
        return {}  # about to be refused; the pairs of thousands would take seconds
    moved = {*found.outcomes, *found.indicators}
    exogenous = [node for node in found.nodes if node not in moved]
    ends = [node for node in found.outcomes if node not in found.causes and node not in found.indicators]
    latent = [node for node in exogenous if node in found.latent]
    observed = [node for node in exogenous if node in found.causes and node not in found.latent]
    return {pair: None for group in (latent, observed, ends) for pair in _pairs(group) if pair not in found.links}


def _pairs(names: Iterable[str]) -> Iterator[tuple[str, str, bool]]:
    return ((*sorted(pair), True) for pair in combinations(names, 2))  # type: ignore[misc]  # sorted has two of two
