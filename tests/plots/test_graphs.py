"""Pictures of causal graphs: nothing overlaps, nothing is lost, no name is ever code."""

from __future__ import annotations

import math
from itertools import combinations
from pathlib import Path

import pytest

import sourcewise as sw
from plots.specs import HOSTILE, rows_in
from sourcewise.errors import ReportError
from sourcewise.plots import causal_graph, save
from sourcewise.plots.layout import HEIGHT, lay_out
from sourcewise.spec.graph.read import read_graph

TWELVE = (
    "V0 -> V1; V0 -> V2; V1 -> V2; V1 -> V3; V0 -> V3; V3 -> V4; V0 -> V4; V4 -> V5; V0 -> V5; V3 -> V6; V4 -> V6; "
    "V5 -> V7; V6 -> V7; V4 -> V8; V3 -> V8; V7 -> V9; V2 -> V9; V3 -> V10; V0 -> V10; V0 -> V11; V5 -> V11; "
    "V0 <-> V5; V8 <-> V10; V0 <-> V10"
)


@pytest.mark.parametrize("text", [TWELVE, "Z -> X; X -> Y; X <-> Y", "f =~ a + b + c + d + e", "A; B; C -> D"])
def test_boxes_and_edges_keep_apart(text: str) -> None:
    graph = read_graph(text)
    layout = lay_out(graph, {node: node for node in graph.nodes})
    for one, other in combinations(graph.nodes, 2):
        (x, y), (v, w) = layout.centres[one], layout.centres[other]
        apart = abs(x - v) >= 0.5 * (layout.widths[one] + layout.widths[other]) or abs(y - w) >= HEIGHT
        assert apart, (one, other)
    for edge, line in layout.edges.items():
        for node in set(graph.nodes) - {edge.tail, edge.head}:
            (x, y), half = layout.centres[node], 0.5 * layout.widths[node]
            assert not any(abs(a - x) < half and abs(b - y) < 0.5 * HEIGHT for a, b in line), (edge.text, node)
        for end, point in ((edge.tail, line[0]), (edge.head, line[-1])):
            assert math.dist(point, layout.centres[end]) <= 0.5 * math.hypot(layout.widths[end], HEIGHT) + 8
    width, height = layout.size
    assert all(0 <= x <= width and 0 <= y <= height for line in layout.edges.values() for x, y in line)


def test_ends_of_edges_and_marks_keep_apart() -> None:
    """Heads that end in one place cannot be told apart, nor can marks that cover each other."""
    graph = read_graph(TWELVE)
    counts = dict.fromkeys(graph.nodes, 14)
    for marks in (None, counts):
        layout = lay_out(graph, {node: node for node in graph.nodes}, marks)
        for node in graph.nodes:
            lines = [(edge, line) for edge, line in layout.edges.items() if node in (edge.tail, edge.head)]
            tips = [line[0] if edge.tail == node else line[-1] for edge, line in lines]
            assert all(math.dist(*pair) > 3.0 for pair in combinations(tips, 2)), node
    sources = {f"s{k}": sw.Source("W X Y") for k in range(14)}
    chart = causal_graph(sw.Study.from_graph("W -> X; X -> Y; W -> Y", "effect(X -> Y)", sources))
    places = rows_in(chart, "x", "y", "source")
    assert len(places) == 3 * 14
    assert all(math.dist(one[:2], other[:2]) >= 8.9 for one, other in combinations(places, 2))


def test_what_dashes_mean_is_said_where_there_are_any() -> None:
    sources = {"a": sw.Source("X Y")}
    texts = {"X -> Y": (), "X -> Y; X <-> Y": ("line",), "U -> X; U -> Y": ("box",), "U -> X; X <-> Y": ("line", "box")}
    for text, dashed in texts.items():
        study = sw.Study.from_graph(f"X -> Y; {text}", "effect(X -> Y)", sources)
        said = str(causal_graph(study).to_dict()["title"].get("subtitle", ""))
        assert [what for what in ("line", "box") if f"Dashed {what}" in said] == list(dashed)


def test_causes_stand_left_of_their_effects() -> None:
    graph = read_graph(TWELVE)
    centres = lay_out(graph, {node: node for node in graph.nodes}).centres
    assert all(centres[edge.tail][0] < centres[edge.head][0] for edge in graph.directed)


def test_each_source_marks_what_it_sees() -> None:
    sources = {"registry": sw.Source("Z X"), HOSTILE.replace("\n", "").replace("\u202e", ""): sw.Source("Z Y")}
    chart = causal_graph(sw.Study.from_graph("Z -> X; X -> Y", "effect(X -> Y)", sources))
    marks = rows_in(chart, "variable", "source")
    assert sorted(variable for variable, _ in marks) == ["X", "Y", "Z", "Z"]
    assert len({source for _, source in marks}) == 2


@pytest.mark.parametrize("suffix", ["svg", "png", "pdf", "html"])
def test_files(suffix: str, tmp_path: Path) -> None:
    study = sw.Study.from_graph(
        "U [latent]; U -> X; U -> Y; X -> Y [b]; alert_1_ -> X [0.5]",
        "b",
        {"<script>alert(1)</script>": sw.Source("X Y")},
    )
    path = save(causal_graph(study), tmp_path / f"graph.{suffix}")
    content = path.read_bytes()
    assert len(content) > 1000
    if suffix in ("svg", "html"):
        assert b"<script>alert(1)" not in content


def test_what_cannot_be_drawn() -> None:
    written = sw.Study(["x - b"], "b", {"a": sw.Source("x")})
    with pytest.raises(ReportError, match="made from a graph"):
        causal_graph(written)
    many = "; ".join(f"V{k} -> V{k + 1}" for k in range(70))
    with pytest.raises(ReportError, match="71 variables"):
        causal_graph(sw.Study.from_graph(many, "effect(V0 -> V1)", {"a": sw.Source("V0 V1")}))
