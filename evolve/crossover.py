"""Crossover: a part of one program, with the constants that it needs, becomes part of another."""

from __future__ import annotations

import numpy as np

from evolve.alphabet import STEP
from evolve.bench import Bench
from evolve.drafts import Draft
from evolve.genetic_terms import ROOT_SHARE
from evolve.subtrees import Place, Term, places, put, substituted, sum_of, sums, terms_of
from evolve.units import PURE, compatible, unit_of
from translate.ir import Binary, Compare, Constant, Expr, Number, negate


def cross(draft: Draft, other: Draft, rng: np.random.Generator) -> Draft | None:
    """Return ``draft`` with a term, a part or a whole function of ``other``; its constants keep their values."""
    draw = rng.random()
    extra = [name for name in other.bodies if name != STEP and other.bodies[name] != draft.bodies.get(name)]
    if extra and draw < 0.12:
        return _graft_function(draft, other, extra[int(rng.integers(len(extra)))], rng)
    bench = Bench(rng, STEP, dict(draft.constants))
    graft = _add if draw < 0.45 else _replace if draw < 0.75 else _part
    body = graft(draft.bodies[STEP], other, bench)
    return None if body is None else Draft({**draft.bodies, STEP: body}, bench.constants)


def _graft_function(draft: Draft, other: Draft, name: str, rng: np.random.Generator) -> Draft:
    bench = Bench(rng, name, dict(draft.constants))
    body = bench.adopt(other.bodies[name], other.constants)
    return Draft({**draft.bodies, name: body}, bench.constants)


def _foreign_term(other: Draft, bench: Bench) -> Expr:
    """Return a term of ``other`` with its constants declared here."""
    body = other.bodies[STEP]
    place = body if bench.chance(ROOT_SHARE) else bench.pick(sums(body))
    term = bench.pick(terms_of(place))
    return bench.adopt(term.node if term.sign > 0 else negate(term.node), other.constants)


def _add(body: Expr, other: Draft, bench: Bench) -> Expr | None:
    """Add a term of the other program to a sum."""
    term = _foreign_term(other, bench)
    fitting = [place for place in sums(body) if compatible(unit_of(place), unit_of(term))]
    if not fitting:
        return None
    place = body if body in fitting and bench.chance(ROOT_SHARE) else bench.pick(fitting)
    return substituted(body, {place: sum_of([*terms_of(place), Term(1, term)])})


def _replace(body: Expr, other: Draft, bench: Bench) -> Expr | None:
    """Put a term of the other program in the place of one."""
    term = _foreign_term(other, bench)
    fitting = [place for place in sums(body) if compatible(unit_of(place), unit_of(term))]
    if not fitting:
        return None
    place = bench.pick(fitting)
    terms = terms_of(place)
    number = int(bench.rng.integers(len(terms)))
    return substituted(body, {place: sum_of([*terms[:number], Term(1, term), *terms[number + 1 :]])})


def _part(body: Expr, other: Draft, bench: Bench) -> Expr | None:
    """Put any part of the other program in the place of one of the same unit, or bridged like it."""
    mine = [spot for spot in places(body) if _may_move(spot)]
    theirs = [spot for spot in places(other.bodies[STEP]) if _may_move(spot)]
    pairs = [(a, b) for a in mine for b in theirs if unit_of(a.node) == unit_of(b.node) != PURE and a.node != b.node]
    if not pairs:
        return None
    here, there = bench.pick(pairs)
    return put(body, here, bench.adopt(there.node, other.constants))


def _may_move(spot: Place) -> bool:
    """Tell whether a part may leave or be replaced: no bare constant, no exponent, no side of a comparison."""
    if isinstance(spot.node, Constant | Number) or isinstance(spot.parent, Compare):
        return False
    return not (isinstance(spot.parent, Binary) and spot.parent.op in ("pow", "div") and spot.slot == 1)
