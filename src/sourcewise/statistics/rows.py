"""The rows of a source whose moments need them: the same handling as `Statistics`, without the privacy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from sourcewise.errors import DataError
from sourcewise.moments.compiled import CompiledSource
from sourcewise.moments.rowwise import RowEvidence
from sourcewise.numerics.linalg import Array
from sourcewise.statistics import wire

FORMAT = "sourcewise.rows"


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Columns (variables, n) of the variables that a source's moments use."""

    source: str
    variables: tuple[str, ...]
    columns: Array
    dropped: int = 0

    def __post_init__(self) -> None:
        columns = wire.as_array(self.columns, "the columns of rows", 2)
        if columns.shape[0] != len(self.variables) or not columns.shape[1] or not np.isfinite(columns).all():
            raise DataError(
                f"rows of source {self.source!r} need one column of finite numbers for each of "
                f"{', '.join(self.variables)}, and at least one row"
            )
        object.__setattr__(self, "columns", columns)

    @property
    def n(self) -> int:
        return int(self.columns.shape[1])

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source, self.variables, self.columns, self.dropped)

    def __add__(self, other: Rows) -> Rows:
        return self.merge(other)

    def merge(self, other: Rows) -> Rows:
        """Both sets of rows."""
        if not isinstance(other, Rows) or (self.source, self.variables) != (other.source, other.variables):
            raise DataError(f"rows of source {self.source!r} can be merged only with rows of the same source and study")
        joined = np.hstack([self.columns, other.columns])
        return Rows(self.source, self.variables, joined, self.dropped + other.dropped)

    def to_json(self) -> str:
        """A text from which `from_json` restores every bit."""
        return wire.dump(
            FORMAT,
            source=self.source,
            dropped=self.dropped,
            variables=list(self.variables),
            columns=self.columns.tolist(),
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote; anything else is refused."""
        content = wire.load(text, FORMAT)
        columns = content.rows("columns")
        if len({len(column) for column in columns}) > 1:
            raise DataError("the columns of these rows have different lengths")
        variables = content.texts("variables")
        return cls(content.text("source"), variables, np.array(columns), content.count("dropped"))

    def __repr__(self) -> str:
        return f"Rows({self.source!r}, n={self.n}, variables={self.variables})"


def evidence(source: CompiledSource, rows: Rows) -> RowEvidence:
    """The rows as the estimator sees them."""
    if rows.variables != source.variables:
        raise DataError(
            f"the rows given for source {source.name!r} hold {', '.join(rows.variables)}; "
            f"its moments need {', '.join(source.variables)}"
        )
    return RowEvidence(source, [rows.columns])
