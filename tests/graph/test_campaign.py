"""A campaign of a graph's study: stored, resumed, and given a source that sees a further variable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sourcewise as sw


def test_a_source_that_sees_a_further_variable_may_join(tmp_path: Path) -> None:
    study = sw.Study.from_graph("W -> X; W -> Y; X -> M; M -> Y", "effect(X -> Y)", {"clinic": sw.Source("W X Y")})
    store = str(tmp_path / "store.db")
    campaign = sw.Campaign.create(store, study, budget=2000.0, policy=sw.ETG(0.25), name="graph")
    random = np.random.default_rng(0)

    def rows(name: str, count: int) -> dict[str, np.ndarray]:
        w, e, f, g = random.normal(size=(4, count))
        x = 0.5 * w + e
        m = x + f
        table = {"W": w, "X": x, "M": m, "Y": 0.7 * m - w + g}
        return {v: table[v] for v in campaign.study.sources[name].observes}

    for turn in range(4):
        order = campaign.ask()
        assert order is not None
        for name, count in order.rows.items():
            if count:
                campaign.tell(name, rows(name, count), key=f"{turn} {name}")
        if turn == 1:
            campaign.amend(add={"register": sw.Source("X M Y", cost=0.5)})
            campaign = sw.Campaign.open(store, "graph")
            assert set(campaign.study.sources) == {"clinic", "register"}
            assert "X_to_M" in campaign.study.parameters
    found = campaign.estimate()
    assert found.target.value == pytest.approx(0.7, abs=5 * found.target.stderr)
    assert found.statistics["register"].n > 0
