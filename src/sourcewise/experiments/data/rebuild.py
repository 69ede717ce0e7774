"""Rebuild ihdp.csv: python rebuild.py path/to/sim.csv (see README.md)."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

COLUMNS = ("treat", "bw", "cig")


def main(origin: Path) -> None:
    with origin.open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if not (row["treat"] == "1" and row["momwhite"] == "0")]
    lines = [",".join(COLUMNS), *(",".join(row[name] for name in COLUMNS) for row in rows)]
    Path(__file__).with_name("ihdp.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
