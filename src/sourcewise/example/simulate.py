"""How registry.csv and survey.csv came to be.

`python -m sourcewise.example.simulate DIRECTORY` writes them again.

Linear instrumental-variable graph with z, u, e_x, e_y ~ N(0, 1):  x = z + u + e_x,  y = x + u + e_y.
The true effect is 1. The two sources are different people, so no row holds both x and y.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

SEED, ROWS = 2021, 1000
COLUMNS = {"registry": ("z", "x"), "survey": ("z", "y")}


def simulate(seed: int = SEED, rows: int = ROWS) -> dict[str, str]:
    """The text of each source's CSV file, by source."""
    rng = np.random.default_rng(seed)
    texts = {}
    for source, names in COLUMNS.items():
        z, u, e_x, e_y = rng.standard_normal((4, rows))
        x = z + u + e_x
        person = {"z": z, "x": x, "y": x + u + e_y}
        rows_of_source = zip(*(person[name] for name in names), strict=True)
        lines = (",".join(f"{value:.4f}" for value in row) for row in rows_of_source)
        texts[source] = "\n".join([",".join(names), *lines]) + "\n"
    return texts


if __name__ == "__main__":
    for name, text in simulate().items():
        Path(sys.argv[1], f"{name}.csv").write_text(text, encoding="utf-8", newline="\n")
