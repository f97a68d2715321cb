"""From the IR back to program text: one fixed layout, no more parentheses than Python needs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import assert_never

from translate.complexity import walk
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
    Stmt,
    Unary,
)

# How tightly Python binds, loosest first.
CHOICE, OR, AND, NOT, COMPARE, SUM, PRODUCT, SIGN, POWER, ATOM = range(10)

INFIX = {"add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("/", PRODUCT)}
SIGNS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
MATH = ("sqrt", "log", "log1p", "exp", "expm1")


def to_source(program: Program) -> str:
    """Return the text of ``program``; ``parse`` turns it back into an equal program (in normal form).

    Raises: ValueError for a number that no literal can express (inf, NaN).
    """
    parts = [_docstring(program.doc)] if program.doc else []
    if any(isinstance(node, Unary) and node.op in MATH for f in program.functions for node in walk(f)):
        parts.append("import math\n")
    if program.constants:
        parts.append(_constants(program.constants))
    head = "\n".join(parts)
    functions = "\n\n".join(function_source(function) for function in program.functions)
    return f"{head}\n\n{functions}" if head else functions


def function_source(function: Function) -> str:
    """Return the text of one function."""
    lines = [f"def {function.name}({function.parameter or ''}):"]
    _write_block(function.body, function.parameter or "b", 1, lines)
    return "\n".join(lines) + "\n"


def number_source(node: Expr, parameter: str = "b", binding: int = CHOICE) -> str:
    """Return the text of an expression, in parentheses where it binds less tightly than ``binding``."""
    text, own = _number(node, parameter)
    return f"({text})" if own < binding else text


def condition_source(node: Cond, parameter: str = "b", binding: int = OR) -> str:
    """Return the text of a condition, in parentheses where it binds less tightly than ``binding``."""
    text, own = _condition(node, parameter)
    return f"({text})" if own < binding else text


def literal(value: float) -> str:
    """Return the shortest literal that reads back as ``value``. Raises: ValueError for inf and NaN."""
    if not math.isfinite(value):
        raise ValueError(f"{value} has no literal")
    return repr(float(value))


def _docstring(doc: str) -> str:
    plain = all(c.isprintable() or c == "\n" for c in doc) and "\\" not in doc and '"""' not in doc
    if plain and not doc.endswith('"'):
        return f'"""{doc}"""\n'
    escaped = "".join(_escape(c) for c in doc)
    return f'"""{escaped}"""\n'


def _escape(character: str) -> str:
    if character in '\\"':
        return "\\" + character
    if character == "\n" or character.isprintable():
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}" if code < 65536 else f"\\U{code:08x}"


def _constants(constants: Sequence[tuple[str, float]]) -> str:
    items = [f'"{name}": {literal(value)}' for name, value in constants]
    line = "CONSTANTS = {" + ", ".join(items) + "}"
    if len(line) <= 100:
        return line + "\n"
    return "CONSTANTS = {\n" + "".join(f"    {item},\n" for item in items) + "}\n"


def _write_block(body: Sequence[Stmt], parameter: str, level: int, lines: list[str]) -> None:
    indent = "    " * level
    if not body:
        lines.append(f"{indent}pass")
    for statement in body:
        match statement:
            case Assign(name, value):
                lines.append(f"{indent}{name} = {number_source(value, parameter)}")
            case Return(value):
                lines.append(f"{indent}return {number_source(value, parameter)}")
            case Branch():
                _write_branch(statement, parameter, level, lines)
            case _:
                assert_never(statement)


def _write_branch(branch: Branch, parameter: str, level: int, lines: list[str]) -> None:
    indent, word = "    " * level, "if"
    while True:
        lines.append(f"{indent}{word} {condition_source(branch.condition, parameter)}:")
        _write_block(branch.then, parameter, level + 1, lines)
        match branch.otherwise:
            case ():
                return
            case (Branch() as inner,):
                branch, word = inner, "elif"
            case statements:
                lines.append(f"{indent}else:")
                _write_block(statements, parameter, level + 1, lines)
                return


def _number(node: Expr, parameter: str) -> tuple[str, int]:
    match node:
        case Number(value):
            return literal(value), SIGN if math.copysign(1.0, value) < 0.0 else ATOM
        case Constant(name) | Local(name):
            return name, ATOM
        case Feature(name):
            return f'{parameter}["{name}"]', ATOM
        case Unary("neg", operand):
            return f"-{number_source(operand, parameter, SIGN)}", SIGN
        case Unary(op, operand):
            return f"{'abs' if op == 'abs' else f'math.{op}'}({number_source(operand, parameter)})", ATOM
        case Binary(op, left, right):
            return _binary(op, left, right, parameter)
        case Choice(condition, then, otherwise):
            a, b = number_source(then, parameter, OR), number_source(otherwise, parameter, CHOICE)
            return f"{a} if {condition_source(condition, parameter)} else {b}", CHOICE
        case _:
            assert_never(node)


def _binary(op: str, left: Expr, right: Expr, parameter: str) -> tuple[str, int]:
    if op in ("min", "max"):
        arguments = [right]
        while isinstance(left, Binary) and left.op == op:
            arguments.append(left.right)
            left = left.left
        arguments.append(left)
        return f"{op}({', '.join(number_source(a, parameter) for a in reversed(arguments))})", ATOM
    if op == "pow":
        return f"{number_source(left, parameter, ATOM)} ** {number_source(right, parameter, SIGN)}", POWER
    sign, own = INFIX[op]
    return f"{number_source(left, parameter, own)} {sign} {number_source(right, parameter, own + 1)}", own


def _condition(node: Cond, parameter: str) -> tuple[str, int]:
    match node:
        case Compare(op, left, right):
            a, b = number_source(left, parameter, SUM), number_source(right, parameter, SUM)
            return f"{a} {SIGNS[op]} {b}", COMPARE
        case Logic(op, left, right):
            own = AND if op == "and" else OR
            a, b = condition_source(left, parameter, own), condition_source(right, parameter, own + 1)
            return f"{a} {op} {b}", own
        case Not(operand):
            return f"not {condition_source(operand, parameter, NOT)}", NOT
        case _:
            assert_never(node)
