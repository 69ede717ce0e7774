"""Rebuild the extracts in this directory from the packages that carry the originals (see README.md).

    python rebuild.py path/to/hall.gdt path/to/semopy/examples

The figures are copied as the originals print them, digit by digit: no number is parsed here.
"""

from __future__ import annotations

import csv
import gzip
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
HALL = ("consrat", "ewr")
ABILITY = tuple(f"x{i}" for i in range(1, 10))
DEMOCRACY = ("x1", "x2", "x3", *(f"y{i}" for i in range(1, 9)))


def hall(gdt: Path) -> list[list[str]]:
    """The chosen columns of gretl's compressed XML, one row per month."""
    text = gzip.decompress(gdt.read_bytes()).decode()
    names = re.findall(r'<variable name="(\w+)"', text)
    rows = [obs.split() for obs in re.findall(r"<obs[^>]*>([^<]*)</obs>", text)]
    if not rows or any(len(row) != len(names) for row in rows):
        raise SystemExit(f"{gdt.name}: the rows do not have one figure for each of {', '.join(names)}")
    return [[row[names.index(name)] for name in HALL] for row in rows]


def columns(source: Path, names: Sequence[str]) -> list[list[str]]:
    """The chosen columns of a CSV file, as text."""
    with source.open(newline="") as stream:
        return [[row[name] for name in names] for row in csv.DictReader(stream)]


def write(name: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    with (HERE / name).open("w", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


def main(gdt: str, examples: str) -> None:
    write("hall.csv", HALL, hall(Path(gdt)))
    write("ability.csv", ABILITY, columns(Path(examples, "holzinger_swineford39_data.csv"), ABILITY))
    write("democracy.csv", DEMOCRACY, columns(Path(examples, "pd_data.csv"), DEMOCRACY))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(sys.argv[1], sys.argv[2])
