"""The bundled example: two sources that never saw the same person, and the effect of x on y.

    z → x → y,   x ↔ y (a cause u of both that nobody recorded),   E[z u] = 0

The registry knows z and x, the survey knows z and y. `simulate.py` made the two files beside this one.
"""

from __future__ import annotations

from importlib.resources import files

import numpy as np

from sourcewise.fit import Fit, fit
from sourcewise.spec.study import Source, Study

STUDY = Study(
    moments=["z*(x - alpha*z)", "z*(y - alpha*beta*z)"],
    target="beta",
    sources={"registry": Source("z x", cost=1.0), "survey": Source("z y", cost=1.0)},
)


def read(source: str) -> dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """The columns of one bundled file, by name, each of shape (rows,)."""
    text = files("sourcewise.example").joinpath(f"{source}.csv").read_text(encoding="utf-8")
    header, *lines = text.splitlines()
    table = np.array([line.split(",") for line in lines], dtype=np.float64)
    return dict(zip(header.split(","), table.T, strict=True))


def run() -> Fit:
    """The fit of the example study to the two bundled files."""
    return fit(STUDY, {source: read(source) for source in STUDY.sources})
