"""The design problem in coordinates in which nothing depends on units.

Parameters are transformed so that a reference mix (money spread as equally as the limits allow) has information I,
∇f is scaled to length 1, and the money that is free to move to 1. Prices, data and parameters on any scale then give
the same numbers, and every tolerance below is a plain fraction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sourcewise.numerics.linalg import Array

DEPENDENT = 1e-8
"""Directions with less than this fraction of the largest information (as a root, columns of length 1) are noise."""

OUTSIDE = 1e-7
"""∇f may have this fraction of its length outside the range of the information."""

ROUNDING = 1e-11
"""A part of ∇f this small, where a design has next to no information, is a rounding error. In a frame of nearly
collinear directions rounding errors are larger: see `Frame.noise`."""

PRECISION = 1e-15

SMALLEST = 1e-15
"""Shares that sum to 1 within this sum to 1."""

WORTHLESS = 1e12
"""A mix with a variance this many times that of the reference mix does not identify the target. Without a threshold
a null direction filled with rounding errors would give a finite number."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Minimise gᵀ[M₀ + Σ y_i B_iᵀB_i]⁻g over y ≥ 0 with Σ y = 1 and y ≤ caps, where ‖g‖ = 1 and r = len(g) ≤ D."""

    roots: Array
    """B_i, padded with rows of zeros: (S, R, r)."""
    gradient: Array
    """g (r,)."""
    fixed: Array
    """A root (·, r) of M₀, the information of money that cannot move; no rows where there is none."""
    caps: Array
    """(S,), infinite where the limit cannot bind."""
    transform: Array
    """(D, r): u in the user's parameters is transform @ u."""
    scale: float
    """The user's variance is scale² times the value here."""
    noise: float
    """The size of rounding errors in g and the roots; large where the transformation pulls near copies apart."""

    def worth(self, u: Array) -> Array:
        """‖B_i u‖² (S,): what money at each source is worth in direction u."""
        size, rows, rank = self.roots.shape
        image = self.roots.reshape(size * rows, rank) @ u
        np.square(image, out=image)
        return np.asarray(image.reshape(size, rows) @ np.ones(rows))

    def stack(self, y: Array) -> Array:
        """A root of the information at y."""
        used = np.flatnonzero(y > 0)
        part = self.roots[used] * np.sqrt(y[used])[:, None, None]
        return np.concatenate([self.fixed, part.reshape(-1, len(self.gradient))])

    def solved(self, y: Array) -> tuple[float, Array]:
        """The value at y, and u = M(y)⁻g."""
        return solved(self.stack(y), self.gradient, self.noise)

    def value(self, y: Array) -> float:
        return self.solved(y)[0]

    def bound(self, u: Array, worth: Array) -> float:
        """A lower bound of the optimum, whatever u is: for every feasible y, Cauchy–Schwarz gives
        value(y) ≥ (gᵀu)² / uᵀM(y)u, and uᵀM(y)u is linear in y, so its maximum is found by filling."""
        most = float(np.sum(np.square(self.fixed @ u))) + fill(worth, self.caps)
        return float(self.gradient @ u) ** 2 / most if most > 0 else 0.0


def fill(worth: Array, caps: Array) -> float:
    """max Σ y_i worth_i over 0 ≤ y ≤ caps, Σ y = 1: the best source first."""
    capped = np.isfinite(caps)
    free = float(worth[~capped].max(initial=0.0))
    better = np.flatnonzero(capped & (worth > free))
    order = better[np.argsort(-worth[better])]
    room = np.clip(1.0 - np.concatenate([[0.0], np.cumsum(caps[order])]), 0.0, None)
    taken = np.minimum(caps[order], room[:-1])
    return float(taken @ worth[order]) + float(room[-1]) * free


def solved(stack: Array, gradient: Array, noise: float) -> tuple[float, Array]:
    """gᵀ(AᵀA)⁻g and u = (AᵀA)⁻g for a root A (·, r), infinite where g is outside its range; ‖g‖ must be 1."""
    if not len(stack):
        return np.inf, np.zeros_like(gradient)
    if len(stack) > len(gradient):
        stack = np.asarray(np.linalg.qr(stack, mode="r"))
    _, sizes, directions = np.linalg.svd(stack, full_matrices=True)
    padded = np.zeros(len(gradient))
    padded[: len(sizes)] = sizes
    parts = directions @ gradient
    empty = padded <= max(DEPENDENT, noise) * sizes[0]
    parts[empty & (np.abs(parts) <= max(ROUNDING, noise))] = 0.0
    if (parts[padded == 0] != 0).any():
        return np.inf, np.zeros_like(gradient)
    ratio = np.divide(parts, padded, out=np.zeros_like(parts), where=parts != 0)
    value = float(ratio @ ratio)
    if value > WORTHLESS:
        return np.inf, np.zeros_like(gradient)
    return value, np.divide(ratio, padded, out=ratio, where=ratio != 0) @ directions


def padded(roots: tuple[Array, ...], dimension: int) -> Array:
    """All B_i in one array (S, R, D), with rows of zeros below the short ones; tall ones are first cut to D rows."""
    lengths = np.array([len(root) for root in roots])
    if (lengths > dimension).any():
        roots = tuple(np.asarray(np.linalg.qr(root, mode="r")) if len(root) > dimension else root for root in roots)
        lengths = np.minimum(lengths, dimension)
    most = int(lengths.max(initial=1))
    rows = np.concatenate(roots)
    if (lengths == most).all():
        return rows.reshape(len(roots), most, dimension)
    out = np.zeros((len(roots), most, dimension))
    first = np.cumsum(lengths) - lengths
    source = np.repeat(np.arange(len(roots)), lengths)
    out[source, np.arange(len(rows)) - first[source]] = rows
    return out


def spread(total: float, lower: Array, upper: Array) -> Array:
    """Money as equal as the limits allow: clip(t, lower, upper), with the level t that makes the sum right."""
    capped = upper[np.isfinite(upper)]
    points = np.concatenate([lower, capped])
    order = np.argsort(points)
    points = points[order]
    # Between two points as many sources grow as have passed their lower limit and not their upper one.
    growing = np.cumsum(np.concatenate([np.ones(len(lower)), -np.ones(len(capped))])[order])
    sums = lower.sum() + np.concatenate([[0.0], np.cumsum(growing[:-1] * np.diff(points))])
    if total > sums[-1]:
        level = points[-1] + (total - sums[-1]) / max(growing[-1], 1.0)
    else:
        level = float(np.interp(total, sums, points))
    return np.asarray(np.clip(level, lower, upper))


def frame_of(roots: Array, gradient: Array, reference: Array, lower: Array, caps: Array, free: float) -> Frame | None:
    """The frame for money lower + free·y, roots (S, R, D); None if no feasible money identifies the target.

    `reference` (S,) is feasible money that is positive wherever money may be positive, so its range is the largest.
    """
    size, rows, dimension = roots.shape
    flat = roots.reshape(size * rows, dimension)
    triangle = np.linalg.qr(flat * np.repeat(np.sqrt(reference), rows)[:, None], mode="r")
    length = np.linalg.norm(triangle, axis=0)
    shrink = np.divide(1.0, length, out=np.zeros(dimension), where=length > 0)
    _, sizes, directions = np.linalg.svd(triangle * shrink, full_matrices=False)
    kept = sizes > DEPENDENT * max(float(sizes.max(initial=0.0)), 1e-300)
    directions, sizes = directions[kept], sizes[kept]
    # A parameter that no source informs has length 0: ∇f must not involve it.
    scaled = gradient * np.where(length > 0, shrink, 1.0)
    outside = scaled - directions.T @ (directions @ scaled)
    if np.linalg.norm(outside) > OUTSIDE * np.linalg.norm(scaled) or (gradient[length == 0] != 0).any():
        return None
    transform = shrink[:, None] * (directions.T / sizes)
    inner = transform.T @ gradient
    scale = float(np.linalg.norm(inner))
    moving = (flat @ (transform * np.sqrt(free))).reshape(size, rows, len(sizes))
    used = np.flatnonzero(lower > 0)
    fixed = (roots[used] * np.sqrt(lower[used])[:, None, None]).reshape(-1, dimension) @ transform
    if len(fixed) > len(sizes):
        fixed = np.linalg.qr(fixed, mode="r")
    noise = PRECISION / float(sizes.min()) * max(1.0, float(np.linalg.norm(scaled)) / scale)
    return Frame(moving, inner / scale, fixed, caps, transform, scale, noise)


def feasible(caps: Array, y: Array) -> Array:
    """Shares that sum to 1 within their limits, from shares that almost do; zeros stay zero where that is possible."""
    y = np.clip(y, 0.0, caps)
    for _ in range(50):
        missing = 1.0 - float(y.sum())
        growing = (y > 0) & (y < caps) if missing > 0 else y > 0
        if abs(missing) <= SMALLEST or not growing.any():
            break
        y[growing] *= 1.0 + missing / float(y[growing].sum())
        y = np.minimum(y, caps)
    return y if abs(1.0 - float(y.sum())) < ROUNDING else spread(1.0, y, caps)
