"""From data of any kind to what the estimator needs of it, in one pass and constant memory."""

from __future__ import annotations

import math
import os
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from hashlib import sha256

import numpy as np

from sourcewise.errors import DataError, StudyError
from sourcewise.moments.base import Evidence
from sourcewise.moments.compiled import CompiledSource, compile_source
from sourcewise.numerics.linalg import Array
from sourcewise.spec.study import Study
from sourcewise.statistics import gram as gram_statistics
from sourcewise.statistics import rows as row_statistics
from sourcewise.statistics.features import Features, choose_centre
from sourcewise.statistics.frames import Missing, RowReader, Stream, naming
from sourcewise.statistics.gram import Statistics
from sourcewise.statistics.lazy import Lazy, NotThereError, is_elsewhere, sums_there
from sourcewise.statistics.partitions import sums_of_partitions
from sourcewise.statistics.rows import Rows


@dataclass(frozen=True, slots=True)
class Summary:
    """What is kept of some rows, None if no usable row was among them; how many rows were read."""

    kept: Statistics | Rows | None
    seen: int
    note: str = ""
    """A sentence, where the rows were not summed where they live although that was possible in principle."""


class Summable(Stream):
    """A table that computes its sums itself."""

    @abstractmethod
    def measure(
        self, source: CompiledSource, centre: Mapping[str, float] | None, missing: Missing, *, empty: bool = False
    ) -> Summary:
        """As the function `measure`, with a centre that has been checked."""


def summarize(
    study: Study,
    source: str,
    data: object,
    centre: Mapping[str, float] | None = None,
    *,
    missing: Missing = "error",
) -> Statistics | Rows:
    """The sums of products that `study` needs of rows from `source`.

    `data` is anything that `fit` reads: a pandas, Polars or PyArrow frame, a dict of arrays, the path of a
    file or folder, or a connector (`connect`).
    Later batches of the same source take the centre of the first: `summarize(..., centre=first.centre)`.
    A source with moments that do not separate into data and parameters keeps its rows instead.
    """
    kept = measure(_compiled(study, source), data, centre, missing).kept
    assert kept is not None
    return kept


def summarize_batch(
    study: Study, source: str, data: object, centre: Mapping[str, float] | None, missing: Missing, keep_rows: bool
) -> tuple[Statistics | Rows, Rows | None, str]:
    """What `summarize` returns, the rows themselves if they are to be kept, and a fingerprint of them in their order.

    The fingerprint is of the numbers that moments use: it does not depend on the centre, nor on the kind of table."""
    compiled = _compiled(study, source)
    mark, kept = sha256(repr((source, compiled.variables)).encode()), []

    def watch(blocks: Iterable[Array]) -> Iterator[Array]:
        for block in blocks:
            mark.update(block.astype("<f8", copy=False).tobytes())
            if keep_rows:
                kept.append(block)
            yield block

    found = read_and_sum(compiled, data, _checked_centre(compiled, centre), missing, watch=watch).kept
    assert found is not None
    if isinstance(found, Rows) or not keep_rows:
        return found, found if isinstance(found, Rows) else None, mark.hexdigest()
    return found, Rows(source, compiled.variables, np.hstack(kept), found.dropped), mark.hexdigest()


def _compiled(study: Study, source: str) -> CompiledSource:
    if not isinstance(study, Study):
        raise StudyError(f"summarize needs a Study(...) first, not {type(study).__name__}")
    if not isinstance(source, str) or source not in study.sources:
        raise StudyError(f"there is no source {source!r}; the study's sources are {', '.join(study.sources)}")
    return compile_source(study, source)


def measure(
    source: CompiledSource,
    data: object,
    centre: Mapping[str, float] | None,
    missing: Missing,
    *,
    empty: bool = False,
) -> Summary:
    """What `summarize` returns and how many rows were read; no rows at all are an error unless they may be `empty`."""
    centre = _checked_centre(source, centre)
    if isinstance(data, Summable):
        return data.measure(source, centre, missing, empty=empty)
    if not isinstance(data, str | os.PathLike | Mapping | Stream) and is_elsewhere(data):
        return measure_there(source, Lazy.of(data), centre, missing, empty=empty)
    return read_and_sum(source, data, centre, missing, empty=empty)


def read_and_sum(
    source: CompiledSource,
    data: object,
    centre: Mapping[str, float] | None,
    missing: Missing,
    *,
    empty: bool = False,
    watch: Callable[[Iterable[Array]], Iterable[Array]] = iter,
) -> Summary:
    """`measure` by reading the rows here; `watch` sees every block of them on its way."""
    reader = RowReader(data, source.variables, source=source.name, missing=missing, empty=empty)
    if source.separable is None:
        blocks = list(watch(reader))
        kept = Rows(source.name, source.variables, np.hstack(blocks), reader.dropped) if blocks else None
        return Summary(kept, reader.rows + reader.dropped)
    used, rows, total = _sum(source, watch(reader), centre)
    sums = Statistics(source.name, source.labels, used, rows, total, reader.dropped) if rows else None
    return Summary(sums, rows + reader.dropped)


def measure_there(
    source: CompiledSource, lazy: Lazy, centre: Mapping[str, float] | None, missing: Missing, *, empty: bool = False
) -> Summary:
    """`measure` by the engine that holds the rows; they are read here only where there is no other way."""
    try:
        if source.separable is None:
            raise NotThereError("its moments do not separate into data and parameters, so its rows are kept")
        if lazy.frame.implementation.is_dask():
            with naming(source.name):
                frame = lazy.selected(source.variables)
            return Summary(*sums_of_partitions(source, frame, centre, missing, empty=empty))
        return Summary(*sums_there(source, lazy, centre, missing, empty=empty))
    except NotThereError as why:
        with naming(source.name):
            rows = lazy.rows(source.variables)
        return replace(read_and_sum(source, rows, centre, missing, empty=empty), note=str(why))


def _checked_centre(source: CompiledSource, centre: Mapping[str, float] | None) -> Mapping[str, float] | None:
    if source.separable is None and centre is not None:
        raise DataError(f"source {source.name!r} keeps its rows as they are, so it takes no centre; leave centre= out")
    return None if centre is None else _check_centre(source, centre)


def evidence_of(study: Study, source: str, data: object, missing: Missing) -> tuple[Evidence, Statistics | Rows]:
    """Data or statistics of a source, as the estimator sees them and as they may be kept."""
    kept = data if isinstance(data, Statistics | Rows) else summarize(study, source, data, missing=missing)
    if kept.source != source:
        raise DataError(f"source {source!r} was given statistics of source {kept.source!r}")
    compiled = compile_source(study, source)
    if isinstance(kept, Statistics) and compiled.separable is not None:
        return gram_statistics.evidence(compiled, kept), kept
    if isinstance(kept, Rows) and compiled.separable is None:
        return row_statistics.evidence(compiled, kept), kept
    raise DataError(
        f"source {source!r} was given {type(kept).__name__} that were made for another study: summarize the rows again"
    )


def _sum(
    source: CompiledSource, blocks: Iterable[Array], centre: Mapping[str, float] | None
) -> tuple[Mapping[str, float], int, Array]:
    """Centre, number of rows and Σ φφᵀ of a stream of blocks (variables, n)."""
    size = len(source.terms)
    total, count = np.zeros((size, size)), 0
    features: Features | None = None
    used: Mapping[str, float] = centre or {}
    with np.errstate(over="ignore", invalid="ignore"), ExitStack() as stack:
        for index, block in enumerate(blocks):
            if features is None:
                used = choose_centre(source, block) if centre is None else centre
                features = Features(source, used)
            if index == 1:  # not before: finding the BLAS libraries takes longer than a small batch does
                stack.enter_context(one_blas_thread())
            terms = features(block)
            total += terms @ terms.T
            count += block.shape[1]
    total[0, 0] = count
    return used, count, total


def one_blas_thread() -> AbstractContextManager[object]:
    """Threads cost more than they bring on blocks this small."""
    from threadpoolctl import threadpool_limits

    limits: AbstractContextManager[object] = threadpool_limits(1, user_api="blas")
    return limits


def _check_centre(source: CompiledSource, centre: Mapping[str, float]) -> dict[str, float]:
    try:
        checked = {atom: float(centre[atom]) for atom in source.atoms}
        good = len(centre) == len(checked) and all(map(math.isfinite, checked.values()))
    except (KeyError, OverflowError, TypeError, ValueError):
        good = False
    if not good:
        raise DataError(
            f"the centre of source {source.name!r} needs one finite number for each of {', '.join(source.atoms)}, "
            f"not {centre!r}"
        )
    return checked
