"""Mutations on the terms of sums: add, drop, replace, correct, and let two of them overlap.

A mutation takes a function's body and a bench, and returns a new body, or None where it does not apply.
"""

from __future__ import annotations

from evolve.alphabet import QUEUEING, QUEUEING_TERMS, STEP, STEP_TERMS, typical
from evolve.bench import FACTOR, Bench
from evolve.subtrees import Term, arguments_of, factors_of, numbers, substituted, sum_of, sums, terms_of
from evolve.units import FEATURE_UNITS, PURE, US, Unit, unit_of
from translate.ir import Binary, Choice, Constant, Expr, Feature, Number, Unary

ROOT_SHARE = 0.6
"""Probability that a new term goes to the outermost sum."""
CORRECTION = (0.02, 0.3)
"""Size of a new correction on the typical step."""


def features_product(bench: Bench) -> tuple[str, ...]:
    """Draw features whose product makes a term: mostly one that means something, sometimes any one or two."""
    table = QUEUEING_TERMS if bench.function == QUEUEING else STEP_TERMS if bench.function == STEP else ()
    if table and bench.chance(0.8):
        return bench.pick(table)
    if not bench.features:
        return ()
    first = bench.pick(bench.features)
    return (first, bench.pick(bench.features)) if bench.chance(0.3) else (first,)


def new_term(bench: Bench, scale: float) -> Expr:
    """Draw a term for a sum that usually is about ``scale``: a constant, times features or a function of one."""
    draw = bench.rng.random()
    names = features_product(bench) if draw >= 0.08 else ()
    if not names:
        return bench.constant(bench.share() * scale)
    if draw < 0.18:
        return _bent(bench, names[0], scale)
    product: Expr | None = None
    size = 1.0
    for name in names:
        product = Feature(name) if product is None else Binary("mul", product, Feature(name))
        size *= typical()[name]
    assert product is not None
    if unit_of(product) == US and bench.function == STEP and scale > 1e3:
        value = bench.uniform(*FACTOR)
    else:
        value = bench.share() * scale / size
    head: Expr = bench.constant(value)
    for name in names:
        head = Binary("mul", head, Feature(name))
    return head


def _bent(bench: Bench, name: str, scale: float) -> Expr:
    """Return a constant times the square root or logarithm of a feature, or divided by one that is never 0."""
    size = typical()[name]
    if FEATURE_UNITS[name] == PURE and bench.chance(0.5):
        inner: Expr = Unary("log1p", Feature(name))
    else:
        inner = Unary("sqrt", Feature(name))
    return Binary("mul", bench.constant(bench.share() * scale / max(size, 1.0) ** 0.5), inner)


def term_for(place: Expr, bench: Bench) -> Expr:
    """Draw a term that may be added to ``place``: of its unit, or bridged by a constant."""
    unit = unit_of(place)
    if unit is not None and unit != PURE and bench.chance(0.7):
        alike = [name for name in bench.features if FEATURE_UNITS[name] == unit]
        if alike:
            return Feature(bench.pick(alike))
    return new_term(bench, bench.size(place) or bench.scale_us)


def add_term(body: Expr, bench: Bench) -> Expr | None:
    """Add a term to a sum."""
    place = body
    if not bench.chance(ROOT_SHARE):
        place = bench.pick(sums(body))
    grown = Binary("add", place, term_for(place, bench))
    return substituted(body, {place: grown})


def _sums_of_many(body: Expr, least: int = 2) -> list[Expr]:
    return [place for place in sums(body) if len(terms_of(place)) >= least]


def drop_term(body: Expr, bench: Bench) -> Expr | None:
    """Drop a term of a sum."""
    found = _sums_of_many(body)
    if not found:
        return None
    place = bench.pick(found)
    terms = terms_of(place)
    del terms[int(bench.rng.integers(len(terms)))]
    return substituted(body, {place: sum_of(terms)})


def replace_term(body: Expr, bench: Bench) -> Expr | None:
    """Put a new term in the place of one."""
    place = body if bench.chance(ROOT_SHARE) else bench.pick(sums(body))
    terms = terms_of(place)
    number = int(bench.rng.integers(len(terms)))
    rest = terms[:number] + terms[number + 1 :]
    new = term_for(sum_of(rest) if rest else place, bench)
    return substituted(body, {place: sum_of([*terms[:number], Term(1, new), *terms[number + 1 :]])})


def correct_term(body: Expr, bench: Bench) -> Expr | None:
    """Multiply a term by ``1 + c * x``; the correction starts small."""
    if not bench.features:
        return None
    terms = list(dict.fromkeys(t.node for place in sums(body) for t in terms_of(place)))
    terms = [term for term in terms if not isinstance(term, Number)]
    if not terms:
        return None
    term, name = bench.pick(terms), bench.pick(features_product(bench))
    size = bench.uniform(*CORRECTION) / typical()[name]
    growth = Binary("add", Number(1.0), Binary("mul", bench.constant(size), Feature(name)))
    return substituted(body, {term: Binary("mul", term, growth)})


def scale_term(body: Expr, bench: Bench) -> Expr | None:
    """Multiply a term that a constant leads by one more feature, and the constant accordingly less."""
    if not bench.features:
        return None
    terms = list(dict.fromkeys(t.node for place in sums(body) for t in terms_of(place)))
    led = [term for term in terms if isinstance(factors_of(term).above[0], Constant)]
    if not led:
        return None
    term, name = bench.pick(led), bench.pick(features_product(bench))
    head = factors_of(term).above[0]
    assert isinstance(head, Constant)
    fresh = bench.constant(bench.constants[head.name] / typical()[name])
    return substituted(body, {term: Binary("mul", substituted(term, {head: fresh}), Feature(name))})


def wrap(body: Expr, bench: Bench) -> Expr | None:
    """Let two parts of a sum overlap, as a maximum or a root of squares; or change one overlap into another form."""
    found = _sums_of_many(body)
    joined = [node for node in numbers(body) if _overlapped(node) is not None]
    if joined and (not found or bench.chance(0.5)):
        node = bench.pick(joined)
        arguments, form = _overlapped(node) or ([], "")
        other = bench.pick([new for new in ("add", "max", "soft") if new != form])
        return substituted(body, {node: _overlap(arguments, other)})
    if not found:
        return None
    place = bench.pick(found)
    terms = bench.shuffled([t for t in terms_of(place) if t.sign > 0])
    if len(terms) < 2:
        return None
    ends = int(bench.rng.integers(2, len(terms) + 1)) if bench.chance(0.5) else 2
    middle = int(bench.rng.integers(1, ends))
    sides = [sum_of(terms[:middle]), sum_of(terms[middle:ends])]
    rest = list(terms_of(place))
    for term in terms[:ends]:
        rest.remove(term)
    joint = _overlap(sides, bench.pick(("max", "max", "soft")))
    return substituted(body, {place: sum_of([Term(1, joint), *rest])})


def _overlap(sides: list[Expr], form: str) -> Expr:
    if form == "soft":
        squares = [Term(1, Binary("mul", side, side)) for side in sides]
        return Unary("sqrt", sum_of(squares))
    if form == "add":
        return sum_of([Term(1, side) for side in sides])
    folded = sides[0]
    for side in sides[1:]:
        folded = Binary("max", folded, side)
    return folded


def _overlapped(node: Expr) -> tuple[list[Expr], str] | None:
    """Return the sides of a maximum or a root of squares; None for anything else."""
    match node:
        case Binary("max", _, _):
            return arguments_of(node), "max"
        case Unary("sqrt", inner):
            sides = [term.node.left for term in terms_of(inner) if _is_square(term)]  # type: ignore[union-attr]
            return (sides, "soft") if len(sides) == len(terms_of(inner)) > 1 else None
    return None


def _is_square(term: Term) -> bool:
    node = term.node
    return term.sign > 0 and isinstance(node, Binary) and node.op == "mul" and node.left == node.right


def hoist(body: Expr, bench: Bench) -> Expr | None:
    """Put a part in the place of what it is part of."""
    pairs: list[tuple[Expr, Expr]] = []
    for node in numbers(body):
        inner: tuple[Expr, ...] = ()
        match node:
            case Choice(_, then, otherwise):
                inner = (then, otherwise)
            case Binary("min" | "max", left, right):
                inner = (left, right)
            case Binary("mul", left, right):
                inner = tuple(part for part in (left, right) if not isinstance(part, Constant | Number))
            case Binary("div", left, _) | Binary("pow", left, _) | Unary(_, left):
                inner = (left,)
        pairs += [(node, part) for part in inner]
    if not pairs:
        return None
    node, part = bench.pick(pairs)
    if unit_of(part) != unit_of(node):
        ratio = bench.size(node) / (bench.size(part) or 1.0)
        part = Binary("mul", bench.constant(ratio or 1.0), part)
    return substituted(body, {node: part})


def merge_terms(body: Expr, bench: Bench) -> Expr | None:
    """Give two terms ``c * x`` and ``d * y`` of one unit a common constant."""
    for place in bench.shuffled(_sums_of_many(body)):
        terms = terms_of(place)
        led: dict[Unit, list[tuple[int, Expr]]] = {}
        for number, term in enumerate(terms):
            match term:
                case Term(1, Binary("mul", Constant(), rest)) if (unit := unit_of(rest)) is not None:
                    led.setdefault(unit, []).append((number, rest))
        groups = [members for members in led.values() if len(members) > 1]
        if groups:
            (first, x), (second, y) = bench.shuffled(bench.pick(groups))[:2]
            both = bench.size(terms[first].node) + bench.size(terms[second].node)
            together = Binary("add", x, y)
            joint = Binary("mul", bench.constant(both / (bench.size(together) or 1.0)), together)
            rest_terms = [term for number, term in enumerate(terms) if number not in (first, second)]
            return substituted(body, {place: sum_of([Term(1, joint), *rest_terms])})
    return None
