"""The JSON schema of study files, for editors and other programs; the text of docs/reference/study.schema.json."""

from __future__ import annotations

from typing import Any, get_args

from sourcewise.spec.graph.ask import Latent
from sourcewise.spec.study import WEIGHTS
from sourcewise.studyfile.file import DATA_KEYS

Schema = dict[str, Any]

POSITIVE: Schema = {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 2**63}
NAME = "^[A-Za-z_][A-Za-z0-9_]{0,63}$"
FORMULA: Schema = {"type": "string", "minLength": 1, "maxLength": 2048}


def _table(properties: Schema, required: tuple[str, ...] = (), **more: Any) -> Schema:
    found: Schema = {"type": "object", "properties": properties, "additionalProperties": False, **more}
    return found | ({"required": list(required)} if required else {})


def schema() -> Schema:
    """JSON Schema, draft 2020-12."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Sourcewise study file",
        "description": "A study: what is to be estimated, from which sources, at which prices, and how to spend.",
        **_table(
            {
                "name": {
                    "description": "What a campaign of this study is called.",
                    "type": "string",
                    "maxLength": 100,
                },
                "target": {"description": "The formula in the parameters that is to be estimated.", **FORMULA},
                "moments": _moments(),
                "graph": {"description": "A causal graph, in place of moments.", "type": "string", "minLength": 1},
                "intercepts": {"description": "Whether a graph's variables have means.", "type": "boolean"},
                "latent": {
                    "description": "Whether variables that no source observes stay parts of a graph.",
                    "enum": list(get_args(Latent)),
                },
                "weights": {"description": "How estimates weigh the moments.", "enum": list(WEIGHTS)},
                "budget": {"description": "All the money there is, in the unit of the costs.", **POSITIVE},
                "precision": {
                    "description": "Stop when the anytime-valid interval of the target is no wider than this.",
                    **POSITIVE,
                },
                "level": {
                    "description": "Of the intervals of a campaign, the one that precision is about among them.",
                    **{"type": "number", "minimum": 0.5, "exclusiveMaximum": 1, "default": 0.95},
                },
                "policy": _policy(),
                "parameters": _parameters(),
                "sources": _sources(),
                "world": _world(),
            },
            ("target", "sources"),
            oneOf=[{"required": ["moments"]}, {"required": ["graph"]}],
            dependentRequired={"intercepts": ["graph"], "latent": ["graph"]},
        ),
    }


def _moments() -> Schema:
    written = {
        "expr": FORMULA,
        "sources": {"description": "Only these sources compute it.", "type": "array", "items": {"type": "string"}},
        "name": {"type": "string", "minLength": 1},
    }
    return {
        "description": "Formulas that are zero on average at the true parameters.",
        "type": "array",
        "minItems": 1,
        "items": {"oneOf": [FORMULA, _table(written, ("expr",))]},
    }


def _policy() -> Schema:
    share: Schema = {"type": "number", "exclusiveMinimum": 0, "maximum": 1}
    schedule = {"factor": {"type": "number", "exclusiveMinimum": 0}, "exponent": {"type": "number"}}
    aim: Schema = {"description": "Which point of what a round can reach.", "enum": ["nearest", "variance"]}
    ridge: Schema = {"type": "number", "minimum": 0}
    shares: Schema = {"type": "object", "additionalProperties": {"type": "number", "minimum": 0}, "minProperties": 1}
    batch: Schema = {
        "description": "Share of the budget in each round, or the marks at which rounds end, or a schedule.",
        "oneOf": [
            share,
            {"type": "array", "items": share, "minItems": 1},
            _table(schedule, ("factor", "exponent")),
        ],
    }
    mix: Schema = {"oneOf": [{"enum": ["equal", "collect-all"]}, shares]}
    both = {"aim": aim, "ridge": ridge, "first": {"description": "The mix of rows while it explores.", **mix}}
    etg = {"kind": {"const": "etg"}, "batch": batch, "per": {"enum": ["budget", "rows"]}, **both}
    etc = {"kind": {"const": "etc"}, "explore": {**share, "exclusiveMaximum": 1}, **both}
    fixed = {"kind": {"const": "fixed"}, "mix": mix}
    return {
        "description": "How to spend: explore then greedy (etg), explore then commit (etc), or a fixed mix of rows.",
        "oneOf": [_table(properties, ("kind",)) for properties in (etg, etc, fixed)],
    }


def _parameters() -> Schema:
    properties = {key: {"type": "number"} for key in ("start", "lower", "upper")}
    return {
        "description": "Starting values and bounds of parameters that need them.",
        "type": "object",
        "propertyNames": {"pattern": NAME},
        "additionalProperties": _table(properties),
    }


def _sources() -> Schema:
    names: Schema = {"type": "array", "items": {"type": "string", "pattern": NAME}, "minItems": 1, "uniqueItems": True}
    properties = {
        "observes": {"description": "The variables in its rows.", "oneOf": [{"type": "string"}, names]},
        "cost": {"description": "The price of one row.", "type": "number", "exclusiveMinimum": 0},
        "capacity": {"description": "How many rows it has.", "type": "integer", "minimum": 1},
        "data": {
            "description": "Where its rows are; a source with data answers orders by itself.",
            "type": "object",
            "properties": {key: {"type": "string"} for key in DATA_KEYS},
            "anyOf": [{"required": [key]} for key in DATA_KEYS],
        },
    }
    return {
        "description": "The places that rows come from, by name.",
        "type": "object",
        "minProperties": 1,
        "additionalProperties": _table(properties, ("observes",)),
    }


def _world() -> Schema:
    number: Schema = {"type": "number"}
    common: Schema = {
        "seed": {"type": "integer", "minimum": 0},
        "truth": {"description": "The true target, if it is to be shown beside estimates.", **number},
    }
    linear = {
        "kind": {"const": "linear"},
        **common,
        "equations": {
            "description": "One line a variable: a sum of other variables times numbers, to which noise is added.",
            "type": "object",
            "additionalProperties": FORMULA,
        },
        "variances": {
            "description": "Of the noise of each variable; 1 where nothing is said.",
            "type": "object",
            "additionalProperties": {"type": "number", "minimum": 0},
        },
    }
    keys = ("chance", "alpha", "cut", "beta", "gamma", "mixed", "variance")
    lottery = {"kind": {"const": "lottery"}, **common, **dict.fromkeys(keys, number)}
    return {
        "description": 'A simulated world that sources with data = {kind = "world"} draw their rows from.',
        "oneOf": [_table(linear), _table(lottery, ("kind", *keys))],
    }
