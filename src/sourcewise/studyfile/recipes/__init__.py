"""Study files to start from: commented, with a simulated world in them, ready to run."""

from __future__ import annotations

from importlib.resources import files

from sourcewise.errors import StudyFileError

RECIPES = {
    "iv": "an instrument, three sources of different costs",
    "two-sample-iv": "an instrument, two samples of different people",
    "backdoor-frontdoor": "a measured confounder in one source, a mediator in the other",
    "partial-confounders": "two confounders, rarely measured together",
    "proxy-labels": "the mean of expensive labels, with cheap ones beside them",
    "causal-graph": "a causal graph in place of moments",
    "blank": "a template to fill in",
}


def recipe(name: str) -> str:
    """The text of a recipe's study file."""
    if name not in RECIPES:
        raise StudyFileError(f"there is no recipe {name!r}; choose one of {', '.join(RECIPES)}")
    return files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8")
