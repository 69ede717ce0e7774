"""Targets of a graph: effect(X -> Y), direct(X -> Y), and formulas in these and in named coefficients."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sourcewise.errors import StudyError, at
from sourcewise.spec.expression import LIMITS, parse
from sourcewise.spec.graph.derive import Implied, Pair
from sourcewise.spec.nodes import ZERO, Node
from sourcewise.spec.rewrite import substitute

_ASKED = re.compile(r"\b(effect|direct)\s*\(\s*([A-Za-z_][A-Za-z0-9_]*)\s*->\s*([A-Za-z_][A-Za-z0-9_]*)\s*\)")


def target_node(implied: Implied, target: object) -> Node:
    """The target as a formula in the parameters; what it asks of the graph must be there."""
    with at("target"):
        if not isinstance(target, str):
            raise StudyError(f'a target is a text such as "effect(X -> Y)", not {target!r}')
        if len(target) > LIMITS.characters:
            raise StudyError(f"the target has {len(target):,} characters and may have {LIMITS.characters:,}")
        held: dict[str, Node] = {}

        def hold(match: re.Match[str]) -> str:
            name = f"asked_{len(held)}_"
            while name in implied.graph.named or name in target or name in held:
                name += "_"
            held[name] = _asked(implied, match)
            return name

        node = parse(_ASKED.sub(hold, target))
        _check_names(implied, node, held, target)
        found = substitute(node, held)
        if not found.symbols:
            raise StudyError(f"the target {target!r} is a number by the graph alone, so no data can bear on it")
        return found


def spelled_out(target: object, definitions: Mapping[str, str]) -> object:
    """The target with the formulas in place of the names that := gave them; a formula may use those before it."""
    if not isinstance(target, str) or not definitions:
        return target
    for name in reversed(list(definitions)):
        formula = definitions[name]
        # direct := ... and direct(X -> Y) are two things
        parts = re.split(rf"\b{name}\b(?!\s*\()", target)
        if len(target) + (len(parts) - 1) * len(formula) > LIMITS.characters:
            raise StudyError(f"the target has more than {LIMITS.characters:,} characters once {name!r} is spelled out")
        target = formula if target.strip() == name else f"({formula})".join(parts)
    return target


def asked_effect(target: str) -> Pair | None:
    """Cause and outcome of a target that is one total effect and nothing else."""
    match = _ASKED.fullmatch(target.strip())
    return (match[2], match[3]) if match and match[1] == "effect" else None


def _asked(implied: Implied, match: re.Match[str]) -> Node:
    kind, cause, outcome = match.groups()
    for name in (cause, outcome):
        if name not in implied.order:
            known = ", ".join(list(implied.order)[:20])
            raise StudyError(f"the target asks for {match[0]}, and {name!r} is no variable of the graph ({known})")
    if cause == outcome:
        raise StudyError(f"the target asks for {match[0]}: name two different variables")
    if kind == "direct":
        node = implied.direct(cause, outcome)
        if node is None:
            raise StudyError(f"the target asks for {match[0]}, and the graph has no edge {cause} -> {outcome}")
        return node
    node = implied.effect(cause, outcome)
    if node == ZERO:
        raise StudyError(
            f"the target asks for {match[0]}, which is 0 by the graph: no directed path leads from {cause} to {outcome}"
        )
    return node


def _check_names(implied: Implied, node: Node, held: dict[str, Node], target: str) -> None:
    known = implied.names()
    for name in sorted(node.symbols - held.keys()):
        if name in implied.order:
            raise StudyError(
                f"the target {target!r} uses {name!r}, a variable; a target is a formula in effect(X -> Y), "
                f"direct(X -> Y) and the names of coefficients"
            )
        if name not in known:
            shown = ", ".join(known[:20]) + (", ..." if len(known) > 20 else "")
            raise StudyError(f"the target {target!r} uses {name!r}, which names no coefficient; there are {shown}")
