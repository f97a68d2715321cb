"""The genetic operators: parents and a generator in, one valid program out. No language model is asked.

Each operator first tries its own mutation; where that does not apply or leads out of the caps it falls through, in a
fixed order, to others of its family, then to ones that shrink; then it swaps a feature in the text of the first
parent, and in the end starts afresh with a random seedling. Except for ``jitter_constants``, no proposal has the
structure of its first parent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

import numpy as np

from evolve.alphabet import STEP
from evolve.bench import Bench, rounded
from evolve.crossover import cross
from evolve.drafts import Draft, draft_of
from evolve.gate import DEFAULT_CAPS, Gate
from evolve.genetic_changes import bend, point, split_regimes, subtree, swap_component, unite_regimes
from evolve.genetic_functions import change_functions
from evolve.genetic_terms import (
    add_term,
    correct_term,
    drop_term,
    hoist,
    merge_terms,
    replace_term,
    scale_term,
    wrap,
)
from evolve.proposal import Operator, Parent, Proposal
from evolve.seedling import random_seedling
from evolve.simplification import pruned, simplified
from evolve.statements import swap_feature
from translate.caps import Caps
from translate.ir import Expr, Program, with_constants

__all__ = ["GENETIC", "random_seedling"]

BodyMutation = Callable[[Expr, Bench], Expr | None]
Mutation = Callable[[Draft, np.random.Generator], Draft | None]

OWN_TRIES = 5
"""Times that an operator tries what it is named after before it falls through."""
SWAP_TRIES = 10
JITTER_SIGMA = 0.3
"""Standard deviation of the log of the factors of ``jitter_constants``; the fit starts from what it gives."""
JITTER_DIGITS = 6


def on_step(change: BodyMutation) -> Mutation:
    """Return the mutation of a whole draft that changes its step time."""

    def mutate(draft: Draft, rng: np.random.Generator) -> Draft | None:
        bench = Bench(rng, STEP, dict(draft.constants))
        body = change(draft.bodies[STEP], bench)
        return None if body is None else Draft({**draft.bodies, STEP: body}, bench.constants)

    return mutate


def _simplify(draft: Draft, rng: np.random.Generator) -> Draft | None:
    return simplified(draft)


def _prune(draft: Draft, rng: np.random.Generator) -> Draft | None:
    return pruned(draft)


SHRINK: tuple[Mutation, ...] = tuple(map(on_step, (drop_term, hoist, merge_terms, unite_regimes)))
CHANGE: tuple[Mutation, ...] = tuple(map(on_step, (swap_component, point, replace_term, subtree)))


def propose(
    name: str, family: Sequence[Mutation], parents: Sequence[Parent], rng: np.random.Generator, caps: Caps
) -> Proposal:
    """Return the first acceptable result of the family's mutations on the first parent, the first of them foremost."""
    first = parents[0]
    draft = draft_of(first.program)
    ids = tuple(dict.fromkeys(parent.id for parent in parents))
    gate = Gate(first.program, draft, caps)
    if draft is not None:
        for mutation in (*(family[0],) * OWN_TRIES, *family[1:], *family[1:], *SHRINK, *SHRINK):
            changed = mutation(draft, rng)
            program = None if changed is None else gate.program(changed)
            if program is not None:
                return Proposal(program, name, ids)
    return _last_resort(name, first, ids, rng, gate)


def _last_resort(name: str, first: Parent, ids: tuple[str, ...], rng: np.random.Generator, gate: Gate) -> Proposal:
    """Return the first parent with a feature swapped for one of its unit; where none can be, a random seedling."""
    for _ in range(SWAP_TRIES):
        swapped = swap_feature(first.program, rng)
        if swapped is not None and gate.accepts(swapped):
            return Proposal(swapped, name, ids)
    while True:
        seedling = random_seedling(rng, gate.caps)
        if gate.differs(seedling.program):
            return Proposal(seedling.program, name, ())


def jitter_constants(parents: Sequence[Parent], rng: np.random.Generator, caps: Caps = DEFAULT_CAPS) -> Proposal:
    """Scale each constant of the first parent by exp(N(0, JITTER_SIGMA)); signs and zeros are kept."""
    first = parents[0]
    jittered = _jittered(first.program, rng)
    gate = Gate(first.program, None, caps)
    if jittered != first.program and gate.is_valid(jittered):
        return Proposal(jittered, "jitter_constants", (first.id,))
    return propose("jitter_constants", CHANGE, parents[:1], rng, caps)


def _jittered(program: Program, rng: np.random.Generator) -> Program:
    values = np.array(program.constant_values)
    with np.errstate(over="ignore"):
        scaled = values * np.exp(rng.normal(0.0, JITTER_SIGMA, size=len(values)))
    finite = np.where(np.isfinite(scaled), scaled, values)
    return with_constants(program, [rounded(float(value), JITTER_DIGITS) for value in finite])


def crossover(parents: Sequence[Parent], rng: np.random.Generator, caps: Caps = DEFAULT_CAPS) -> Proposal:
    """Graft a term, a part or a function of the second parent onto the first."""
    other = draft_of(parents[1].program)
    if other is None:
        return propose("crossover", CHANGE, parents[:1], rng, caps)

    def mutate(draft: Draft, rng: np.random.Generator) -> Draft | None:
        return cross(draft, other, rng)

    return propose("crossover", (mutate, mutate, mutate, *CHANGE), parents[:2], rng, caps)


def _operator(name: str, weight: float, *family: Mutation) -> tuple[str, Operator]:
    def apply(parents: Sequence[Parent], rng: np.random.Generator, caps: Caps = DEFAULT_CAPS) -> Proposal:
        return propose(name, family, parents[:1], rng, caps)

    return name, Operator(apply, 1, weight)


GENETIC: Mapping[str, Operator] = MappingProxyType(
    dict(
        (
            _operator("add_term", 1.5, on_step(add_term), on_step(replace_term), *CHANGE),
            _operator("drop_term", 1.0, *SHRINK),
            _operator("replace_term", 1.0, on_step(replace_term), *CHANGE),
            _operator("swap_component", 1.5, *CHANGE),
            _operator("point_mutation", 0.8, on_step(point), *CHANGE),
            _operator("subtree_mutation", 0.8, on_step(subtree), *CHANGE),
            _operator("correct_term", 0.6, on_step(correct_term), on_step(scale_term), *CHANGE),
            _operator("scale_term", 0.6, on_step(scale_term), on_step(correct_term), *CHANGE),
            _operator("overlap", 0.8, on_step(wrap), on_step(bend), *CHANGE),
            _operator("floor", 0.3, on_step(bend), on_step(wrap), *CHANGE),
            _operator("split_regimes", 0.4, on_step(split_regimes), on_step(unite_regimes), *CHANGE),
            _operator("change_functions", 0.6, change_functions, *CHANGE),
            _operator("simplify", 0.8, _simplify, _prune, *SHRINK),
            _operator("merge_terms", 0.4, on_step(merge_terms), *SHRINK),
            _operator("hoist", 0.3, on_step(hoist), *SHRINK),
            ("crossover", Operator(crossover, 2, 1.5)),
            ("jitter_constants", Operator(jitter_constants, 1, 0.3)),
        )
    )
)
"""Every genetic operator by name."""
