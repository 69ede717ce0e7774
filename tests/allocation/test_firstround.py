"""What can be known before any row is bought agrees with what the exact populations say."""

from __future__ import annotations

import math
from itertools import chain, combinations
from typing import Any

import pytest

import sourcewise as sw
from allocation import worlds
from sourcewise.allocation.generic import identifies


@pytest.mark.parametrize(
    "make",
    [
        worlds.instrument,
        worlds.two_instruments,
        lambda: worlds.confounder_mediator(published=False),
        worlds.ihdp,
        worlds.draft_lottery,
    ],
)
def test_sources_identify_the_target_exactly_where_their_mix_has_a_finite_variance(make: Any) -> None:
    """The IHDP trap included: its first two sources do not, although their moments outnumber the parameters."""
    population = make()
    study, fit = population.study, population.fit("stacked")
    names = tuple(study.sources)
    for chosen in chain.from_iterable(combinations(names, size) for size in range(1, len(names) + 1)):
        finite = math.isfinite(sw.variance(study, fit, dict.fromkeys(chosen, 1.0)))
        assert identifies(study, chosen) == finite, chosen


def test_functions_of_data_and_bounds_do_not_matter() -> None:
    study = sw.Study(
        ["log(y) - m", "exp(k)*w - 1"],
        "m",
        {"a": sw.Source("y"), "b": sw.Source("w")},
        parameters={"m": sw.Parameter(lower=2.0, upper=3.0)},
    )
    assert identifies(study, {"a"})
    assert not identifies(study, {"b"})
    assert not identifies(study, set())
