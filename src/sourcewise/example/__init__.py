"""The bundled example: two sources that never saw the same person, and the effect of x on y.

    z → x → y,   x ↔ y (a cause u of both that nobody recorded),   E[z u] = 0

The registry knows z and x, the survey knows z and y. `simulate.py` made the two files beside this one.
"""

from __future__ import annotations

from pathlib import Path

from sourcewise.allocation.allocate import allocate, variance
from sourcewise.fit import fit
from sourcewise.results import Fit
from sourcewise.spec.study import Source, Study

STUDY = Study(
    moments=["z*(x - alpha*z)", "z*(y - alpha*beta*z)"],
    target="beta",
    sources={"registry": Source("z x", cost=1.0), "survey": Source("z y", cost=1.0)},
)


def path(source: str) -> Path:
    """The bundled file of one source."""
    return Path(__file__).with_name(f"{source}.csv")


def run() -> Fit:
    """The fit of the example study to the two bundled files."""
    return fit(STUDY, {source: path(source) for source in STUDY.sources})


def next_money(found: Fit) -> str:
    """Where the next money is best spent, and what that saves, in words."""
    best = allocate(STUDY, found)
    equal = variance(STUDY, found, dict.fromkeys(STUDY.sources, 1.0))
    mix = ", ".join(f"{share:.0%} {name}" for name, share in best.shares.items())
    return (
        f"Best use of money at this estimate: {mix}.\n"
        f"A budget of {2 * found.cost:,.0f} would then give a standard error of {best.stderr(2 * found.cost):.3f}; "
        f"equal rows need {equal / best.variance - 1:.0%} more money for the same."
    )
