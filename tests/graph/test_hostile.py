"""Graphs that were written to do harm, or by mistake: refused in words, at a bounded cost."""

from __future__ import annotations

import gc
import sys
import time

import networkx as nx
import pytest

import sourcewise as sw
from sourcewise.spec.graph.read import read_graph

DEEP = 100_000
HOSTILE = {
    "cycle": ("X -> Y; Y -> Z; Z -> X", "cycle, X -> Y -> Z -> X|cycle, Y -> Z -> X -> Y|cycle, Z -> X -> Y -> Z"),
    "a loop": ("X -> X", "no effect on itself"),
    "a long cycle": ("; ".join(f"V{k} -> V{(k + 1) % 150}" for k in range(150)), "cycle"),
    "100,000 edges": ("; ".join(f"A{k} -> B{k}" for k in range(DEEP)), "characters and may have"),
    "many edges": ("; ".join(f"A{k} -> B{k}" for k in range(9_000)), "may have|more than"),
    "edges by groups": (
        f"{{{' '.join(f'a{k}' for k in range(9000))}}} -> {{{' '.join(f'b{k}' for k in range(9000))}}}",
        "edges",
    ),
    "many variables": ("; ".join(f"V{k}" for k in range(5_000)), "may have 200"),
    "a name that is code": ("__import__('os').system('true') -> Y", "no place in a graph"),
    "a name in quotes that is code": ('digraph { "x); import os" -> Y }', "cannot name a variable"),
    "subgraphs": ("digraph { " + "subgraph { " * 2000 + "X -> Y" + "}" * 2001, "50 deep"),
    "many subgraphs": ("digraph { " + "\n" * 5000 + "{X -> Y}\n" * 6_000 + "->}", "words and marks|name should be"),
    "many comments": ("/* a */ " * 20_000 + "digraph ->", "name should be"),
    "line ends": ("y ~ x" + "\n" * 150_000 + "?", "expected a formula"),
    "spaces at line ends": ("y ~ x +" + " \n" * 90_000 + "?", "not a variable's name"),
    "braces": ("{" * DEEP, "words and marks"),
    "brackets": ("X" + "[" * DEEP, "words and marks"),
    "some braces": ("{" * 30_000, "name should be"),
    "some brackets": ("X" + "[" * 30_000, "no place between"),
    "arrows": ("X" + " -> X" * 15_000, "no effect on itself|edges"),
    "NUL": ("X -> Y\0", "no place in a graph"),
    "an order reversed": ("X -> \u202eY", "no place in a graph"),
    "full-width letters": ("ｘ -> y", "no place in a graph"),
    "a surrogate": ("X -> \ud800", "no place in a graph"),
    "a long name": ("X" * 65 + " -> Y", "cannot name"),
    "an infinite number": ("X -> Y [1e999]", "neither a parameter's name nor a number"),
    "a pdag": ("pdag { X -> Y }", "leaves directions open"),
    "no direction": ("graph { X -- Y }", "no direction"),
    "a comment without end": ("/* " + "x" * DEEP, "no place in a graph"),
    "a text without end": ('digraph { "' + "x" * DEEP, "no place in a graph"),
    "lavaan, a huge formula": ("y ~ " + " + ".join(f"x{k}" for k in range(20_000)), "terms"),
    "lavaan, code": ("y ~ system('true')", "not a variable's name"),
    "lavaan, many factors": ("\n".join(f"f{k} =~ x{k}" for k in range(3000)), "may have"),
    "nothing": ("", "empty"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_texts(name: str) -> None:
    text, said = HOSTILE[name]
    ran: list[str] = []
    watching = True

    def watch(event: str, _: object) -> None:
        if watching and event in ("exec", "compile", "os.system", "subprocess.Popen", "open"):
            ran.append(event)

    sys.addaudithook(watch)
    gc.collect()  # what other tests left, and their threads, are not this one's work
    start = time.thread_time()
    try:
        with pytest.raises(sw.StudyError, match=said) as error:
            read_graph(text)
    finally:
        spent, watching = time.thread_time() - start, False
    assert spent < 0.5
    assert not ran
    assert len(str(error.value)) < 1000
    assert str(error.value).isprintable() or "\n" in str(error.value)
    assert "\u202e" not in str(error.value)


def test_hostile_objects() -> None:
    big = nx.gnm_random_graph(1000, 100_000, seed=1, directed=True)
    for given, said in (
        (big, "can be read"),
        (nx.Graph([(1, 2)]), "directed"),
        (nx.DiGraph([(1, 2)]), "cannot name"),
        (3, "text"),
    ):
        start = time.thread_time()
        with pytest.raises(sw.StudyError, match=said):
            sw.Study.from_graph(given, "effect(X -> Y)", {"a": sw.Source("X Y")})
        assert time.thread_time() - start < 0.5


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ({"a": sw.Source("X Q")}, "'Q', which is no variable of the graph"),
        ({"a": sw.Source("X U")}, "says is latent"),
        ({}, "at least one source"),
    ],
)
def test_sources_that_do_not_fit(sources: dict[str, sw.Source], said: str) -> None:
    with pytest.raises(sw.StudyError, match=said):
        sw.Study.from_graph("U [latent]; U -> X; X -> Y", "effect(X -> Y)", sources)


@pytest.mark.parametrize("options", [{"latent": "maybe"}, {"intercepts": 1}, {"weights": "best"}, {"parameters": []}])
def test_options_that_do_not_exist(options: dict[str, object]) -> None:
    with pytest.raises(sw.StudyError):
        sw.Study.from_graph("X -> Y", "effect(X -> Y)", {"a": sw.Source("X Y")}, **options)  # type: ignore[arg-type]
