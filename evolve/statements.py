"""A change that keeps the statements as they stand: for programs too large to be written out as one expression."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from evolve.alphabet import features_for
from evolve.subtrees import Node, parts, rebuilt
from evolve.units import FEATURE_UNITS
from translate.complexity import walk
from translate.ir import Assign, Branch, Cond, Expr, Feature, Program, Return, Stmt


def swap_feature(program: Program, rng: np.random.Generator) -> Program | None:
    """Return ``program`` with one feature of one function swapped for another of its unit, wherever it stands.

    None where no function reads a feature that has a fellow.
    """
    swaps = [
        (number, name, other)
        for number, function in enumerate(program.functions)
        for name in sorted({node.name for node in walk(function) if isinstance(node, Feature)})
        for other in features_for(function.name)
        if other != name and FEATURE_UNITS.get(name) == FEATURE_UNITS[other]
    ]
    if not swaps:
        return None
    number, old, new = swaps[int(rng.integers(len(swaps)))]
    function = program.functions[number]
    changed = replace(function, body=tuple(_statement(s, old, new) for s in function.body))
    return replace(program, functions=(*program.functions[:number], changed, *program.functions[number + 1 :]))


def _statement(statement: Stmt, old: str, new: str) -> Stmt:
    match statement:
        case Assign() | Return():
            return replace(statement, value=_number(statement.value, old, new))
        case Branch(condition, then, otherwise):
            return Branch(
                _condition(condition, old, new),
                tuple(_statement(s, old, new) for s in then),
                tuple(_statement(s, old, new) for s in otherwise),
            )


def _number(node: Expr, old: str, new: str) -> Expr:
    return _node(node, old, new)  # type: ignore[return-value]


def _condition(node: Cond, old: str, new: str) -> Cond:
    return _node(node, old, new)  # type: ignore[return-value]


def _node(node: Node, old: str, new: str) -> Node:
    if isinstance(node, Feature):
        return Feature(new) if node.name == old else node
    return rebuilt(node, tuple(_node(part, old, new) for part in parts(node)))
