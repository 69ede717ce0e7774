"""A Parquet file of uncompressible columns, and what is measured on it: see `engines.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

ROWS, GROUP = 20_000_000, 1_000_000
COLUMNS = tuple("abcdef")


def write(path: Path, rows: int) -> None:
    """Standard normal columns, a million rows at a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    random = np.random.default_rng(0)
    schema = pa.schema([(name, pa.float64()) for name in COLUMNS])
    with pq.ParquetWriter(path, schema, compression="snappy") as writer:
        for _ in range(rows // GROUP):
            table = {name: random.standard_normal(GROUP) for name in COLUMNS}
            writer.write_table(pa.table(table, schema=schema))


def read(path: str) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(columns=list(COLUMNS), use_threads=False):
            assert batch.num_rows


def summarize(data: object) -> None:
    import sourcewise as sw

    # five regressions of f through a common slope: 1, a … f and five products are 12 data terms
    moments = ["a*f - p1", "b*f - p2", "c*f - p3", "d*f - p4", "e*f - p5"]
    study = sw.Study(moments=moments, target="p1", sources={"file": sw.Source(COLUMNS, cost=1.0)})
    found = sw.summarize(study, "file", data)
    assert isinstance(found, sw.Statistics)
    assert len(found.terms) == 12
    assert found.n % GROUP == 0


def peak_megabytes() -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))
