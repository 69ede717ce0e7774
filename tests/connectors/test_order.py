"""The random order of rows: each rank once, found without sorting, and unrelated to where a row stands."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from sourcewise.connectors import order
from sourcewise.connectors.order import Chosen, Sampling, chosen, hash_bounds, positions, row_hash


@given(st.integers(1, 3_000), st.integers(0, 2**63 - 1), st.data())
@settings(max_examples=60, deadline=None)
def test_ranks_are_those_of_a_sort_by_hash(size: int, seed: int, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, size + 2))
    rows = data.draw(st.integers(0, size + 2))
    ranked = np.argsort(row_hash(seed, np.arange(size)))
    expected = np.sort(ranked[start : start + rows])
    assert positions(Sampling(seed=seed), size, start, rows).tolist() == expected.tolist()
    arrived = positions(Sampling(order="arrival"), size, start, rows)
    assert arrived.tolist() == list(range(size))[start : start + rows]


@given(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500))
@settings(max_examples=60, deadline=None)
def test_any_stretch_of_a_table_knows_its_rows(first: int, length: int, start: int) -> None:
    for sampling in (Sampling(seed=4), Sampling(order="arrival")):
        wanted = chosen(sampling, 500, start, 100)
        there = [k for k in positions(sampling, 500, start, 100).tolist() if first <= k < min(first + length, 500)]
        stop = min(first + length, 500)
        assert wanted.within(first, stop).tolist() == there
        assert wanted.any_within(first, stop) == bool(there)


def test_bounds_are_found_where_the_first_guess_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "SLACK", 0.0)
    hashes = np.sort(row_hash(7, np.arange(10_000)))
    assert hash_bounds(7, 10_000, 40, 9_000) == (int(hashes[40]), int(hashes[8_999]))


def test_half_of_a_table_is_found_in_memory_that_does_not_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    """An order of half of 10⁸ rows once took 2 GB: its rows are now told apart as they come, a slice at a time."""
    asked: list[int] = []

    def watched(seed: int, number: NDArray[np.int64]) -> NDArray[np.uint64]:
        asked.append(len(number))
        return row_hash(seed, number)

    monkeypatch.setattr(order, "row_hash", watched)
    size = 4_000_000
    wanted = chosen(Sampling(seed=1), size, 0, size // 2)
    assert isinstance(wanted, Chosen)
    assert sum(wanted.within(k, min(k + 8192, size)).size for k in range(0, size, 8192)) == size // 2
    assert max(asked) <= order.SLICE


# --- is the order random? All of these are fixed by their seeds, so a failure is a change of the order ---------------


def test_first_rows_are_spread_evenly_over_the_table() -> None:
    """Chi-square over 100 equal parts of the table, for 50 seeds together: 50 × 99 degrees of freedom."""
    size, rows, parts = 100_000, 10_000, 100
    expected, total = rows / parts, 0.0
    for seed in range(50):
        counts = np.bincount(positions(Sampling(seed=seed), size, 0, rows) // (size // parts), minlength=parts)
        # without replacement a count has the hypergeometric variance, smaller by the share that is left
        total += float(((counts - expected) ** 2 / (expected * (1 - rows / size))).sum())
    freedom = 50 * (parts - 1)
    assert abs(total - freedom) < 4 * np.sqrt(2 * freedom)


def test_the_order_of_use_is_unrelated_to_the_place_and_to_that_of_other_seeds() -> None:
    size = 200_000
    place = np.arange(size)
    ranks = [np.argsort(np.argsort(row_hash(seed, place))) for seed in (0, 1, 2, 2**32, 2**62)]
    for k, rank in enumerate(ranks):
        others = [place, np.roll(rank, 1), np.roll(rank, 2), *ranks[:k]]  # neighbours in the table, other seeds
        for other in others:
            # a correlation of independent ranks has a standard deviation of 1/√size
            assert abs(np.corrcoef(rank, other)[0, 1]) < 4 / np.sqrt(size)


def test_each_bit_of_a_hash_is_as_often_one_as_zero() -> None:
    """For small numbers and seeds, which differ in few bits."""
    size = 1 << 16
    for seed in (0, 1, 2, 3):
        value = row_hash(seed, np.arange(size))
        ones = np.array([int(((value >> np.uint64(bit)) & np.uint64(1)).sum()) for bit in range(64)])
        assert np.abs(ones - size / 2).max() < 4.5 * np.sqrt(size) / 2
