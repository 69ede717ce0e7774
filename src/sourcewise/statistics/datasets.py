"""PyArrow datasets, read in the order of their files, a little at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sourcewise.errors import DataError, safe_cause
from sourcewise.statistics.cells import Chunk, check_names, from_arrow
from sourcewise.statistics.files import BATCH_ROWS, PARQUET_BUFFER_BYTES


def is_dataset(data: object) -> bool:
    """A dataset cannot exist before its module is loaded."""
    module = sys.modules.get("pyarrow.dataset")
    return module is not None and isinstance(data, module.Dataset)


def dataset_chunks(data: Any, columns: Sequence[str]) -> Iterator[Chunk]:
    import pyarrow.dataset as ds

    check_names(data.schema.names, columns)
    fields = {name: ds.field(name) for name in columns}
    # as it is, PyArrow reads 16 batches of 4 files ahead
    options: dict[str, Any] = {"batch_size": BATCH_ROWS, "batch_readahead": 1, "fragment_readahead": 1}
    if isinstance(getattr(data, "format", None), ds.ParquetFileFormat):
        options["fragment_scan_options"] = ds.ParquetFragmentScanOptions(
            use_buffered_stream=True, buffer_size=PARQUET_BUFFER_BYTES, pre_buffer=False
        )
    with reading_dataset():
        for batch in data.scanner(columns=fields, use_threads=False, **options).to_batches():
            yield [from_arrow(batch.column(k), name) for k, name in enumerate(columns)]


@contextmanager
def reading_dataset() -> Iterator[None]:
    """What PyArrow says of a dataset, as an error of ours."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, EOFError) as error:
        raise DataError(f"the dataset cannot be read: {error}") from safe_cause(error)
