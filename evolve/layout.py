"""From one expression to statements that read as if a person had written them: locals for what is shared or long."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from evolve.naming import kinds, subject, unique
from evolve.subtrees import Node, Term, arguments_of, names_of, parts, rebuilt, sum_of, terms_of, uses
from translate.ir import Assign, Binary, Branch, Choice, Expr, Feature, Local, Return, Stmt, Unary
from translate.source import number_source

LINE = 100
"""Characters of an expression beyond which parts of it get lines of their own."""
ARGUMENTS = 60
"""Characters beyond which the arguments of a min, max or choice do."""
COMPOUND, TERM = 36, 64
"""Characters beyond which a max, square root or choice inside a sum gets a line of its own, and any other summand."""


def laid_out(body: Expr, taken: Iterable[str]) -> tuple[Stmt, ...]:
    """Return the statements of a function that returns ``body``; no local is called like one of ``taken``.

    A part that stands in several places becomes a local, so the text holds each operation once.
    """
    counts = uses([body])
    shared = frozenset(n for n, count in counts.items() if count > 1 and _may_be_named(n))
    page = _Page(shared, set(taken))
    if isinstance(body, Choice) and body not in shared:
        then, otherwise = page.number(body.then), page.number(body.otherwise)
        condition = page.condition(body.condition)
        return (*page.statements, Branch(condition, (Return(then),), ()), Return(otherwise))  # type: ignore[arg-type]
    value = page.number(body)
    return (*page.statements, Return(value))


def _may_be_named(node: Node) -> bool:
    return isinstance(node, Unary | Binary | Choice)


@dataclass(slots=True)
class _Page:
    shared: frozenset[Node]
    taken: set[str]
    statements: list[Stmt] = field(default_factory=list)
    written: dict[Node, Node] = field(default_factory=dict)

    def number(self, node: Expr) -> Expr:
        """Return ``node`` as it is to stand in the text; locals that it needs are written before."""
        return self.condition(node)  # type: ignore[return-value]

    def condition(self, node: Node) -> Node:
        if node not in self.written:
            fresh = self.fresh(node)
            self.written[node] = self.named(node, fresh) if node in self.shared else fresh  # type: ignore[arg-type]
        return self.written[node]

    def named(self, node: Expr, fresh: Expr, wish: str = "") -> Expr:
        """Write ``name = fresh`` and return the name; ``node`` is the same without locals."""
        if isinstance(fresh, Local):
            return fresh
        name = unique(wish or subject([node]), self.taken)
        self.taken.add(name)
        self.statements.append(Assign(name, fresh))
        return Local(name)

    def fresh(self, node: Node) -> Node:
        match node:
            case Binary("add" | "sub"):
                return self.sum(node)
            case Binary("min" | "max"):
                return self.extremum(node)
            case Binary("mul" | "div", left, right):
                sides = [self.number(left), self.number(right)]
                if sum(map(_length, sides)) > LINE:
                    longest = 0 if _length(sides[0]) > _length(sides[1]) else 1
                    sides[longest] = self.named((left, right)[longest], sides[longest])
                return Binary(node.op, sides[0], sides[1])
            case Choice(condition, then, otherwise):
                sides = [self.number(then), self.number(otherwise)]
                if sum(map(_length, sides)) > ARGUMENTS:
                    sides = [
                        self.named(old, new) if _length(new) > ARGUMENTS // 3 else new
                        for old, new in zip((then, otherwise), sides, strict=True)
                    ]
                return Choice(self.condition(condition), *sides)  # type: ignore[arg-type]
        return rebuilt(node, tuple(map(self.condition, parts(node))))

    def extremum(self, node: Binary) -> Expr:
        arguments = [node.left, node.right] if self.splits(node) else arguments_of(node)
        fresh = [self.number(argument) for argument in arguments]
        if sum(map(_length, fresh)) > ARGUMENTS:
            fresh = [
                self.named(old, new) if _length(new) > ARGUMENTS // 3 else new
                for old, new in zip(arguments, fresh, strict=True)
            ]
        folded = fresh[0]
        for argument in fresh[1:]:
            folded = Binary(node.op, folded, argument)
        return folded

    def splits(self, node: Binary) -> bool:
        """Tell whether a nested min or max of the same kind must stay whole."""
        return any(part in self.shared for part in (node.left, node.right))

    def sum(self, node: Expr) -> Expr:
        old = terms_of(node, self.shared)
        new = [Term(term.sign, self.number(term.node)) for term in old]
        if len(new) > 1:
            new = [
                Term(n.sign, self.named(o.node, n.node)) if _is_long(n.node) else n
                for o, n in zip(old, new, strict=True)
            ]
        if _length(sum_of(new)) > LINE:
            new = self.grouped(old, new)
        return sum_of(new)

    def grouped(self, old: list[Term], new: list[Term]) -> list[Term]:
        """Return the summands with those of one kind of work put into a local, then the longest ones too."""
        groups: dict[str, list[int]] = {}
        for number, term in enumerate(old):
            if term.sign > 0 and not isinstance(new[number].node, Local) and names_of(term.node, Feature):
                groups.setdefault(kinds([term.node])[0], []).append(number)
        inside = {number: kind for kind, members in groups.items() if len(members) > 1 for number in members}
        left: list[Term] = []
        for number, term in enumerate(new):
            kind = inside.get(number)
            if kind is None:
                left.append(term)
            elif number == groups[kind][0]:
                together = sum_of([new[member] for member in groups[kind]])
                left.append(Term(1, self.named(together, together, kind)))
        while _length(sum_of(left)) > LINE:
            longest = max(range(len(left)), key=lambda i: _length(left[i].node))
            if isinstance(left[longest].node, Local):
                break
            bare = left[longest].node
            left[longest] = Term(left[longest].sign, self.named(bare, bare))
        return left


def _length(node: Expr) -> int:
    return len(number_source(node))


def _is_long(node: Expr) -> bool:
    """Tell whether a summand deserves a line of its own."""
    compound = isinstance(node, Choice) or (isinstance(node, Binary | Unary) and node.op in ("min", "max", "sqrt"))
    return _length(node) > (COMPOUND if compound else TERM)
