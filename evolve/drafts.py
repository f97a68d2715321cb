"""The form in which programs are changed, each function one expression, and the way back to readable programs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from evolve.alphabet import STEP
from evolve.layout import laid_out
from evolve.naming import constant_names, describe
from evolve.subtrees import Node, parts, substituted
from evolve.tidying import tidied
from translate.canonical import inline
from translate.ir import Constant, Expr, Function, Program
from translate.parse_names import RESERVED
from translate.vocabulary import PARAMETERS

LARGEST_TREE = 400
"""Nodes of a function written out as one expression beyond which it is not changed in this form."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A program without locals and branches; bodies by function, in the usual order, values by constant."""

    bodies: Mapping[str, Expr]
    constants: Mapping[str, float]


def draft_of(program: Program) -> Draft | None:
    """Return ``program`` as a draft; None where a function grows too large when it is written out."""
    bodies: dict[str, Expr] = {}
    for name in PARAMETERS:
        function = program.function(name)
        if function is not None:
            body = inline(function)
            if _tree_size(body, {}) > LARGEST_TREE:
                return None
            bodies[name] = body
    return Draft(bodies, dict(program.constants))


def _tree_size(node: Node, memory: dict[int, int]) -> int:
    if id(node) not in memory:
        memory[id(node)] = 1 + sum(_tree_size(part, memory) for part in parts(node))
    return memory[id(node)]


def program_of(draft: Draft) -> Program:
    """Return the program of a draft: tidied, constants named by what they multiply, long lines cut, a docstring.

    Two drafts that differ in the names of constants only give the same program.
    """
    order = [name for name in PARAMETERS if name in draft.bodies]
    bodies, values = tidied([draft.bodies[name] for name in order], draft.constants)
    names = constant_names(zip(order, bodies, strict=True))
    renamed: dict[Node, Expr] = {Constant(old): Constant(new) for old, new in names.items()}
    bodies = [substituted(body, renamed) for body in bodies]
    taken = {*names.values(), *RESERVED, *(p for p in PARAMETERS.values() if p)}
    functions = tuple(
        Function(name, PARAMETERS[name], laid_out(body, taken)) for name, body in zip(order, bodies, strict=True)
    )
    constants = tuple((new, values[old]) for old, new in names.items())
    return Program(describe(bodies[order.index(STEP)]), constants, functions)
