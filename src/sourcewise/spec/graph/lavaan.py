"""lavaan's model syntax, with the defaults of its functions sem() and cfa().

    visual =~ x1 + x2 + x3       a latent variable and its indicators; the first loading is 1
    y ~ b*x + z                  a regression
    y1 ~~ y2                     a covariance of errors, or a variance
    y ~ 1                        an intercept

    total := a*b + c             a name for a formula in coefficients, which a target may use

In front of a variable stands a number (fixed), a name (the same name, the same value) or NA (free). As sem() does,
exogenous latent variables covary, so do exogenous observed ones, and so do the errors of outcomes that cause nothing;
the error of an only indicator is 0.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import combinations

from sourcewise.spec.graph.model import MOST_NODES, NAME, Coefficient, Graph, Link, assemble
from sourcewise.spec.graph.words import TextError, naming_rule, refusal, value_of

_COMMENT = re.compile(r"[#!][^\n]*")
_OPERATOR = re.compile(r"=~|~~|<~|~\*~|:=|==|~|\||<|>")
_READ = ("=~", "~~", "~", ":=")
_JOINED = re.compile(r"(?<=[+~*=])[ \t\r]*\n\s*+|\n[ \t\r]*+(?=[+*])")
_WIDEST = 500
"""Terms of one formula."""


@dataclass(slots=True)
class _Found:
    nodes: dict[str, None] = field(default_factory=dict)
    links: dict[tuple[str, str, bool], Coefficient | None] = field(default_factory=dict)
    definitions: dict[str, tuple[int, str]] = field(default_factory=dict)
    """What := gave a name to, and where."""
    outcomes: dict[str, None] = field(default_factory=dict)
    causes: dict[str, None] = field(default_factory=dict)
    measured: dict[str, list[str]] = field(default_factory=dict)
    """Latent variables with what they act on by =~."""
    variances: dict[str, Coefficient | None] = field(default_factory=dict)
    intercepts: dict[str, Coefficient | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Term:
    variable: str
    modifier: str | None
    place: int
    freed: bool = False
    """Whether NA says that no convention fixes it."""


def is_lavaan(text: str) -> bool:
    """No other text that a graph is written in has a tilde outside quotes."""
    bare = re.sub(r'"[^"\n]*"', "", _COMMENT.sub("", text))
    return "~" in bare and "->" not in bare


def read_lavaan(text: str) -> Graph:
    found = _read(text)
    free = {node for node, value in found.intercepts.items() if value is None}
    intercepts = {node: value for node, value in found.intercepts.items() if value is not None}
    names = {*found.nodes, *_said(found)}
    intercepts |= {node: _fresh_intercept(node, names) for node in sorted(free)}
    links = [Link(*place, value) for place, value in {**found.links, **_automatic(found)}.items()]
    variances = {node: value for node, value in found.variances.items() if value is not None}
    return assemble(found.nodes, links, found.measured, {**_exact_indicators(found), **variances}, intercepts)


def definitions(text: str) -> dict[str, str]:
    """The formulas that := gave names to, in the order in which they were written."""
    found = _read(text).definitions if is_lavaan(text) and ":=" in text else {}
    return {name: formula for name, (_, formula) in found.items()}


def _read(text: str) -> _Found:
    found = _Found()
    for start, formula in _formulas(text):
        _read_formula(text, start, formula, found)
    taken = {*found.nodes, *_said(found)}
    for name, (place, _) in found.definitions.items():
        if name in taken:
            raise refusal(text, place, f"{name!r} is already a variable or a coefficient; rename it")
    return found


def _said(found: _Found) -> Iterator[str]:
    values = [*found.links.values(), *found.variances.values(), *found.intercepts.values()]
    return (value for value in values if isinstance(value, str))


def _fresh_intercept(node: str, names: set[str]) -> str:
    wanted = f"intercept_{node}"
    while wanted in names or len(wanted) > 64:
        wanted = f"i_{wanted[:60]}"
    return wanted


def _formulas(text: str) -> Iterator[tuple[int, str]]:
    """Formulas with the place where they begin. One goes on in the next line if it ends in + or an operator, or if
    that line begins so."""
    clean = _COMMENT.sub(lambda match: " " * len(match[0]), text)
    clean = _JOINED.sub(lambda match: match[0].replace("\n", " "), clean)
    for match in re.finditer(r"[^\n;]+", clean):
        if match[0].strip():
            yield match.start(), match[0]


def _read_formula(text: str, start: int, formula: str, found: _Found) -> None:
    operator = _OPERATOR.search(formula)
    if operator is None:
        raise refusal(text, start + len(formula) - len(formula.lstrip()), "expected a formula with =~, ~ or ~~")
    if operator[0] not in _READ:
        hint = "share a name between coefficients to make them equal"
        raise refusal(text, start + operator.start(), f"{operator[0]!r} cannot be read, only =~, ~, ~~ and :=; {hint}")
    if operator[0] == ":=":
        _define(text, start, formula[: operator.start()], formula[operator.end() :], found)
        return
    left = list(_terms(text, start, formula[: operator.start()]))
    right = list(_terms(text, start + operator.end(), formula[operator.end() :], numbers=operator[0] == "~"))
    right = _merged(right)
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


def _define(text: str, start: int, left: str, right: str, found: _Found) -> None:
    name, place = left.strip(), start + len(left) - len(left.lstrip())
    if not NAME.fullmatch(name):
        raise refusal(text, place, f"{name[:80]!r} cannot name a formula: write name := formula")
    if name in found.definitions:
        raise refusal(text, place, f"{name!r} is defined twice; keep one")
    found.definitions[name] = place, " ".join(right.replace("^", "**").split())


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
            rule = f": {naming_rule(variable)}" if variable else ""
            raise refusal(text, min(here, len(text)), f"{variable[:80]!r} is not a variable's name{rule}")
        if star and value_of(modifier) is None:
            rule = "in front of * stands a number, a name or NA"
            raise refusal(text, here, f"{modifier[:80]!r} cannot be read: {rule}")
        yield _Term(variable, modifier if star else None, here, freed=modifier == "NA")


def _merged(terms: list[_Term]) -> list[_Term]:
    """NA*x + a*x says two things of one coefficient, that it is free and what it is called."""
    found: dict[str, _Term] = {}
    others: list[_Term] = []
    for term in terms:
        before = found.setdefault(term.variable, term)
        if before is term:
            continue
        names = [said for said in (before.modifier, term.modifier) if said not in (None, "NA")]
        if len(names) == 1 and isinstance(value_of(names[0] or ""), str):
            found[term.variable] = replace(before, modifier=names[0], freed=before.freed or term.freed)
        else:
            others.append(term)
    return [*found.values(), *others]


def _value(term: _Term) -> Coefficient | None:
    return None if term.modifier in (None, "NA") else value_of(term.modifier or "")


def _measure(text: str, latent: str, terms: list[_Term], found: _Found) -> None:
    first = latent not in found.measured
    found.measured.setdefault(latent, []).extend(term.variable for term in terms)
    for k, term in enumerate(terms):
        value = _value(term)
        marker = first and k == 0 and not term.freed
        if marker and isinstance(value, str):
            rule = f"the first loading of {latent} is 1 and needs no name"
            fix = f"write NA*{term.variable} + {value}*{term.variable} to free it, and {latent} ~~ 1*{latent}"
            raise refusal(text, term.place, f"{rule}; {fix}")
        _join(text, latent, term, False, 1.0 if marker and term.modifier is None else value, found)


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
            found.variances[one] = value if value is not None else found.variances.get(one)
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
    indicators = {name for names in found.measured.values() for name in names}
    moved = {*found.outcomes, *indicators}
    exogenous = [node for node in found.nodes if node not in moved]
    ends = [node for node in found.outcomes if node not in found.causes and node not in indicators]
    latent = [node for node in exogenous if node in found.measured]
    observed = [node for node in exogenous if node in found.causes and node not in found.measured]
    return {pair: None for group in (latent, observed, ends) for pair in _pairs(group) if pair not in found.links}


def _exact_indicators(found: _Found) -> dict[str, Coefficient]:
    """A latent variable with one indicator is that indicator, unless a variance was written: sem() fixes its error."""
    only = [names[0] for names in found.measured.values() if len(names) == 1]
    return {name: 0.0 for name in only if name not in found.measured and name not in found.variances}


def _pairs(names: Iterable[str]) -> Iterator[tuple[str, str, bool]]:
    return ((*sorted(pair), True) for pair in combinations(names, 2))  # type: ignore[misc]  # sorted has two of two
