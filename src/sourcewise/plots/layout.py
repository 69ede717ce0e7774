"""Where the variables of a causal graph stand on paper, and which way its edges go.

Causes stand to the left of effects, in layers; within a layer, near what they are tied to. An edge is an arc that is
bent as little as it takes to miss the other variables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sourcewise.spec.graph.model import Edge, Graph

Point = tuple[float, float]

GAP_X, GAP_Y = 62.0, 66.0
HEIGHT = 24.0
MARGIN = 34.0
SWEEPS = 12
STEPS, FINE = 40, 300
BENDS = (0.0, 0.12, -0.12, 0.22, -0.22, 0.34, -0.34, 0.5, -0.5, 0.7, -0.7)
MUTUAL_BENDS = (0.3, -0.3, 0.42, -0.42, 0.55, -0.55, 0.75, -0.75)
CLEARANCE = 5.0
BELOW = 13.0
"""Room under a variable for the marks of its sources."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Centres of the variables, their widths, and the points of each edge from border to border."""

    centres: Mapping[str, Point]
    widths: Mapping[str, float]
    edges: Mapping[Edge, tuple[Point, ...]]
    size: Point


def lay_out(graph: Graph, labels: Mapping[str, str]) -> Layout:
    """A layout that depends on nothing but the graph and the labels of its variables."""
    widths = {node: max(34.0, 16.0 + 6.2 * len(labels[node])) for node in graph.nodes}
    layers = _ordered(graph, _layers(graph))
    centres, size = _placed(graph, layers, widths)
    taken: list[tuple[Point, ...]] = []
    edges: dict[Edge, tuple[Point, ...]] = {}
    for edge in (*graph.directed, *graph.bidirected):
        edges[edge] = _route(edge, centres, widths, taken)
        taken.append(edges[edge])
    return _moved(Layout(centres, widths, edges, size))


def _layers(graph: Graph) -> list[list[str]]:
    """Each variable one layer right of its last cause; one without causes just left of its first effect."""
    depth: dict[str, int] = {}
    for node in graph.topological_order():
        depth[node] = max((depth[cause] + 1 for cause in graph.parents(node)), default=0)
    for node in reversed(graph.topological_order()):
        if not graph.parents(node) and graph.children(node):
            depth[node] = min(depth[effect] for effect in graph.children(node)) - 1
    layers: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for node in graph.nodes:
        layers[depth[node]].append(node)
    return [layer for layer in layers if layer]


def _neighbours(graph: Graph) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {node: [] for node in graph.nodes}
    for edge in graph.edges:
        found[edge.tail].append(edge.head)
        found[edge.head].append(edge.tail)
    return found


def _ordered(graph: Graph, layers: list[list[str]]) -> list[list[str]]:
    """Every variable near the middle of its neighbours, sweep by sweep; the sweep with the fewest crossings wins."""
    near = _neighbours(graph)
    best, fewest = layers, math.inf
    for _ in range(SWEEPS):
        crossings = _crossings(graph, layers)
        if crossings < fewest:
            best, fewest = layers, crossings
        spot = {node: k - 0.5 * len(layer) for layer in layers for k, node in enumerate(layer)}
        layers = [sorted(layer, key=lambda node: _mean([spot[w] for w in near[node]], spot[node])) for layer in layers]
    return best


def _crossings(graph: Graph, layers: list[list[str]]) -> int:
    spot = {node: (float(x), k - 0.5 * len(layer)) for x, layer in enumerate(layers) for k, node in enumerate(layer)}
    lines = [(spot[edge.tail], spot[edge.head]) for edge in graph.edges]
    return sum(_cross(one, other) for k, one in enumerate(lines) for other in lines[:k])


def _cross(one: tuple[Point, Point], other: tuple[Point, Point]) -> bool:
    (a, b), (c, d) = one, other
    return _side(a, b, c) * _side(a, b, d) < 0 and _side(c, d, a) * _side(c, d, b) < 0


def _side(a: Point, b: Point, c: Point) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _placed(graph: Graph, layers: list[list[str]], widths: Mapping[str, float]) -> tuple[dict[str, Point], Point]:
    near = _neighbours(graph)
    across, columns = 0.0, list[float]()
    for layer in layers:
        width = max(widths[node] for node in layer)
        columns.append(across + 0.5 * width)
        across += width + GAP_X
    height = {node: GAP_Y * (k - 0.5 * (len(layer) - 1)) for layer in layers for k, node in enumerate(layer)}
    for _ in range(SWEEPS):
        for layer in layers:
            wanted = [_mean([height[w] for w in near[node]], height[node]) for node in layer]
            height |= dict(zip(layer, _apart(wanted), strict=True))
    lowest = min(height.values())
    centres = {node: (columns[x], height[node] - lowest) for x, layer in enumerate(layers) for node in layer}
    return centres, (across - GAP_X, max(height.values()) - lowest)


def _apart(wanted: Sequence[float]) -> list[float]:
    """The places nearest to those wanted that keep the order and a distance of GAP_Y: neighbours that are too close
    form a block around their common mean."""
    blocks: list[list[float]] = []
    for k, place in enumerate(wanted):
        blocks.append([place - k * GAP_Y])
        while len(blocks) > 1 and _mean(blocks[-2], 0.0) > _mean(blocks[-1], 0.0):
            last = blocks.pop()
            blocks[-1] += last
    flat = [_mean(block, 0.0) for block in blocks for _ in block]
    return [place + k * GAP_Y for k, place in enumerate(flat)]


def _route(
    edge: Edge, centres: Mapping[str, Point], widths: Mapping[str, float], taken: Sequence[tuple[Point, ...]]
) -> tuple[Point, ...]:
    others = [(centres[node], widths[node]) for node in centres if node not in (edge.tail, edge.head)]
    start, end = centres[edge.tail], centres[edge.head]
    curves = []
    for bend in MUTUAL_BENDS if edge.bidirected else BENDS:
        points = _between(start, end, bend, (widths[edge.tail], widths[edge.head]))
        blocked = sum(_inside(point, *other, CLEARANCE) for point in points for other in others)
        shared = sum(
            math.dist(point, near) < 6.0 for line in taken for point in points[6:-6:2] for near in line[6:-6:2]
        )
        curves.append((20.0 * blocked + 2.0 * shared + 10.0 * abs(bend), points))
    return min(curves, key=lambda curve: curve[0])[1]


def _arc(start: Point, end: Point, bend: float, shares: Sequence[float]) -> list[Point]:
    """A parabola that leaves the straight line by `bend` of its length."""
    (x0, y0), (x1, y1) = start, end
    tip = 0.5 * (x0 + x1) + bend * (y1 - y0), 0.5 * (y0 + y1) - bend * (x1 - x0)
    weights = [((1 - t) ** 2, 2 * t * (1 - t), t * t) for t in shares]
    return [(a * x0 + b * tip[0] + c * x1, a * y0 + b * tip[1] + c * y1) for a, b, c in weights]


def _between(start: Point, end: Point, bend: float, widths: tuple[float, float]) -> tuple[Point, ...]:
    """The part of the arc between the two boxes."""
    fine = [k / FINE for k in range(FINE + 1)]
    points = _arc(start, end, bend, fine)
    outside = [
        t
        for t, point in zip(fine, points, strict=True)
        if not _inside(point, start, widths[0], 2.0, 0.0) and not _inside(point, end, widths[1], 3.0, 0.0)
    ]
    first, last = (outside[0], outside[-1]) if outside else (0.0, 1.0)
    return tuple(_arc(start, end, bend, [first + (last - first) * k / STEPS for k in range(STEPS + 1)]))


def _inside(point: Point, centre: Point, width: float, clear: float, below: float = BELOW) -> bool:
    dx, dy = abs(point[0] - centre[0]), point[1] - centre[1]
    return dx <= 0.5 * width + clear and -0.5 * HEIGHT - clear <= dy <= 0.5 * HEIGHT + below + clear


def _moved(layout: Layout) -> Layout:
    """Everything inside a frame that begins at 0."""
    points = [point for line in layout.edges.values() for point in line]
    for node, (x, y) in layout.centres.items():
        half = 0.5 * layout.widths[node]
        points += [(x - half, y - 0.5 * HEIGHT), (x + half, y + 0.5 * HEIGHT + BELOW)]
    left, top = (min(point[k] for point in points) - 6.0 for k in (0, 1))
    right, bottom = (max(point[k] for point in points) + 6.0 for k in (0, 1))
    centres = {node: (x - left, y - top) for node, (x, y) in layout.centres.items()}
    edges = {edge: tuple((x - left, y - top) for x, y in line) for edge, line in layout.edges.items()}
    return Layout(centres, layout.widths, edges, (right - left, bottom - top))
