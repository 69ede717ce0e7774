"""The tests that every connector must pass.

    class TestMine(ConnectorSuite):
        def connector(self, table, **sampling):
            return MyConnector(where_the_rows_of(table) have been put, **sampling)

Each test asks for connectors to a given PyArrow table. A second call with the same table stands for another process: it
must find the rows in the order of the first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache, partial
from typing import Any

import numpy as np

from sourcewise.connectors.base import Connector
from sourcewise.errors import ConnectorError, DataError, SourcewiseError
from sourcewise.numerics.linalg import Array
from sourcewise.spec.study import Source, Study
from sourcewise.statistics.gram import Statistics
from sourcewise.statistics.rows import Rows
from sourcewise.statistics.summarize import summarize

ROWS = 1000
HOSTILE = "x\"; DROP TABLE people; --'`\\"
EXACT = 1e-10
"""Agreement of sums, beside √(Σφ_j² Σφ_k²): engines add in other orders; a few thousand roundings are far smaller."""

SOURCE = Source("id x z flag whole money gap label")
LINEAR = Study(["z*(x - a*z)", "flag*(whole - b)", "money - c"], "a", {"people": SOURCE})
SMOOTH = Study(["exp(x - 1e6)*(z - a)", "(x > z)*(whole - b)", "1/money - c"], "a", {"people": SOURCE})
GAPS = Study(["gap*(x - a)"], "a", {"people": SOURCE})
TEXT = Study(["label - a"], "a", {"people": SOURCE})
SCORES = Study(["z*(flag - logistic(a*(z - 1e6)))"], "a", {"people": SOURCE})


@cache
def people(rows: int = ROWS, seed: int = 5) -> Any:
    """Columns of many types, means of a million where digits would be lost, a column with a name that is SQL."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    z = 1e6 + rng.standard_normal(rows)
    x = 1e6 + 0.5 * (z - 1e6) + rng.standard_normal(rows)
    gap = [None if k % 7 == 3 else float(value) for k, value in enumerate(rng.standard_normal(rows))]
    cents = rng.integers(100, 10**8, rows)
    columns = {
        "id": pa.array(rng.permutation(rows) + 10),
        "x": pa.array(x),
        "z": pa.array(z),
        "flag": pa.array(rng.random(rows) < 0.5),
        "whole": pa.array(rng.integers(-50, 50, rows), pa.int32()),
        "money": pa.array([Decimal(int(value)) / 100 for value in cents], pa.decimal128(12, 2)),
        "gap": pa.array(gap),
        "label": pa.array([f"row {k}" for k in range(rows)]),
        HOSTILE: pa.array(rng.standard_normal(rows)),
    }
    return pa.table(columns)


class ConnectorSuite:
    """Subclass it, say how to connect, and let pytest run the tests."""

    def connector(self, table: Any, **sampling: Any) -> Connector:
        """A connector to a place that holds this PyArrow table's rows in this order. The key to order by is "id"."""
        raise NotImplementedError

    arrival: bool | None = True
    """Whether order="arrival" keeps the order of the table; False: it is that of the key; None: it is refused."""

    # -- what it is ---------------------------------------------------------------------------------------------------

    def test_columns_and_size(self) -> None:
        found = self.connector(people())
        assert set(people().column_names) <= set(found.columns())
        assert found.size() in (ROWS, None)
        assert isinstance(found, Connector)

    def test_it_does_not_tell_a_password(self) -> None:
        assert "secret" not in repr(self.connector(people()))

    # -- which rows ---------------------------------------------------------------------------------------------------

    def test_every_row_is_used_once(self) -> None:
        found = self.connector(people(), seed=3)
        batches = [self._ids(found, start, rows) for start, rows in ((0, 1), (1, 299), (300, 500), (800, 200))]
        assert [len(ids) for ids in batches] == [1, 299, 500, 200]
        assert set().union(*batches) == set(range(10, ROWS + 10))

    def test_another_process_continues_where_one_stopped(self) -> None:
        first = self._ids(self.connector(people(), seed=3), 120, 80)
        assert self._ids(self.connector(people(), seed=3), 120, 80) == first
        parts = self.connector(people(), seed=3)
        assert self._ids(parts, 120, 30) | self._ids(parts, 150, 50) == first

    def test_seeds_give_other_rows(self) -> None:
        drawn = [self._ids(self.connector(people(), seed=seed), 0, 500) for seed in (0, 1)]
        # 500 of 1,000 share 250 with 500 others, with a standard deviation of 8
        assert abs(len(drawn[0] & drawn[1]) - 250) < 40

    def test_random_rows_are_spread_over_the_table(self) -> None:
        place = {int(key): k for k, key in enumerate(people().column("id").to_pylist())}
        taken = self._ids(self.connector(people(), seed=8), 0, 200)
        for ranks in (sorted(taken), sorted(place[key] for key in taken)):
            # the mean of 200 of 1,000 numbers without replacement has a standard deviation of 18
            assert abs(np.mean(ranks) - 500 - (10 if ranks[0] >= 10 else 0)) < 90

    def test_arrival_order_is_that_of_the_table(self) -> None:
        if self.arrival is None:
            refused(lambda: self.connector(people(), order="arrival"), ConnectorError, "arrival")
            return
        ids = [int(key) for key in people().column("id").to_pylist()]
        expected = ids if self.arrival else sorted(ids)
        found = self.connector(people(), order="arrival")
        assert self._ids(found, 0, 10) == set(expected[:10])
        assert self._ids(found, 10, 500) == set(expected[10:510])

    def test_a_table_that_runs_out_gives_what_is_left(self) -> None:
        found = self.connector(people(), seed=2)
        assert len(self._ids(found, 990, 50)) == 10
        assert self._ids(found, ROWS, 50) == set()
        assert self._ids(found, 5 * ROWS, 50) == set()
        assert not found.deliver(LINEAR, "people", 900, 90).exhausted
        last = found.deliver(LINEAR, "people", 990, 50)
        assert (last.start, last.stop, last.exhausted) == (990, ROWS, True)
        nothing = found.deliver(LINEAR, "people", ROWS, 50)
        assert (nothing.statistics, nothing.stop, nothing.exhausted) == (None, ROWS, True)

    # -- which numbers ------------------------------------------------------------------------------------------------

    def test_statistics_are_those_of_the_rows(self) -> None:
        for study in (LINEAR, SMOOTH):
            found = self.connector(people(), seed=4)
            first = found.deliver(study, "people", 0, 400)
            assert isinstance(first.statistics, Statistics)
            again = found.deliver(study, "people", 400, 300, first.statistics.centre)
            for delivery, start, rows in ((first, 0, 400), (again, 400, 300)):
                assert isinstance(delivery.statistics, Statistics)
                assert dict(delivery.statistics.centre) == dict(first.statistics.centre)
                taken = found.take(start, rows, VARIABLES)
                assert_agree(delivery.statistics, summed(study, taken, first.statistics.centre))

    def test_the_centre_is_near_the_mean(self) -> None:
        kept = self.connector(people(), seed=4).deliver(LINEAR, "people", 0, 500).statistics
        assert isinstance(kept, Statistics)
        for name, value in kept.centre.items():
            column = np.array([float(entry) for entry in people().column(name).to_pylist()])
            assert abs(value - column.mean()) < 2 * column.std()

    def test_the_whole_table_is_summed(self) -> None:
        found = summarize(LINEAR, "people", self.connector(people()))
        assert isinstance(found, Statistics)
        assert found.n == ROWS
        assert_agree(found, summed(LINEAR, people(), found.centre))

    def test_missing_values_are_an_error_or_left_out(self) -> None:
        refused(lambda: self.connector(people()).deliver(GAPS, "people", 0, 500), DataError, "missing values", "gap")
        found = self.connector(people(), missing="drop")
        delivery = found.deliver(GAPS, "people", 0, 500)
        taken = found.take(0, 500, VARIABLES)
        complete = np.isfinite(taken["gap"])
        assert isinstance(delivery.statistics, Statistics)
        assert delivery.statistics.n == complete.sum() < 500
        assert delivery.statistics.n + delivery.statistics.dropped == delivery.stop == 500
        usable = {name: values[complete] for name, values in taken.items()}
        assert_agree(delivery.statistics, summed(GAPS, usable, delivery.statistics.centre), dropped=False)

    def test_rows_without_a_usable_one_are_no_error_where_rows_are_left_out(self) -> None:
        found = self.connector(people().slice(3, 1), missing="drop")
        delivery = found.deliver(GAPS, "people", 0, 5)
        assert (delivery.statistics, delivery.stop, delivery.exhausted) == (None, 1, True)

    def test_moments_that_need_rows_get_them(self) -> None:
        found = self.connector(people(), seed=6)
        delivery = found.deliver(SCORES, "people", 100, 50)
        assert isinstance(delivery.statistics, Rows)
        taken = found.take(100, 50, delivery.statistics.variables)
        kept = dict(zip(delivery.statistics.variables, delivery.statistics.columns, strict=True))
        for name, values in taken.items():
            assert sorted(values.tolist()) == sorted(kept[name].tolist())

    def test_a_column_whose_name_is_code_is_only_a_name(self) -> None:
        found = self.connector(people(), seed=1)
        taken = np.sort(found.take(0, ROWS, [HOSTILE])[HOSTILE])
        assert taken.tolist() == np.sort(people().column(HOSTILE).to_numpy()).tolist()
        assert self._ids(found, 0, ROWS) == set(range(10, ROWS + 10))

    # -- what is refused ----------------------------------------------------------------------------------------------

    def test_a_table_that_changed_is_noticed(self) -> None:
        before = self.connector(people(), seed=3)
        known = before.deliver(LINEAR, "people", 0, 10).fingerprint
        assert " " not in known
        assert self.connector(people(), seed=3).deliver(LINEAR, "people", 10, 10, fingerprint=known).stop == 20
        grown = self.connector(people(ROWS + 1, seed=6), seed=3)
        refused(
            lambda: grown.deliver(LINEAR, "people", 20, 10, fingerprint=known),
            ConnectorError,
            "'people'",
            "has changed",
        )
        others: list[dict[str, Any]] = [
            {"seed": 4},
            *([] if self.arrival is None else [{"seed": 3, "order": "arrival"}]),
        ]
        for other in others:
            moved = partial(self.connector(people(), **other).deliver, LINEAR, "people", 10, 10, fingerprint=known)
            refused(moved, ConnectorError, "order or seed")
        declared = self.connector(people(ROWS + 1, seed=6), seed=3, version=known.rpartition(":")[0])
        assert declared.deliver(LINEAR, "people", 10, 10, fingerprint=known).stop == 20

    def test_what_cannot_be_summed_is_refused_by_name(self) -> None:
        found = self.connector(people())
        refused(lambda: found.deliver(TEXT, "people", 0, 10), DataError, "'label' is not numeric")
        refused(lambda: found.take(0, 10, ["y"]), DataError, "no column 'y'")
        refused(lambda: found.take(-1, 10, ["x"]), ConnectorError, "start must be a whole number")

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _ids(self, found: Connector, start: int, rows: int) -> set[int]:
        values = found.take(start, rows, ["id"])["id"].tolist()
        assert len(set(values)) == len(values)
        return {int(value) for value in values}


VARIABLES = ("x", "z", "flag", "whole", "money", "gap")


def refused(call: Callable[[], object], kind: type[SourcewiseError], *parts: str) -> None:
    """The call must fail in this way, with a message that holds these parts."""
    try:
        call()
    except kind as error:
        said = str(error)
    else:
        raise AssertionError(f"{kind.__name__} was expected")
    assert all(part in said for part in parts), said
    assert "secret" not in said


def summed(study: Study, data: object, centre: Mapping[str, float]) -> Statistics:
    found = summarize(study, "people", data, centre)
    assert isinstance(found, Statistics)
    return found


def assert_agree(found: Statistics, expected: Statistics, dropped: bool = True) -> None:
    assert (found.source, found.terms, found.n) == (expected.source, expected.terms, expected.n)
    assert not dropped or found.dropped == expected.dropped
    size = np.sqrt(np.diag(expected.gram))
    wrong = np.abs(found.gram - expected.gram) / np.outer(size, size)
    assert np.nanmax(wrong) <= EXACT, describe(wrong, found.terms)


def describe(wrong: Array, terms: Sequence[str]) -> str:
    j, k = np.unravel_index(int(np.nanargmax(wrong)), wrong.shape)
    return f"Σ {terms[int(j)]} · {terms[int(k)]} is off by {wrong[j, k]:.1e}, more than {math.log10(EXACT):g} digits"
