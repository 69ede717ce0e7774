"""The cone program behind a design, over few sources at a time.

The dual is solved: max 2gᵀu − ‖R₀u‖² − λ − Σ caps_i μ_i subject to ‖B_i u‖² ≤ λ + μ_i, μ ≥ 0. It has as many
variables as there are parameters, however many sources are offered, and its multipliers are the shares y. Sources
whose cone would not bind need not be in it, so it starts with a few dozen and takes in those most violated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sourcewise.allocation.frame import Frame
from sourcewise.numerics.linalg import Array

Integers = NDArray[np.int64]

FEW = 64
"""Up to this many sources the whole program is as quick as generating its columns."""

VIOLATED = 1e-7
"""A source outside the program is let in when it is worth this fraction more than the price of money."""

ROUGH = 1e-9
"""A solution no better than this needs no iterative refinement of its linear systems, a quarter of the time."""

ROUNDS = 60


@dataclass(frozen=True, slots=True)
class Iterate:
    """Shares y (S,) with Σ y = 1, a direction u (r,), and the price λ: ‖B_i u‖² of a source with a free share."""

    y: Array
    u: Array
    price: float


def generate(frame: Frame, tolerance: float) -> Iterate:
    """The optimum to the accuracy of an interior-point method, over all sources."""
    size = len(frame.roots)
    if size <= FEW:
        return cone_program(frame, np.arange(size), tolerance)
    chosen = start(frame)
    for _ in range(ROUNDS):
        found = cone_program(frame, chosen, tolerance)
        missing = violated(frame, found, chosen)
        if not len(missing):
            break
        chosen = np.concatenate([chosen, missing])
    return found


def violated(frame: Frame, found: Iterate, chosen: Integers) -> Integers:
    """The sources outside that are worth more than the price, the most valuable first and not too many at once."""
    worth = frame.worth(found.u)
    worth[chosen] = 0.0
    outside = np.flatnonzero(worth > found.price * (1.0 + VIOLATED))
    most = 16 + 2 * len(frame.gradient)
    if len(outside) > most:
        outside = outside[np.argpartition(-worth[outside], most)[:most]]
    return np.asarray(outside)


def start(frame: Frame) -> Integers:
    """A few dozen sources that identify every direction and have room for all the money."""
    _, rows, rank = frame.roots.shape
    worth = frame.worth(frame.gradient)
    order = np.argsort(-worth)
    room = int(np.searchsorted(np.cumsum(frame.caps[order]), 2.0)) + 1
    along = np.argmax(np.square(frame.roots).sum(axis=1), axis=0)
    chosen = np.unique(np.concatenate([order[: max(24, room)], along]))
    sizes = np.linalg.svd(frame.roots[chosen].reshape(-1, rank), compute_uv=False)
    if len(sizes) < rank or sizes[-1] < 1e-4 * sizes[0]:
        from scipy.linalg import qr

        _, pivots = qr(frame.roots.reshape(-1, rank).T, mode="r", pivoting=True)
        chosen = np.union1d(chosen, pivots[:rank] // rows)
    return np.asarray(chosen)


def cone_program(frame: Frame, chosen: Integers, tolerance: float) -> Iterate:
    """The optimum over the sources at the positions `chosen`."""
    if len(frame.fixed) or np.isfinite(frame.caps[chosen]).any():
        return _with_limits(frame, chosen, tolerance)
    count, (_, rows, rank) = len(chosen), frame.roots.shape
    from scipy.sparse import csc_matrix

    # Without limits the price can be set to 1 and the program is linear: max gᵀu, ‖B_i u‖ ≤ 1.
    place = np.arange(count * (rows + 1)).reshape(count, rows + 1)
    entries = -frame.roots[chosen].reshape(-1, rank)
    right = np.zeros(place.size)
    right[place[:, 0]] = 1.0
    matrix = _columns(entries, place[:, 1:].ravel(), place.size)
    empty = csc_matrix((rank, rank))
    program = _Program(empty, -frame.gradient, matrix, right, 0, [rows + 1] * count)
    u, multipliers = program.solve(tolerance)
    y = np.zeros(len(frame.roots))
    y[chosen] = multipliers[place[:, 0]]
    value = float(frame.gradient @ u)
    # From here on u = M(y)⁻¹g, which is longer by the factor √V.
    return Iterate(_shares(y), u * value, value**2)


def _with_limits(frame: Frame, chosen: Integers, tolerance: float) -> Iterate:
    from scipy.sparse import block_diag, csc_matrix, hstack, vstack

    count, (_, rows, rank) = len(chosen), frame.roots.shape
    capped = np.flatnonzero(np.isfinite(frame.caps[chosen]))
    limits = len(capped)
    # Cone of source i: (λ + μ_i + 1, λ + μ_i − 1, 2 B_i u), which says ‖B_i u‖² ≤ λ + μ_i.
    place = np.arange(count * (rows + 2)).reshape(count, rows + 2)
    heads = place[:, :2].ravel()
    body = _columns(-2.0 * frame.roots[chosen].reshape(-1, rank), place[:, 2:].ravel(), place.size)
    price = csc_matrix((-np.ones(2 * count), (heads, np.zeros(2 * count, dtype=int))), shape=(place.size, 1))
    pairs = place[capped, :2].ravel()
    extra = csc_matrix((-np.ones(2 * limits), (pairs, np.repeat(np.arange(limits), 2))), shape=(place.size, limits))
    cones = hstack([body, price, extra])
    width = cones.shape[1]
    signs = csc_matrix((-np.ones(limits), (np.arange(limits), rank + 1 + np.arange(limits))), shape=(limits, width))
    right = np.zeros(limits + place.size)
    right[limits + place[:, 0]] = 1.0
    right[limits + place[:, 1]] = -1.0
    upper = np.triu(2.0 * frame.fixed.T @ frame.fixed)
    quadratic = block_diag([upper, csc_matrix((width - rank, width - rank))], format="csc")
    linear = np.concatenate([-2.0 * frame.gradient, [1.0], frame.caps[chosen[capped]]])
    matrix = vstack([signs, cones], format="csc")
    program = _Program(quadratic, linear, matrix, right, limits, [rows + 2] * count)
    x, multipliers = program.solve(tolerance)
    y = np.zeros(len(frame.roots))
    y[chosen] = multipliers[limits + place[:, 0]] + multipliers[limits + place[:, 1]]
    return Iterate(_shares(y), x[:rank], float(x[rank]))


def _columns(entries: Array, rows: Integers, height: int) -> Any:
    """A sparse matrix whose dense rows `entries` stand at the places `rows`, in the layout that the solver reads."""
    from scipy.sparse import csc_matrix

    width = entries.shape[1]
    pointers = np.arange(width + 1) * len(rows)
    return csc_matrix((entries.T.ravel(), np.tile(rows, width), pointers), shape=(height, width))


def _shares(y: Array) -> Array:
    y = np.clip(y, 0.0, None)
    return np.asarray(y / y.sum())


@dataclass(frozen=True, slots=True)
class _Program:
    """min ½xᵀPx + qᵀx with b − Ax ≥ 0 in the first `signs` rows and in second-order cones after."""

    quadratic: Any
    linear: Array
    matrix: Any
    right: Array
    signs: int
    cones: list[int]

    def solve(self, tolerance: float) -> tuple[Array, Array]:
        """x and the multipliers. The certificate judges whether they are any good, not the solver's verdict."""
        import clarabel

        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        settings.tol_gap_abs = 1e-15  # what matters is relative: the optimum may be far below 1
        settings.tol_gap_rel = tolerance
        settings.tol_feas = tolerance
        settings.iterative_refinement_enable = tolerance < ROUGH
        kinds = [clarabel.NonnegativeConeT(self.signs)] if self.signs else []
        kinds += [clarabel.SecondOrderConeT(size) for size in self.cones]
        solver = clarabel.DefaultSolver(self.quadratic, self.linear, self.matrix, self.right, kinds, settings)
        found = solver.solve()
        return np.array(found.x), np.array(found.z)
