"""From Python's expression trees to ours: numbers and conditions are two kinds that never mix."""

from __future__ import annotations

import ast
import math

from translate.errors import Code, RefusedError
from translate.ir import (
    Binary,
    BinaryOp,
    Choice,
    Compare,
    Cond,
    Constant,
    Expr,
    Feature,
    Local,
    Logic,
    Not,
    Number,
    Unary,
    negate,
)
from translate.parse_names import Scope, feature_hint, name_hint, nearest
from translate.parse_tables import BINARY, CALL_HINTS, CALLS, COMPARE, FOLDS, NOUNS, SIGNS, UNARY_CALLS
from translate.parse_text import Text, refused


def literal_value(node: ast.expr, text: Text) -> float | None:
    """Return the value of an int or float literal, None for anything else.

    Raises: RefusedError for a literal that is not a finite number, or no number at all.
    """
    if not isinstance(node, ast.Constant):
        return None
    want = "a finite real number"
    if isinstance(node.value, bool) or not isinstance(node.value, int | float):
        raise refused(Code.LITERAL, text.at(node), _literal_noun(node.value), want, "values are float64 numbers")
    try:
        value = float(node.value)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise refused(
            Code.LITERAL, text.at(node), "a literal beyond the range of float64", want, "the largest is 1.797e308"
        )
    return value


def _literal_noun(value: object) -> str:
    match value:
        case bool() | None:
            return f"`{value}`"
        case str() | bytes():
            return f"a string ({value[:40]!a})"
        case complex():
            return "a complex literal"
    return "`...`"


def dotted(node: ast.expr) -> str:
    """Return ``a.b.c`` for plain names and attributes, else an empty string."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(parts)])[:60] if isinstance(node, ast.Name) else ""


def parse_number(node: ast.expr, scope: Scope, depth: int = 0) -> Expr:
    """Return ``node`` as a number. Raises: RefusedError."""
    check_depth(node, scope, depth)
    at = scope.text.at(node)
    match node:
        case ast.Constant():
            value = literal_value(node, scope.text)
            assert value is not None
            return Number(value, at)
        case ast.Name(id=name):
            return _name(name, node, scope)
        case ast.Subscript():
            return _feature(node, scope)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return negate(parse_number(operand, scope, depth + 1), at)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return parse_number(operand, scope, depth + 1)
        case ast.BinOp(left=left, op=op, right=right):
            name = binary_op(op, node, scope)
            return Binary(name, parse_number(left, scope, depth + 1), parse_number(right, scope, depth + 1), at)
        case ast.IfExp(test=test, body=body, orelse=orelse):
            then = parse_number(body, scope, depth + 1)
            condition = parse_condition(test, scope, depth + 1)
            return Choice(condition, then, parse_number(orelse, scope, depth + 1), at)
        case ast.Call():
            return _call(node, scope, depth)
    raise _not_a_number(node, scope)


def parse_condition(node: ast.expr, scope: Scope, depth: int = 0) -> Cond:
    """Return ``node`` as a condition; ``a < b < c`` becomes ``a < b and b < c``. Raises: RefusedError."""
    check_depth(node, scope, depth)
    at = scope.text.at(node)
    match node:
        case ast.Compare():
            return _compare(node, scope, depth)
        case ast.BoolOp(op=op, values=values):
            conditions = [parse_condition(value, scope, depth + 1) for value in values]
            joined = conditions[0]
            for condition in conditions[1:]:
                joined = Logic("and" if isinstance(op, ast.And) else "or", joined, condition, at)
            return joined
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return Not(parse_condition(operand, scope, depth + 1), at)
    parse_number(node, scope, depth + 1)
    raise refused(
        Code.WANTED_CONDITION,
        at,
        "a number as a condition",
        "a comparison, or comparisons joined by and, or, not",
        "compare it, for example `x != 0`",
    )


def _compare(node: ast.Compare, scope: Scope, depth: int) -> Cond:
    at = scope.text.at(node)
    sides = [parse_number(side, scope, depth + 1) for side in (node.left, *node.comparators)]
    joined: Cond | None = None
    for op, left, right in zip(node.ops, sides[:-1], sides[1:], strict=True):
        name = COMPARE.get(type(op))
        if name is None:
            noun = {ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in"}[type(op)]
            raise refused(Code.OPERATOR, at, f"the comparison `{noun}`", "< <= > >= == !=", "values are numbers only")
        one = Compare(name, left, right, at)
        joined = one if joined is None else Logic("and", joined, one, at)
    assert joined is not None
    return joined


def check_depth(node: ast.AST, scope: Scope, depth: int) -> None:
    """Refuse what is nested deeper than the cap."""
    if depth > scope.depth_cap:
        raise refused(
            Code.TOO_DEEP,
            scope.text.at(node),
            f"nesting deeper than {scope.depth_cap} levels",
            f"at most {scope.depth_cap} levels",
            "assign the inner parts to locals",
        )


def binary_op(op: ast.operator, node: ast.AST, scope: Scope) -> BinaryOp:
    """Return the name of an arithmetic operator. Raises: RefusedError for those we do not have."""
    name = BINARY.get(type(op))
    if name is None:
        sign = SIGNS[type(op)]
        hint = "use `/`; values are floats" if sign == "//" else "rewrite it with the operators there are"
        raise refused(Code.OPERATOR, scope.text.at(node), f"the operator `{sign}`", "one of + - * / **", hint)
    return name


def _name(name: str, node: ast.AST, scope: Scope) -> Expr:
    at = scope.text.at(node)
    if name in scope.assigned:
        return Local(name, at)
    if name in scope.constants:
        return Constant(name, at)
    if name == scope.parameter:
        raise refused(
            Code.INPUT_USE, at, f"`{name}` by itself", f'{name}["feature"]', "read one feature by its literal name"
        )
    if name in scope.later:
        raise refused(
            Code.UNASSIGNED,
            at,
            f"`{name}`, which some path to here has not set",
            "a local that is set on every path before it is read",
            f"assign `{name}` a value before the `if`, or in every branch",
        )
    raise refused(
        Code.UNKNOWN_NAME, at, f"the unknown name `{name[:60]}`", "a constant or a local", name_hint(name, scope)
    )


def _feature(node: ast.Subscript, scope: Scope) -> Feature:
    at = scope.text.at(node)
    name = scope.parameter or "b"
    if not (isinstance(node.value, ast.Name) and node.value.id == scope.parameter):
        hint = "only the input is indexed" if scope.parameter else f"{scope.function} has no input; use constants"
        raise refused(Code.INPUT_USE, at, "an index", f'{name}["feature"]', hint)
    if not (isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str)):
        raise refused(
            Code.INPUT_USE, at, "a computed index", f'{name}["feature"]', "write the feature's name as a literal string"
        )
    feature = node.slice.value
    if feature not in scope.features:
        got = f"the unknown feature {feature[:60]!a}"
        raise refused(Code.UNKNOWN_FEATURE, at, got, "a feature of this input", feature_hint(feature, scope))
    return Feature(feature, at)


def _call(node: ast.Call, scope: Scope, depth: int) -> Expr:
    at = scope.text.at(node)
    name = dotted(node.func)
    if name not in UNARY_CALLS and name not in FOLDS:
        raise refused(
            Code.CALL,
            at,
            f"a call of `{name}`" if name else "a call",
            "one of " + ", ".join(CALLS),
            _call_hint(name, scope),
        )
    if node.keywords or any(isinstance(a, ast.Starred) for a in node.args):
        raise refused(
            Code.ARGUMENTS, at, f"keyword or starred arguments to {name}", "plain arguments", "write the arguments out"
        )
    if name in UNARY_CALLS and len(node.args) != 1:
        raise refused(Code.ARGUMENTS, at, f"{len(node.args)} arguments to {name}", "1 argument", f"write `{name}(x)`")
    if name in FOLDS and len(node.args) < 2:
        raise refused(
            Code.ARGUMENTS, at, f"{len(node.args)} argument(s) to {name}", "2 or more", f"write `{name}(x, y)`"
        )
    values = [parse_number(argument, scope, depth + 1) for argument in node.args]
    if name in UNARY_CALLS:
        return Unary(UNARY_CALLS[name], values[0], at)
    folded = values[0]
    for value in values[1:]:
        folded = Binary(FOLDS[name], folded, value, at)
    return folded


def _call_hint(name: str, scope: Scope) -> str:
    if name == scope.function or name.startswith("predict_"):
        return "functions cannot call one another or themselves"
    if scope.parameter is not None and name.startswith(f"{scope.parameter}."):
        return f'read a feature with {scope.parameter}["name"]; it is always there'
    last = name.rpartition(".")[2]
    if name in CALL_HINTS:
        return CALL_HINTS[name]
    if f"math.{last}" in UNARY_CALLS:
        return f"did you mean `math.{last}`?"
    near = nearest(name, CALLS)
    return f"did you mean `{near}`?" if near else "write it with + - * / ** and the functions there are"


def _not_a_number(node: ast.expr, scope: Scope) -> RefusedError:
    at = scope.text.at(node)
    if isinstance(node, ast.Compare | ast.BoolOp) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)):
        want, hint = "a number", "turn it into one with `1.0 if condition else 0.0`, or put it in an `if`"
        return refused(Code.WANTED_NUMBER, at, "a condition as a number", want, hint)
    if isinstance(node, ast.UnaryOp):
        return refused(Code.OPERATOR, at, "the operator `~`", "unary - or +", "values are floats")
    if isinstance(node, ast.Attribute):
        hint = "write the number out" if dotted(node).startswith("math.") else "values have no attributes"
        return refused(Code.EXPRESSION, at, f"the attribute `.{node.attr[:40]}`", "a number", hint)
    noun, hint = NOUNS.get(type(node), (f"an expression of kind {type(node).__name__}", "values are numbers only"))
    return refused(Code.EXPRESSION, at, noun, "a number", hint)
