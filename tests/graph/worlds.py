"""The worlds of the paper's first three experiments, and their studies as one line each."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import sourcewise as sw
from sourcewise.experiments.studies import EFFECT, confounder_mediator, iv, two_ivs
from sourcewise.simulation.worlds import LinearWorld, World

TRUTHS = {"iv": 1.0, "two-ivs": 1.0, "confounder-mediator": EFFECT}
WORLDS: dict[str, World] = {
    made.name: replace(cast(LinearWorld, made.world), truth=TRUTHS[made.name])
    for made in (iv(), two_ivs(), confounder_mediator())
}
STUDIES = {
    "iv": sw.Study.from_graph(
        "z -> x; x -> y; x <-> y", "effect(x -> y)", {"treatment": sw.Source("z x"), "outcome": sw.Source("z y")}
    ),
    "two-ivs": sw.Study.from_graph(
        "z1 -> x; z2 -> x; x -> y; x <-> y",
        "effect(x -> y)",
        {"first": sw.Source("x y z1"), "second": sw.Source("x y z2")},
    ),
    "confounder-mediator": sw.Study.from_graph(
        "w -> x; w -> y; x -> m; m -> y",
        "effect(x -> y)",
        {"confounder": sw.Source("x y w", 1.8), "mediator": sw.Source("x y m", 1.0)},
    ),
}
