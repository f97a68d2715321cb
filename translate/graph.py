"""A function as a list of distinct operations: locals gone, branches turned into choices, equal parts computed once.

No operation has an effect, so computing both sides of a branch and choosing afterwards changes no result.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
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
    Return,
    Stmt,
    Unary,
)

CONDITIONS = frozenset({"lt", "le", "gt", "ge", "eq", "ne", "and", "or", "not"})


@dataclass(frozen=True, slots=True)
class Operation:
    """One entry; ``inputs`` are the indices of earlier entries.

    op: number, constant, feature, choice (condition, then, otherwise), or a name of the operator table.
    value: of a number; name: of a constant or feature.
    """

    op: str
    inputs: tuple[int, ...] = ()
    value: float = 0.0
    name: str = ""


@dataclass(slots=True)
class Table:
    """Operations in an order in which inputs come first; an equal operation is entered once."""

    operations: list[Operation] = field(default_factory=list)
    _index: dict[tuple[str, tuple[int, ...], str, str], int] = field(default_factory=dict)

    def enter(self, op: str, *inputs: int, value: float = 0.0, name: str = "") -> int:
        """Return the index of the operation, entering it if it is new. ``0.0`` and ``-0.0`` differ."""
        key = (op, inputs, value.hex(), name)
        index = self._index.get(key)
        if index is None:
            index = self._index[key] = len(self.operations)
            self.operations.append(Operation(op, inputs, value, name))
        return index


Env = dict[str, int]
Finish = Callable[[int | None], int | None]
"""From the value of what follows a statement to the value of the function; None stands for no value."""


def trace(function: Function, table: Table) -> int:
    """Enter ``function`` into ``table`` and return the index of its result.

    Raises: ValueError where a path does not return, or reads a local that it has not set.
    """
    result = _block(function.body, {}, table).finish(None)
    if result is None:
        raise ValueError(f"{function.name} ends without a return")
    return result


def live(operations: Sequence[Operation], roots: Sequence[int]) -> list[int]:
    """Return the indices of the operations that the roots need, ascending."""
    needed = [False] * len(operations)
    for root in roots:
        needed[root] = True
    for index in range(len(operations) - 1, -1, -1):
        if needed[index]:
            for source in operations[index].inputs:
                needed[source] = True
    return [index for index, need in enumerate(needed) if need]


def inline(function: Function) -> Expr:
    """Return the whole function as one expression; branches become choices.

    Equal parts are one shared object: the expression may be far larger as a tree than in memory, so walk it with a
    memory of what was seen.
    """
    table = Table()
    root = trace(function, table)
    numbers: dict[int, Expr] = {}
    conditions: dict[int, Cond] = {}
    for index in live(table.operations, [root]):
        operation = table.operations[index]
        if operation.op in CONDITIONS:
            conditions[index] = to_condition(operation, numbers, conditions)
        else:
            numbers[index] = to_number(operation, numbers, conditions)
    return numbers[root]


def to_number(operation: Operation, numbers: dict[int, Expr], conditions: dict[int, Cond]) -> Expr:
    """Return an operation as an IR node over the nodes of its inputs."""
    match operation.op, operation.inputs:
        case "number", ():
            return Number(operation.value)
        case "constant", ():
            return Constant(operation.name)
        case "feature", ():
            return Feature(operation.name)
        case "choice", (condition, then, otherwise):
            return Choice(conditions[condition], numbers[then], numbers[otherwise])
        case ("neg" | "abs" | "sqrt" | "log" | "log1p" | "exp" | "expm1") as op, (operand,):
            return Unary(op, numbers[operand])
        case ("add" | "sub" | "mul" | "div" | "pow" | "min" | "max") as op, (left, right):
            return Binary(op, numbers[left], numbers[right])
    raise ValueError(f"{operation.op} is no number")


def to_condition(operation: Operation, numbers: dict[int, Expr], conditions: dict[int, Cond]) -> Cond:
    """Return an operation as an IR condition over the nodes of its inputs."""
    match operation.op, operation.inputs:
        case "not", (operand,):
            return Not(conditions[operand])
        case ("and" | "or") as op, (left, right):
            return Logic(op, conditions[left], conditions[right])
        case ("lt" | "le" | "gt" | "ge" | "eq" | "ne") as op, (left, right):
            return Compare(op, numbers[left], numbers[right])
    raise ValueError(f"{operation.op} is no condition")


@dataclass(frozen=True, slots=True)
class _Flow:
    """What a block of statements does: its effect on the result, the locals after it, whether every path returns."""

    finish: Finish
    env: Env
    returns: bool


def _block(body: Sequence[Stmt], env: Env, table: Table) -> _Flow:
    finishes: list[Finish] = []
    returns = False
    for statement in body:
        match statement:
            case Assign(name, value):
                env = {**env, name: _number(value, env, table)}
            case Return(value):
                finishes.append(_always(_number(value, env, table)))
                returns = True
            case Branch(condition, then, otherwise):
                chosen = _condition(condition, env, table)
                first, second = _block(then, env, table), _block(otherwise, env, table)
                finishes.append(_either(chosen, first.finish, second.finish, table))
                env = _merge(chosen, first, second, table)
                returns = returns or (first.returns and second.returns)
            case _:
                assert_never(statement)

    def finish(rest: int | None) -> int | None:
        for step in reversed(finishes):
            rest = step(rest)
        return rest

    return _Flow(finish, env, returns)


def _always(value: int) -> Finish:
    return lambda rest: value


def _either(condition: int, first: Finish, second: Finish, table: Table) -> Finish:
    def finish(rest: int | None) -> int | None:
        a, b = first(rest), second(rest)
        if a is None or b is None:
            return None
        return a if a == b else table.enter("choice", condition, a, b)

    return finish


def _merge(condition: int, first: _Flow, second: _Flow, table: Table) -> Env:
    """Return the locals after a branch; of a side that always returned, nothing is left."""
    if first.returns:
        return second.env
    if second.returns:
        return first.env
    merged: Env = {}
    for name, a in first.env.items():
        if name in second.env:
            b = second.env[name]
            merged[name] = a if a == b else table.enter("choice", condition, a, b)
    return merged


def _number(node: Expr, env: Env, table: Table) -> int:
    match node:
        case Number(value):
            return table.enter("number", value=float(value))
        case Constant(name):
            return table.enter("constant", name=name)
        case Feature(name):
            return table.enter("feature", name=name)
        case Local(name):
            if name not in env:
                raise ValueError(f"`{name}` is read before it is set")
            return env[name]
        case Unary(op, operand):
            return table.enter(op, _number(operand, env, table))
        case Binary(op, left, right):
            return table.enter(op, _number(left, env, table), _number(right, env, table))
        case Choice(condition, then, otherwise):
            chosen = _condition(condition, env, table)
            return table.enter("choice", chosen, _number(then, env, table), _number(otherwise, env, table))
        case _:
            assert_never(node)


def _condition(node: Cond, env: Env, table: Table) -> int:
    match node:
        case Compare(op, left, right):
            return table.enter(op, _number(left, env, table), _number(right, env, table))
        case Logic(op, left, right):
            return table.enter(op, _condition(left, env, table), _condition(right, env, table))
        case Not(operand):
            return table.enter("not", _condition(operand, env, table))
        case _:
            assert_never(node)
