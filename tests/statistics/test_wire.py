"""JSON from outside is read with suspicion: each way to be wrong has its own message."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sourcewise as sw
from sourcewise.errors import DataError
from strategies import Array
from sums import STUDY, kept, summed


def changed(**fields: Any) -> str:
    return json.dumps({**json.loads(summed().to_json()), **fields})


def replaced(old: str, new: str) -> str:
    text = summed().to_json()
    assert text.count(old) == 1
    return text.replace(old, new)


def sums(change: Callable[[Array], object]) -> str:
    """The document with another Gram matrix."""
    gram = summed().gram.copy()
    change(gram)
    return changed(gram=gram[np.tril_indices(len(gram))].tolist())


SIZE = len(summed().terms)
HOSTILE: dict[str, tuple[Any, str]] = {
    "nothing": (None, "NoneType"),
    "a number": (5, "int"),
    "empty": ("", "not a sourcewise.statistics document"),
    "no object": ("null", 'does not say "format"'),
    "a list": ("[1]", 'does not say "format"'),
    "no text": (b"\xff\xfe\x00", "not a sourcewise.statistics document"),
    "rows": (kept().to_json(), 'does not say "format": "sourcewise.statistics"'),
    "another format": (changed(format="xml"), 'does not say "format"'),
    "a newer version": (changed(version=2), "version 2; this software reads 1"),
    "a version of no kind": (changed(version="1"), "version '1'"),
    "NaN": (replaced('"n": 40', '"n": NaN'), "NaN is not a number"),
    "infinity": (replaced('"n": 40', '"n": Infinity'), "Infinity is not a number"),
    "minus infinity": (replaced('"gram": [40.0', '"gram": [-Infinity'), "-Infinity is not a number"),
    "an infinite decimal": (replaced('"gram": [40.0', '"gram": [1e400'), "'gram' to be a list of finite numbers"),
    "a huge integer": (changed(gram=[10**400]), "'gram' to be a list of finite numbers"),
    "a hugely huge integer": (replaced('"n": 40', '"n": ' + "9" * 10_000), "not a sourcewise.statistics document"),
    "a key twice": (replaced('"n": 40', '"n": 40, "n": 41'), "gives a key twice"),
    "a key twice inside": (replaced('"centre": {', '"centre": {"x": 1.0, '), "gives a key twice"),
    "deep lists": ("[" * 100_000, "nested too deeply"),
    "deep objects": ('{"a":' * 100_000, "nested too deeply"),
    "n negative": (changed(n=-1), "'n' to be a whole number"),
    "n zero": (changed(n=0), "n ≥ 1"),
    "n too large": (changed(n=2**63), "'n' to be a whole number"),
    "n no integer": (changed(n=40.0), "'n' to be a whole number"),
    "n a text": (changed(n="40"), "'n' to be a whole number"),
    "n true": (changed(n=True), "'n' to be a whole number"),
    "n not that of the sums": (changed(n=41), "no rows could have produced it"),
    "dropped negative": (changed(dropped=-1), "'dropped' to be a whole number"),
    "source of no kind": (changed(source=5), "'source' to be a text"),
    "terms of no kind": (changed(terms="xyz"), "'terms' to be a list of texts"),
    "terms not texts": (changed(terms=[1] * SIZE), "'terms' to be a list of texts"),
    "no terms": (changed(terms=[], gram=[]), "different data terms, the first of them 1"),
    "equal terms": (changed(terms=["1"] * SIZE), "different data terms"),
    "constant missing": (changed(terms=["x"], gram=[40.0]), "the first of them 1"),
    "too few sums": (changed(gram=[40.0]), "1 sums where"),
    "nested sums": (changed(gram=[[40.0]]), "'gram' to be a list of finite numbers"),
    "sums missing": (changed(gram=None), "'gram' to be a list of finite numbers"),
    "centre of no kind": (changed(centre=[1.0]), "'centre' to be finite numbers by name"),
    "centre of texts": (changed(centre={"x": "1"}), "'centre' to be finite numbers by name"),
    "a negative square": (sums(lambda g: np.fill_diagonal(g[1:, 1:], -1.0)), "no rows could have produced it"),
    "a correlation above 1": (sums(lambda g: g.__setitem__((2, 1), 1e9)), "no rows could have produced it"),
}


@pytest.mark.parametrize(("text", "message"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_refused(text: Any, message: str) -> None:
    with pytest.raises(DataError) as refusal:
        sw.Statistics.from_json(text)
    assert message in str(refusal.value)
    assert len(str(refusal.value)) < 400


@pytest.mark.parametrize("field", ["source", "n", "dropped", "terms", "centre", "gram"])
def test_a_missing_field_is_named(field: str) -> None:
    content = json.loads(summed().to_json())
    del content[field]
    with pytest.raises(DataError, match=f"needs '{field}'"):
        sw.Statistics.from_json(json.dumps(content))


def test_a_centre_of_other_variables_is_not_fitted() -> None:
    forged = sw.Statistics.from_json(changed(centre={"x": 0.0, "w": 0.0}))
    with pytest.raises(DataError, match="summarize the rows again"):
        sw.fit(STUDY, {"first": forged})
