"""How complex a program is: the counts that the caps bound and the archive sorts by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from translate.ir import (
    Assign,
    Binary,
    Branch,
    Choice,
    Compare,
    Cond,
    Constant,
    Expr,
    Feature,
    Function,
    Local,
    Logic,
    Not,
    Number,
    Program,
    Return,
    Span,
    Stmt,
    Unary,
)

Node = Expr | Cond | Stmt


@dataclass(frozen=True, slots=True)
class Complexity:
    """Counts over all functions of a program.

    operations: arithmetic, min, max (n arguments: n - 1), abs, math calls, comparisons, and, or, not: 1 each.
    conditionals: if, elif and conditional expressions: 1 each.
    constants: the declared ones. features: the names read.
    """

    operations: int
    conditionals: int
    constants: int
    features: frozenset[str]


def measure(program: Program) -> Complexity:
    """Return the complexity of ``program``."""
    nodes = [node for function in program.functions for node in walk(function)]
    return Complexity(
        operations=sum(map(is_operation, nodes)),
        conditionals=sum(map(is_conditional, nodes)),
        constants=len(program.constants),
        features=frozenset(node.name for node in nodes if isinstance(node, Feature)),
    )


def walk(function: Function) -> Iterator[Node]:
    """Yield every node of ``function``, parents before children, children in the order of the text."""
    pending: list[Node] = list(reversed(function.body))
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(children(node)))


def children(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly beneath ``node``."""
    match node:
        case Number() | Constant() | Feature() | Local():
            return ()
        case Unary(_, operand) | Not(operand):
            return (operand,)
        case Binary(_, left, right) | Compare(_, left, right) | Logic(_, left, right):
            return (left, right)
        case Choice(condition, then, otherwise):
            return (condition, then, otherwise)
        case Assign(_, value) | Return(value):
            return (value,)
        case Branch(condition, then, otherwise):
            return (condition, *then, *otherwise)
        case _:
            assert_never(node)


def is_operation(node: Node) -> bool:
    """Tell whether ``node`` counts as an operation; the sign of a literal does not."""
    if isinstance(node, Unary) and node.op == "neg" and isinstance(node.operand, Number):
        return False
    return isinstance(node, Unary | Binary | Compare | Logic | Not)


def is_conditional(node: Node) -> bool:
    """Tell whether ``node`` counts as a conditional."""
    return isinstance(node, Branch | Choice)


def operation_places(program: Program) -> list[Span]:
    """Return where the operations stand, in the order of the text."""
    nodes = (node for function in program.functions for node in walk(function))
    return sorted((node.at for node in nodes if is_operation(node)), key=_position)


def conditional_places(program: Program) -> list[Span]:
    """Return where the conditionals stand, in the order of the text."""
    nodes = (node for function in program.functions for node in walk(function))
    return sorted((node.at for node in nodes if is_conditional(node)), key=_position)


def _position(at: Span) -> tuple[int, int]:
    return at.line, at.column
