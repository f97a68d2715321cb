"""Constants of a structure: bounded least squares on the mean field, steered by the full simulator.

The mean field is cheap and smooth but a little off; the full simulator is right but kinked. So the constants are
fitted on the mean field with each prediction multiplied by what the simulator gave over what the mean field gave at
the last constants (space mapping), which converges to the simulator's own optimum in two or three rounds.
Source: Bandler et al., Space mapping technique for electromagnetic optimization, 1994.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from evaluators.compiled import Compiled, evaluate_steps, output_token_us, scheduling_us
from evaluators.features import INDEX
from evaluators.invariants import faster_than_peak
from evaluators.meanfield import METRICS, MeanField, predict
from evaluators.simulation import DEFAULT_QUEUEING_US
from translate.complexity import Node, children, walk
from translate.ir import Compare, Constant, Program

F64 = NDArray[np.float64]
WEIGHTS = {"e2e": 1.0, "ttft": 0.2, "tpot": 1.0}
"""What a relative error of each metric counts in fit and score; first tokens hold the most that no program knows."""
ROOT_WEIGHTS = np.sqrt(np.array([WEIGHTS[metric] for metric in METRICS]))[:, None]
"""Factors on the residuals (len(METRICS), 1): least squares squares them."""
ROBUST_SCALE = 0.01
"""Relative error above which a residual counts linearly instead of quadratically."""
LARGEST = 1e3
"""Residual of a prediction that is not finite or absurd; relative errors beyond it say nothing more."""
MOST_EVALUATIONS = 400
PEAK_WEIGHT = 0.2
"""What a step's relative lead over the hardware's peak counts in the fit, against a stage's relative error."""
STARTS = 3
SMALLEST_START = 1e-6
"""Where a constant of zero starts: at its bound it would have no direction to move in."""
LARGEST_CONSTANT = 1e100
"""How far from zero a constant is tried at most: least squares has to square it."""
CMA_EVALUATIONS = 400
CMA_SIGMA = 0.3
START_SPREAD = 1.0
"""Standard deviation of the log of the factors between two starts."""


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted constants in the order of ``program.constants``, and their weighted error in the mean field."""

    constants: F64
    error: float


def mean_field_prediction(compiled: Compiled, field: MeanField, constants: F64) -> F64:
    """Return (len(METRICS), rows) mean-field predictions [us]; not finite where the program is not."""
    times = np.empty(field.steps.shape[0])
    evaluate_steps(compiled.step, field.steps, constants, times)
    times += scheduling_us(compiled, constants) * field.steps[:, INDEX["prefill_reqs"]]
    queueing_us = DEFAULT_QUEUEING_US if compiled.queueing is None else compiled.queueing(field.requests, constants)
    with np.errstate(all="ignore"):
        return predict(field, times, np.clip(queueing_us, 0.0, 60e6), output_token_us(compiled, constants))


def relative_errors(predicted: F64, observed: F64) -> F64:
    """Return predicted / observed - 1, clipped to ``LARGEST`` and with anything not finite there."""
    with np.errstate(all="ignore"):
        errors = predicted / observed - 1.0
    return np.clip(np.where(np.isfinite(errors), errors, LARGEST), -LARGEST, LARGEST)


def weighted_error(errors: F64) -> float:
    """Return the weighted mean of absolute relative errors (len(METRICS), rows)."""
    weights = np.array([WEIGHTS[metric] for metric in METRICS])
    return float(weights @ np.mean(np.abs(errors), axis=1) / weights.sum())


@dataclass(frozen=True, slots=True)
class _Problem:
    """One structure, the rows it is fitted to, and the correction of the mean field on them."""

    compiled: Compiled
    field: MeanField
    ratio: F64

    def errors(self, constants: F64) -> F64:
        """Return the relative errors (len(METRICS), rows)."""
        predicted = mean_field_prediction(self.compiled, self.field, constants) * self.ratio
        return relative_errors(predicted, self.field.observed)

    def residuals(self, constants: F64) -> F64:
        """Return what least squares sees: weighted errors, and the lead over the hardware's peak."""
        lead = PEAK_WEIGHT * faster_than_peak(self.compiled, constants)
        return np.concatenate([np.ravel(ROOT_WEIGHTS * self.errors(constants)), lead])

    def cost(self, constants: F64) -> float:
        """Return what decides between two solutions."""
        lead = float(np.mean(faster_than_peak(self.compiled, constants)))
        return weighted_error(self.errors(constants)) + PEAK_WEIGHT * lead

    def solved(self, start: F64, loss: Literal["linear", "soft_l1"]) -> F64:
        """Return least squares' solution from ``start``; each constant keeps its sign.

        A time that turned negative would predict well and mean nothing.
        """
        start = _within_reach(start)
        bounds = np.where(start < 0.0, -np.inf, 0.0), np.where(start < 0.0, 0.0, np.inf)
        with np.errstate(all="ignore"):
            solution = least_squares(
                self.residuals, start, bounds=bounds, x_scale="jac", loss=loss, f_scale=ROBUST_SCALE,
                max_nfev=MOST_EVALUATIONS // (len(start) + 1),
            )  # fmt: skip
        return np.asarray(solution.x, dtype=np.float64)

    def evolved(self, start: F64, seed: int) -> F64:
        """Return what CMA-ES finds around ``start``, by factors on the constants: it needs no slope."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it misses matplotlib, which nothing here plots with
            import cma

        start = _within_reach(start)
        options = {"maxfevals": CMA_EVALUATIONS, "seed": seed, "verbose": -9}

        def moved(logs: F64) -> F64:
            return np.clip(start * np.exp(logs), -LARGEST_CONSTANT, LARGEST_CONSTANT)

        with np.errstate(over="ignore"):  # where no constant matters, they wander off
            found, _ = cma.fmin2(lambda logs: self.cost(moved(logs)), np.zeros(len(start)), CMA_SIGMA, options)
            return moved(np.asarray(found, dtype=np.float64))


def _within_reach(start: F64) -> F64:
    """Return a start from which an optimiser can move: neither at a bound nor beyond what it can square."""
    return np.clip(np.where(start == 0.0, SMALLEST_START, start), -LARGEST_CONSTANT, LARGEST_CONSTANT)


def has_fitted_threshold(program: Program) -> bool:
    """Return whether a constant decides which way some condition goes."""
    comparisons = (n for function in program.functions for n in walk(function) if isinstance(n, Compare))
    return any(isinstance(inner, Constant) for node in comparisons for inner in _inside(node))


def _inside(node: Node) -> Iterator[Node]:
    yield node
    for child in children(node):
        yield from _inside(child)


def fit(compiled: Compiled, field: MeanField, start: F64, rng: np.random.Generator) -> Fit:
    """Fit the constants (k,) from ``start`` and a few seeded perturbations of it.

    Each start is fitted by plain least squares, which sees far, and then robustly, which ignores outliers. Where a
    condition depends on a constant, which then has no slope, CMA-ES goes on from the best.
    Steps that would be faster than the hardware's peak are penalised: the measured loads say little about long
    prefills, and a formula must not make up for its faults there.
    """
    problem = _Problem(compiled, field, np.ones_like(field.observed))
    solutions = [start]
    for number in range(STARTS if len(start) else 0):
        factors = np.exp(rng.normal(0.0, START_SPREAD, size=len(start))) if number else np.ones(len(start))
        perturbed = np.clip(start, -LARGEST_CONSTANT, LARGEST_CONSTANT) * factors
        solutions.append(problem.solved(problem.solved(perturbed, "linear"), "soft_l1"))
    best = min(solutions, key=problem.cost)
    if len(start) > 1 and has_fitted_threshold(compiled.program):
        best = min(best, problem.evolved(best, int(rng.integers(1, 2**31))), key=problem.cost)
    return Fit(best, weighted_error(problem.errors(best)))


def refit(compiled: Compiled, field: MeanField, start: F64, ratio: F64) -> F64:
    """Return constants (k,) fitted from nearby, with a corrected mean field.

    Args: ratio: (len(METRICS), rows) simulator over mean field at the last constants.
    """
    if len(start) == 0:
        return start
    problem = _Problem(compiled, field, ratio)
    return min((start, problem.solved(start, "soft_l1")), key=problem.cost)
