"""Mutations that change what stands in one place: a feature, an operator, a literal, a part, a constant's regimes."""

from __future__ import annotations

from dataclasses import replace

from evolve.alphabet import STEP, SWITCHES, composite, divisors, related, typical
from evolve.bench import Bench, whole
from evolve.genetic_terms import new_term
from evolve.subtrees import Node, Place, distinct, names_of, numbers, parts, places, put, rebuilt, substituted, sums
from evolve.units import FEATURE_UNITS, PURE, US, Unit, unit_of
from translate.ir import (
    Binary,
    BinaryOp,
    Choice,
    Compare,
    CompareOp,
    Constant,
    Expr,
    Feature,
    Number,
    Unary,
    UnaryOp,
)

BINARY_CLASSES: tuple[tuple[BinaryOp, ...], ...] = (("add", "max", "min"), ("mul", "div"))
UNARY_CLASSES: tuple[tuple[UnaryOp, ...], ...] = (("log", "log1p"), ("exp", "expm1"))
COMPARE_CLASS: tuple[CompareOp, ...] = ("gt", "le", "ge", "lt")


def point(body: Expr, bench: Bench) -> Expr | None:
    """Swap one feature for another of its unit, one operator for another of its class, or scale one literal."""
    spots = places(body)
    kinds = bench.shuffled((Feature, Feature, Binary, Number, Compare, Unary))
    for kind in kinds:
        if kind is Compare:
            result = _point_compare(body, bench)
        else:
            found = [spot for spot in spots if isinstance(spot.node, kind)]
            result = _point_at(body, bench.pick(found), bench) if found else None
        if result is not None:
            return result
    return None


def _point_at(body: Expr, spot: Place, bench: Bench) -> Expr | None:
    match spot.node:
        case Feature(name):
            alike = [f for f in bench.features if f != name and FEATURE_UNITS[f] == FEATURE_UNITS[name]]
            alike = [f for f in alike if f in divisors()] if _is_divisor(spot) else alike
            return _swapped(body, spot, bench.pick(alike), bench) if alike else None
        case Number(value) if value not in (0.0, 1.0):
            return put(body, spot, whole(value * bench.uniform(0.4, 2.5)))
        case Binary(op, left, right) as node:
            others = [other for group in BINARY_CLASSES if op in group for other in group if other != op]
            if op == "mul" and not (isinstance(right, Feature) and right.name in divisors()):
                return None
            if op in ("mul", "div") and isinstance(left, Constant) and isinstance(right, Feature):
                size = typical()[right.name] ** 2
                value = bench.constants[left.name] * (size if op == "mul" else 1.0 / size)
                return put(body, spot, Binary(bench.pick(others), bench.constant(value), right))
            return put(body, spot, replace(node, op=bench.pick(others))) if others else None
        case Unary(op, operand):
            swaps = [other for group in UNARY_CLASSES if op in group for other in group if other != op]
            return put(body, spot, Unary(bench.pick(swaps), operand)) if swaps else None
    return None


def _point_compare(body: Expr, bench: Bench) -> Expr | None:
    found = [node for node in distinct(body) if isinstance(node, Compare)]
    if not found:
        return None
    node = bench.pick(found)
    other = replace(node, op=bench.pick([op for op in COMPARE_CLASS if op != node.op]))
    return _with_condition(body, node, other)


def _with_condition(body: Expr, old: Compare, new: Compare) -> Expr:
    memory: dict[Node, Node] = {old: new}

    def visit(node: Node) -> Node:
        if node not in memory:
            memory[node] = rebuilt(node, tuple(map(visit, parts(node))))
        return memory[node]

    return visit(body)  # type: ignore[return-value]


def _is_divisor(spot: Place) -> bool:
    return isinstance(spot.parent, Binary) and spot.parent.op == "div" and spot.slot == 1


def _swapped(body: Expr, spot: Place, name: str, bench: Bench) -> Expr:
    """Put feature ``name`` at a place; a constant that leads the product is scaled by what usually keeps its size."""
    old = spot.node
    assert isinstance(old, Feature)
    ratio = typical()[old.name] / typical()[name]
    match spot.parent:
        case Binary("mul", Constant(constant), Feature()) if spot.slot == 1:
            fresh = bench.constant(bench.constants[constant] * ratio)
            return substituted(body, {spot.parent: Binary("mul", fresh, Feature(name))})
        case Compare(op, Feature(), Number(value)) if spot.slot == 0:
            return _with_condition(body, spot.parent, Compare(op, Feature(name), whole(value / ratio)))
    if FEATURE_UNITS[old.name] == FEATURE_UNITS[name]:
        return put(body, spot, Feature(name))
    return put(body, spot, Binary("mul", bench.constant(ratio), Feature(name)))


def swap_component(body: Expr, bench: Bench) -> Expr | None:
    """Swap one feature for a related one: achieved for peak rate, sum for mean, bytes for FLOPs, parts for a total."""
    spots = [spot for spot in places(body) if isinstance(spot.node, Feature)]
    for spot in bench.shuffled(spots):
        assert isinstance(spot.node, Feature)
        written_out = composite(spot.node.name)
        if written_out is not None and bench.function == STEP and bench.chance(0.25):
            return put(body, spot, written_out)
        near = related(spot.node.name, bench.function)
        if _is_divisor(spot):
            near = tuple(name for name in near if name in divisors())
        if near:
            return _swapped(body, spot, bench.pick(near), bench)
    return None


def subtree(body: Expr, bench: Bench) -> Expr | None:
    """Put a new random part of the same unit in the place of one."""
    inner = [spot for spot in places(body) if spot.parent is not None and not isinstance(spot.parent, Compare)]
    if not inner:
        return None
    spot = bench.pick(inner)
    unit = unit_of(spot.node)
    if isinstance(spot.node, Constant | Number) or _is_divisor(spot):
        return None
    return put(body, spot, part_of(unit, bench, bench.size(spot.node)))


def part_of(unit: Unit | None, bench: Bench, size: float) -> Expr:
    """Draw a small part of a unit, or one that a constant bridges to any; about ``size`` on the typical step."""
    alike = [name for name in bench.features if unit is not None and FEATURE_UNITS[name] == unit]
    draw = bench.rng.random()
    if alike and unit != PURE and draw < 0.45:
        return Feature(bench.pick(alike))
    if len(alike) > 1 and draw < 0.75:
        first, second = bench.shuffled(alike)[:2]
        op: BinaryOp = bench.pick(("add", "max")) if unit != PURE else "mul"
        return Binary(op, Feature(first), Feature(second))
    term = new_term(bench, size or bench.scale_us)
    if draw < 0.9:
        return term
    return Binary(bench.pick(("add", "max")), term, new_term(bench, size or bench.scale_us))


def split_regimes(body: Expr, bench: Bench) -> Expr | None:
    """Give one constant two values, one on each side of a threshold on a feature."""
    exponents = {
        spot.node for spot in places(body) if isinstance(spot.parent, Binary) and spot.parent.op == "pow" and spot.slot
    }
    names = [name for name in names_of(body, Constant) if Constant(name) not in exponents]
    switches = SWITCHES.get(bench.function, ())
    if not names or not switches:
        return None
    name, feature = bench.pick(names), bench.pick(switches)
    value = bench.constants[name]
    if feature == "is_moe":
        threshold: Expr = Number(0.5)
    elif feature == "tp":
        threshold = Number(float(bench.pick((1, 2))))
    else:
        threshold = whole(typical()[feature] * float(bench.rng.lognormal(0.0, 0.7)))
    other = bench.constant(value * float(bench.rng.lognormal(0.0, 0.3)))
    regime = Choice(Compare("gt", Feature(feature), threshold), other, Constant(name))
    return substituted(body, {Constant(name): regime})


def unite_regimes(body: Expr, bench: Bench) -> Expr | None:
    """Keep one side of a choice."""
    found = [node for node in numbers(body) if isinstance(node, Choice)]
    if not found:
        return None
    node = bench.pick(found)
    return substituted(body, {node: bench.pick((node.then, node.otherwise))})


def bend(body: Expr, bench: Bench) -> Expr | None:
    """Put a bound under a sum: no less than a constant, or a constant per layer."""
    place = bench.pick(sums(body))
    floor: Expr = bench.constant(0.7 * (bench.size(place) or bench.scale_us))
    if bench.function == STEP and unit_of(place) in (None, US) and bench.chance(0.5):
        floor = Binary("mul", bench.constant(0.7 * bench.size(place) / typical()["layers"]), Feature("layers"))
    return substituted(body, {place: Binary("max", place, floor)})
