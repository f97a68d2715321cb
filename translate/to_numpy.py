"""From the IR to whole columns: a list of NumPy calls over blocks of rows that stay in the cache. No code is generated.

Both sides of a choice are computed and the condition picks. What depends on constants alone is computed once per call
by the operator table itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from translate.graph import CONDITIONS, Operation, Table, live, trace
from translate.ir import Program
from translate.operators import OPERATORS

F64 = NDArray[np.float64]
Register = Any
"""An array of the block's length (float64 or bool), or a scalar."""
Step = Callable[[list[Register]], object]

BLOCK_ROWS = 8192

UFUNCS: dict[str, Callable[..., object]] = {
    "neg": np.negative,
    "abs": np.absolute,
    "sqrt": np.sqrt,
    "log": np.log,
    "log1p": np.log1p,
    "exp": np.exp,
    "expm1": np.expm1,
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "pow": np.power,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.logical_and,
    "or": np.logical_or,
    "not": np.logical_not,
}


def compile_numpy(program: Program, function_name: str, feature_order: Sequence[str]) -> Callable[[F64, F64], F64]:
    """Return one function of ``program`` over columns.

    Args:    feature_order: the name of each row of the features array.
    Returns: ``(features (F, n), constants (k,)) -> (n,)``, constants in the order of ``program.constants``; fastest
             where the rows of ``features`` are contiguous. Safe to call from several threads.
    Raises:  KeyError where the program lacks the function or ``feature_order`` a feature that it reads.
    """
    function = program.function(function_name)
    if function is None:
        raise KeyError(function_name)
    table = Table()
    root = trace(function, table)
    rows = {name: i for i, name in enumerate(feature_order)}
    constants = {name: i for i, name in enumerate(program.constant_names)}
    return _plan(table.operations, root, rows, constants).run


@dataclass(slots=True)
class _Plan:
    """Registers are numbered as the operations; several that are never alive together share one buffer."""

    size: int
    root: int
    inputs: list[tuple[int, int]] = field(default_factory=list)
    """(register, row of the features)."""
    scalars: list[tuple[int, Operation]] = field(default_factory=list)
    constants: dict[str, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    buffers: list[tuple[int, int, bool]] = field(default_factory=list)
    """(register, buffer, whether it holds conditions)."""
    buffer_count: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    root_is_scalar: bool = False

    def run(self, features: F64, constants: F64) -> F64:
        """Return the function's value for every column of ``features``."""
        n = features.shape[1]
        registers: list[Register] = [None] * self.size
        for index, operation in self.scalars:
            registers[index] = self._scalar(operation, registers, constants)
        if self.root_is_scalar:
            return np.full(n, registers[self.root], dtype=np.float64)
        result = np.empty(n)
        rows = min(n, BLOCK_ROWS)
        pool = {
            holds: [np.empty(rows, bool if holds else float) for _ in range(c)]
            for holds, c in self.buffer_count.items()
        }
        with np.errstate(all="ignore"):
            for start in range(0, n, BLOCK_ROWS):
                stop = min(start + BLOCK_ROWS, n)
                self._block(registers, features[:, start:stop], pool, stop - start)
                result[start:stop] = registers[self.root]
        return result

    def _block(self, registers: list[Register], features: F64, pool: dict[bool, list[NDArray[Any]]], rows: int) -> None:
        for index, row in self.inputs:
            registers[index] = features[row]
        for index, buffer, holds in self.buffers:
            registers[index] = pool[holds][buffer][:rows]
        for step in self.steps:
            step(registers)

    def _scalar(self, operation: Operation, registers: list[Register], constants: F64) -> Register:
        match operation.op:
            case "number":
                return operation.value
            case "constant":
                return float(constants[self.constants[operation.name]])
            case "choice":
                condition, then, otherwise = (registers[i] for i in operation.inputs)
                return then if condition else otherwise
            case op:
                return OPERATORS[op].apply(*(registers[i] for i in operation.inputs))


def _plan(operations: Sequence[Operation], root: int, rows: dict[str, int], constants: dict[str, int]) -> _Plan:
    order = live(operations, [root])
    last_use = {source: index for index in order for source in operations[index].inputs}
    last_use[root] = len(operations)
    plan = _Plan(len(operations), root, constants=constants)
    columns: set[int] = set()
    allocator = _Allocator(operations, last_use)
    for index in order:
        operation = operations[index]
        if operation.op == "feature":
            plan.inputs.append((index, rows[operation.name]))
            columns.add(index)
        elif columns.isdisjoint(operation.inputs):
            if operation.op == "constant" and operation.name not in constants:
                raise KeyError(operation.name)
            plan.scalars.append((index, operation))
        else:
            plan.buffers.append((index, *allocator.buffer_for(index)))
            plan.steps.append(_step(operation, index))
            columns.add(index)
    plan.buffer_count = allocator.count
    plan.root_is_scalar = root not in columns
    return plan


@dataclass(slots=True)
class _Allocator:
    """Gives every step a buffer that holds no value still needed; numbers and conditions have buffers of their own."""

    operations: Sequence[Operation]
    last_use: dict[int, int]
    free: dict[bool, list[int]] = field(default_factory=lambda: {False: [], True: []})
    held: dict[int, int] = field(default_factory=dict)
    count: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})

    def buffer_for(self, index: int) -> tuple[int, bool]:
        """Return the buffer of step ``index``, not one of its inputs', and free those of inputs not needed again."""
        kind = self._holds_condition(index)
        if not self.free[kind]:
            self.free[kind].append(self.count[kind])
            self.count[kind] += 1
        buffer = self.held[index] = self.free[kind].pop()
        for source in set(self.operations[index].inputs):
            if source in self.held and self.last_use[source] == index:
                self.free[self._holds_condition(source)].append(self.held.pop(source))
        return buffer, kind

    def _holds_condition(self, index: int) -> bool:
        return self.operations[index].op in CONDITIONS


def _step(operation: Operation, out: int) -> Step:
    """Return the call that fills register ``out``."""
    match operation.op, operation.inputs:
        case "choice", (condition, then, otherwise):
            return _choice(condition, then, otherwise, out)
        case ("min" | "max") as op, (left, right):
            return _extremum(op, left, right, out)
        case "pow", (base, exponent):
            return _power(base, exponent, out)
        case op, (left, right):
            two = UFUNCS[op]
            return lambda r: two(r[left], r[right], out=r[out])
        case op, (operand,):
            one = UFUNCS[op]
            return lambda r: one(r[operand], out=r[out])
    raise ValueError(f"no column operation for {operation.op}")


def _choice(condition: int, then: int, otherwise: int, out: int) -> Step:
    def step(r: list[Register]) -> None:
        np.copyto(r[out], r[otherwise])
        np.copyto(r[out], r[then], where=r[condition])

    return step


def _extremum(op: str, left: int, right: int, out: int) -> Step:
    """Return min or max by the operator table; NumPy leaves open which of two zeros wins, so both orders are joined."""
    pick, join = (np.maximum, np.bitwise_and) if op == "max" else (np.minimum, np.bitwise_or)

    def step(r: list[Register]) -> None:
        a, b, result = r[left], r[right], r[out]
        pick(a, b, out=result)
        if _may_be_zero(a) and _may_be_zero(b):
            other = pick(b, a).view(np.int64)
            join(result.view(np.int64), other, out=result.view(np.int64))

    return step


def _power(base: int, exponent: int, out: int) -> Step:
    """Return pow by the operator table; NumPy takes a scalar exponent 0.5 for sqrt, which differs at -inf and -0."""

    def step(r: list[Register]) -> None:
        a, b = r[base], r[exponent]
        if not isinstance(b, float):
            np.power(a, b, out=r[out])
        elif b == 2.0:
            np.multiply(a, a, out=r[out])
        else:
            np.power(a, np.full(len(r[out]), b), out=r[out])

    return step


def _may_be_zero(value: Register) -> bool:
    return not isinstance(value, float) or value == 0.0
