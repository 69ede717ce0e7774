"""Identification agrees with what has been published, on graphs with known answers (published.toml)."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import sourcewise as sw
from sourcewise.spec.graph.read import read_graph

GRAPHS: list[dict[str, Any]] = tomllib.loads((Path(__file__).parent / "published.toml").read_text(encoding="utf-8"))[
    "graph"
]


def study_of(case: dict[str, Any]) -> sw.Study:
    graph = read_graph(case["graph"])
    everything = {"everything": " ".join(node for node in graph.nodes if node not in graph.latent)}
    sources = {name: sw.Source(observes) for name, observes in case.get("sources", everything).items()}
    return sw.Study.from_graph(graph, case["target"], sources)


def test_there_are_enough_and_each_says_where_it_is_from() -> None:
    assert len(GRAPHS) >= 40
    assert len({case["name"] for case in GRAPHS}) == len(GRAPHS)
    assert all(case["origin"] for case in GRAPHS)
    assert 10 < sum(case["identified"] for case in GRAPHS) < len(GRAPHS) - 10


@pytest.mark.parametrize("case", GRAPHS, ids=[case["name"] for case in GRAPHS])
def test_published(case: dict[str, Any]) -> None:
    found = sw.identify(study_of(case))
    assert found.identified == case["identified"], str(found)
    assert found.exact
    assert bool(found.by) == case["identified"]
    if "strategy" in case:
        assert case["strategy"] in {strategy.name for strategy in found.strategies}, str(found)
