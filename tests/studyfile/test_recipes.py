"""Recipes: every one is a study that its world identifies, and the schema knows what the reader knows."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import sourcewise as sw
from sourcewise.planning.assumed import fit_of_world
from sourcewise.simulation.declared import world_from_plain
from sourcewise.studyfile.recipes import RECIPES, recipe
from sourcewise.studyfile.schema import schema


@pytest.mark.parametrize("name", RECIPES)
def test_the_truth_of_a_recipe_is_what_its_world_says(name: str) -> None:
    """At the population all moments hold (J is zero, whatever the degrees of freedom), and the target is the truth."""
    file = sw.StudyFile.from_toml(recipe(name))
    assert file.world is not None
    world = world_from_plain(file.world, file.study)
    found = fit_of_world(file.study, world.world)
    assert found.target.value == pytest.approx(world.truth, abs=1e-9)
    assert found.overid.statistic < 1e-9
    assert file.name == name
    assert set(file.data) == set(file.study.sources)


@pytest.mark.parametrize("name", RECIPES)
def test_a_recipe_is_for_reading(name: str) -> None:
    text = recipe(name)
    assert text.startswith("# ")
    assert all(len(line) <= 120 for line in text.splitlines())
    assert sum(line.lstrip().startswith("#") for line in text.splitlines()) >= 15


def test_an_unknown_recipe_is_named() -> None:
    with pytest.raises(sw.StudyFileError, match="there is no recipe 'ivv'; choose one of iv"):
        recipe("ivv")


def test_the_schema_in_the_documentation_is_the_one_in_use(root: Path) -> None:
    text = (root / "docs" / "reference" / "study.schema.json").read_text(encoding="utf-8")
    assert json.loads(text) == schema()


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())


@pytest.mark.parametrize("name", RECIPES)
def test_the_schema_accepts_recipes_as_written_and_as_read(name: str) -> None:
    jsonschema.validate(tomllib.loads(recipe(name)), schema())
    jsonschema.validate(sw.StudyFile.from_toml(recipe(name)).to_plain(), schema())


def _plain() -> dict[str, Any]:
    return sw.StudyFile.from_toml(recipe("iv")).to_plain()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("budget",), -1),
        (("budget",), "much"),
        (("target",), 3),
        (("moments",), []),
        (("moments",), [1]),
        (("moments",), "x - m"),
        (("policy",), {"kind": "etg", "batch": 2}),
        (("policy",), {"kind": "etg", "explore": 0.5}),
        (("policy",), {"kind": "best"}),
        (("sources", "survey", "cost"), 0),
        (("sources", "survey", "capacity"), 1.5),
        (("sources", "survey", "price"), 1),
        (("sources", "survey", "observes"), ["z", "z"]),
        (("sources", "survey", "data"), "rows.csv"),
        (("graph",), "x -> y"),
        (("unknown",), 1),
    ],
)
def test_the_schema_refuses_what_the_reader_refuses(path: tuple[str, ...], value: Any) -> None:
    plain = _plain()
    table = plain
    for key in path[:-1]:
        table = table[key]
    table[path[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(plain, schema())
    with pytest.raises(sw.SourcewiseError):
        sw.StudyFile.from_plain(plain)
