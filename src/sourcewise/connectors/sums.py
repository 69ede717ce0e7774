"""Sums made by a SQL database: one query, from which only counts and the distinct products of data terms come back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from sourcewise.connectors.dialect import Dialect, literal
from sourcewise.moments.compiled import CompiledSource
from sourcewise.moments.expand import Monomial
from sourcewise.spec.nodes import Call, Compare, Node, Number, Product, Sum, Symbol
from sourcewise.statistics.features import atom_order, not_finite, round_centre
from sourcewise.statistics.frames import Missing, judge, naming
from sourcewise.statistics.gram import Statistics
from sourcewise.statistics.lazy import distinct_products

Answer = Callable[[str], list[tuple[Any, ...]]]

FORMULA = 20_000
"""Characters of one atom in SQL; arguments are repeated where a function is guarded, so nesting makes it long."""

AT_ONCE = 1000
"""Sums in one statement; PostgreSQL takes 1664."""

LARGEST = literal(np.finfo(np.float64).max)
SMALLEST_EXPONENT = -307
NAN, INFINITY = "CAST('NaN' AS DOUBLE PRECISION)", "CAST('Infinity' AS DOUBLE PRECISION)"
EXP_LOW, EXP_HIGH = literal(-745.0), literal(709.78)


class NotInSqlError(Exception):
    """Something has no words in SQL, so the rows have to be read here."""


@dataclass(frozen=True, slots=True)
class SumsInSql:
    """`rows`: a table expression; `reals`: the variables of the source as float64 columns of it."""

    source: CompiledSource
    dialect: Dialect
    rows: str
    reals: Sequence[str]
    answer: Answer

    def statistics(
        self, centre: Mapping[str, float] | None, missing: Missing, empty: bool
    ) -> tuple[Statistics | None, int]:
        """None if no row was usable; and how many rows there were."""
        if self.source.separable is None:
            raise NotInSqlError("its moments do not separate into data and parameters, so its rows are kept")
        used = self._centre() if centre is None else centre
        products = distinct_products(self.source.terms)
        wanted = [monomial for monomial in products if monomial]
        seen, dropped, values = 0, 0, dict[Monomial, Any]()
        for start in range(0, max(len(wanted), 1), AT_ONCE):
            part = wanted[start : start + AT_ONCE]
            counts, *sums = self._split(self.answer(self._statement(used, part))[0], len(part))
            seen, dropped = self._judged(counts, missing, empty)
            values |= dict(zip(part, sums[0], strict=True))
        if seen == dropped:
            return None, seen
        values[()] = seen - dropped
        gram = np.empty((len(self.source.terms),) * 2)
        for monomial, pairs in products.items():
            for j, k in pairs:
                gram[j, k] = gram[k, j] = math.nan if values[monomial] is None else values[monomial]
        return Statistics(self.source.name, self.source.labels, used, seen - dropped, gram, dropped), seen

    def _centre(self) -> dict[str, float]:
        """As `choose_centre` has it, of all these rows."""
        atoms = atom_order(self.source)
        parts = [f"{what}(a{k})" for k in range(len(atoms)) for what in ("avg", "stddev_pop", "min", "max")]
        found = [_finite(value) for value in self.answer(f"SELECT {', '.join(parts)} FROM {self._atoms()} AS t")[0]]
        centre = {atom: round_centre(*found[4 * k : 4 * k + 4]) for k, atom in enumerate(atoms)}
        return {atom: centre[atom] for atom in self.source.atoms}

    def _atoms(self) -> str:
        """Columns v0, … (variables), ok (all are finite) and a0, … (atoms, null where a row is not ok)."""
        places = range(len(self.reals))
        columns = ", ".join(f"{real} AS v{k}" for k, real in enumerate(self.reals))
        values = f"(SELECT {columns} FROM {self.rows} AS p{self.dialect.fence})"
        finite = " AND ".join(_is_finite(f"v{k}") for k in places)
        flagged = f"(SELECT *, COALESCE({finite}, FALSE) AS ok FROM {values} AS q{self.dialect.fence})"
        known = {name: f"v{k}" for k, name in enumerate(self.source.variables)}
        made = [formula(self.source.atoms[atom], known) for atom in atom_order(self.source)]
        atoms = ", ".join(f"CASE WHEN ok THEN {text} END AS a{k}" for k, text in enumerate(made))
        return f"(SELECT *, {atoms} FROM {flagged} AS q{self.dialect.fence})"

    def _statement(self, centre: Mapping[str, float], wanted: Sequence[Monomial]) -> str:
        atoms = atom_order(self.source)
        most = max((sum(power for _, power in monomial) for monomial in wanted), default=1)
        # a product that underflows is an error to PostgreSQL, and nothing beside the others in a sum
        tiny = literal(10.0 ** (SMALLEST_EXPONENT / most))
        shifted = ", ".join(
            f"CASE WHEN abs(a{k} - ({literal(centre[atom])})) < {tiny} THEN {literal(0.0)} "
            f"ELSE (a{k} - ({literal(centre[atom])})) END AS s{k}"
            for k, atom in enumerate(atoms)
        )
        rows = f"(SELECT *, {shifted} FROM {self._atoms()} AS t{self.dialect.fence})"
        lost = [f"(v{k} IS NULL OR v{k} = {NAN})" for k in range(len(self.reals))]
        counts = [" OR ".join(lost), *lost]
        counts += [f"abs(v{k}) = {INFINITY}" for k in range(len(self.reals))]
        counts += [f"ok AND NOT COALESCE({_is_finite(f'a{k}')}, FALSE)" for k in range(len(atoms))]
        place = {atom: f"s{k}" for k, atom in enumerate(atoms)}
        sums = ["*".join(place[atom] for atom, power in monomial for _ in range(power)) for monomial in wanted]
        chosen = ["count(*)", *(f"count(*) FILTER (WHERE {each})" for each in counts), *(f"sum({s})" for s in sums)]
        return f"SELECT {', '.join(chosen)} FROM {rows} AS u"

    def _split(self, row: tuple[Any, ...], sums: int) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        return row[: len(row) - sums], row[len(row) - sums :]

    def _judged(self, counts: Sequence[int], missing: Missing, empty: bool) -> tuple[int, int]:
        """Rows seen and left out; whatever is wrong with them is an error."""
        width = len(self.reals)
        seen, incomplete, rest = counts[0], counts[1], np.array(counts[2:], dtype=np.int64)
        absent, infinite, bad = rest[:width], rest[width : 2 * width], rest[2 * width :]
        with naming(self.source.name):
            dropped = judge(self.source.variables, seen, incomplete, absent, infinite, {}, missing=missing, empty=empty)
        for atom, count in zip(atom_order(self.source), bad, strict=True):
            if count:
                raise not_finite(self.source, atom)
        return seen, dropped


def _finite(value: Any) -> float:
    """What is not finite is reported by the sums themselves."""
    return 0.0 if value is None or not math.isfinite(value) else float(value)


def _is_finite(value: str) -> str:
    return f"{value} BETWEEN -{LARGEST} AND {LARGEST}"  # NaN is above all numbers, null is null


# --- formulas of data ----------------------------------------------------------------------------------------


def formula(node: Node, known: Mapping[str, str]) -> str:
    """A formula in SQL, null where it has no finite value: what databases do there differs."""
    text = _formula(node, known)
    if len(text) > FORMULA:
        raise NotInSqlError("a formula of its data is too long for SQL, so its rows were read out of the database")
    return text


def _formula(node: Node, known: Mapping[str, str]) -> str:
    if isinstance(node, Symbol):
        return known[node.name]
    if isinstance(node, Number):
        return literal(node.value)
    if isinstance(node, Sum):
        parts = [f"{formula(child, known)} * ({literal(c)})" for child, c in node.terms]
        return f"({' + '.join([*parts, literal(node.constant)])})"
    if isinstance(node, Product):
        return f"({' * '.join(_power(formula(base, known), exponent) for base, exponent in node.factors)})"
    if isinstance(node, Compare):
        operator = "<>" if node.operator == "!=" else node.operator.replace("==", "=")
        test = f"{formula(node.left, known)} {operator} {formula(node.right, known)}"
        return f"(CASE WHEN {test} THEN {literal(1.0)} ELSE {literal(0.0)} END)"
    assert isinstance(node, Call)
    return _call(node.function, formula(node.argument, known))


def _power(base: str, exponent: Fraction) -> str:
    if exponent < 0:
        return f"({literal(1.0)} / NULLIF({_power(base, -exponent)}, {literal(0.0)}))"
    if exponent.denominator == 1 and exponent <= 4:
        return f"({' * '.join([base] * int(exponent))})"
    if exponent.denominator == 1:
        return f"power({base}, {literal(float(exponent))})"
    root = f"sqrt({base})" if exponent == Fraction(1, 2) else f"power({base}, {literal(float(exponent))})"
    return f"(CASE WHEN {base} >= {literal(0.0)} THEN {root} END)"


def _call(function: str, x: str) -> str:
    zero, one = literal(0.0), literal(1.0)
    match function:
        case "exp":
            return _exp(x)
        case "log":
            return f"(CASE WHEN {x} > {zero} THEN ln({x}) END)"
        case "abs":
            return f"abs({x})"
        case "phi":
            return f"({_exp(f'({x} * {x} * ({literal(-0.5)}))')} / {literal(math.sqrt(2.0 * math.pi))})"
        case "logistic":  # exp of a negative number only, as it does not overflow
            tail = _exp(f"(-abs({x}))")
            return f"((CASE WHEN {x} >= {zero} THEN {one} ELSE {tail} END) / ({one} + {tail}))"
    raise NotInSqlError(f"{function} has no words in SQL, so its rows were read out of the database")


def _exp(x: str) -> str:
    """PostgreSQL calls it an error when the result is too small."""
    return f"(CASE WHEN {x} < {EXP_LOW} THEN {literal(0.0)} WHEN {x} <= {EXP_HIGH} THEN exp({x}) END)"
