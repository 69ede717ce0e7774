"""The bundled examples: a campaign over three sources that answer by themselves, and two files that share no person.

`run` is what `sourcewise example` does: the recipe "iv", with an expensive interview, a cheap registry and a survey.

`STUDY` and `path` are of two sources that never saw the same person, and the effect of x on y:

    z → x → y,   x ↔ y (a cause u of both that nobody recorded),   E[z u] = 0

The registry knows z and x, the survey knows z and y. `simulate.py` made the two files beside this one.
"""

from __future__ import annotations

from pathlib import Path

from sourcewise.driver.run import Watch
from sourcewise.driver.run import run as run_campaign
from sourcewise.errors import SourcewiseError
from sourcewise.records import CampaignRecord
from sourcewise.spec.study import Source, Study
from sourcewise.studyfile.recipes import recipe

STUDY = Study(
    moments=["z*(x - alpha*z)", "z*(y - alpha*beta*z)"],
    target="beta",
    sources={"registry": Source("z x", cost=1.0), "survey": Source("z y", cost=1.0)},
)


def path(source: str) -> Path:
    """The bundled file of one source."""
    return Path(__file__).with_name(f"{source}.csv")


def run(directory: Path, watch: Watch | None = None) -> CampaignRecord:
    """The example campaign in `directory`: its study file, its store, and at the end its report."""
    study, store = directory / "study.toml", directory / "sourcewise.db"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if not study.exists():
            study.write_text(recipe("iv"), encoding="utf-8")
    except OSError as error:
        raise SourcewiseError(f"the example cannot be written to {str(directory)!r}: {error.strerror}") from None
    return run_campaign(study, store, watch=watch)
