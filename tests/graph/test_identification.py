"""`identify` against brute force, and what it says."""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations
from typing import Any

import numpy as np
import pytest
import sympy

import sourcewise as sw
from graph.half_treks import verdict
from sourcewise.allocation.generic import generic
from sourcewise.identification.identify import MOST_SETS
from sourcewise.identification.strategies import strategies
from sourcewise.numerics.modular import PRIME, echelon, residue
from sourcewise.spec.graph.read import read_graph

Graph = tuple[str, list[str]]


def random_graph(random: np.random.Generator) -> tuple[str, int]:
    """Arrow text of a graph of 2 to 6 variables; edges of either kind between any two."""
    size = int(random.integers(2, 7))
    density = random.uniform(0.2, 0.7)
    edges = []
    for j in range(size):
        for i in range(j):
            edges += [f"V{i} -> V{j}"] if random.uniform() < density else []
            edges += [f"V{i} <-> V{j}"] if random.uniform() < 0.5 * density else []
    return "; ".join([*(f"V{k}" for k in range(size)), *edges]), size


def brute_force(study: sw.Study, chosen: set[str], seed: int) -> bool:
    """The same question by other means: Σ from an inverse, slopes by complex steps, rank by singular values."""
    assert study.model is not None
    graph = study.model.graph
    place = {node: k for k, node in enumerate(graph.nodes)}
    names = [*(e.coefficient for e in graph.edges), *graph.variances]
    pairs = {p for n in chosen for p in combinations(sorted(study.sources[n].observes), 2)}
    pairs |= {(v, v) for n in chosen for v in study.sources[n].observes}

    def restrictions(theta: Any) -> tuple[list[complex], complex]:
        value = dict(zip(names, theta, strict=True))
        effects, errors = np.zeros((2, len(place), len(place)), dtype=complex)
        for edge in graph.edges:
            i, j = place[edge.tail], place[edge.head]
            if edge.bidirected:
                errors[i, j] = errors[j, i] = value[edge.coefficient]
            else:
                effects[j, i] = value[edge.coefficient]
        errors[np.diag_indices(len(place))] = [value[v] for v in graph.variances]
        total = np.linalg.inv(np.eye(len(place)) - effects)
        cov = total @ errors @ total.T
        return [cov[place[a], place[b]] for a, b in sorted(pairs)], total[place[outcome], place[cause]]

    cause, outcome = study.target[7:-1].split(" -> ")
    at = np.random.default_rng(seed).uniform(0.4, 1.6, len(names)) * 1.0
    steps = [restrictions(at + 1e-30j * axis) for axis in np.eye(len(names))]
    slopes = np.array([[c.imag / 1e-30 for c in covs] for covs, _ in steps]).T
    gradient = np.array([f.imag / 1e-30 for _, f in steps])
    scale = np.linalg.norm(slopes)
    rank = np.linalg.matrix_rank(slopes, tol=1e-9 * scale)
    return bool(np.linalg.matrix_rank(np.vstack([slopes, scale * gradient]), tol=1e-9 * scale) == rank)


def test_agrees_with_brute_force_on_500_random_graphs() -> None:
    random, verdicts, graphs = np.random.default_rng(2024), [], 0
    while graphs < 500:
        text, size = random_graph(random)
        reached = [(i, j) for i in range(size) for j in range(i + 1, size) if generic_effect(text, f"V{i}", f"V{j}")]
        if not reached:
            continue
        graphs += 1
        i, j = reached[int(random.integers(len(reached)))]
        sources = {"all": sw.Source([f"V{k}" for k in range(size)])}
        for name in "abc":
            chosen = sorted(random.choice(size, size=int(random.integers(1, size + 1)), replace=False))
            sources[name] = sw.Source([f"V{k}" for k in chosen])
        study = sw.Study.from_graph(text, f"effect(V{i} -> V{j})", sources)
        ranks = generic(study)
        for some in ({"all"}, {"a", "b", "c"}, {"a", "b"}):
            found, truth = ranks.identifies(some), brute_force(study, some, graphs)
            assert found == truth, (text, study.target, {n: study.sources[n].observes for n in some})
            verdicts.append(truth)
    assert 300 < sum(verdicts) < 1200


def test_agrees_with_the_half_trek_criterion() -> None:
    """A theorem on paths against our ranks, on random graphs all of whose variables are seen."""
    random, verdicts = np.random.default_rng(2012), list[bool | None]()
    while len(verdicts) < 400:
        text, size = random_graph(random)
        graph = read_graph(text)
        if size < 3 or not graph.directed:
            continue
        expected = verdict(graph)
        verdicts.append(expected)
        seen = {"all": sw.Source(list(graph.nodes))}
        study = sw.Study.from_graph(graph, f"direct({graph.directed[0].text})", seen)
        known = generic(study).determined(["all"])
        if expected is not None:
            assert ({str(edge.coefficient) for edge in graph.edges} <= known) == expected, text
    assert verdicts.count(True) > 100
    assert verdicts.count(False) > 50
    assert verdicts.count(None) < 20


def test_a_strategy_with_a_name_identifies_by_the_sources_it_names() -> None:
    random, named = np.random.default_rng(5), Counter[str]()
    while sum(named.values()) < 1000:
        text, size = random_graph(random)
        pairs = [(f"V{i}", f"V{j}") for j in range(size) for i in range(j) if generic_effect(text, f"V{i}", f"V{j}")]
        if not pairs:
            continue
        cause, outcome = pairs[int(random.integers(len(pairs)))]
        chosen = (random.choice(size, size=int(random.integers(1, size + 1)), replace=False) for _ in "abc")
        observed = {name: [f"V{k}" for k in sorted(some)] for name, some in zip("abc", chosen, strict=True)}
        ranks = generic(
            sw.Study.from_graph(text, f"effect({cause} -> {outcome})", {n: sw.Source(o) for n, o in observed.items()})
        )
        for found in strategies(read_graph(text), cause, outcome, observed):
            assert ranks.identifies(found.sources), (text, cause, outcome, observed, str(found))
            named[found.name.partition(":")[0]] += 1
    assert len(named) == 7
    assert min(named.values()) >= 5, named


def generic_effect(text: str, cause: str, outcome: str) -> bool:
    graph, reached = read_graph(text), {cause}
    for node in graph.topological_order():
        reached |= {node} if set(graph.parents(node)) & reached else set()
    return outcome in reached


@pytest.mark.parametrize("seed", range(5))
def test_least_sets_are_all_of_them_and_least(seed: int) -> None:
    random = np.random.default_rng(seed)
    nodes = ["Z", "W", "X", "M", "Y"]
    sources = {
        f"s{k}": sw.Source(sorted(random.choice(nodes, size=int(random.integers(2, 4)), replace=False).tolist()))
        for k in range(6)
    }
    study = sw.Study.from_graph("Z -> X; W -> X; W -> Y; X -> M; M -> Y; X <-> Y", "effect(X -> Y)", sources)
    ranks, every = generic(study), list(sources)
    subsets = [set(s) for s in chain.from_iterable(combinations(every, n) for n in range(1, 7))]
    good = [some for some in subsets if ranks.identifies(some)]
    least = [some for some in good if not any(other < some for other in good)]
    found = sw.identify(study)
    assert sorted(map(sorted, found.by)) == sorted(map(sorted, least))
    assert found.all_sets
    assert found.identified == bool(good)


def test_thousands_of_sources_cost_as_many_tests_not_their_subsets() -> None:
    sources = {f"z{k}": sw.Source("Z X" if k % 2 else "Z Y") for k in range(300)}
    found = sw.identify(sw.Study.from_graph("Z -> X; X -> Y; X <-> Y", "effect(X -> Y)", sources))
    assert found.identified
    assert not found.all_sets
    assert 1 <= len(found.by) <= MOST_SETS
    assert all(len(some) == 2 for some in found.by)
    assert "too many sources to try all" in str(found)
    assert len(str(found)) < 2000


def test_what_would_make_it_identified() -> None:
    sources = {"clinic": sw.Source("W X"), "survey": sw.Source("X Y")}
    found = sw.identify(sw.Study.from_graph("W -> X; W -> Y; X -> Y", "effect(X -> Y)", sources))
    assert found.remedies == ((("W", "Y"),),)
    helped = sw.identify(
        sw.Study.from_graph("W -> X; W -> Y; X -> Y", "effect(X -> Y)", {**sources, "new": sw.Source("W Y")})
    )
    assert helped.identified


def test_two_pairs_are_needed_together() -> None:
    study = sw.Study.from_graph("W -> X; W -> Y; X -> Y", "effect(X -> Y)", {"survey": sw.Source("X Y")})
    found = sw.identify(study)
    assert [set(pairs) for pairs in found.remedies] == [{("W", "X"), ("W", "Y")}]
    assert "W with X, W with Y" in str(found)


def test_where_no_data_help_it_says_so() -> None:
    found = sw.identify(sw.Study.from_graph("X -> Y; X <-> Y", "effect(X -> Y)", {"a": sw.Source("X Y")}))
    assert not found.remedies
    assert "another variable" in str(found)
    assert found.unidentified == ("X_to_Y", "cov_X_Y", "var_Y")
    assert found.to_dict()["identified"] is False


def test_moments_that_were_written_down() -> None:
    study = sw.Study(
        ["z*(x - alpha*z)", "z*(y - alpha*beta*z)"], "beta", {"a": sw.Source("z x"), "b": sw.Source("z y")}
    )
    found = sw.identify(study)
    assert found.by == (("a", "b"),)
    assert not found.exact
    assert "drawn numbers" in str(found)
    alone = sw.identify(sw.Study(["z*(y - alpha*beta*z)"], "beta", {"b": sw.Source("z y")}))
    assert not alone.identified
    assert alone.unidentified == ("alpha", "beta")


@pytest.mark.parametrize("seed", range(20))
def test_echelon_is_that_of_rational_arithmetic(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows, columns, rank = random.integers(1, 7, size=3)
    matrix = random.integers(-4, 5, size=(rows, rank)) @ random.integers(-4, 5, size=(rank, columns))
    exact, pivots = sympy.Matrix(matrix.tolist()).rref()
    found = echelon([matrix], int(columns))
    assert found.pivots == pivots
    expected = [[residue(sympy_fraction(exact[i, j])) for j in range(columns)] for i in range(len(pivots))]
    assert found.rows.tolist() == expected
    assert found.holds((3 * matrix[0] - matrix[-1]) % PRIME)


def sympy_fraction(value: Any) -> Any:
    from fractions import Fraction

    return Fraction(int(value.p), int(value.q))
