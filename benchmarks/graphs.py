"""From a causal graph to a study that is ready for numbers: derived, differentiated and compiled; and identified."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

import sourcewise as sw
from model import cpu_seconds
from sourcewise.moments.compiled import compile_study

REPEATS = 3
CASES = ((12, 2, 5, 8, 2.0), (12, 11, 5, 8, 2.0), (25, 2, 5, 15, 15.0), (25, 4, 5, 15, 15.0), (25, 2, 1, 25, 15.0))
"""Variables, causes of each, sources, variables that each source sees, CPU seconds allowed."""


def study_of(size: int, causes: int, sources: int, seen: int, seed: int = 0) -> sw.Study:
    """Some causes for each variable, as far as there are earlier ones, and a hidden common cause for every fourth."""
    random = np.random.default_rng(seed)
    edges = [f"V0 -> V{size - 1}"]
    for head in range(1, size):
        chosen = sorted(random.choice(head, size=min(head, causes), replace=False))
        edges += [f"V{tail} -> V{head}" for tail in chosen if (tail, head) != (0, size - 1)]
    edges += [f"V{k} <-> V{k + 3}" for k in range(0, size - 3, 4)]
    groups = (sorted(random.choice(size, size=seen, replace=False)) for _ in range(sources))
    observed = {f"s{k}": sw.Source([f"V{v}" for v in some]) for k, some in enumerate(groups)}
    return sw.Study.from_graph("; ".join(edges), f"effect(V0 -> V{size - 1})", observed)


def prepare(size: int, causes: int, sources: int, seen: int, seed: int) -> None:
    compile_study(study_of(size, causes, sources, seen, seed))


def run() -> Iterator[tuple[str, str, str]]:
    for size, causes, sources, seen, bar in CASES:
        # another graph each time: equal ones are remembered
        seconds = [cpu_seconds(partial(prepare, size, causes, sources, seen, seed), 1) for seed in range(REPEATS)]
        study = study_of(size, causes, sources, seen)
        many = f"{sources} sources that see {seen}" if sources > 1 else "one source that sees all"
        name = f"graph of {size} variables, {causes} causes each, {many}: {len(study.moments)} moments"
        name += f", {len(study.parameters)} parameters"
        yield f"{name}: derive and compile", f"{min(seconds):.2f}–{max(seconds):.2f} s", f"≤ {bar:g} s"
        yield "… identify", f"{cpu_seconds(partial(sw.identify, study), 1):.2f} s", ""
