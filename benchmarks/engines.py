"""20 million rows × 6 columns, 12 data terms, in each engine: CPU time beside reading the columns there, and memory.

`python benchmarks/engines.py growth` does 10⁶, 10⁷ and 10⁸ rows: 12 GB in the temporary directory. Each measurement
is a process of its own, so that its peak memory (VmHWM) is its own too.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import parquet
from model import Result

BARS = {"pyarrow": 3, "duckdb": 4, "polars": 4}
MEGABYTES = 350


def write(engine: str, folder: Path, rows: int) -> Path:
    """The same Parquet file, and a DuckDB table of it."""
    path = folder / "rows.parquet"
    if not path.exists():
        parquet.write(path, rows)
    if engine != "duckdb":
        return path
    import duckdb

    with duckdb.connect(str(folder / "rows.duckdb")) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS people AS SELECT * FROM read_parquet(?)", [str(path)])
    return folder / "rows.duckdb"


def read_duckdb(path: str) -> None:
    """DuckDB counts without reading, so the columns are added up."""
    import duckdb

    with duckdb.connect(path, read_only=True, config={"memory_limit": "128MB"}) as connection:
        assert connection.execute("SELECT sum(a + b + c + d + e + f) FROM people").fetchall()


def read_polars(path: str) -> None:
    import polars as pl

    total = pl.sum_horizontal(pl.col(*parquet.COLUMNS).sum())
    assert pl.scan_parquet(path).select(total).collect(engine="streaming").height == 1


def sum_duckdb(path: str) -> None:
    import sourcewise as sw

    parquet.summarize(sw.connect({"path": path, "table": "people"}))


def sum_polars(path: str) -> None:
    import polars as pl

    parquet.summarize(pl.scan_parquet(path))


TASKS: dict[str, Callable[[str], None]] = {
    "read pyarrow": parquet.read,
    "read duckdb": read_duckdb,
    "read polars": read_polars,
    "sum pyarrow": parquet.summarize,
    "sum duckdb": sum_duckdb,
    "sum polars": sum_polars,
}


def measured(task: str, path: Path) -> tuple[float, float]:
    """CPU seconds (without the imports) and peak MB of a task in a process of its own."""
    found = subprocess.run([sys.executable, __file__, task, str(path)], check=True, capture_output=True, text=True)
    seconds, megabytes = map(float, found.stdout.split())
    return seconds, megabytes


def engine_row(engine: str, rows: int, folder: Path, repeats: int) -> Result:
    path = write(engine, folder, rows)
    pairs = [(measured(f"read {engine}", path), measured(f"sum {engine}", path)) for _ in range(repeats)]
    reading = min(read for (read, _), _ in pairs)
    summing, peak = min(total for _, (total, _) in pairs), max(megabytes for _, (_, megabytes) in pairs)
    bar = f"≤ {BARS[engine]}" + (f", ≤ {MEGABYTES} MB" if engine != "polars" else "")
    return (
        f"{engine}, {rows:,} rows × 6, 12 terms: CPU of summarize / CPU of reading; peak memory",
        f"{summing / reading:.2f} ({summing:.2f} s / {reading:.2f} s), {peak:.0f} MB",
        bar,
    )


def run(sizes: tuple[int, ...] = (parquet.ROWS,), repeats: int = 3) -> list[Result]:
    found = []
    for rows in sizes:
        with tempfile.TemporaryDirectory() as folder:
            found += [engine_row(engine, rows, Path(folder), repeats) for engine in BARS]
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["growth"]:
        for row in run((10**6, 10**7, 10**8), repeats=2):
            print("| " + " | ".join(row) + " |", flush=True)
        sys.exit()
    import sourcewise  # noqa: F401

    task = TASKS[sys.argv[1]]
    for module in ("duckdb", "polars", "pyarrow.parquet"):
        if module.startswith(sys.argv[1].split()[1]):
            __import__(module)
    began = time.process_time()
    task(sys.argv[2])
    print(time.process_time() - began, parquet.peak_megabytes())
