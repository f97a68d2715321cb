"""Simplification: leave out what changes no prediction by more than half a percent on realistic inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from evaluators.features import FEATURE_NAMES, REQUEST_NAMES
from evolve.alphabet import QUEUEING, STEP, probes
from evolve.drafts import Draft
from evolve.subtrees import Factors, Term, factors_of, numbers, product_of, substituted, sum_of, sums, terms_of
from translate.ir import Binary, Choice, Constant, Expr, Function, Number, Program, Return, Unary
from translate.to_numpy import compile_numpy
from translate.vocabulary import PARAMETERS

F64 = NDArray[np.float64]
TOLERANCE = 0.005
"""Largest relative change of any prediction on the probes, all that is left out together."""
ORDER: Mapping[str, tuple[str, ...]] = {STEP: FEATURE_NAMES, QUEUEING: REQUEST_NAMES}


def simplified(draft: Draft, tolerance: float = TOLERANCE) -> Draft:
    """Return the draft without terms, factors and sides that change no prediction by more than ``tolerance``.

    What changes least goes first; each change is measured against the draft that was given. Constants that are 0 go
    this way too. A function that is not finite and non-zero on every probe stays as it is.
    """
    bodies: dict[str, Expr] = {}
    for name, body in draft.bodies.items():
        truth = predictions(name, body, draft.constants)
        bodies[name] = body
        while np.all(np.isfinite(truth) & (truth != 0.0)):
            change, smaller = least_change(name, bodies[name], draft.constants, truth)
            if smaller is None or change > tolerance:
                break
            bodies[name] = smaller
    return Draft(bodies, draft.constants)


def pruned(draft: Draft) -> Draft | None:
    """Return the draft without the one part of the step time that changes its predictions least, however much."""
    body = draft.bodies[STEP]
    _, smaller = least_change(STEP, body, draft.constants, predictions(STEP, body, draft.constants))
    return None if smaller is None else Draft({**draft.bodies, STEP: smaller}, draft.constants)


def least_change(name: str, body: Expr, constants: Mapping[str, float], truth: F64) -> tuple[float, Expr | None]:
    """Return the smaller body whose predictions are nearest to ``truth``, and its largest relative change."""
    best: tuple[float, Expr | None] = (np.inf, None)
    for smaller in dict.fromkeys(reductions(body)):
        with np.errstate(all="ignore"):
            change = float(np.max(np.abs(predictions(name, smaller, constants) / truth - 1.0)))
        if change < best[0]:
            best = change, smaller
    return best


def predictions(name: str, body: Expr, constants: Mapping[str, float]) -> F64:
    """Return what a function gives on the probes."""
    program = Program("", tuple(constants.items()), (Function(name, PARAMETERS[name], (Return(body),)),))
    order = ORDER.get(name, ())
    values = probes()
    matrix = np.array([values[feature] for feature in order]) if order else np.empty((0, 1))
    return compile_numpy(program, name, order)(matrix, np.array(program.constant_values))


def reductions(body: Expr) -> Iterator[Expr]:
    """Yield ``body`` without one term, one factor that corrects another, one side of a choice, or one argument."""
    for place in sums(body):
        terms = terms_of(place)
        for number in range(len(terms) if len(terms) > 1 else 0):
            yield substituted(body, {place: sum_of([*terms[:number], *terms[number + 1 :]])})
    for node in numbers(body):
        match node:
            case Choice(_, left, right) | Binary("min" | "max", left, right):
                yield substituted(body, {node: left})
                yield substituted(body, {node: right})
            case Binary("mul", _, _):
                factors = factors_of(node)
                for number, factor in enumerate(factors.above):
                    if isinstance(factor, Binary) and Term(1, Number(1.0)) in terms_of(factor):
                        rest = factors.above[:number] + factors.above[number + 1 :]
                        yield substituted(body, {node: product_of(Factors(rest, factors.below))})
            case Unary("sqrt", inner):
                for term in terms_of(inner):
                    match term:
                        case Term(1, Binary("mul", left, right)) if left == right and not isinstance(left, Constant):
                            yield substituted(body, {node: left})
