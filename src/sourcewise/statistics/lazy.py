"""Sums made by the engine that holds the rows: one query through Narwhals' lazy interface, and K × K sums come back.

PySpark and every other lazy engine that Narwhals knows are asked in the same words. Two are not: Polars, whose rows are
in this process already and take two thirds of the time as a stream through NumPy, and Dask (see `partitions`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import add, mul, or_
from typing import TYPE_CHECKING, Any

import numpy as np

from sourcewise.moments.compiled import CompiledSource
from sourcewise.moments.expand import Monomial
from sourcewise.spec.nodes import Call, Compare, Node, Number, Product, Sum, Symbol
from sourcewise.statistics.cells import check_names, not_numeric
from sourcewise.statistics.features import atom_order, not_finite, round_centre
from sourcewise.statistics.frames import BLOCK_ROWS, Missing, collecting, judge, naming
from sourcewise.statistics.gram import Statistics

if TYPE_CHECKING:
    import narwhals as nw


class NotThereError(Exception):
    """The engine has no word for something, so the rows have to be read here."""


@dataclass(frozen=True, slots=True)
class Lazy:
    """A lazy frame whose columns were renamed c0, c1, …, so that no name can mean something to its engine."""

    frame: nw.LazyFrame[Any]
    names: tuple[str, ...]

    @classmethod
    def of(cls, data: object) -> Lazy:
        import narwhals as nw

        native: Any = data.to_native() if isinstance(data, nw.LazyFrame) else data
        if hasattr(native, "toDF"):  # Spark takes a name with a dot apart, and does not tell x from X
            names = tuple(native.columns)
            return cls(nw.from_native(native.toDF(*_plain(names))), names)
        frame: Any = nw.from_native(native)
        with collecting():
            known = frame.collect_schema().names()
        check_names(known, known)
        return cls(frame.rename(dict(zip(known, _plain(known), strict=True))), tuple(map(str, known)))

    def place(self, name: str) -> str:
        check_names(self.names, [name])
        return f"c{self.names.index(name)}"

    def numbers(self, columns: Sequence[str]) -> list[nw.Expr]:
        """These columns as float64; anything but numbers and booleans is refused."""
        import narwhals as nw

        check_names(self.names, columns)
        schema = self.frame.collect_schema()
        for name in columns:
            kind = schema[self.place(name)]
            if not (kind.is_numeric() or kind == nw.Boolean):
                raise not_numeric(name, str(kind), [])
        return [nw.col(self.place(name)).cast(nw.Float64) for name in columns]

    def selected(self, columns: Sequence[str]) -> Any:
        """The engine's own frame of these columns as float64, under their own names."""
        numbers = [each.alias(f"n{k}") for k, each in enumerate(self.numbers(columns))]
        names = {f"n{k}": name for k, name in enumerate(columns)}
        return self.frame.select(numbers).rename(names).to_native()

    def rows(self, columns: Sequence[str]) -> object:
        """These columns, brought here whole."""
        numbers = [each.alias(f"n{k}") for k, each in enumerate(self.numbers(columns))]
        with collecting():
            found = self.frame.select(numbers).collect()
        return found.rename({f"n{k}": name for k, name in enumerate(columns)}).to_native()


def _plain(names: Sequence[object]) -> list[str]:
    return [f"c{k}" for k in range(len(names))]


def is_elsewhere(data: object) -> bool:
    """Whether the data are a lazy frame of an engine that sums better than we read."""
    import narwhals as nw

    found: Any = nw.from_native(data, pass_through=True)
    return isinstance(found, nw.LazyFrame) and not found.implementation.is_polars()


def answer(frame: nw.LazyFrame[Any]) -> dict[str, Any]:
    """The one row of a query's result."""
    with collecting():
        return frame.collect().rows(named=True)[0]


# --- rows to sums --------------------------------------------------------------------------------------------


def sums_there(
    source: CompiledSource, lazy: Lazy, centre: Mapping[str, float] | None, missing: Missing, *, empty: bool
) -> tuple[Statistics | None, int]:
    """The statistics of a source whose moments separate, None if no row was usable, and how many rows there were."""
    atoms, width = atom_order(source), len(source.variables)
    with naming(source.name):
        frame = _atoms(source, atoms, lazy)
        if centre is None:
            centre = _centre(source, frame, atoms)
        found = answer(_sums(source, frame, atoms, centre))
        absent, infinite = (np.array([_count(found[f"{what}{k}"]) for k in range(width)]) for what in ("absent", "inf"))
        counts: Any = (int(found["seen"]), _count(found["incomplete"]), absent, infinite, {})
        dropped = judge(source.variables, *counts, missing=missing, empty=empty)
    seen: int = counts[0]
    for k, atom in enumerate(atoms):
        if _count(found[f"bad{k}"]):
            raise not_finite(source, atom)
    if seen == dropped:
        return None, seen
    gram = np.empty((len(source.terms),) * 2)
    for monomial, pairs in distinct_products(source.terms).items():
        value = float(seen - dropped) if not monomial else found[_label(pairs[0])]
        for j, k in pairs:
            gram[j, k] = gram[k, j] = math.nan if value is None else value
    return Statistics(source.name, source.labels, centre, seen - dropped, gram, dropped), seen


def _atoms(source: CompiledSource, atoms: Sequence[str], lazy: Lazy) -> nw.LazyFrame[Any]:
    """Columns v0, … (variables), a0, … (atoms, null in rows that are not usable) and flags about them."""
    import narwhals as nw

    width = len(source.variables)
    frame = lazy.frame.select([each.alias(f"v{k}") for k, each in enumerate(lazy.numbers(source.variables))])
    values = [nw.col(f"v{k}") for k in range(width)]
    flags = [_absent(value).alias(f"m{k}") for k, value in enumerate(values)]
    flags += [(value.abs() == math.inf).fill_null(False).alias(f"i{k}") for k, value in enumerate(values)]
    frame = frame.with_columns(flags).with_columns(usable=~reduce(or_, (nw.col(f"m{k}") for k in range(width))))
    known = dict(zip(source.variables, values, strict=True))
    made = [_expression(source.atoms[atom], known) for atom in atoms]
    return frame.with_columns([nw.when(nw.col("usable")).then(each).alias(f"a{k}") for k, each in enumerate(made)])


def _absent(value: nw.Expr) -> nw.Expr:
    return value.is_null() | value.is_nan().fill_null(True)


def _centre(source: CompiledSource, frame: nw.LazyFrame[Any], atoms: Sequence[str]) -> dict[str, float]:
    """As `choose_centre` has it, of the rows that come first."""
    import narwhals as nw

    first = frame.filter(nw.col("usable")).head(BLOCK_ROWS)
    parts: list[nw.Expr] = []
    for k in range(len(atoms)):
        column = nw.col(f"a{k}")
        parts += [column.mean().alias(f"mean{k}"), column.std(ddof=0).alias(f"std{k}")]
        parts += [column.min().alias(f"low{k}"), column.max().alias(f"high{k}")]
    found = {name: _finite(value) for name, value in answer(first.select(parts)).items()}
    centre = {
        atom: round_centre(*(found[f"{what}{k}"] for what in ("mean", "std", "low", "high")))
        for k, atom in enumerate(atoms)
    }
    return {atom: centre[atom] for atom in source.atoms}


def _finite(value: Any) -> float:
    """What is not finite is reported by the sums themselves."""
    return 0.0 if value is None or not math.isfinite(value) else float(value)


def _sums(
    source: CompiledSource, frame: nw.LazyFrame[Any], atoms: Sequence[str], centre: Mapping[str, float]
) -> nw.LazyFrame[Any]:
    """One row: counts of rows and of what is wrong with them, and each distinct product of two terms, summed."""
    import narwhals as nw

    place = {atom: nw.col(f"a{k}") for k, atom in enumerate(atoms)}
    shifted = [(place[atom] - centre[atom]).alias(f"s{k}") for k, atom in enumerate(atoms)]
    centred = {atom: nw.col(f"s{k}") for k, atom in enumerate(atoms)}
    terms = [
        reduce(mul, (centred[atom] for atom, power in term for _ in range(power))).alias(f"t{k}")
        for k, term in enumerate(source.terms)
        if term
    ]
    # the rows that are usable, but in which an atom has no finite value
    bad = [(_absent(place[atom]) | (place[atom].abs() == math.inf)) & nw.col("usable") for atom in atoms]
    width = len(source.variables)
    counts = {
        **{f"absent{k}": nw.col(f"m{k}") for k in range(width)},
        **{f"inf{k}": nw.col(f"i{k}") for k in range(width)},
        **{f"bad{k}": each for k, each in enumerate(bad)},
        "incomplete": ~nw.col("usable"),
    }
    sums = [
        _product(pairs[0]).sum().alias(_label(pairs[0])) for m, pairs in distinct_products(source.terms).items() if m
    ]
    tallies = [flag.cast(nw.Int64).sum().alias(name) for name, flag in counts.items()]
    return frame.with_columns(shifted).with_columns(terms).select(nw.len().alias("seen"), *tallies, *sums)


def distinct_products(terms: Sequence[Monomial]) -> dict[Monomial, list[tuple[int, int]]]:
    """Each distinct product of two terms, and the places of the Gram matrix that hold it."""
    found: dict[Monomial, list[tuple[int, int]]] = {}
    for j, left in enumerate(terms):
        for k, right in enumerate(terms[: j + 1]):
            powers = dict(left)
            for atom, exponent in right:
                powers[atom] = powers.get(atom, 0) + exponent
            found.setdefault(tuple(sorted(powers.items())), []).append((j, k))
    return found


def _product(pair: tuple[int, int]) -> nw.Expr:
    import narwhals as nw

    factors = [nw.col(f"t{k}") for k in pair if k]  # term 0 is the constant 1
    return reduce(mul, factors)


def _label(pair: tuple[int, int]) -> str:
    return f"p{pair[0]}_{pair[1]}"


def _count(value: Any) -> int:
    return int(value or 0)  # some engines sum nothing to null


# --- formulas of data ----------------------------------------------------------------------------------------


def _expression(node: Node, known: Mapping[str, nw.Expr]) -> nw.Expr:
    """A formula in the engine's words. It may be null where it has no finite value."""
    import narwhals as nw

    if isinstance(node, Symbol):
        return known[node.name]
    if isinstance(node, Number):
        return nw.lit(node.value)
    if isinstance(node, Sum):
        parts = [_expression(child, known) * c for child, c in node.terms]
        return reduce(add, parts) + node.constant
    if isinstance(node, Product):
        return reduce(mul, (_power(_expression(base, known), exponent) for base, exponent in node.factors))
    if isinstance(node, Compare):
        left, right = _expression(node.left, known), _expression(node.right, known)
        held: nw.Expr = _COMPARE[node.operator](left, right)
        return held.cast(nw.Float64)
    assert isinstance(node, Call)
    return _call(node.function, _expression(node.argument, known))


_COMPARE: dict[str, Any] = {
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
}


def _power(base: nw.Expr, exponent: Fraction) -> nw.Expr:
    import narwhals as nw

    if exponent < 0:  # Spark calls a division by zero an error, and does not say where
        return nw.when(base != 0.0).then(1.0 / _power(base, -exponent))
    if exponent.denominator == 1 and exponent <= 4:
        return reduce(mul, [base] * int(exponent))
    return base.sqrt() if exponent == Fraction(1, 2) else base ** float(exponent)


def _call(function: str, x: nw.Expr) -> nw.Expr:
    import narwhals as nw

    match function:
        case "exp":
            return x.exp()
        case "log":
            return nw.when(x > 0.0).then(x.log())
        case "abs":
            return x.abs()
        case "phi":
            return (x * x * -0.5).exp() / math.sqrt(2.0 * math.pi)
        case "logistic":  # exp of a negative number only, as it does not overflow
            tail = (x.abs() * -1.0).exp()
            return nw.when(x >= 0.0).then(1.0 / (tail + 1.0)).otherwise(tail / (tail + 1.0))
    raise NotThereError(f"{function} is not to be had in the engine that holds the rows, which were read here instead")
