"""Constants of a structure: bounded least squares on the mean field, steered by the full simulator.

The mean field is cheap and smooth but a little off; the full simulator is right but kinked. So the constants are
fitted on the mean field with each prediction multiplied by what the simulator gave over what the mean field gave at
the last constants (space mapping), which converges to the simulator's own optimum in two or three rounds.
Source: Bandler et al., Space mapping technique for electromagnetic optimization, 1994.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from evaluators.compiled import Compiled, evaluate_steps, output_token_us, scheduling_us
from evaluators.features import INDEX
from evaluators.invariants import faster_than_peak
from evaluators.meanfield import METRICS, MeanField, predict
from evaluators.simulation import DEFAULT_QUEUEING_US

F64 = NDArray[np.float64]
WEIGHTS = {"e2e": 1.0, "ttft": 0.2, "tpot": 1.0}
"""What a relative error of each metric counts in fit and score; first tokens hold the most that no program knows."""
ROBUST_SCALE = 0.01
"""Relative error above which a residual counts linearly instead of quadratically."""
LARGEST = 1e3
"""Residual of a prediction that is not finite or absurd; relative errors beyond it say nothing more."""
MOST_EVALUATIONS = 400
PEAK_WEIGHT = 0.2
"""What a step's relative lead over the hardware's peak counts in the fit, against a stage's relative error."""
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


def _bounds(start: F64) -> tuple[F64, F64]:
    """Let each constant keep its sign: a time that turned negative would predict well and mean nothing."""
    return np.where(start < 0.0, -np.inf, 0.0), np.where(start < 0.0, 0.0, np.inf)


def fit(
    compiled: Compiled, field: MeanField, start: F64, ratio: F64, rng: np.random.Generator, *, starts: int = 3
) -> Fit:
    """Fit the constants from ``start`` and a few seeded perturbations of it.

    Each start is fitted by plain least squares first, which sees far, and then robustly, which ignores outliers; a
    single start is a refit from nearby and needs the second only.
    Steps that would be faster than the hardware's peak are penalised: the measured loads say little about long
    prefills, and a formula must not make up for its faults there.
    Args: start: (k,) constants; ratio: (len(METRICS), rows) simulator over mean field at the last constants, 1 before.
    """
    scale = np.sqrt(np.array([WEIGHTS[metric] for metric in METRICS]))[:, None]

    def errors(constants: F64) -> F64:
        return relative_errors(mean_field_prediction(compiled, field, constants) * ratio, field.observed)

    def residuals(constants: F64) -> F64:
        lead = PEAK_WEIGHT * faster_than_peak(compiled, constants)
        return np.concatenate([np.ravel(scale * errors(constants)), lead])

    def cost(constants: F64) -> float:
        return weighted_error(errors(constants)) + PEAK_WEIGHT * float(np.mean(faster_than_peak(compiled, constants)))

    best, least = start, cost(start)
    if len(start) == 0:
        return Fit(start, weighted_error(errors(start)))
    for number in range(starts):
        factors = np.exp(rng.normal(0.0, START_SPREAD, size=len(start))) if number else np.ones(len(start))
        first = np.where(start == 0.0, 1e-6, start * factors)
        for loss in ("linear", "soft_l1") if starts > 1 else ("soft_l1",):
            first = least_squares(
                residuals, first, bounds=_bounds(start), x_scale="jac", loss=loss, f_scale=ROBUST_SCALE,
                max_nfev=MOST_EVALUATIONS // (len(start) + 1),
            ).x  # fmt: skip
        reached = cost(first)
        if reached < least:
            best, least = first, reached
    return Fit(best, weighted_error(errors(best)))
