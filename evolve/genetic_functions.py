"""Mutations on the functions beside the step time: time before the queue and time per output token.

They decide the time to first token: queueing + about 2.5 steps + the front end's time for the whole batch.
"""

from __future__ import annotations

import numpy as np

from evolve.alphabet import OUTPUT_TOKEN, QUEUEING, QUEUEING_TERMS, SCALE_US, typical
from evolve.bench import Bench
from evolve.drafts import Draft
from evolve.genetic_changes import swap_component
from evolve.genetic_terms import drop_term, replace_term
from evolve.subtrees import terms_of
from translate.ir import Binary, Expr, Feature

OUTPUT_TOKEN_US = 50.0
SPREAD = 0.3
"""Standard deviation of the log of a start value around what is usual."""
LARGEST_QUEUEING = 3
"""Terms of a queueing time beyond which none is added."""


def with_body(draft: Draft, function: str, body: Expr, bench: Bench) -> Draft:
    """Return the draft with another body of one function and the constants of the bench."""
    return Draft({**draft.bodies, function: body}, bench.constants)


def without(draft: Draft, function: str) -> Draft:
    """Return the draft without one function."""
    return Draft({name: body for name, body in draft.bodies.items() if name != function}, draft.constants)


def change_functions(draft: Draft, rng: np.random.Generator) -> Draft | None:
    """Add, drop or alter the queueing time or the time per output token."""
    if rng.random() < 0.35:
        return _output_token(draft, rng)
    bench = Bench(rng, QUEUEING, dict(draft.constants))
    body = draft.bodies.get(QUEUEING)
    if body is None:
        new = delay(bench)
        new = _slope(new, bench) if bench.chance(0.5) else new
        return with_body(draft, QUEUEING, new, bench)
    if bench.chance(0.1):
        return without(draft, QUEUEING)
    many = len(terms_of(body)) > 1
    full = len(terms_of(body)) >= LARGEST_QUEUEING
    for change in bench.shuffled(("grow", "shrink", "replace", "swap", "restart")):
        match change:
            case "grow" if not full:
                return with_body(draft, QUEUEING, _slope(body, bench), bench)
            case "shrink" if many:
                smaller = drop_term(body, bench)
                return None if smaller is None else with_body(draft, QUEUEING, smaller, bench)
            case "replace" if many:
                other = replace_term(body, bench)
                return None if other is None else with_body(draft, QUEUEING, other, bench)
            case "swap":
                swapped = swap_component(body, bench)
                if swapped is not None:
                    return with_body(draft, QUEUEING, swapped, bench)
            case "restart" if many:
                return with_body(draft, QUEUEING, delay(bench), bench)
    return None


def _output_token(draft: Draft, rng: np.random.Generator) -> Draft:
    if OUTPUT_TOKEN in draft.bodies:
        return without(draft, OUTPUT_TOKEN)
    bench = Bench(rng, OUTPUT_TOKEN, dict(draft.constants))
    return with_body(draft, OUTPUT_TOKEN, token_delay(bench), bench)


def delay(bench: Bench) -> Expr:
    """Return a constant queueing time near what is usual."""
    return bench.constant(SCALE_US[QUEUEING] * float(bench.rng.lognormal(0.0, SPREAD)))


def token_delay(bench: Bench) -> Expr:
    """Return a constant time per output token near what is usual."""
    return bench.constant(OUTPUT_TOKEN_US * float(bench.rng.lognormal(0.0, SPREAD)))


def _slope(body: Expr, bench: Bench) -> Expr:
    """Return the queueing time plus a constant per unit of a feature."""
    (name,) = bench.pick(QUEUEING_TERMS)
    share = bench.share() * SCALE_US[QUEUEING] / typical()[name]
    return Binary("add", body, Binary("mul", bench.constant(share), Feature(name)))
