"""Studies derived from graphs: what they hold, and that they survive every way of writing them down."""

from __future__ import annotations

import pickle

import networkx as nx
import pytest

import sourcewise as sw
from sourcewise.spec.expression import parse
from sourcewise.spec.graph.read import read_graph
from sourcewise.spec.nodes import number
from sourcewise.spec.plain import study_from_plain, study_to_plain
from sourcewise.spec.rewrite import substitute

TWO_SAMPLES = {"registry": sw.Source("Z X"), "survey": sw.Source("Z Y", cost=2.0)}
IV = "Z -> X; X -> Y; X <-> Y"
CFA = """
# Three factors, three indicators each
visual  =~ x1 + x2 + x3
textual =~ x4 + x5 +
           x6
speed   =~ x7 + x8 + x9
"""
WRITTEN = {
    "arrows": IV,
    "dot": 'digraph g { rankdir=LR; Z -> X -> Y; X -> Y [dir=both, style="dashed"] }',
    "dagitty": "dag { Z [exposure] Y [outcome] Z -> X ; X -> Y ; X <-> Y }",
    "lavaan": "X ~ Z\nY ~ X\nX ~~ Y",
}


def iv(graph: object = IV, **options: object) -> sw.Study:
    return sw.Study.from_graph(graph, "effect(X -> Y)", TWO_SAMPLES, **options)  # type: ignore[arg-type]


def test_a_pair_that_a_source_sees_is_a_moment_and_no_other() -> None:
    study = iv()
    texts = [moment.expr for moment in study.moments]
    assert texts[:3] == ["Z - mean_Z", "X - mean_X", "Y - mean_Y"]
    assert "(Z - mean_Z)*(X - mean_X) - Z_to_X*var_Z" in texts
    assert all(parse(moment.expr) == moment.node for moment in study.moments[:-1])
    assert texts[-1] == "(Y - mean_Y)**2 - variance of Y"  # its formula is too long to be read
    assert len(texts) == 3 + 5  # three variances, ZX and ZY, but not XY
    assert [len(study.moments_of(name)) for name in study.sources] == [5, 5]
    assert study.parameters["var_Z"].lower == 0.0


@pytest.mark.parametrize("text", WRITTEN.values(), ids=WRITTEN)
def test_every_way_to_write_a_graph_gives_the_same_study(text: str) -> None:
    assert read_graph(text) == read_graph(IV)
    assert {moment.node for moment in iv(text).moments} == {moment.node for moment in iv().moments}
    assert iv(text).target_node == iv().target_node


def test_a_graph_of_networkx_is_read() -> None:
    graph = nx.MultiDiGraph([("Z", "X"), ("X", "Y")])
    graph.add_edge("X", "Y", bidirected=True)
    assert iv(graph) == iv()


@pytest.mark.parametrize("options", [{}, {"intercepts": False}, {"latent": "project"}, {"weights": "cue"}])
def test_round_trips(options: dict[str, object]) -> None:
    study = iv(parameters={"X_to_Y": sw.Parameter(start=0.5, upper=9.0)}, **options)
    assert study_from_plain(study_to_plain(study)) == study
    assert pickle.loads(pickle.dumps(study)) == study
    file = sw.StudyFile(study, budget=100.0)
    text = file.to_toml()
    assert 'graph = "Z -> X; X -> Y; X <-> Y"' in text
    assert "mean_" not in text
    assert sw.StudyFile.from_toml(text) == file


def test_lavaan_reads_as_its_functions_do() -> None:
    study = sw.Study.from_graph(CFA, "visual_to_x2", {"school": sw.Source([f"x{k}" for k in range(1, 10)])})
    assert study.model is not None
    graph = study.model.graph
    fixed = {edge.text for edge in graph.edges if edge.coefficient == 1.0}
    assert fixed == {"visual -> x1", "textual -> x4", "speed -> x7"}
    assert {edge.text for edge in graph.bidirected} == {
        "textual <-> visual",
        "speed <-> visual",
        "speed <-> textual",
    }
    assert len(study.parameters) == 6 + 3 + 3 + 9 + 9  # loadings, covariances, variances, errors, means
    assert len(study.moments) == 9 + 45
    assert read_graph(graph.to_text()) == graph


@pytest.mark.parametrize(
    ("text", "edges"),
    [
        ("f =~ NA*x1 + l*x2 + l*x3\nf ~~ 1*f", {"f -> x1": "f_to_x1", "f -> x2": "l", "f -> x3": "l"}),
        ("y ~ b*x + 0.5*z + a*1", {"x -> y": "b", "z -> y": 0.5, "x <-> z": "cov_x_z"}),
        ("y1 ~ x\ny2 ~ x", {"x -> y1": "x_to_y1", "x -> y2": "x_to_y2", "y1 <-> y2": "cov_y1_y2"}),
        ("y1 ~ x; y2 ~ x; y1 ~~ 0*y2", {"x -> y1": "x_to_y1", "x -> y2": "x_to_y2"}),
        ("y2 ~ y1; y1 ~ x", {"y1 -> y2": "y1_to_y2", "x -> y1": "x_to_y1"}),
    ],
)
def test_lavaan_coefficients(text: str, edges: dict[str, object]) -> None:
    assert {edge.text: edge.coefficient for edge in read_graph(text).edges} == edges


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("y ~ x\ny := 3", "':=' cannot be read"),
        ("y ~ x + x", "given twice"),
        ("y ~ c(a, b)*x", "cannot be read"),
        ("y ~ start(0.8)*x", "cannot be read"),
        ("y ~ x:z", "not a variable's name"),
        ("y =~", "not a variable's name"),
        ("x1 + x2\ny ~ x", "expected a formula"),
    ],
)
def test_lavaan_that_cannot_be_read(text: str, said: str) -> None:
    with pytest.raises(sw.StudyError, match=said):
        read_graph(text)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("effect(Y -> Z)", "no directed path"),
        ("direct(Z -> Y)", "no edge"),
        ("effect(Z -> Q)", "no variable"),
        ("effect(Z -> Z)", "two different"),
        ("X", "a variable"),
        ("nonsense", "names no coefficient"),
        ("2 + 3", "a number by the graph alone"),
        ("__import__('os')", "not a function"),
    ],
)
def test_targets_that_the_graph_cannot_have(target: str, said: str) -> None:
    with pytest.raises(sw.StudyError, match=said):
        sw.Study.from_graph(IV, target, TWO_SAMPLES)


def test_targets_are_formulas_in_effects() -> None:
    sources = {"all": sw.Source("X M Y")}
    graph = "X -> M; M -> Y; X -> Y [d]"
    left = sw.Study.from_graph(graph, "(effect(X -> Y) - d)/direct(X -> M)", sources).target_node
    assert set(left.symbols) <= {"X_to_M", "M_to_Y", "d"}
    values = {"X_to_M": number(2.0), "M_to_Y": number(3.0), "d": number(5.0)}
    assert substitute(left, values) == number(3.0)


def test_projecting_a_latent_cause_leaves_confounding() -> None:
    graph = "U [latent]; Z -> X; X -> Y; U -> X; U -> Y"
    study = iv(graph, latent="project")
    assert set(study.parameters) == set(iv().parameters)
