"""The program as a value: frozen nodes, one closed union per kind; `at` is where the text had it and never compares.

Normal form (what ``parse`` returns, and what ``to_source`` gives back exactly): every ``Number`` is finite,
``Unary("neg", Number)`` does not occur (use ``negate``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

UnaryOp = Literal["neg", "abs", "sqrt", "log", "log1p", "exp", "expm1"]
BinaryOp = Literal["add", "sub", "mul", "div", "pow", "min", "max"]
CompareOp = Literal["lt", "le", "gt", "ge", "eq", "ne"]
LogicOp = Literal["and", "or"]


@dataclass(frozen=True, slots=True)
class Span:
    """A place in the program text: line and column, both counted from 1; 0 where there is no text."""

    line: int
    column: int


NOWHERE = Span(0, 0)


@dataclass(frozen=True, slots=True)
class Number:
    """A literal: part of the structure, never fitted."""

    value: float
    at: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Constant:
    """A fitted constant, declared in CONSTANTS."""

    name: str
    at: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Feature:
    """An input, ``b["name"]``."""

    name: str
    at: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Local:
    """A name that an ``Assign`` before it has set on every path."""

    name: str
    at: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Unary:
    """One operation on one number."""

    op: UnaryOp
    operand: Expr
    at: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Binary:
    """One operation on two numbers; min and max of more arguments nest to the left."""

    op: BinaryOp
    left: Expr
    right: Expr
    at: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Choice:
    """``then if condition else otherwise``."""

    condition: Cond
    then: Expr
    otherwise: Expr
    at: Span = field(default=NOWHERE, compare=False, repr=False)


Expr = Number | Constant | Feature | Local | Unary | Binary | Choice


@dataclass(frozen=True, slots=True)
class Compare:
    """A comparison of two numbers; false when either is NaN, except ``ne``, which is then true."""

    op: CompareOp
    left: Expr
    right: Expr
    at: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Logic:
    """``and`` or ``or`` of two conditions; more of them nest to the left."""

    op: LogicOp
    left: Cond
    right: Cond
    at: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Not:
    """The opposite of a condition."""

    operand: Cond
    at: Span = field(default=NOWHERE, compare=False, repr=False)


Cond = Compare | Logic | Not


@dataclass(frozen=True, slots=True)
class Assign:
    """``name = value``."""

    name: str
    value: Expr
    at: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Branch:
    """``if``/``else``; an ``elif`` is an ``otherwise`` that holds one Branch, an absent ``else`` an empty one."""

    condition: Cond
    then: tuple[Stmt, ...]
    otherwise: tuple[Stmt, ...]
    at: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Return:
    """``return value``."""

    value: Expr
    at: Span = field(default=NOWHERE, compare=False, repr=False)


Stmt = Assign | Branch | Return


@dataclass(frozen=True, slots=True)
class Function:
    """One prediction [us]; ``parameter`` is the name of its input, None where it has none."""

    name: str
    parameter: str | None
    body: tuple[Stmt, ...]
    at: Span = field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Program:
    """A whole program file: docstring, constants with their start values, functions."""

    doc: str
    constants: tuple[tuple[str, float], ...]
    functions: tuple[Function, ...]

    def function(self, name: str) -> Function | None:
        """Return the function called ``name``; None where the program does not define it."""
        return next((f for f in self.functions if f.name == name), None)

    @property
    def constant_names(self) -> tuple[str, ...]:
        """Return the names of the constants in the order of their declaration."""
        return tuple(name for name, _ in self.constants)

    @property
    def constant_values(self) -> tuple[float, ...]:
        """Return the start values of the constants in the order of their declaration."""
        return tuple(value for _, value in self.constants)


def with_constants(program: Program, values: Sequence[float]) -> Program:
    """Return ``program`` with new start values, in the order of its constants.

    Raises: ValueError where their number differs.
    """
    pairs = tuple((name, float(v)) for name, v in zip(program.constant_names, values, strict=True))
    return replace(program, constants=pairs)


def negate(operand: Expr, at: Span = NOWHERE) -> Expr:
    """Return ``-operand`` in normal form: the sign of a literal goes into the literal."""
    return Number(-operand.value, at) if isinstance(operand, Number) else Unary("neg", operand, at)
