"""Parts of an inlined function: find, replace, and read sums and products as lists. Equal parts change together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import assert_never

from translate.complexity import children
from translate.ir import (
    Binary,
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

Node = Expr | Cond


def parts(node: Node) -> tuple[Node, ...]:
    """Return the nodes directly beneath a number or condition."""
    return children(node)  # type: ignore[return-value]


def rebuilt(node: Node, inner: Sequence[Node]) -> Node:
    """Return ``node`` over other parts of the same kinds."""
    match node, tuple(inner):
        case ((Number() | Constant() | Feature() | Local()), ()):
            return node
        case Unary(op, _), (operand,):
            return negate(operand) if op == "neg" else Unary(op, operand)  # type: ignore[arg-type]
        case Not(), (operand,):
            return Not(operand)  # type: ignore[arg-type]
        case ((Binary() | Compare() | Logic()), (left, right)):
            return replace(node, left=left, right=right)  # type: ignore[arg-type]
        case Choice(), (condition, then, otherwise):
            return Choice(condition, then, otherwise)  # type: ignore[arg-type]
    raise ValueError(f"{type(node).__name__} over {len(inner)} parts")


def substituted(node: Expr, new: Mapping[Node, Expr]) -> Expr:
    """Return ``node`` with every part that is a key of ``new`` replaced, outermost first."""
    memory: dict[Node, Node] = dict(new)

    def visit(inner: Node) -> Node:
        if inner not in memory:
            old = parts(inner)
            fresh = tuple(map(visit, old))
            memory[inner] = inner if fresh == old else rebuilt(inner, fresh)
        return memory[inner]

    return visit(node)  # type: ignore[return-value]


def distinct(node: Node) -> tuple[Node, ...]:
    """Return the different parts of ``node``, itself last, inner ones before outer ones."""
    seen: dict[Node, None] = {}

    def visit(inner: Node) -> None:
        if inner not in seen:
            for part in parts(inner):
                visit(part)
            seen[inner] = None

    visit(node)
    return tuple(seen)


def numbers(node: Node) -> tuple[Expr, ...]:
    """Return the different parts of ``node`` that are numbers, itself included."""
    return tuple(part for part in distinct(node) if not isinstance(part, Compare | Logic | Not))


def uses(nodes: Sequence[Node]) -> Counter[Node]:
    """Count in how many places each part stands; equal parts of equal parts count once."""
    every = dict.fromkeys(part for node in nodes for part in distinct(node))
    counts = Counter(inner for part in every for inner in parts(part))
    counts.update(nodes)
    return counts


@dataclass(frozen=True, slots=True)
class Place:
    """Where a part stands: beneath ``parent`` at ``slot``; ``parent`` is None for the whole."""

    parent: Node | None
    slot: int
    node: Expr


def places(body: Expr) -> list[Place]:
    """Return every place of ``body`` that holds a number; equal parts count once."""
    found = [Place(None, 0, body)]
    for parent in distinct(body):
        for slot, node in enumerate(parts(parent)):
            if not isinstance(node, Compare | Logic | Not):
                found.append(Place(parent, slot, node))
    return found


def put(body: Expr, place: Place, new: Expr) -> Expr:
    """Return ``body`` with ``new`` at ``place``; parts equal to the place's parent change with it."""
    if place.parent is None:
        return new
    inner = list(parts(place.parent))
    inner[place.slot] = new
    return _swapped(body, place.parent, rebuilt(place.parent, inner))


def _swapped(body: Expr, old: Node, new: Node) -> Expr:
    memory: dict[Node, Node] = {old: new}

    def visit(inner: Node) -> Node:
        if inner not in memory:
            memory[inner] = rebuilt(inner, tuple(map(visit, parts(inner))))
        return memory[inner]

    return visit(body)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Term:
    """A summand; ``sign`` is 1 or -1."""

    sign: int
    node: Expr


def terms_of(node: Expr, whole: frozenset[Node] = frozenset()) -> list[Term]:
    """Return the summands of ``node`` in the order of the text; those in ``whole`` are not taken apart."""
    found: list[Term] = []

    def visit(inner: Expr, sign: int) -> None:
        match inner:
            case Binary("add" | "sub" as op, left, right) if inner is node or inner not in whole:
                visit(left, sign)
                visit(right, sign if op == "add" else -sign)
            case Unary("neg", operand) if inner is node or inner not in whole:
                visit(operand, -sign)
            case _:
                found.append(Term(sign, inner))

    visit(node, 1)
    return found


def sum_of(terms: Sequence[Term]) -> Expr:
    """Return the sum, a positive summand first where there is one; 0 of nothing."""
    if not terms:
        return Number(0.0)
    first = next((i for i, term in enumerate(terms) if term.sign > 0), 0)
    head = terms[first].node if terms[first].sign > 0 else negate(terms[first].node)
    rest = [*terms[:first], *terms[first + 1 :]]
    return reduce(lambda a, t: Binary("add" if t.sign > 0 else "sub", a, t.node), rest, head)


@dataclass(frozen=True, slots=True)
class Factors:
    """A product of ``above`` over ``below``."""

    above: tuple[Expr, ...]
    below: tuple[Expr, ...]


def factors_of(node: Expr, whole: frozenset[Node] = frozenset()) -> Factors:
    """Return the factors of ``node`` in the order of the text; those in ``whole`` are not taken apart."""
    above: list[Expr] = []
    below: list[Expr] = []

    def visit(inner: Expr, up: bool) -> None:
        match inner:
            case Binary("mul" | "div" as op, left, right) if inner is node or inner not in whole:
                visit(left, up)
                visit(right, up if op == "mul" else not up)
            case _:
                (above if up else below).append(inner)

    visit(node, True)
    return Factors(tuple(above), tuple(below))


def product_of(factors: Factors) -> Expr:
    """Return the product, 1 of nothing."""
    above = factors.above or (Number(1.0),)
    product: Expr = reduce(lambda a, b: Binary("mul", a, b), above)
    return reduce(lambda a, b: Binary("div", a, b), factors.below, product)


def arguments_of(node: Binary) -> list[Expr]:
    """Return the arguments of a min or max, nested ones of the same kind flattened."""
    found: list[Expr] = []
    for side in (node.left, node.right):
        found += arguments_of(side) if isinstance(side, Binary) and side.op == node.op else [side]
    return found


def sums(body: Expr) -> list[Expr]:
    """Return where a term may be added: each number that is no summand, no factor, no exponent and in no condition."""
    found: dict[Expr, None] = {}

    def visit(node: Expr, opens: bool) -> None:
        if opens:
            found[node] = None
        match node:
            case Number() | Constant() | Feature() | Local():
                return
            case Binary("add" | "sub", left, right):
                visit(left, False)
                visit(right, False)
            case Binary("mul" | "div", left, right):
                for factor in (left, right):
                    visit(factor, isinstance(factor, Binary) and factor.op in ("add", "sub"))
            case Binary("pow", base, _):
                visit(base, isinstance(base, Binary))
            case Unary("neg", operand):
                visit(operand, False)
            case Unary(_, operand):
                visit(operand, True)
            case Binary(_, left, right) | Choice(_, left, right):
                visit(left, True)
                visit(right, True)
            case _:
                assert_never(node)

    visit(body, True)
    return list(found)


def names_of(node: Node, kind: type[Feature] | type[Constant]) -> tuple[str, ...]:
    """Return the names of the features or constants in ``node``, each once, in the order of the text."""
    return tuple(dict.fromkeys(leaf.name for leaf in leaves(node) if isinstance(leaf, kind)))


def leaves(node: Node) -> Iterator[Expr]:
    """Yield what stands at the ends of ``node``, in the order of the text."""
    inner = parts(node)
    if not inner:
        yield node  # type: ignore[misc]
    for part in inner:
        yield from leaves(part)
