"""Rewrites after a mutation that keep what a formula computes but for rounding: constants merge, like terms join.

Only a constant that stands in one place merges with another; what it starts with goes along.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evolve.subtrees import (
    Factors,
    Node,
    Term,
    arguments_of,
    factors_of,
    parts,
    product_of,
    rebuilt,
    sum_of,
    terms_of,
    uses,
)
from translate.ir import Binary, Choice, Compare, Constant, Expr, Number, Unary
from translate.operators import COMPARE, OPERATORS


def tidied(bodies: Sequence[Expr], constants: Mapping[str, float]) -> tuple[list[Expr], dict[str, float]]:
    """Return the functions' bodies tidied together, and the constants' values that belong to them."""
    counts = uses(bodies)
    once = {node.name for node, count in counts.items() if isinstance(node, Constant) and count == 1}
    shared = frozenset(node for node, count in counts.items() if count > 1 and parts(node))
    work = _Tidying(dict(constants), frozenset(once), shared)
    return [work.number(body) for body in bodies], work.values


@dataclass(slots=True)
class _Tidying:
    values: dict[str, float]
    once: frozenset[str]
    shared: frozenset[Node]
    """Parts that stand in several places: they stay whole, so that they are computed once."""
    memory: dict[Node, Node] = field(default_factory=dict)

    def number(self, node: Expr) -> Expr:
        return self.visit(node)  # type: ignore[return-value]

    def visit(self, node: Node) -> Node:
        if node not in self.memory:
            self.memory[node] = self.fresh(node)
        return self.memory[node]

    def fresh(self, node: Node) -> Node:
        match node:
            case Binary("add" | "sub"):
                return self.sum(node)
            case Binary("mul" | "div"):
                return self.product(node)
            case Binary("min" | "max"):
                return self.extremum(node)
            case Choice():
                return self.choice(node)
            case Unary(op, operand):
                inner = self.number(operand)
                if op == "neg" and isinstance(inner, Unary) and inner.op == "neg":
                    return inner.operand
                return _folded(rebuilt(node, (inner,)))
        return _folded(rebuilt(node, tuple(map(self.visit, parts(node)))))

    def free(self, node: Node) -> bool:
        """Tell whether ``node`` is a constant that stands nowhere else."""
        return isinstance(node, Constant) and node.name in self.once

    def sum(self, node: Expr) -> Expr:
        offset, kept = 0.0, list[Term]()
        alike: dict[Expr, int] = {}
        for term in terms_of(node, self.shared):
            inner, sign = self.number(term.node), term.sign
            if isinstance(inner, Unary) and inner.op == "neg":
                inner, sign = inner.operand, -sign
            if isinstance(inner, Number):
                offset += sign * inner.value
                continue
            constant, rest = self.split(inner)
            if constant is not None and sign < 0 and self.values[constant] < 0.0:
                sign, self.values[constant] = 1, -self.values[constant]
            if constant is not None and rest in alike:
                first = kept[alike[rest]]
                name = self.split(first.node)[0]
                assert name is not None
                self.values[name] += first.sign * sign * self.values[constant]
                continue
            if constant is not None:
                alike[rest] = len(kept)
            kept.append(Term(sign, inner))
        return sum_of(self.with_offset(kept, offset, alike))

    def with_offset(self, kept: list[Term], offset: float, alike: Mapping[Expr, int]) -> list[Term]:
        """Return the summands and the sum of the literals, which goes into a constant that stands alone."""
        if offset == 0.0 and kept:
            return kept
        alone = alike.get(Number(1.0))
        if alone is None:
            literal = Term(1 if offset >= 0.0 else -1, Number(abs(offset)))
            return [literal, *kept] if offset > 0.0 else [*kept, literal]
        constant, _ = self.split(kept[alone].node)
        assert constant is not None
        self.values[constant] += kept[alone].sign * offset
        return kept

    def split(self, node: Expr) -> tuple[str | None, Expr]:
        """Return the one free constant that leads a summand, None if there is none, and what it multiplies."""
        factors = factors_of(node, self.shared)
        head = factors.above[0]
        if isinstance(head, Constant) and head.name in self.once:
            return head.name, product_of(Factors(factors.above[1:], factors.below))
        return None, node

    def product(self, node: Expr) -> Expr:
        factors = factors_of(node, self.shared)
        above, below = [list(map(self.number, side)) for side in (factors.above, factors.below)]
        scale = 1.0
        names: list[str] = []
        kept: tuple[list[Expr], list[Expr]] = ([], [])
        for side, members in enumerate((above, below)):
            for member in members:
                negative = isinstance(member, Unary) and member.op == "neg"
                bare = member.operand if isinstance(member, Unary) and negative else member
                scale = -scale if negative else scale
                number = bare.value if isinstance(bare, Number) else 1.0
                if isinstance(bare, Constant) and self.free(bare):
                    names.append(bare.name)
                    number = self.values[bare.name]
                elif not isinstance(bare, Number):
                    kept[side].append(bare)
                scale = OPERATORS["mul" if side == 0 else "div"].apply(scale, number)
        if not math.isfinite(scale):
            return product_of(Factors(tuple(above), tuple(below)))
        if names:
            self.values[names[0]] = scale
            return product_of(Factors((Constant(names[0]), *kept[0]), tuple(kept[1])))
        if scale == 0.0:
            return Number(0.0)
        lead: tuple[Expr, ...] = () if scale == 1.0 and (kept[0] or not kept[1]) else (Number(scale),)
        return product_of(Factors((*lead, *kept[0]), tuple(kept[1])))

    def extremum(self, node: Binary) -> Expr:
        """Return a min or max without arguments that repeat."""
        if node.left in self.shared or node.right in self.shared:
            members = [self.number(node.left), self.number(node.right)]
        else:
            members = [self.number(argument) for argument in arguments_of(node)]
        members = list(dict.fromkeys(members))
        free = [member.name for member in members if isinstance(member, Constant) and self.free(member)]
        if len(free) > 1:
            self.values[free[0]] = (max if node.op == "max" else min)(self.values[name] for name in free)
            members = [m for m in members if not (isinstance(m, Constant) and m.name in free[1:])]
        folded = members[0]
        for member in members[1:]:
            folded = Binary(node.op, folded, member)
        return _folded(folded)  # type: ignore[return-value]

    def choice(self, node: Choice) -> Node:
        condition = self.visit(node.condition)
        then, otherwise = self.number(node.then), self.number(node.otherwise)
        if isinstance(then, Choice) and then.condition == condition:
            then = then.then
        if isinstance(otherwise, Choice) and otherwise.condition == condition:
            otherwise = otherwise.otherwise
        if then == otherwise:
            return then
        match condition:
            case Compare(op, Number(a), Number(b)):
                return then if COMPARE[op].apply(a, b) else otherwise
        return Choice(condition, then, otherwise)  # type: ignore[arg-type]


def _folded(node: Node) -> Node:
    """Return a literal for an operation on literals that has a finite value."""
    match node:
        case Unary(op, Number(value)):
            result = OPERATORS[op].apply(value)
        case Binary(op, Number(a), Number(b)):
            result = OPERATORS[op].apply(a, b)
        case Binary("pow", base, Number(1.0)):
            return base
        case _:
            return node
    return Number(result) if math.isfinite(result) else node
