"""Programs from nothing: a few terms that mean something, for diversity."""

from __future__ import annotations

import numpy as np

from evaluators.features import VOCABULARY
from evolve.alphabet import OUTPUT_TOKEN, QUEUEING, STEP
from evolve.bench import Bench
from evolve.drafts import Draft, program_of
from evolve.genetic_functions import delay, token_delay
from evolve.genetic_terms import new_term
from evolve.proposal import Proposal
from evolve.subtrees import Term, sum_of
from translate.caps import Caps
from translate.ir import Binary, Expr, Feature
from translate.parse import parse
from translate.source import to_source

NAME = "random_seedling"
DEFAULT_CAPS = Caps()
MAIN = ("gemm_time", "weight_load", "total_bytes")
"""What most of a step is; one of them is in every seedling."""
OVERLAPPED = ("total_flops", "decode_gemm", "prefill_gemm")
TRIES = 20


def random_seedling(rng: np.random.Generator, caps: Caps = DEFAULT_CAPS) -> Proposal:
    """Return a small sum of two to five terms, sometimes with an overlap of bytes and FLOPs, and the usual delays.

    Raises: ValueError where the caps do not even let one feature through.
    """
    for _ in range(TRIES):
        program = program_of(_draft(rng))
        if parse(to_source(program), VOCABULARY, caps) == program:
            return Proposal(program, NAME, ())
    for name in (*(MAIN[int(i)] for i in rng.permutation(len(MAIN))), *OVERLAPPED):
        program = program_of(Draft({STEP: Feature(name)}, {}))
        if parse(to_source(program), VOCABULARY, caps) == program:
            return Proposal(program, NAME, ())
    raise ValueError(f"caps: got {caps}; want room for a program that returns one feature")


def _draft(rng: np.random.Generator) -> Draft:
    bench = Bench(rng, STEP, {})
    main: Expr = Binary("mul", bench.constant(bench.uniform(0.8, 1.5)), Feature(bench.pick(MAIN)))
    if bench.chance(0.3):
        compute = Binary("mul", bench.constant(bench.uniform(1.0, 2.0)), Feature(bench.pick(OVERLAPPED)))
        main = Binary("max", main, compute)
    terms = [Term(1, main)]
    for _ in range(int(rng.integers(1, 5))):
        term = Term(1, new_term(bench, bench.scale_us))
        terms.append(term)
    bodies = {STEP: sum_of(terms)}
    if bench.chance(0.8):
        bodies[QUEUEING] = delay(bench)
        if bench.chance(0.6):
            bodies[OUTPUT_TOKEN] = token_delay(bench)
    return Draft(bodies, bench.constants)
