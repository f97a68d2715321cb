"""Rewrites that change no result, not even the sign of a zero: what makes two spellings of a formula the same."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from translate.graph import CONDITIONS, Operation, Table, live
from translate.operators import COMPARE, OPERATORS

COMMUTATIVE = frozenset({"add", "mul", "min", "max", "eq", "ne", "and", "or"})
NARY = frozenset({"min", "max", "and", "or"})
"""Associative and idempotent as well: nested ones are flattened, repeated inputs dropped."""
SWAPPED = {"gt": "lt", "ge": "le"}
OPPOSITE = {"eq": "ne", "ne": "eq"}


def simplify(operations: Sequence[Operation], roots: Sequence[int]) -> tuple[Table, list[int]]:
    """Return the operations rewritten into a new table, and the roots in it."""
    table = Table()
    new: dict[int, int] = {}
    for index in live(operations, roots):
        operation = operations[index]
        inputs = tuple(new[i] for i in operation.inputs)
        new[index] = rewrite(operation, inputs, table)
    return table, [new[root] for root in roots]


def rewrite(operation: Operation, inputs: tuple[int, ...], table: Table) -> int:
    """Enter ``operation`` over rewritten inputs, in its simplest equal form."""
    op = operation.op
    if not inputs:
        return table.enter(op, value=operation.value, name=operation.name)
    known = [table.operations[i] for i in inputs]
    if op not in CONDITIONS and all(k.op == "number" for k in known):
        value = OPERATORS[op].apply(*(k.value for k in known))
        if math.isfinite(value):
            return table.enter("number", value=value)
    if op in NARY:
        return _nary(op, inputs, table)
    if op in SWAPPED:
        return table.enter(SWAPPED[op], inputs[1], inputs[0])
    match op:
        case "choice":
            return _choice(inputs, table)
        case "not":
            return _not(inputs[0], table)
        case "neg" | "abs":
            return _sign(op, inputs[0], table)
        case "add" | "sub":
            return _sum(op, inputs, table)
        case "mul" | "div":
            return _product(op, inputs, table)
        case "pow":
            return _power(inputs, table)
    return table.enter(op, *(sorted(inputs) if op in COMMUTATIVE else inputs))


def truth(index: int, table: Table) -> bool | None:
    """Return whether a condition holds whatever the inputs are; None where that depends on them."""
    operation = table.operations[index]
    known = [table.operations[i] for i in operation.inputs]
    match operation.op:
        case "not":
            inner = truth(operation.inputs[0], table)
            return None if inner is None else not inner
        case "and" | "or":
            absorbing = operation.op == "or"
            values = [truth(i, table) for i in operation.inputs]
            if absorbing in values:
                return absorbing
            return None if None in values else not absorbing
        case op if all(k.op == "number" for k in known):
            return bool(COMPARE[op].apply(*(k.value for k in known)))
        case "lt" if operation.inputs[0] == operation.inputs[1]:
            return False
    return None


def _nary(op: str, inputs: tuple[int, ...], table: Table) -> int:
    flat: dict[int, None] = {}
    for index in inputs:
        operation = table.operations[index]
        flat.update(dict.fromkeys(operation.inputs if operation.op == op else (index,)))
    members = sorted((_joined_truths if op in CONDITIONS else _joined_numbers)(op, list(flat), table))
    return members[0] if len(members) == 1 else table.enter(op, *members)


def _joined_numbers(op: str, members: list[int], table: Table) -> list[int]:
    """Return the inputs of a min or max with the literals among them folded into one."""
    values = [value for index in members if (value := _number(index, table)) is not None]
    if not values:
        return members
    others = [index for index in members if _number(index, table) is None]
    return [*others, table.enter("number", value=reduce(OPERATORS[op].apply, values))]


def _joined_truths(op: str, members: list[int], table: Table) -> list[int]:
    """Return the inputs of an and/or without those that decide nothing; one that decides all stays alone."""
    neutral = op == "and"
    deciding = [index for index in members if truth(index, table) is (not neutral)]
    if deciding:
        return deciding[:1]
    return [index for index in members if truth(index, table) is None] or members[:1]


def _choice(inputs: tuple[int, ...], table: Table) -> int:
    condition, then, otherwise = inputs
    if then == otherwise:
        return then
    holds = truth(condition, table)
    if holds is not None:
        return then if holds else otherwise
    test = table.operations[condition]
    if test.op == "not":
        return table.enter("choice", test.inputs[0], otherwise, then)
    if test.op == "ne":
        return table.enter("choice", table.enter("eq", *test.inputs), otherwise, then)
    return table.enter("choice", condition, then, otherwise)


def _not(operand: int, table: Table) -> int:
    operation = table.operations[operand]
    if operation.op == "not":
        return operation.inputs[0]
    if operation.op in OPPOSITE:
        return table.enter(OPPOSITE[operation.op], *operation.inputs)
    return table.enter("not", operand)


def _sign(op: str, operand: int, table: Table) -> int:
    operation = table.operations[operand]
    if operation.op == "neg":
        return operation.inputs[0] if op == "neg" else _sign("abs", operation.inputs[0], table)
    return operand if op == operation.op == "abs" else table.enter(op, operand)


def _negated(index: int, table: Table) -> int | None:
    operation = table.operations[index]
    return operation.inputs[0] if operation.op == "neg" else None


def _negated_factor(index: int, table: Table) -> int | None:
    value = _number(index, table)
    if value is not None and math.copysign(1.0, value) < 0.0:
        return table.enter("number", value=-value)
    return _negated(index, table)


def _number(index: int, table: Table) -> float | None:
    operation = table.operations[index]
    return operation.value if operation.op == "number" else None


def _sum(op: str, inputs: tuple[int, ...], table: Table) -> int:
    left, right = inputs
    value = _number(right, table)
    if op == "sub" and value is not None:
        return _sum("add", (left, table.enter("number", value=-value)), table)
    a, b = _negated(left, table), _negated(right, table)
    if op == "sub":
        return table.enter("sub", left, right) if b is None else _sum("add", (left, b), table)
    if a is not None and b is not None:  # -x + -y is not -(x + y) where both are zeros
        return table.enter("add", *sorted(inputs))
    if a is not None:
        return table.enter("sub", right, a)
    if b is not None:
        return table.enter("sub", left, b)
    for one, other in ((left, right), (right, left)):
        value = _number(other, table)
        if value == 0.0 and math.copysign(1.0, value) < 0.0:
            return one
    return table.enter("add", *sorted(inputs))


def _product(op: str, inputs: tuple[int, ...], table: Table) -> int:
    left, right = inputs
    divisor = _number(right, table)
    if op == "div" and divisor is not None and _is_power_of_two(divisor):
        return _product("mul", (left, table.enter("number", value=1.0 / divisor)), table)
    for one, other in ((left, right), (right, left)):
        if op == "mul" and _number(other, table) == 1.0:
            return one
        if op == "mul" and _number(other, table) == -1.0:
            return _sign("neg", one, table)
    a, b = _negated_factor(left, table), _negated_factor(right, table)
    if a is not None or b is not None:
        product = _product(op, (left if a is None else a, right if b is None else b), table)
        return product if a is not None and b is not None else _sign("neg", product, table)
    return table.enter(op, *(sorted(inputs) if op == "mul" else inputs))


def _is_power_of_two(value: float) -> bool:
    """Tell whether dividing by ``value`` and multiplying by its inverse round the same real number."""
    return 1e-300 < abs(value) < 1e300 and abs(math.frexp(value)[0]) == 0.5


def _power(inputs: tuple[int, ...], table: Table) -> int:
    base, exponent = _number(inputs[0], table), _number(inputs[1], table)
    if exponent == 1.0:
        return inputs[0]
    if exponent == 0.0 or base == 1.0:
        return table.enter("number", value=1.0)
    return table.enter("pow", *inputs)
