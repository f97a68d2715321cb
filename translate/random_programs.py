"""Random valid programs in normal form: for the tests of the backends, for parity with Go, for genetic operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from translate.caps import Caps
from translate.ir import (
    Assign,
    Binary,
    BinaryOp,
    Branch,
    Choice,
    Compare,
    CompareOp,
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
    UnaryOp,
    negate,
)
from translate.vocabulary import PARAMETERS, REQUIRED, Vocabulary

T = TypeVar("T")

BINARY: tuple[BinaryOp, ...] = ("add", "sub", "mul", "div", "min", "max")
UNARY: tuple[UnaryOp, ...] = ("abs", "sqrt")
TRANSCENDENTAL: tuple[UnaryOp, ...] = ("log", "log1p", "exp", "expm1")
COMPARE: tuple[CompareOp, ...] = ("lt", "le", "gt", "ge", "eq", "ne")
LITERALS = (0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -0.0, 1e-3, 1e6, 128.0, 2048.0)


@dataclass(frozen=True, slots=True)
class Shape:
    """How much a random program holds; ``transcendental`` lets in exp, log and pow."""

    operations: int
    conditionals: int
    constants: int
    transcendental: bool = True


DEFAULT_CAPS = Caps()


def random_program(
    rng: np.random.Generator, vocabulary: Vocabulary, caps: Caps = DEFAULT_CAPS, *, transcendental: bool = True
) -> Program:
    """Return a random program of random size within ``caps``, with one or more functions."""
    shape = Shape(
        operations=int(rng.integers(1, caps.operations + 1)),
        conditionals=int(rng.integers(0, caps.conditionals + 1)),
        constants=int(rng.integers(0, caps.constants + 1)),
        transcendental=transcendental,
    )
    names = [REQUIRED, *(n for n in PARAMETERS if n != REQUIRED and n in vocabulary.features and rng.random() < 0.2)]
    return random_program_of(rng, vocabulary, shape, names)


def random_program_of(
    rng: np.random.Generator, vocabulary: Vocabulary, shape: Shape, functions: Sequence[str] = (REQUIRED,)
) -> Program:
    """Return a random program with the given functions, of at most the given shape, and mostly near it."""
    constants = tuple((f"k{i}", float(np.round(rng.lognormal(0.0, 3.0), 6))) for i in range(shape.constants))
    names = tuple(name for name, _ in constants)
    budgets = _split(rng, shape.operations, len(functions))
    conditionals = _split(rng, shape.conditionals, len(functions))
    bodies = []
    for name, operations, choices in zip(functions, budgets, conditionals, strict=True):
        features = tuple(sorted(vocabulary.of(name))) if PARAMETERS[name] is not None else ()
        draw = _Draw(rng, features, names, shape.transcendental)
        bodies.append(Function(name, PARAMETERS[name], tuple(draw.body(operations, choices))))
    return Program("A random program.", constants, tuple(bodies))


def random_number(rng: np.random.Generator, features: Sequence[str], constants: Sequence[str], operations: int) -> Expr:
    """Return a random expression of exactly ``operations`` operations, without conditionals."""
    return _Draw(rng, tuple(features), tuple(constants), True).number(operations, 0)


def _split(rng: np.random.Generator, total: int, parts: int) -> list[int]:
    """Return ``parts`` whole numbers >= 0 that add up to ``total``."""
    cuts = np.sort(rng.integers(0, total + 1, size=parts - 1))
    return [int(x) for x in np.diff([0, *cuts, total])]


@dataclass(slots=True)
class _Draw:
    """Draws nodes; ``operations`` is how many a node holds (but for signs of literals), ``choices`` at most."""

    rng: np.random.Generator
    features: tuple[str, ...]
    constants: tuple[str, ...]
    transcendental: bool
    locals: tuple[str, ...] = ()
    """Those set on every path to here."""

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.rng.integers(len(items)))]

    def body(self, operations: int, choices: int, depth: int = 0) -> list[Stmt]:
        """Return statements that return on every path."""
        pieces = int(self.rng.integers(1, 5))
        budgets = list(zip(_split(self.rng, operations, pieces), _split(self.rng, choices, pieces), strict=True))
        statements = [self.statement(*budget, depth) for budget in budgets[:-1]]
        last_operations, last_choices = budgets[-1]
        if last_operations > 0 and last_choices > 0 and depth < 3 and self.rng.random() < 0.3:
            a, b, c = _split(self.rng, last_operations - 1, 3)
            condition, before = self.condition(1 + a), self.locals
            then = self.body(b, 0, depth + 1)
            self.locals = before
            otherwise = self.body(c, last_choices - 1, depth + 1)
            return [*statements, Branch(condition, tuple(then), tuple(otherwise))]
        return [*statements, Return(self.number(last_operations, last_choices))]

    def statement(self, operations: int, choices: int, depth: int) -> Stmt:
        if operations > 0 and choices > 0 and depth < 3 and self.rng.random() < 0.6:
            return self.branch(operations, choices - 1, depth)
        return self.assign(operations, choices)

    def assign(self, operations: int, choices: int) -> Assign:
        value = self.number(operations, choices)
        old = bool(self.locals) and self.rng.random() < 0.3
        name = self.pick(self.locals) if old else f"t{len(self.locals)}"
        if not old:
            self.locals = (*self.locals, name)
        return Assign(name, value)

    def branch(self, operations: int, choices: int, depth: int) -> Branch:
        """Return a branch that goes on: either side may set locals, and the first may return instead."""
        a, b, c = _split(self.rng, operations - 1, 3)
        condition, before = self.condition(1 + a), self.locals
        returns = self.rng.random() < 0.25
        then = self.body(b, 0, depth + 1) if returns else [self.assign(b, 0)]
        after_then = self.locals
        self.locals = before
        otherwise = [self.statement(c, choices, depth + 1)] if c > 0 or choices > 0 or self.rng.random() < 0.5 else []
        if not returns:
            self.locals = tuple(name for name in self.locals if name in after_then)
        return Branch(condition, tuple(then), tuple(otherwise))

    def number(self, operations: int, choices: int) -> Expr:
        if operations == 0:
            return self.leaf()
        if choices > 0 and (operations == 1 or self.rng.random() < 0.4):
            a, b, c = _split(self.rng, operations - 1, 3)
            inner = _split(self.rng, choices - 1, 2)
            return Choice(self.condition(1 + a), self.number(b, inner[0]), self.number(c, inner[1]))
        if self.rng.random() < 0.15:
            return self.unary(self.number(operations - 1, choices))
        a, b = _split(self.rng, operations - 1, 2)
        first, second = _split(self.rng, choices, 2)
        left = self.number(a, first)
        if self.transcendental and self.rng.random() < 0.06:
            right = Number(self.pick((2.0, 0.5, -1.0, 3.0, 0.0))) if b == 0 else self.number(b, second)
            return Binary("pow", left, right)
        return Binary(self.pick(BINARY), left, self.number(b, second))

    def unary(self, operand: Expr) -> Expr:
        ops = (*UNARY, *TRANSCENDENTAL) if self.transcendental else UNARY
        return negate(operand) if self.rng.random() < 0.25 else Unary(self.pick(ops), operand)

    def condition(self, operations: int) -> Cond:
        draw = self.rng.random()
        if operations >= 2 and draw < 0.15:
            return Not(self.condition(operations - 1))
        if operations >= 3 and draw < 0.45:
            a = int(self.rng.integers(1, operations - 1))
            return Logic("and" if draw < 0.3 else "or", self.condition(a), self.condition(operations - 1 - a))
        a, b = _split(self.rng, operations - 1, 2)
        return Compare(self.pick(COMPARE), self.number(a, 0), self.number(b, 0))

    def leaf(self) -> Expr:
        draw = self.rng.random()
        if self.locals and draw < 0.3:
            return Local(self.pick(self.locals))
        if self.features and draw < 0.75:
            return Feature(self.pick(self.features))
        if self.constants and draw < 0.95:
            return Constant(self.pick(self.constants))
        return Number(self.pick(LITERALS))
