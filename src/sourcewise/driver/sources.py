"""The connectors of a study file: one for each source that has data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sourcewise.connectors.base import Connector
from sourcewise.connectors.connect import connect
from sourcewise.driver.world import WorldTable
from sourcewise.errors import DataError, StudyFileError, at
from sourcewise.simulation.declared import Declared, world_from_plain
from sourcewise.spec.study import Study
from sourcewise.studyfile.file import StudyFile


def connectors_of(file: StudyFile, data: Mapping[str, object] | None = None) -> dict[str, Connector]:
    """By source. `data`: frames, tables or specs in Python that take the place of what the file says."""
    given = dict(data or {})
    unknown = [name for name in given if name not in file.study.sources]
    if unknown:
        raise DataError(f"there is no source {unknown[0]!r}; the study's sources are {', '.join(file.study.sources)}")
    world = None if file.world is None else world_from_plain(file.world, file.study)
    found: dict[str, Connector] = {}
    for name in file.study.sources:
        if name in given:
            found[name] = connect(given[name])
        elif name in file.data:
            with at("sources", name, "data"):
                found[name] = _connect(file, name, file.data[name], world)
    return found


def check_data(file: StudyFile) -> None:
    """Refuse what a source's data table, or the world, has wrong; rows are not read."""
    for name, connector in connectors_of(file).items():
        with at("sources", name, "data"):
            check_columns(file.study, name, connector.columns())
        connector.close()


def check_columns(study: Study, source: str, columns: tuple[str, ...]) -> None:
    lacking = [name for name in study.sources[source].observes if name not in columns]
    if lacking:
        shown = ", ".join(map(repr, columns[:20])) + (", ..." if len(columns) > 20 else "")
        raise DataError(
            f"source {source!r} observes {', '.join(lacking)}, which its data do not have; their columns are {shown}"
        )


def _connect(file: StudyFile, name: str, spec: Mapping[str, Any], world: Declared | None) -> Connector:
    if spec.get("kind") != "world":
        return connect(dict(spec), base=file.origin.folder)
    if set(spec) != {"kind"}:
        raise StudyFileError('a source that draws from the world says {kind = "world"} and nothing else')
    if world is None:
        raise StudyFileError(f"source {name!r} draws its rows from a world; say in a table [world] what world that is")
    assert file.world is not None
    return WorldTable(file.world, world, name, file.study.sources[name].observes)
