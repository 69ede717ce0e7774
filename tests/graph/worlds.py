"""The worlds of the paper's first three experiments, and their studies as one line each."""

from __future__ import annotations

import sourcewise as sw
from sourcewise.experiments.studies import EFFECT, confounder_mediator, iv, two_ivs
from sourcewise.simulation.worlds import World

WORLDS: dict[str, World] = {
    "iv": iv().world,
    "two-ivs": two_ivs().world,
    "confounder-mediator": confounder_mediator().world,
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
TRUTHS = {"iv": 1.0, "two-ivs": 1.0, "confounder-mediator": EFFECT}
