"""Money that cannot be divided freely: rows sold in lots, and charges for opening a source.

Branch and bound over the continuous design. A node fixes some sources as open or closed and the number of lots of
some others within limits. Its bound is a certified bound of a design problem: a source that may still be opened
costs its charge in proportion to the most it could get, which never exceeds what it will cost.
"""

from __future__ import annotations

import heapq
import itertools
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sourcewise.allocation.design import Design, Problem, solve
from sourcewise.allocation.frame import frame_of, padded
from sourcewise.errors import AllocationError
from sourcewise.numerics.linalg import Array

MOST_SOURCES = 12
"""Up to this many sources the whole tree is searched; beyond, the tree over the most promising ones."""

PROVEN = 1e-6
NODES = 2000
ROUNDING = 1e-9
"""Numbers of lots, and money as a fraction of the total, are whole or spent within this."""

FILLS = 100
NEAR = 1.01
"""A rounding this near to the best is worth improving by exchanges."""

CLOSED, UNDECIDED, OPEN = 0, 1, 2
States = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Terms:
    """How sources sell: both (S,) and in money."""

    lots: Array
    """Price of one lot; money above the lower limit comes in multiples of it. 0: any amount."""
    opening: Array
    """Charge for a source that gets any money. 0 for a source that is open already."""


@dataclass(frozen=True, slots=True)
class IntegerDesign:
    """The best division found, and how good it is known to be."""

    money: Array
    """(S,), charges not included. All zero where the target cannot be identified."""
    charges: float
    value: float
    bound: float
    """No division on these terms has a smaller variance."""
    searched: bool
    """The tree covered all sources. Beyond 12 it covers those that the continuous optimum and the charges favour."""
    nodes: int

    @property
    def gap(self) -> float:
        """(value − bound)/value."""
        return max(0.0, (self.value - self.bound) / self.value) if np.isfinite(self.value) and self.value else 0.0

    @property
    def proven(self) -> bool:
        return self.gap <= PROVEN


@dataclass(frozen=True, slots=True)
class _Node:
    """Money within [lower, upper] and, of each source, whether it is closed, open or undecided."""

    lower: Array
    upper: Array
    state: States


def solve_integer(problem: Problem, terms: Terms, node_limit: int = NODES) -> IntegerDesign:
    """The least variance with at most `total` spent on lots and charges.

    Stops at a gap of 1e-6 or after `node_limit` nodes; `gap` and `proven` say which.
    """
    root = _root(problem, terms)
    relaxed = _relax(problem, terms, root)
    if relaxed is None or not relaxed.identified:
        return IntegerDesign(root.lower, 0.0, np.inf, np.inf, True, 1)
    searched = len(terms.lots) <= MOST_SOURCES
    if not searched:
        root = _narrowed(problem, terms, root, relaxed)
    search = _Search(problem, terms, root)
    bound, nodes = search.run(node_limit)
    if not searched:
        bound = min(bound, relaxed.bound)
    charges = float(terms.opening[search.money > 0].sum())
    return IntegerDesign(search.money, charges, search.value, min(bound, search.value), searched, nodes)


def _root(problem: Problem, terms: Terms) -> _Node:
    size, total = len(problem.roots), problem.total
    for name, given in (("lots", terms.lots), ("opening charges", terms.opening)):
        if given.shape != (size,) or not np.isfinite(given).all() or (given < 0).any():
            raise AllocationError(f"{name} must be {size} finite numbers of at least 0, one per source; got {given}")
    lower = np.zeros(size) if problem.lower is None else np.asarray(problem.lower, dtype=float)
    upper = np.full(size, np.inf) if problem.upper is None else np.asarray(problem.upper, dtype=float)
    needed = float(lower.sum() + terms.opening[lower > 0].sum())
    if needed > total * (1.0 + ROUNDING):
        raise AllocationError(
            f"the least money of the sources and their opening charges come to {needed:g}, "
            f"but there is only {total:g}: lower a limit or raise the budget"
        )
    state = np.where(lower > 0, OPEN, np.where(terms.opening > 0, UNDECIDED, OPEN))
    return _Node(lower, _whole(lower, np.minimum(upper, np.maximum(total, lower)), terms.lots), state)


def _whole(lower: Array, upper: Array, lots: Array) -> Array:
    """Upper limits cut to whole lots above the lower ones."""
    with np.errstate(divide="ignore", invalid="ignore"):
        count = np.floor((upper - lower) / lots + ROUNDING)
    return np.where(lots > 0, lower + np.nan_to_num(count) * lots, upper)


def _narrowed(problem: Problem, terms: Terms, root: _Node, relaxed: Design) -> _Node:
    """Only the sources that the relaxation gives most, then those worth most, may get more than their least."""
    worth = np.array([float(np.sum(np.square(part @ relaxed.direction))) for part in problem.roots])
    room = np.minimum(root.upper, problem.total) - root.lower
    score = np.where(relaxed.money > root.lower, 1.0 + relaxed.money / problem.total, worth / (worth.max() * 2.0))
    score = np.where(room > 0, score, -1.0)
    favoured = np.zeros(len(score), dtype=bool)
    favoured[np.argsort(-score, kind="stable")[:MOST_SOURCES]] = True
    state = np.where(~favoured & (root.lower == 0), CLOSED, root.state)
    return _Node(root.lower, np.where(favoured, root.upper, root.lower), state)


def _relax(problem: Problem, terms: Terms, node: _Node) -> Design | None:
    """The continuous design whose bound holds for all that the node allows, None where there is nothing it allows."""
    budget = problem.total - float(terms.opening[node.state == OPEN].sum())
    free = budget - float(node.lower.sum())
    if free < -ROUNDING * problem.total:
        return None
    most = np.minimum(node.upper, node.lower + free)
    undecided = node.state == UNDECIDED
    most[undecided] = np.minimum(node.upper, free - terms.opening)[undecided]
    most = _whole(node.lower, most, terms.lots)
    used = (most > 0) & (node.state != CLOSED)
    if not used.any():
        return None
    markup = np.where(undecided & used, 1.0 + terms.opening / np.where(used, most, 1.0), 1.0)[used]
    lower, upper = node.lower[used], most[used] * markup
    spend = min(budget - _unusable(free, terms.lots[used], undecided[used].any()), float(upper.sum()))
    roots = tuple(problem.roots[i] / np.sqrt(m) for i, m in zip(np.flatnonzero(used), markup, strict=True))
    found = solve(Problem(roots, problem.gradient, max(spend, float(lower.sum())), lower, np.maximum(upper, lower)))
    money = np.zeros(len(used))
    money[used] = found.money / markup
    return replace(found, money=money)


def _unusable(free: float, lots: Array, undecided: bool) -> float:
    """What must be left over where every lot is a multiple of the smallest."""
    if undecided or not (lots > 0).all():
        return 0.0
    unit = float(lots.min())
    counts = lots / unit
    if np.abs(counts - np.round(counts)).max() > ROUNDING:
        return 0.0
    return max(0.0, free - unit * float(np.floor(free / unit + ROUNDING)))


class _Search:
    """Best-first search; `money` and `value` are the best division so far."""

    def __init__(self, problem: Problem, terms: Terms, root: _Node) -> None:
        size = len(problem.roots)
        self.problem, self.terms, self.root = problem, terms, root
        self.money, self.value = root.lower, np.inf
        equal, nothing, unlimited = np.full(size, problem.total / size), np.zeros(size), np.full(size, np.inf)
        roots = padded(problem.roots, len(problem.gradient))
        frame = frame_of(roots, np.asarray(problem.gradient, dtype=float), equal, nothing, unlimited, 1.0)
        assert frame is not None, "the relaxation identifies the target"
        self._frame = frame
        self._rounded: set[bytes] = set()

    def variance(self, money: Array) -> float:
        return self._frame.value(money) * self._frame.scale**2

    def run(self, node_limit: int) -> tuple[float, int]:
        """A lower bound of what any division allowed by the root reaches, and the number of nodes it took."""
        order = itertools.count()
        heap: list[tuple[float, int, _Node, Design]] = []
        settled = np.inf
        waiting = [self.root]
        for nodes in itertools.count(1):
            for node in waiting:
                found = _relax(self.problem, self.terms, node)
                if found is not None and found.identified:
                    self._offer(node, found)
                    heapq.heappush(heap, (found.bound, next(order), node, found))
            if not heap or heap[0][0] >= self.value * (1.0 - PROVEN) or nodes >= node_limit:
                return min(settled, heap[0][0] if heap else np.inf), nodes
            bound, _, node, found = heapq.heappop(heap)
            waiting = self._branches(node, found.money)
            if not waiting:
                settled = min(settled, bound)
        raise AssertionError("the loop above ends")

    def _branches(self, node: _Node, money: Array) -> list[_Node]:
        """Two nodes that exclude the relaxed money; none where it keeps to the terms already."""
        opening, lots = self.terms.opening, self.terms.lots
        partial = np.where((node.state == UNDECIDED) & (money > ROUNDING * self.problem.total), opening, 0.0)
        if partial.any():
            i = int(np.argmax(partial))
            least = node.lower.copy()
            least[i] += lots[i]
            closed, opened = node.state.copy(), node.state.copy()
            closed[i], opened[i] = CLOSED, OPEN
            return [replace(node, state=closed), _Node(least, np.maximum(node.upper, least), opened)]
        counts = np.divide(money - self.root.lower, lots, out=np.zeros_like(money), where=lots > 0)
        split = np.abs(counts - np.round(counts)) * lots
        i = int(np.argmax(split))
        if split[i] <= ROUNDING * lots[i]:
            return []
        below, above = node.upper.copy(), node.lower.copy()
        below[i] = self.root.lower[i] + np.floor(counts[i]) * lots[i]
        above[i] = below[i] + lots[i]
        return [replace(node, upper=below), replace(node, lower=above)]

    def _offer(self, node: _Node, found: Design) -> None:
        """Round the relaxed money to the terms and keep it if it is the best so far."""
        opened = (found.money > ROUNDING * self.problem.total) | (node.lower > 0)
        money = found.money
        if (node.state[opened] == UNDECIDED).any():
            # The relaxation paid these only a part of their charge: divide anew after the whole of it.
            key = opened.tobytes()
            if key in self._rounded:
                return
            self._rounded.add(key)
            decided = _Node(self.root.lower, self.root.upper, np.where(opened, OPEN, CLOSED))
            again = _relax(self.problem, self.terms, decided)
            if again is None:
                return
            money = again.money
        rounded = self._filled(self._floor(money))
        value = self.variance(rounded)
        if value < self.value * NEAR:
            rounded, value = self._exchanged(rounded, value)
        if value < self.value:
            self.money, self.value = rounded, value

    def _floor(self, money: Array) -> Array:
        """Whole lots; money that need not come in lots is divided anew around them."""
        lots, root = self.terms.lots, self.root
        counts = np.divide(money - root.lower, lots, out=np.zeros_like(money), where=lots > 0)
        whole = root.lower + np.floor(counts + ROUNDING) * lots
        if (lots > 0).all():
            return np.asarray(whole)
        lower = np.where(lots > 0, whole, root.lower)
        used = (lower > 0) | ((lots == 0) & (money > 0))
        node = _Node(lower, np.where(lots > 0, whole, root.upper), np.where(used, OPEN, CLOSED))
        found = _relax(self.problem, self.terms, node)
        return whole if found is None else np.where(lots > 0, whole, found.money)

    def _filled(self, money: Array) -> Array:
        """Spend what is left on the lots that lower the variance most; many at a time while much is left."""
        lots, opening = self.terms.lots, self.terms.opening
        for _ in range(FILLS):
            left = self.problem.total * (1.0 + ROUNDING) - float(money.sum() + opening[money > 0].sum())
            room = np.minimum(self.root.upper - money, left - np.where(money > 0, 0.0, opening))
            count = np.floor(np.divide(room, lots, out=np.zeros_like(room), where=lots > 0) + ROUNDING)
            options = np.flatnonzero((count > 0) & (self.root.state != CLOSED))
            if not len(options):
                break
            tried = []
            for i in options:
                more = money.copy()
                more[i] += max(1.0, np.floor(count[i] / 4.0)) * lots[i]
                tried.append((self.variance(more), i, more))
            money = min(tried, key=lambda entry: entry[:2])[2]
        return money

    def _exchanged(self, money: Array, value: float) -> tuple[Array, float]:
        """Give back one lot of a source and spend it better, as long as that helps."""
        improved = True
        while improved:
            improved = False
            for i in np.flatnonzero((money > self.root.lower) & (self.terms.lots > 0)):
                fewer = money.copy()
                fewer[i] = max(money[i] - self.terms.lots[i], self.root.lower[i])
                other = self._filled(fewer)
                found = self.variance(other)
                if found < value * (1.0 - ROUNDING):
                    money, value, improved = other, found, True
                    break
        return money, value
