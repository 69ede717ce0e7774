"""What is kept of a source's rows: sums of products, which add up and travel as JSON.

No row is in them; but of very few rows, sums tell as much as the rows do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from html import escape
from types import MappingProxyType
from typing import Any, Self

import numpy as np

from sourcewise.errors import DataError
from sourcewise.moments.compiled import CompiledSource
from sourcewise.moments.separable import GramEvidence
from sourcewise.numerics.linalg import Array, is_gram
from sourcewise.statistics import wire

FORMAT = "sourcewise.statistics"

MOST_ROWS = 2**53
"""The sum of as many ones is exact, and it fits into the columns of a database."""


@dataclass(frozen=True, slots=True, eq=False)
class Statistics:
    """n and the Gram matrix Σ φφᵀ of a source's data terms about a fixed centre.

    Statistics of the same source, terms and centre add up: `a + b` is what all rows together would have given.
    """

    source: str
    terms: tuple[str, ...]
    centre: Mapping[str, float]
    n: int
    gram: Array
    dropped: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "gram", wire.as_array(self.gram, "the Gram matrix of statistics", 2))
        object.__setattr__(self, "centre", MappingProxyType(dict(self.centre)))
        _check(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.source, self.terms, dict(self.centre), self.n, self.gram, self.dropped)

    def __add__(self, other: Statistics) -> Statistics:
        return self.merge(other)

    def merge(self, other: Statistics) -> Statistics:
        """The statistics of both sets of rows together."""
        _check_mergeable(self, other)
        return Statistics(
            self.source,
            self.terms,
            self.centre,
            self.n + other.n,
            self.gram + other.gram,
            self.dropped + other.dropped,
        )

    def to_json(self) -> str:
        """A text from which `from_json` restores every bit."""
        lower = self.gram[np.tril_indices(len(self.terms))]
        return wire.dump(
            FORMAT,
            source=self.source,
            n=self.n,
            dropped=self.dropped,
            terms=list(self.terms),
            centre=dict(self.centre),
            gram=lower.tolist(),
        )

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote; anything else is refused."""
        content = wire.load(text, FORMAT)
        terms = content.texts("terms")
        size = len(terms)
        lower = content.numbers("gram")
        if len(lower) != size * (size + 1) // 2:
            raise DataError(f"these statistics have {len(lower)} sums where {size} terms need {size * (size + 1) // 2}")
        gram = np.zeros((size, size))
        rows, columns = np.tril_indices(size)
        gram[rows, columns] = gram[columns, rows] = lower
        return cls(
            content.text("source"),
            terms,
            content.named_numbers("centre"),
            content.count("n"),
            gram,
            content.count("dropped"),
        )

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"

    def __repr__(self) -> str:
        return f"Statistics({self.source!r}, n={self.n}, terms={len(self.terms)})"


def evidence(source: CompiledSource, statistics: Statistics) -> GramEvidence:
    """The statistics as the estimator sees them, once it is certain that they are of this source's moments."""
    expected = source.labels
    if statistics.terms != expected or tuple(statistics.centre) != tuple(source.atoms):
        raise DataError(
            f"the statistics given for source {source.name!r} hold other data terms than its moments need "
            f"({', '.join(statistics.terms[:6])}… against {', '.join(expected[:6])}…); "
            f"they were made for another study: summarize the rows again"
        )
    centre = np.array(list(statistics.centre.values())).reshape(-1, 1)
    return GramEvidence(source, np.array([float(statistics.n)]), statistics.gram[None], centre)


def _check(statistics: Statistics) -> None:
    gram, size = statistics.gram, len(statistics.terms)
    name = statistics.source
    if not statistics.terms or statistics.terms[0] != "1" or len(set(statistics.terms)) < size:
        raise DataError(f"statistics of source {name!r} need different data terms, the first of them 1")
    counts = (statistics.n, statistics.dropped)
    whole = all(isinstance(count, int) for count in counts)
    if not whole or statistics.n < 1 or statistics.dropped < 0 or max(counts) > MOST_ROWS:
        raise DataError(
            f"statistics of source {name!r} need whole numbers n ≥ 1 and dropped ≥ 0, both at most 2⁵³, "
            f"not {statistics.n!r}, {statistics.dropped!r}"
        )
    if gram.shape != (size, size):
        raise DataError(f"statistics of source {name!r} need a {size} × {size} Gram matrix, not {gram.shape}")
    centre = wire.as_array(list(statistics.centre.values()), f"the centre of source {name!r}", 1)
    if not np.isfinite(gram).all() or not np.isfinite(centre).all():
        raise DataError(
            f"the sums of products of source {name!r} are not finite: its values are too large to be multiplied; "
            f"express its variables in larger units"
        )
    diagonal = np.diag(gram)
    if ((diagonal >= 0) & (diagonal < np.finfo(np.float64).tiny) & gram.any(axis=1)).any():
        raise DataError(
            f"the sums of products of source {name!r} vanish: its values are too small to be multiplied; "
            f"express its variables in smaller units"
        )
    if gram[0, 0] != statistics.n or not (gram == gram.T).all() or not is_gram(gram):
        raise DataError(f"the Gram matrix given for source {name!r} is not one: no rows could have produced it")


def _check_mergeable(left: Statistics, right: object) -> None:
    if not isinstance(right, Statistics):
        raise DataError(f"statistics can be merged with statistics only, not with {type(right).__name__}")
    if left.source != right.source:
        raise DataError(f"statistics of different sources cannot be merged: {left.source!r} and {right.source!r}")
    if left.terms != right.terms:
        raise DataError(
            f"statistics of source {left.source!r} hold different data terms: they are of different studies"
        )
    if dict(left.centre) != dict(right.centre):
        raise DataError(
            f"statistics of source {left.source!r} are about different centres and cannot be merged without loss; "
            f"pass the first batch's centre when summarizing the next: summarize(..., centre=first.centre)"
        )
