"""The cascade that a program goes through, cheap checks first: compile, invariants, mean-field fit, full simulation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from evaluators.compiled import Compiled, compile_program
from evaluators.experiment import Experiment
from evaluators.features import FEATURE_NAMES
from evaluators.fitting import fit, mean_field_prediction, refit
from evaluators.generalisation import Generalisation, generalisation
from evaluators.invariants import Violation, check, check_bias, probe
from evaluators.meanfield import METRICS, MeanField, mean_field
from evaluators.random import stream
from evaluators.scoring import Row, Score, Unscorable, score
from evaluators.simulation import DEFAULT_SEED, Scene, scene_of
from translate.canonical import digest
from translate.fingerprint import fingerprint
from translate.ir import Program, with_constants

F64 = NDArray[np.float64]
SIGNIFICANT_DIGITS = 6
"""Fitted constants are rounded to so many digits before they are scored: what is shown is what was measured."""
HOPELESS_ERROR = 0.5
"""Weighted mean-field error above which a structure is not simulated."""
GENERALISATION_WEIGHT = 0.1
"""What the leave-one-model-out error counts beside the fitted one. A formula that fits four models by telling them
apart has a small error here and a large one on a fifth model; this makes the search prefer those that carry over."""
ROUNDS = 3
"""Most rounds of fit and simulation."""
WORTHWHILE = 0.01
"""Relative improvement below which another round is not tried."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Where in the cascade a program failed, with a short stable code and the reason in words."""

    stage: str
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """A program with its fitted constants and its score by the full simulator."""

    program: Program
    score: Score
    generalisation: Generalisation

    @property
    def loss(self) -> float:
        """Return what the search minimises: the error, and a share of the error on models that were left out."""
        return self.score.error + GENERALISATION_WEIGHT * (self.generalisation.model or 0.0)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The experiments that count, prepared once for all programs."""

    field: MeanField
    scenes: tuple[Scene, ...]


def accuracy_set(experiments: Sequence[Experiment]) -> tuple[Experiment, ...]:
    """Return the experiments that count."""
    return tuple(experiment for experiment in experiments if experiment.scored)


def prepare(experiments: Sequence[Experiment], seed: int = DEFAULT_SEED) -> Benchmark:
    """Prepare the accuracy set of a dataset; ``seed`` draws the arrivals, the same for every program.

    Raises: ValueError: nothing in the dataset counts, or an experiment has settings that no engine accepts.
    """
    chosen = accuracy_set(experiments)
    if not chosen:
        raise ValueError("dataset: got no observed experiment within capacity; want at least one")
    return Benchmark(mean_field(chosen), tuple(scene_of(experiment, seed) for experiment in chosen))


@lru_cache(maxsize=1)
def _fingerprint_probe() -> tuple[F64, tuple[str, ...]]:
    steps = probe().steps[::6].T
    return np.concatenate([steps, np.linspace(16.0, 4096.0, steps.shape[1])[None]]), (*FEATURE_NAMES, "prompt_tokens")


def behaviour(program: Program) -> str:
    """Return the structure's fingerprint on the probe set, whatever its constants."""
    return fingerprint(program, *_fingerprint_probe())


def _rounded(constants: F64) -> F64:
    return np.array([float(f"{value:.{SIGNIFICANT_DIGITS}g}") for value in constants])


def evaluate_as_is(program: Program, benchmark: Benchmark) -> Score | Failure:
    """Score a program with the constants that it has."""
    compiled = compile_program(program)
    result = score(compiled, np.array(program.constant_values), benchmark.scenes)
    return Failure("simulate", "EV003", result.reason) if isinstance(result, Unscorable) else result


def broken_invariant(program: Program, result: Score) -> Violation | None:
    """Return the invariant for which a search would reject a program that was scored with the constants it has."""
    return check(compile_program(program), np.array(program.constant_values)) or check_bias(result.bias)


def fit_and_score(program: Program, benchmark: Benchmark, seed: int) -> Evaluation | Failure:
    """Fit a program's constants to the benchmark and score it; the result depends on the arguments alone."""
    compiled = compile_program(program)
    rng = stream(seed, "fit", int(digest(program)[:8], 16))
    first = fit(compiled, benchmark.field, np.array(program.constant_values), rng)
    if not first.error < HOPELESS_ERROR:
        return Failure("fit", "EV001", f"mean-field error {first.error:.0%} at the best constants; want < 50%")
    best = _alternate(compiled, benchmark, _rounded(first.constants))
    if isinstance(best, Unscorable):
        return Failure("simulate", "EV003", best.reason)
    constants, result = best
    violation = check(compiled, constants) or check_bias(result.bias)
    if violation is not None:
        return Failure("invariants", violation.code, violation.reason)
    ratio = _ratio(compiled, benchmark.field, constants, result)
    folds = generalisation(compiled, benchmark.field, constants, ratio)
    return Evaluation(with_constants(program, [float(value) for value in constants]), result, folds)


def _alternate(compiled: Compiled, benchmark: Benchmark, constants: F64) -> tuple[F64, Score] | Unscorable:
    """Simulate, correct the mean field by the outcome, fit again; return the best constants met and their score."""
    best: tuple[F64, Score] | None = None
    for _ in range(ROUNDS):
        result = score(compiled, constants, benchmark.scenes)
        if isinstance(result, Unscorable):
            return best or result
        gained = best is None or result.error < best[1].error * (1.0 - WORTHWHILE)
        if best is None or result.error < best[1].error:
            best = constants, result
        if not gained or len(constants) == 0:
            break
        ratio = _ratio(compiled, benchmark.field, constants, result)
        constants = _rounded(refit(compiled, benchmark.field, constants, ratio))
    assert best is not None
    return best


def _ratio(compiled: Compiled, field: MeanField, constants: F64, result: Score) -> F64:
    """Return (len(METRICS), rows): what the simulator gave over what the mean field gives at these constants."""
    simulated = np.array([[_predicted_us(row, metric) for row in result.rows] for metric in METRICS])
    return simulated / mean_field_prediction(compiled, field, constants)


def _predicted_us(row: Row, metric: str) -> float:
    return row.tpot_us if metric == "tpot" else float(getattr(row, metric).mean_us)
