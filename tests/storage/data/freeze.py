"""Writes a store as the installed version leaves it, as SQL. Run once per version of the tables, and never again."""

from __future__ import annotations

import sqlite3
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import sourcewise as sw


def rows(n: int, second: str) -> dict[str, list[float]]:
    """Whole numbers, so that the sums are the same on every machine."""
    z = [float(k % 7 - 3) for k in range(n)]
    return {"z": z, second: [2 * value + float(k % 5 - 2) for k, value in enumerate(z)]}


def fill(store: Path) -> None:
    """Every kind of event but the last ones, a source that joined, a batch in parts, rows that were kept."""
    sources = {"registry": sw.Source("z x", 1.0), "survey": sw.Source("z y", 3.0, 5000)}
    study = sw.Study(["z*(x - alpha*z)", "z*(y - alpha*beta*z)"], "beta", sources)
    campaign = sw.Campaign.create(store, study, budget=2000, policy=sw.ETG(0.25), name="frozen", author="ann")
    campaign.ask()
    campaign.tell("registry", rows(98, "x"))
    campaign.tell("registry", {"z": [1.0, 2.0], "x": [3.0, 1.0]}, "again")
    campaign.tell("survey", rows(50, "y"), "May", cost=140.0)
    campaign.close_order("the survey is slow")
    campaign.amend(cost={"survey": 2.0}, add={"both": sw.Source("z x y", 4.0)}, reason="a grant")
    campaign.ask()
    kept = sw.Campaign.create(store, study, budget=90, name="kept ↗", keep_rows=True, author="bob", target_width=0.5)
    kept.tell("registry", rows(9, "x"))
    kept.stop("enough")


def main() -> None:
    with TemporaryDirectory() as directory:
        path = Path(directory) / "store.db"
        fill(path)
        with sqlite3.connect(path) as connection:
            sys.stdout.write("\n".join(connection.iterdump()) + "\n")


if __name__ == "__main__":
    main()
