"""20 million rows × 6 columns of Parquet, summarised for 12 data terms: CPU time against reading, and memory.

Each measurement is a process of its own, so that its peak memory (VmHWM) is its own too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from model import Result

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


def summarize(path: str) -> None:
    import sourcewise as sw

    # five regressions of f through a common slope: 1, a … f and five products are 12 data terms
    moments = ["a*f - p1", "b*f - p2", "c*f - p3", "d*f - p4", "e*f - p5"]
    study = sw.Study(moments=moments, target="p1", sources={"file": sw.Source(COLUMNS, cost=1.0)})
    found = sw.summarize(study, "file", path)
    assert isinstance(found, sw.Statistics)
    assert len(found.terms) == 12
    assert found.n % GROUP == 0


def peak_megabytes() -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def measured(task: str, path: Path) -> tuple[float, float]:
    """CPU seconds (without the imports) and peak MB of a task in a process of its own."""
    found = subprocess.run([sys.executable, __file__, task, str(path)], check=True, capture_output=True, text=True)
    seconds, megabytes = map(float, found.stdout.split())
    return seconds, megabytes


def run(rows: int = ROWS) -> list[Result]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.parquet")
        write(path, rows)
        pairs = [(measured("read", path), measured("summarize", path)) for _ in range(3)]
    reading = min(read for (read, _), _ in pairs)
    summing = min(total for _, (total, _) in pairs)
    peak = max(megabytes for _, (_, megabytes) in pairs)
    ratio = f"{summing / reading:.2f} ({summing:.1f} s / {reading:.1f} s)"
    return [
        (f"Parquet, {rows:,} rows × 6: CPU of summarize / CPU of reading", ratio, "≤ 3"),
        ("its peak memory", f"{peak:.0f} MB", "≤ 350 MB"),
    ]


if __name__ == "__main__":
    tasks = {"read": read, "summarize": summarize}

    import sourcewise  # noqa: F401

    began = time.process_time()
    tasks[sys.argv[1]](sys.argv[2])
    print(time.process_time() - began, peak_megabytes())
