"""From the IR to a compiled first-class function: one statement per operation.

The only ``exec`` of the project. What it runs is written here from the IR: names become ``f3``, ``c1``, ``v2``,
``t4``; no word of a program's text gets into it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, assert_never

import numba
import numpy as np
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

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
    Local,
    Logic,
    Not,
    Number,
    Program,
    Return,
    Stmt,
    Unary,
)

F64 = NDArray[np.float64]
Kernel = Callable[[F64, F64], float]

SIGNATURE = types.float64(types.float64[::1], types.float64[::1])
"""features (F,), constants (k,) -> one prediction."""

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


def compile_numba(program: Program, function_name: str, feature_order: Sequence[str]) -> Kernel:
    """Return one function of ``program``, compiled.

    Args:    feature_order: the name of each entry of the features array.
    Returns: a compiled ``(features (F,), constants (k,)) -> float`` of type SIGNATURE, constants in the order of
             ``program.constants``. It goes into other compiled code as a ``types.FunctionType(SIGNATURE)`` argument.
    Raises:  KeyError where the program lacks the function or ``feature_order`` a feature that it reads.
    """
    source = generate(program, function_name, feature_order)
    namespace: dict[str, Any] = {"math": math, "minimum": _minimum, "maximum": _maximum}
    exec(compile(source, f"<{function_name}>", "exec"), namespace)
    jit = numba.njit(SIGNATURE, error_model="numpy", fastmath=False, boundscheck=False)
    kernel: Kernel = jit(namespace["kernel"])
    return kernel


def generate(program: Program, function_name: str, feature_order: Sequence[str]) -> str:
    """Return the Python text of ``kernel(f, c)`` that Numba compiles; every name in it is ours."""
    function = program.function(function_name)
    if function is None:
        raise KeyError(function_name)
    features = {name: i for i, name in enumerate(feature_order)}
    constants = {name: i for i, name in enumerate(program.constant_names)}
    writer = _Writer(features, constants)
    writer.block(function.body, 1)
    loads = [f"    {name} = {entry}" for name, entry in sorted(writer.loads.items())]
    return "\n".join(["def kernel(f, c):", *loads, *writer.lines]) + "\n"


@dataclass(slots=True)
class _Writer:
    features: dict[str, int]
    constants: dict[str, int]
    lines: list[str] = field(default_factory=list)
    locals: dict[str, str] = field(default_factory=dict)
    loads: dict[str, str] = field(default_factory=dict)
    """Entries of the two arrays that are used, each read once: a second read costs 1 ms of compilation."""
    temporaries: int = 0

    def put(self, level: int, line: str) -> None:
        self.lines.append("    " * level + line)

    def load(self, array: str, index: int) -> str:
        self.loads[f"{array}{index}"] = f"{array}[{index}]"
        return f"{array}{index}"

    def store(self, level: int, text: str) -> str:
        name = self.temporary()
        self.put(level, f"{name} = {text}")
        return name

    def temporary(self) -> str:
        self.temporaries += 1
        return f"t{self.temporaries - 1}"

    def block(self, statements: Sequence[Stmt], level: int) -> None:
        for statement in statements:
            match statement:
                case Assign(name, value):
                    text = self.number(value, level)
                    self.put(level, f"{self.locals.setdefault(name, f'v{len(self.locals)}')} = {text}")
                case Branch(condition, then, otherwise):
                    self.put(level, f"if {self.condition(condition, level)}:")
                    self.block(then, level + 1)
                    self.put(level + 1, "pass")
                    self.put(level, "else:")
                    self.block(otherwise, level + 1)
                    self.put(level + 1, "pass")
                case Return(value):
                    self.put(level, f"return {self.number(value, level)}")
                case _:
                    assert_never(statement)

    def number(self, node: Expr, level: int) -> str:
        """Write the statements that compute ``node``; return the atom that holds it."""
        match node:
            case Number(value):
                return f"({float(value)!r})"
            case Constant(name):
                return self.load("c", self.constants[name])
            case Feature(name):
                return self.load("f", self.features[name])
            case Local(name):
                return self.locals[name]
            case Unary(op, operand):
                a = self.number(operand, level)
                return self.store(level, f"-{a}" if op == "neg" else f"{_call(op)}({a})")
            case Binary(op, left, right):
                a, b = self.number(left, level), self.number(right, level)
                return self.store(level, f"{a} {INFIX[op]} {b}" if op in INFIX else f"{_call(op)}({a}, {b})")
            case Choice(condition, then, otherwise):
                result = self.temporary()
                self.put(level, f"if {self.condition(condition, level)}:")
                self.put(level + 1, f"{result} = {self.number(then, level + 1)}")
                self.put(level, "else:")
                self.put(level + 1, f"{result} = {self.number(otherwise, level + 1)}")
                return result
            case _:
                assert_never(node)

    def condition(self, node: Cond, level: int) -> str:
        """Write the statements that compute ``node``; return the name that holds it. Both sides are always computed."""
        match node:
            case Compare(op, left, right):
                a, b = self.number(left, level), self.number(right, level)
                return self.store(level, f"{a} {COMPARE[op]} {b}")
            case Logic(op, left, right):
                a, b = self.condition(left, level), self.condition(right, level)
                return self.store(level, f"{a} {'&' if op == 'and' else '|'} {b}")
            case Not(operand):
                return self.store(level, f"not {self.condition(operand, level)}")
            case _:
                assert_never(node)


def _call(op: str) -> str:
    # math.pow and not **: Python itself would fold (-8.0) ** 0.5 into a complex literal
    return {"abs": "abs", "min": "minimum", "max": "maximum"}.get(op, f"math.{op}")


def _extremum(context: Any, builder: Any, arguments: Any, *, largest: bool) -> Any:
    """Emit the operator table's min or max without a jump.

    The extreme one; NaN (their sum) if either is; of two equal ones the bits joined, which puts -0 below +0.
    """
    a, b = arguments
    bits = context.get_value_type(types.int64)
    a_bits, b_bits = builder.bitcast(a, bits), builder.bitcast(b, bits)
    joined = builder.and_(a_bits, b_bits) if largest else builder.or_(a_bits, b_bits)
    equal = builder.bitcast(joined, a.type)
    equal_or_nan = builder.select(builder.fcmp_ordered("==", a, b), equal, builder.fadd(a, b))
    a_wins = builder.fcmp_ordered(">" if largest else "<", a, b)
    b_wins = builder.fcmp_ordered(">" if largest else "<", b, a)
    return builder.select(a_wins, a, builder.select(b_wins, b, equal_or_nan))


@intrinsic
def _maximum(typing_context: Any, a: Any, b: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _extremum(context, builder, arguments, largest=True)

    return types.float64(types.float64, types.float64), emit


@intrinsic
def _minimum(typing_context: Any, a: Any, b: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _extremum(context, builder, arguments, largest=False)

    return types.float64(types.float64, types.float64), emit
