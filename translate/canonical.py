"""One form for all spellings of a formula, to find duplicates before anything is paid for them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from translate.graph import CONDITIONS, Operation, Table, inline, live, to_condition, to_number, trace
from translate.ir import Assign, Cond, Constant, Expr, Function, Local, Program, Return, Stmt, with_constants
from translate.labelling import label
from translate.operators import OPERATORS
from translate.simplify import COMMUTATIVE, NARY, simplify
from translate.source import to_source
from translate.vocabulary import PARAMETERS

__all__ = ["canonical", "digest", "inline"]

LEAF_RANKS = {"constant": 0, "number": 1, "feature": 2}


def canonical(program: Program) -> Program:
    """Return the program that all spellings of the same formula share.

    Branches become choices, equal parts one local, operands of commutative operations are sorted; literals are
    folded, and so are constants that only meet each other (``k1 * k2``, ``2 * k``); the constants left are c0, c1, ...
    in the order of use, with start values that give the same results bit for bit. Names and docstring are dropped.
    """
    names = sorted((f.name for f in program.functions), key=lambda n: (list(PARAMETERS).index(n), n))
    functions = [f for name in names if (f := program.function(name)) is not None]
    table = Table()
    roots = [trace(function, table) for function in functions]
    table, roots = simplify(table.operations, roots)
    values = dict(program.constants)
    table, roots = _fold_constants(table.operations, roots, values)
    needed = live(table.operations, roots)
    operations, roots = _compact(table.operations, needed, roots)
    labels = label(operations, dict(zip(names, roots, strict=True)), values)
    writer = _Writer(operations, labels)
    bodies = tuple(Function(name, PARAMETERS[name], writer.body(root)) for name, root in zip(names, roots, strict=True))
    constants = tuple((new, values[old]) for old, new in writer.renamed.items())
    return Program("", constants, bodies)


def digest(program: Program) -> str:
    """Return the sha256 of the canonical form; start values of constants do not enter."""
    form = canonical(program)
    return sha256(to_source(with_constants(form, [1.0] * len(form.constants))).encode()).hexdigest()


def _compact(operations: Sequence[Operation], needed: list[int], roots: list[int]) -> tuple[list[Operation], list[int]]:
    new = {old: position for position, old in enumerate(needed)}
    kept = [operations[old] for old in needed]
    moved = [Operation(o.op, tuple(new[i] for i in o.inputs), o.value, o.name) for o in kept]
    return moved, [new[root] for root in roots]


def _fold_constants(
    operations: Sequence[Operation], roots: list[int], values: dict[str, float]
) -> tuple[Table, list[int]]:
    """Join constants that are used once and only with each other into one; its start value goes into ``values``.

    Products, quotients and sums only: the joined constant has the range that the single ones had together.
    """
    order = live(operations, roots)
    uses = Counter(source for index in order for source in operations[index].inputs)
    uses.update(roots)
    table = Table()
    new: dict[int, int] = {}
    for index in order:
        operation = operations[index]
        inputs = tuple(new[i] for i in operation.inputs)
        joined = _joined(operation, [table.operations[i] for i in inputs], [uses[i] for i in operation.inputs], values)
        if joined is None:
            new[index] = table.enter(operation.op, *inputs, value=operation.value, name=operation.name)
        else:
            name = f"joined {index}"
            values[name] = joined
            new[index] = table.enter("constant", name=name)
    return table, [new[root] for root in roots]


def _joined(
    operation: Operation, inputs: Sequence[Operation], uses: Sequence[int], values: dict[str, float]
) -> float | None:
    if operation.op not in ("mul", "div", "add") or all(i.op != "constant" for i in inputs):
        return None
    numbers: list[float] = []
    for source, count in zip(inputs, uses, strict=True):
        if source.op == "constant" and count == 1:
            numbers.append(values[source.name])
        elif source.op == "number" and source.value > 0.0 and operation.op != "add":
            numbers.append(source.value)
        else:
            return None
    value = OPERATORS[operation.op].apply(*numbers)
    return value if math.isfinite(value) else None


@dataclass(slots=True)
class _Writer:
    """Writes operations back as IR, inputs of commutative operations in the order of their labels."""

    operations: Sequence[Operation]
    labels: Sequence[str]
    renamed: dict[str, str] = field(default_factory=dict)
    """Constants: the old name and the new one, in the order of use."""

    def body(self, root: int) -> tuple[Stmt, ...]:
        """Return the statements of one function: a local for each part used more than once, then the result."""
        order: list[int] = []
        self._visit(root, set(), order)
        uses = Counter(source for index in order for source in self.operations[index].inputs)
        statements: list[Stmt] = []
        numbers: dict[int, Expr] = {}
        conditions: dict[int, Cond] = {}
        for index in order:
            operation = self.operations[index]
            if operation.op in CONDITIONS:
                conditions[index] = self._condition(index, numbers, conditions)
                continue
            numbers[index] = self._number(index, numbers, conditions)
            if uses[index] > 1 and operation.inputs:
                name = f"v{len(statements)}"
                statements.append(Assign(name, numbers[index]))
                numbers[index] = Local(name)
        return (*statements, Return(numbers[root]))

    def _visit(self, index: int, seen: set[int], order: list[int]) -> None:
        if index in seen:
            return
        seen.add(index)
        for source in self._inputs(index):
            self._visit(source, seen, order)
        order.append(index)

    def _inputs(self, index: int) -> tuple[int, ...]:
        operation = self.operations[index]
        if operation.op in COMMUTATIVE:
            return tuple(sorted(operation.inputs, key=self._rank))
        return operation.inputs

    def _rank(self, index: int) -> tuple[int, str, str]:
        operation = self.operations[index]
        return LEAF_RANKS.get(operation.op, 3), operation.name if operation.op == "feature" else "", self.labels[index]

    def _number(self, index: int, numbers: dict[int, Expr], conditions: dict[int, Cond]) -> Expr:
        operation = self.operations[index]
        if operation.op == "constant":
            return Constant(self.renamed.setdefault(operation.name, f"c{len(self.renamed)}"))
        inputs = self._inputs(index)
        if operation.op in NARY:
            folded = numbers[inputs[0]]
            for source in inputs[1:]:
                folded = to_number(Operation(operation.op, (0, 1)), {0: folded, 1: numbers[source]}, {})
            return folded
        return to_number(Operation(operation.op, inputs, operation.value, operation.name), numbers, conditions)

    def _condition(self, index: int, numbers: dict[int, Expr], conditions: dict[int, Cond]) -> Cond:
        operation, inputs = self.operations[index], self._inputs(index)
        if operation.op in NARY:
            folded = conditions[inputs[0]]
            for source in inputs[1:]:
                folded = to_condition(Operation(operation.op, (0, 1)), {}, {0: folded, 1: conditions[source]})
            return folded
        return to_condition(Operation(operation.op, inputs), numbers, conditions)
