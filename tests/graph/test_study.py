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


def test_directions_of_networkx() -> None:
    graph = nx.MultiDiGraph([("Z", "X"), ("X", "Y")])
    graph.add_edge("Y", "X", dir='"both"')
    assert read_graph(graph) == read_graph(IV)
    assert read_graph(nx.DiGraph([("Y", "X", {"dir": "back"})])) == read_graph("X -> Y")
    with pytest.raises(sw.StudyError, match="forward, back or both"):
        read_graph(nx.DiGraph([("X", "Y", {"dir": "none"})]))


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
        ("f =~ NA*x1 + a*x1 + x2", {"f -> x1": "a", "f -> x2": "f_to_x2"}),
        ("f =~ x1 + x2 + l*x2", {"f -> x1": 1.0, "f -> x2": "l"}),
        ("y ~ x\n  + z  # and\n\n x ~~ 0*z", {"x -> y": "x_to_y", "z -> y": "z_to_y"}),
        ("y ~ x +\n# between\n\n z; x ~~ 0*z", {"x -> y": "x_to_y", "z -> y": "z_to_y"}),
        ("y2 ~ y1; y1 ~ x", {"y1 -> y2": "y1_to_y2", "x -> y1": "x_to_y1"}),
    ],
)
def test_lavaan_coefficients(text: str, edges: dict[str, object]) -> None:
    assert {edge.text: edge.coefficient for edge in read_graph(text).edges} == edges


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("y ~ x\ny := 3", "already a variable or a coefficient"),
        ("y ~ a*x\na := 3", "already a variable or a coefficient"),
        ("y ~ a*x\nq := a; q := 2*a", "defined twice"),
        ("y ~ a*x\nz.q := a", "cannot name a formula"),
        ("y ~ a*x\na == 1", "'==' cannot be read"),
        ("f =~ a*x1 + x2 + x3", "NA\\*x1 \\+ a\\*x1"),
        ("y ~ Sepal.Length", "Sepal_Length could"),
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
    ("more", "variance"), [("", 0.0), ("x1 ~~ x1", "var_x1"), ("x1 ~~ v*x1", "v"), ("f =~ x2", "var_x1")]
)
def test_an_only_indicator_has_no_error_unless_one_is_written(more: str, variance: object) -> None:
    assert read_graph(f"f =~ x1\ny ~ f\n{more}").variance("x1") == variance


MEDIATION = """
    # direct effect
    Y ~ c*X
    # mediator
    M ~ a*X
    Y ~ b*M
    # indirect effect (a*b)
    ab := a*b
    # total effect
    total := c + (ab)
    direct := c^2
"""


@pytest.mark.parametrize(
    ("target", "meant"),
    [
        ("total", "effect(X -> Y)"),
        ("ab/total", "a*b/effect(X -> Y)"),
        ("direct", "c**2"),
        ("direct + direct(X -> M)", "c**2 + a"),
    ],
)
def test_lavaan_targets_by_name(target: str, meant: str) -> None:
    sources = {"all": sw.Source("X M Y")}
    study, same = (sw.Study.from_graph(MEDIATION, asked, sources) for asked in (target, meant))
    values = {"a": number(2.0), "b": number(3.0), "c": number(5.0)}
    assert substitute(study.target_node, values) == substitute(same.target_node, values)
    file = sw.StudyFile(study.with_sources({**study.sources, "more": sw.Source("X Y")}), budget=100.0)
    assert sw.StudyFile.from_toml(file.to_toml()) == file


def test_formulas_of_formulas_end() -> None:
    text = "\n".join(["y ~ b*x", "d0 := b", *(f"d{k} := d{k - 1} + d{k - 1}" for k in range(1, 60))])
    with pytest.raises(sw.StudyError, match="once 'd"):
        sw.Study.from_graph(text, "d59", {"a": sw.Source("x y")})


DAGITTY = """dag {
bb="-2.2,-2.1,1.9,1.6"
A [pos="-2.200,-1.520"]
B [adjusted,pos="1.400,-1.460"]
D [outcome,pos="1.400,1.621"]
E [exposure,pos="-2.200,1.597"]
U [latent,pos="-0.300,-0.082"]
A -> E [pos="-0.791,-1.045"]
B -> D
U -> {E D}
A <-> B
E -> D [beta=0.4]
}
"""
DOT = """# made by a program
strict digraph "a model" {
    /* looks */ graph [rankdir=LR, fontsize=10];
    node [shape=box, style="rounded,filled"];
    size="8,5"
    "U" [label="Unobserved", observed="no"];
    A [label="Age\\nin years",
       pos="27,90"];
    { rank=same; A; B }
    subgraph cluster_0
    {
        label = "first"; style=dashed;
        A -> E [color=red, label="first stage"];
        subgraph { edge [color=blue]; B -> D; }
    }
    D -> E [dir=back, label="0.4"]; // E -> D
    U -> {E D}; {A} -> B [dir="both", style=dashed];
}
"""


@pytest.mark.parametrize("text", [DAGITTY, DOT], ids=["dagitty", "dot"])
def test_what_other_programs_write(text: str) -> None:
    assert read_graph(text) == read_graph("U [latent]; A -> E; B -> D; U -> {E, D}; A <-> B; E -> D [0.4]")


def test_what_stands_behind_a_chain() -> None:
    """In DOT it is said of each of its arrows, in arrow text of the last one."""
    assert read_graph("digraph { A -> B -> C [dir=both] }") == read_graph("A <-> B; B <-> C")
    assert read_graph("digraph { A -> B -> C [label=b] }") == read_graph("A -> B [b]; B -> C [b]")
    assert read_graph("A -> B -> C [b]") == read_graph("A -> B; B -> C [b]")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("digraph { A -> B [dir=none] }", "dir=none has no direction"),
        ("digraph { edge [dir=both]; A -> B }", "at each edge"),
        ("digraph { A -> {B -> C} }", "this arrow leads to braces"),
        ("digraph { {A -> B} -> C }", "variable's name should be"),
        ("digraph { {A B }", "never closed"),
        ("dag { X -> Y; X -> S; S [selected] }", "selected by 'S'"),
        ('dag { "Warm Up" -> Y }', "Warm_Up could"),
        ("X -> Y [a, b]", "'b' is a second one"),
        ("X -> A, B", "{A, B}"),
        ('graph [ directed 1 node [ id 0 label "A" ] ]', "parse_gml"),
    ],
)
def test_graphs_that_say_something_else(text: str, said: str) -> None:
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
