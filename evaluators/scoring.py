"""How far a program is off, end to end: predicted and observed latencies of every stage, and what they add up to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from evaluators.assembly import MAX_FAILED_SHARE
from evaluators.compiled import F64, Compiled, timing_of
from evaluators.experiment import Latency, Observed
from evaluators.fitting import WEIGHTS
from evaluators.simulation import Scene, StageOutcome, StepTooLong, simulate

QUANTILES = {"p10_us": 10, "p50_us": 50, "p90_us": 90, "p99_us": 99}


@dataclass(frozen=True, slots=True)
class Row:
    """One simulated stage beside its observation."""

    experiment: str
    stage: int
    requests: int
    succeeded: int
    e2e: Latency
    ttft: Latency
    tpot_us: float
    observed: Observed

    def error(self, metric: str) -> float:
        """Return predicted / observed - 1 of the mean E2E, TTFT or TPOT, as a fraction."""
        if metric == "tpot":
            return self.tpot_us / self.observed.tpot_us - 1.0
        predicted: Latency = getattr(self, metric)
        observed: Latency = getattr(self.observed, metric)
        return predicted.mean_us / observed.mean_us - 1.0

    def quantile_error(self, metric: str, quantile: str) -> float | None:
        """Return the relative error of a quantile (``p50_us``), None where the source has no figure."""
        observed = getattr(getattr(self.observed, metric), quantile)
        predicted = getattr(getattr(self, metric), quantile)
        return None if observed is None else float(predicted / observed - 1.0)


@dataclass(frozen=True, slots=True)
class Score:
    """All rows of a dataset and their summary; errors are fractions."""

    rows: tuple[Row, ...]

    def mean(self, metric: str) -> float:
        """Return the mean absolute relative error of a metric over the stage rows."""
        return float(np.mean([abs(row.error(metric)) for row in self.rows]))

    def median(self, metric: str) -> float:
        """Return the median absolute relative error of a metric over the stage rows."""
        return float(np.median([abs(row.error(metric)) for row in self.rows]))

    @property
    def error(self) -> float:
        """Return the weighted mean of the three metrics' errors: the first objective."""
        return sum(weight * self.mean(metric) for metric, weight in WEIGHTS.items()) / sum(WEIGHTS.values())

    @property
    def worst(self) -> Row:
        """Return the row with the largest E2E error."""
        return max(self.rows, key=lambda row: abs(row.error("e2e")))

    @property
    def worst3(self) -> float:
        """Return the mean of the three largest E2E errors: the second objective."""
        return float(np.mean(sorted((abs(row.error("e2e")) for row in self.rows), reverse=True)[:3]))

    @property
    def bias(self) -> float:
        """Return the mean signed E2E error (INV-M-6)."""
        return float(np.mean([row.error("e2e") for row in self.rows]))

    def per_experiment(self, metric: str) -> dict[str, float]:
        """Return the absolute error of each experiment's request-weighted mean over its stages."""
        totals: dict[str, list[float]] = {}
        for row in self.rows:
            weight = row.observed.succeeded
            total = totals.setdefault(row.experiment, [0.0, 0.0])
            total[0] += weight * (1.0 + row.error(metric)) * _observed_us(row, metric)
            total[1] += weight * _observed_us(row, metric)
        return {name: abs(predicted / observed - 1.0) for name, (predicted, observed) in totals.items()}


def _observed_us(row: Row, metric: str) -> float:
    return row.observed.tpot_us if metric == "tpot" else float(getattr(row.observed, metric).mean_us)


@dataclass(frozen=True, slots=True)
class Unscorable:
    """Why the simulation of a program gave no score."""

    reason: str


def _latency(values_us: np.ndarray[tuple[int], np.dtype[np.int64]]) -> Latency:
    figures = np.percentile(values_us, list(QUANTILES.values()))
    return Latency(float(np.mean(values_us)), *(float(figure) for figure in figures))


def row_of(experiment: str, stage: int, outcome: StageOutcome, observed: Observed) -> Row | Unscorable:
    """Put one simulated stage beside its observation.

    Latencies are of the requests that succeed, so a program that loses more than a served load may lose has none: the
    quick ones would be left to speak for it.
    """
    succeeded, requests = len(outcome.e2e_us), outcome.requests
    if succeeded == 0 or requests - succeeded > MAX_FAILED_SHARE * requests:
        many = f"{succeeded} of {requests}" if succeeded else f"none of {requests}"
        return Unscorable(f"{experiment} stage {stage}: {many} requests finished in time")
    return Row(
        experiment, stage, outcome.requests, len(outcome.e2e_us),
        _latency(outcome.e2e_us), _latency(outcome.ttft_us), outcome.tpot_us, observed,
    )  # fmt: skip


def score(compiled: Compiled, constants: F64, scenes: Sequence[Scene]) -> Score | Unscorable:
    """Simulate every experiment in full with these constants and score the observed stages.

    Args: constants: (k,) in the order of ``program.constants``.
    """
    timing = timing_of(compiled, constants)
    rows = []
    for scene in scenes:
        outcomes = simulate(scene, timing)
        if isinstance(outcomes, StepTooLong):
            return Unscorable(f"{outcomes.experiment}: a step took over a minute")
        for number, (stage, outcome) in enumerate(zip(scene.experiment.workload.stages, outcomes, strict=True)):
            if stage.observed is None:
                continue
            row = row_of(scene.experiment.name, number, outcome, stage.observed)
            if isinstance(row, Unscorable):
                return row
            rows.append(row)
    return Score(tuple(rows)) if rows else Unscorable("the dataset has no observed stage")


def score_json(result: Score) -> dict[str, object]:
    """Return a score as plain JSON values: errors as fractions, latencies in us."""
    return {
        "error": {metric: result.mean(metric) for metric in WEIGHTS},
        "median": {metric: result.median(metric) for metric in WEIGHTS},
        "worst3": result.worst3,
        "bias": result.bias,
        "rows": [_row_json(row) for row in result.rows],
    }


def _row_json(row: Row) -> dict[str, object]:
    observed = row.observed
    return {
        "name": row.experiment,
        "stage": row.stage,
        "requests": row.requests,
        "succeeded": row.succeeded,
        **{metric: row.error(metric) for metric in WEIGHTS},
        "predicted": {"e2e": asdict(row.e2e), "ttft": asdict(row.ttft), "tpot_us": row.tpot_us},
        "observed": {"e2e": asdict(observed.e2e), "ttft": asdict(observed.ttft), "tpot_us": observed.tpot_us},
    }
