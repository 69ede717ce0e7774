"""Where the variables of a causal graph stand on paper, and which way its edges go.

Causes stand to the left of effects, in layers; within a layer, near what they are tied to. An edge is an arc that is
bent as little as it takes to miss the other variables.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from sourcewise.spec.graph.model import Edge, Graph

Point = tuple[float, float]

GAP_X, GAP_Y = 62.0, 66.0
HEIGHT = 24.0
MARK, ROW = 9.0, 8
"""Room for the mark of a source, and how many stand side by side."""
TIP = 8.0
"""Between ends of edges at one side of a variable."""
MARGIN = 34.0
SWEEPS = 12
STEPS, FINE, NEAR, COARSE = 40, 300, 4, 8
MOST_CROSSED = 60
"""Edges of which crossings are counted."""
BENDS = (0.0, 0.12, -0.12, 0.22, -0.22, 0.34, -0.34, 0.5, -0.5, 0.7, -0.7)
MUTUAL_BENDS = (0.3, -0.3, 0.42, -0.42, 0.55, -0.55, 0.75, -0.75)
CLEARANCE = 5.0
BELOW = 4.0
"""Room under a variable beside the rows of its sources' marks."""

Box = tuple[Point, float, float, float]
"""Centre and width of a variable, width and height of the marks below it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Centres of the variables, their widths, and the points of each edge from border to border.

    Under each variable is room for its marks."""

    centres: Mapping[str, Point]
    widths: Mapping[str, float]
    edges: Mapping[Edge, tuple[Point, ...]]
    size: Point


def lay_out(graph: Graph, labels: Mapping[str, str], marks: Mapping[str, int] | None = None) -> Layout:
    """A layout that depends on nothing but the graph, the labels of its variables and how many marks each has."""
    counts = {node: (marks or {}).get(node, 1) for node in graph.nodes}
    widths = {
        node: max(34.0, 16.0 + 6.2 * len(labels[node]), 4.0 + MARK * min(counts[node], ROW)) for node in graph.nodes
    }
    below = {node: BELOW + MARK * math.ceil(counts[node] / ROW) for node in graph.nodes}
    layers = _ordered(graph, _layers(graph))
    gap = GAP_Y + max(below.values()) - BELOW - MARK
    centres, size = _placed(graph, layers, widths, gap)
    boxes = {node: (centres[node], widths[node], MARK * min(counts[node], ROW), below[node]) for node in graph.nodes}
    edges: dict[Edge, tuple[Point, ...]] = {}
    # the shortest first, so that those which have room to go elsewhere do
    for edge in sorted(graph.edges, key=lambda e: (e.bidirected, math.dist(centres[e.tail], centres[e.head]))):
        edges[edge] = _route(edge, boxes, tuple(edges.values()))
    return _moved(Layout(centres, widths, _spread(edges, boxes), size), max(below.values()))


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


def _placed(
    graph: Graph, layers: list[list[str]], widths: Mapping[str, float], gap: float
) -> tuple[dict[str, Point], Point]:
    near = _neighbours(graph)
    across, columns = 0.0, list[float]()
    for layer in layers:
        width = max(widths[node] for node in layer)
        columns.append(across + 0.5 * width)
        across += width + GAP_X
    height = {node: gap * (k - 0.5 * (len(layer) - 1)) for layer in layers for k, node in enumerate(layer)}
    for _ in range(SWEEPS):
        for layer in layers:
            wanted = [_mean([height[w] for w in near[node]], height[node]) for node in layer]
            height |= dict(zip(layer, _apart(wanted, gap), strict=True))
    lowest = min(height.values())
    centres = {node: (columns[x], height[node] - lowest) for x, layer in enumerate(layers) for node in layer}
    return centres, (across - GAP_X, max(height.values()) - lowest)


def _apart(wanted: Sequence[float], gap: float) -> list[float]:
    """The places nearest to those wanted that keep the order and the gap between them: neighbours that are too close
    form a block around their common mean."""
    blocks: list[list[float]] = []
    for k, place in enumerate(wanted):
        blocks.append([place - k * gap])
        while len(blocks) > 1 and _mean(blocks[-2], 0.0) > _mean(blocks[-1], 0.0):
            last = blocks.pop()
            blocks[-1] += last
    flat = [_mean(block, 0.0) for block in blocks for _ in block]
    return [place + k * gap for k, place in enumerate(flat)]


def _route(edge: Edge, boxes: Mapping[str, Box], taken: Sequence[tuple[Point, ...]]) -> tuple[Point, ...]:
    others = [box for node, box in boxes.items() if node not in (edge.tail, edge.head)]
    coarse = [line[::COARSE] for line in taken[:MOST_CROSSED]]
    curves = []
    for bend in MUTUAL_BENDS if edge.bidirected else BENDS:
        points = _between(boxes[edge.tail], boxes[edge.head], bend)
        blocked = sum(_in_way(point, box) for point in points for box in others)
        shared = sum(
            math.dist(point, near) < 6.0 for line in taken for point in points[6:-6:2] for near in line[6:-6:2]
        )
        crowded = sum(
            math.dist(tip, end) < TIP
            for tip in (points[0], points[-1])
            for line in taken
            for end in (line[0], line[-1])
        )
        hanging = sum(
            not _at(tip, (*boxes[end][:2], 0.0, 0.0), 6.0)
            for tip, end in ((points[0], edge.tail), (points[-1], edge.head))
        )
        crossed = sum(_crossings_of(points[::COARSE], line) for line in coarse)
        curves.append(
            (20.0 * blocked + 2.0 * crossed + 2.0 * shared + 0.5 * crowded + 2.0 * hanging + 10.0 * abs(bend), points)
        )
    return min(curves, key=lambda curve: curve[0])[1]


def _crossings_of(one: Sequence[Point], other: Sequence[Point]) -> int:
    pairs = product(pairwise(one), pairwise(other))
    return sum(_cross(segment, against) for segment, against in pairs)


def _arc(start: Point, end: Point, bend: float, shares: Sequence[float]) -> list[Point]:
    """A parabola that leaves the straight line by `bend` of its length."""
    (x0, y0), (x1, y1) = start, end
    tip = 0.5 * (x0 + x1) + bend * (y1 - y0), 0.5 * (y0 + y1) - bend * (x1 - x0)
    weights = [((1 - t) ** 2, 2 * t * (1 - t), t * t) for t in shares]
    return [(a * x0 + b * tip[0] + c * x1, a * y0 + b * tip[1] + c * y1) for a, b, c in weights]


def _between(start: Box, end: Box, bend: float) -> tuple[Point, ...]:
    """The part of the arc between the two variables and their marks."""
    fine = [k / FINE for k in range(FINE + 1)]
    points = _arc(start[0], end[0], bend, fine)
    outside = [t for t, point in zip(fine, points, strict=True) if not (_at(point, start, 2.0) or _at(point, end, 3.0))]
    first, last = (outside[0], outside[-1]) if outside else (0.0, 1.0)
    return tuple(_arc(start[0], end[0], bend, [first + (last - first) * k / STEPS for k in range(STEPS + 1)]))


def _at(point: Point, box: Box, clear: float) -> bool:
    """On the variable or on its marks."""
    (x, y), width, marks, below = box
    dx, dy = abs(point[0] - x), point[1] - y
    upon = dx <= 0.5 * width + clear and abs(dy) <= 0.5 * HEIGHT + clear
    return upon or (dx <= 0.5 * marks + 1.5 and 0.0 <= dy <= 0.5 * HEIGHT + below)


def _in_way(point: Point, box: Box) -> bool:
    (x, y), width, _, below = box
    dx, dy = abs(point[0] - x), point[1] - y
    return dx <= 0.5 * width + CLEARANCE and -0.5 * HEIGHT - CLEARANCE <= dy <= 0.5 * HEIGHT + below + CLEARANCE


def _spread(edges: Mapping[Edge, tuple[Point, ...]], boxes: Mapping[str, Box]) -> dict[Edge, tuple[Point, ...]]:
    """Ends that meet at one side of a variable are moved apart, in the order in which their edges arrive."""
    found = {edge: list(line) for edge, line in edges.items()}
    sides: dict[tuple[str, int, bool], list[tuple[float, Edge, bool]]] = {}
    for edge, line in edges.items():
        for node, last in ((edge.tail, False), (edge.head, True)):
            tip, near = (line[-1], line[-1 - NEAR]) if last else (line[0], line[NEAR])
            (x, y), width, *_ = boxes[node]
            axis = 1 if abs(tip[0] - x) > 0.5 * width else 0
            slope = (near[axis] - tip[axis]) / math.dist(near, tip)
            sides.setdefault((node, axis, tip[1 - axis] > (x, y)[1 - axis]), []).append((slope, edge, last))
    for (node, axis, _), ends in sides.items():
        centre, width, *_ = boxes[node]
        ends.sort(key=lambda end: end[0])
        tips = [found[edge][-1 if last else 0][axis] for _, edge, last in ends]
        room = (width if axis == 0 else HEIGHT) - 4.0
        gap = min(TIP, room / len(tips))
        for k, (place, (_, edge, last)) in enumerate(zip(_apart(tips, gap), ends, strict=True)):
            lowest, highest = k * gap, room - (len(tips) - 1 - k) * gap
            place = centre[axis] - 0.5 * room + min(max(place - centre[axis] + 0.5 * room, lowest), highest)
            _pull(found[edge], axis, place - tips[k], last)
    return {edge: tuple(line) for edge, line in found.items()}


def _pull(line: list[Point], axis: int, shift: float, last: bool) -> None:
    """Move one end along an axis; the rest of the line follows the less, the farther it is."""
    for k, (x, y) in enumerate(line):
        share = (k if last else STEPS - k) / STEPS
        step = shift * share * share
        line[k] = (x + step, y) if axis == 0 else (x, y + step)


def _moved(layout: Layout, below: float) -> Layout:
    """Everything inside a frame that begins at 0."""
    points = [point for line in layout.edges.values() for point in line]
    for node, (x, y) in layout.centres.items():
        half = 0.5 * layout.widths[node]
        points += [(x - half, y - 0.5 * HEIGHT), (x + half, y + 0.5 * HEIGHT + below)]
    left, top = (min(point[k] for point in points) - 6.0 for k in (0, 1))
    right, bottom = (max(point[k] for point in points) + 6.0 for k in (0, 1))
    centres = {node: (x - left, y - top) for node, (x, y) in layout.centres.items()}
    edges = {edge: tuple((x - left, y - top) for x, y in line) for edge, line in layout.edges.items()}
    return Layout(centres, layout.widths, edges, (right - left, bottom - top))
