"""The slow, obvious interpreter: one node at a time by the operator table. The oracle of the other backends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
from translate.operators import BINARY, COMPARE, UNARY

Values = Mapping[str, float]


def evaluate(function: Function, features: Values, constants: Values) -> float:
    """Return the value of ``function`` for one input.

    Raises: KeyError for a feature or constant without a value; ValueError where a path does not return.
    """
    result = _run(function.body, features, constants, {})
    if result is None:
        raise ValueError(f"{function.name} ends without a return")
    return result


def _run(body: Sequence[Stmt], features: Values, constants: Values, local: dict[str, float]) -> float | None:
    for statement in body:
        match statement:
            case Assign(name, value):
                local[name] = number(value, features, constants, local)
            case Branch(condition, then, otherwise):
                taken = then if truth(condition, features, constants, local) else otherwise
                result = _run(taken, features, constants, local)
                if result is not None:
                    return result
            case Return(value):
                return number(value, features, constants, local)
            case _:
                assert_never(statement)
    return None


def number(node: Expr, features: Values, constants: Values, local: Values) -> float:
    """Return the value of an expression."""
    match node:
        case Number(value):
            return value
        case Constant(name):
            return constants[name]
        case Feature(name):
            return features[name]
        case Local(name):
            return local[name]
        case Unary(op, operand):
            return UNARY[op].apply(number(operand, features, constants, local))
        case Binary(op, left, right):
            a = number(left, features, constants, local)
            return BINARY[op].apply(a, number(right, features, constants, local))
        case Choice(condition, then, otherwise):
            taken = then if truth(condition, features, constants, local) else otherwise
            return number(taken, features, constants, local)
        case _:
            assert_never(node)


def truth(node: Cond, features: Values, constants: Values, local: Values) -> bool:
    """Return whether a condition holds."""
    match node:
        case Compare(op, left, right):
            a = number(left, features, constants, local)
            return bool(COMPARE[op].apply(a, number(right, features, constants, local)))
        case Logic(op, left, right):
            first = truth(left, features, constants, local)
            if op == "and":
                return first and truth(right, features, constants, local)
            return first or truth(right, features, constants, local)
        case Not(operand):
            return not truth(operand, features, constants, local)
        case _:
            assert_never(node)
