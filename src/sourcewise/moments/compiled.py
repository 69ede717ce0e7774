"""A study made ready for numbers: every source's moments expanded, differentiated and turned into programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from sourcewise.errors import StudyError
from sourcewise.moments.expand import (
    CENTRE,
    Monomial,
    NotSeparableError,
    Polynomial,
    expand,
)
from sourcewise.moments.program import Program
from sourcewise.numerics.linalg import Array
from sourcewise.spec.nodes import ONE, Node, Symbol, derivative, factored, multiply, number, power
from sourcewise.spec.study import Study

Integers = NDArray[np.int64]

MAX_SOURCE_TERMS = 2000
"""Data terms of one source: its Gram matrix has this many rows and columns."""


@dataclass(frozen=True, slots=True)
class Bends:
    """∂²C/∂θ_d∂θ_e by its non-zero entries with d ≤ e; run r of them, of one pair (d, e), begins at `starts[r]`."""

    values: Program
    row: Integers
    term: Integers
    starts: Integers
    first: Integers
    second: Integers


@dataclass(frozen=True, eq=False)
class Coefficients:
    """C(θ, s) of some formulas by its non-zero entries, and ∂C/∂θ likewise (`slopes` gives both).

    Entry e of C stands at formula `row[e]`, data term `term[e]`; likewise for the derivative, whose entries carry a
    parameter too. Both are sorted by row (and parameter), so that sums over terms are runs of neighbours: run r of
    values and derivatives together begins at `starts[r]` and belongs in `places[r]` of (rows, then rows × parameters).
    """

    shape: tuple[int, int]
    values: Program
    slopes: Program
    row: Integers
    term: Integers
    slope_row: Integers
    slope_parameter: Integers
    slope_term: Integers
    both_terms: Integers
    """`term` and `slope_term` end to end."""
    starts: Integers
    places: Integers
    slope_nodes: tuple[Node, ...]

    @cached_property
    def bends(self) -> Bends:
        """Made when a search first asks: most have no use for second derivatives."""
        names = self.slopes.inputs
        memo: dict[tuple[Node, str], Node] = {}
        entries = []
        for j, e, k, slope in zip(self.slope_row, self.slope_parameter, self.slope_term, self.slope_nodes, strict=True):
            known = [(d, derivative(slope, names[d], memo)) for d in range(e + 1) if names[d] in slope.symbols]
            entries += [(d, e, j, k, bend) for d, bend in known if bend != number(0.0)]
        entries.sort(key=lambda entry: entry[:4])
        first, second, row, term = np.array([entry[:4] for entry in entries], dtype=np.int64).reshape(-1, 4).T
        starts = np.flatnonzero(np.diff(first * len(names) + second, prepend=-1))
        program = Program(names, [entry[-1] for entry in entries])
        return Bends(program, row, term, starts, first[starts], second[starts])


@dataclass(frozen=True, slots=True)
class Separable:
    """The moments of one source as C(θ, s) φ(x − s).

    `instrument` and `residual` split each moment into a factor of data alone and the rest, for variances that
    assume the two unrelated.
    """

    terms: tuple[Monomial, ...]
    moments: Coefficients
    instrument: Coefficients
    residual: Coefficients


@dataclass(frozen=True, eq=False)
class CompiledSource:
    """What one source computes. `atoms` maps texts to nodes; `separable` is None when rows have to be kept."""

    name: str
    variables: tuple[str, ...]
    moments: tuple[int, ...]
    atoms: Mapping[str, Node]
    atom_program: Program
    separable: Separable | None
    labels: tuple[str, ...]
    """The data terms as a reader would write them."""
    nodes: tuple[Node, ...]
    parameters: tuple[str, ...]

    @cached_property
    def rowwise(self) -> Program:
        """The moments and their derivatives in parameters and columns; made when rows are first asked for."""
        memo: dict[tuple[Node, str], Node] = {}
        slopes = [derivative(node, name, memo) for node in self.nodes for name in self.parameters]
        return Program((*self.parameters, *self.variables), [*self.nodes, *slopes])

    @property
    def terms(self) -> tuple[Monomial, ...]:
        return self.separable.terms if self.separable else ()


@dataclass(frozen=True, slots=True)
class CompiledStudy:
    """Programs of all sources that compute a moment, and of the target with its gradient."""

    parameters: tuple[str, ...]
    count: int
    sources: Mapping[str, CompiledSource]
    target: Program
    """f and its gradient."""
    target_parameter: int | None
    """Which parameter f is, where it is simply one."""
    start: Array
    lower: Array
    upper: Array


@lru_cache(maxsize=128)
def compile_study(study: Study) -> CompiledStudy:
    names = tuple(study.parameters)
    sources = {name: compile_source(study, name) for name in study.sources if study.moments_of(name)}
    _known_slopes.cache_clear()
    memo: dict[tuple[Node, str], Node] = {}
    gradient = [derivative(study.target_node, name, memo) for name in names]
    declared = study.parameters.values()
    return CompiledStudy(
        names,
        len(study.moments),
        sources,
        Program(names, [study.target_node, *gradient]),
        names.index(study.target_node.name) if isinstance(study.target_node, Symbol) else None,
        np.array([np.nan if p.start is None else p.start for p in declared]),
        np.array([p.lower for p in declared]),
        np.array([p.upper for p in declared]),
    )


@lru_cache(maxsize=1)
def _known_slopes(study: Study) -> dict[tuple[Node, str], Node]:
    """Derivatives that one source of the study may take over from another: covariances of a graph share their parts."""
    return {}


@lru_cache(maxsize=1024)
def compile_source(study: Study, source: str, lean: bool = False) -> CompiledSource:
    """`lean`: only the data terms of the moments themselves about the origin, for data that lie around it. There are
    fewer, and errors="homoskedastic" is not to be had from them."""
    positions = study.moments_of(source)
    if not positions:
        raise StudyError(f"source {source!r} computes no moment of this study, so its rows have no use")
    nodes = [study.moments[j].node for j in positions]
    known = frozenset(study.variables)
    names = tuple(study.parameters)
    used = frozenset().union(*(node.symbols for node in nodes))
    variables = tuple(v for v in study.sources[source].observes if v in used)
    atoms: dict[str, Node] = {}
    separable = _separate(nodes, known, names, atoms, lean, _known_slopes(study))
    if separable is None:
        atoms = {}
    return CompiledSource(
        source,
        variables,
        positions,
        atoms,
        Program(variables, list(atoms.values())),
        separable,
        tuple(map(describe_term, separable.terms)) if separable else (),
        tuple(nodes),
        names,
    )


def _separate(
    nodes: list[Node],
    variables: frozenset[str],
    names: tuple[str, ...],
    atoms: dict[str, Node],
    lean: bool,
    memo: dict[tuple[Node, str], Node],
) -> Separable | None:
    halves = [] if lean else [_split(node, variables) for node in nodes]
    try:
        moments = [expand(node, variables, atoms, centred=not lean) for node in nodes]
        instruments = [expand(left, variables, atoms) for left, _ in halves]
        residuals = [
            known if right == node else expand(right, variables, atoms)
            for (_, right), node, known in zip(halves, nodes, moments, strict=False)
        ]
    except NotSeparableError:
        return None
    found = {m for polynomial in (*moments, *instruments, *residuals) for m in polynomial}
    terms = ((), *sorted(found - {()}, key=lambda m: (sum(p for _, p in m), m)))
    if len(terms) > MAX_SOURCE_TERMS:
        raise StudyError(
            f"the moments of one source expand to {len(terms)} data terms, more than {MAX_SOURCE_TERMS}; "
            f"use fewer moments or lower powers"
        )
    inputs = (*names, *(CENTRE + atom for atom in atoms))
    whole, left = (_coefficients(polynomials, terms, names, inputs, memo) for polynomials in (moments, instruments))
    same = residuals == moments  # no moment has a factor of data alone: those of a graph never do
    return Separable(terms, whole, left, whole if same else _coefficients(residuals, terms, names, inputs, memo))


def _split(node: Node, variables: frozenset[str]) -> tuple[Node, Node]:
    """The factors of data alone, and the rest."""
    coefficient, factors = factored(node)
    data = [power(b, e) for b, e in factors if b.symbols <= variables]
    rest = [power(b, e) for b, e in factors if not b.symbols <= variables]
    return multiply(ONE, *data), multiply(number(coefficient), *rest)


def _coefficients(
    polynomials: list[Polynomial],
    terms: tuple[Monomial, ...],
    names: tuple[str, ...],
    inputs: tuple[str, ...],
    memo: dict[tuple[Node, str], Node],
) -> Coefficients:
    place = {monomial: k for k, monomial in enumerate(terms)}
    entries = [(j, place[m], node) for j, poly in enumerate(polynomials) for m, node in poly.items()]
    slopes = [
        (j, d, k, derivative(node, name, memo))
        for j, k, node in entries
        for d, name in enumerate(names)
        if name in node.symbols
    ]
    entries.sort(key=lambda entry: entry[:2])
    slopes.sort(key=lambda entry: entry[:3])
    row, term = np.array([entry[:2] for entry in entries], dtype=np.int64).reshape(-1, 2).T
    slope_row, parameter, slope_term = np.array([entry[:3] for entry in slopes], dtype=np.int64).reshape(-1, 3).T
    values = [entry[-1] for entry in entries]
    both = values + [entry[-1] for entry in slopes]
    shape = (len(polynomials), len(terms))
    keys = np.concatenate([row, len(polynomials) + slope_row * len(names) + parameter])
    starts = np.flatnonzero(np.diff(keys, prepend=-1))
    return Coefficients(
        shape,
        Program(inputs, values),
        Program(inputs, both),
        row,
        term,
        slope_row,
        parameter,
        slope_term,
        np.concatenate([term, slope_term]),
        starts,
        keys[starts],
        tuple(entry[-1] for entry in slopes),
    )


def describe_term(monomial: Monomial) -> str:
    """The term as a reader would write it; `1` for the constant."""
    return "*".join(atom if power == 1 else f"({atom})**{power}" for atom, power in monomial) or "1"
