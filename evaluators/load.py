"""The load of an experiment as arrays: when requests arrive, which prompt each sends, how long it is.

The same seed gives every candidate program the same arrivals (common random numbers).
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from evaluators.experiment import Experiment, Stage, Workload
from evaluators.random import stream

I64 = NDArray[np.int64]
US_PER_S = 1e6


@dataclass(frozen=True, slots=True)
class StageLoad:
    """One stage: arrays of length n, in order of arrival."""

    arrival_us: I64
    prompt: I64
    """Which of the fixed prompts each request sends."""


@dataclass(frozen=True, slots=True)
class Load:
    """All stages, and the prompts they share."""

    prompt_tokens: I64
    """(prompts,)"""
    prompt_group: I64
    """(prompts,) group with a common prefix that each prompt belongs to."""
    stages: tuple[StageLoad, ...]


def arrivals_us(stage: Stage, arrivals: str, rng: np.random.Generator) -> I64:
    """Return the (n,) arrival times of a stage, n = rate x duration.

    Poisson arrivals are exponential gaps rescaled to fill the stage: a Poisson process conditioned on its count.
    Constant ones are evenly spaced.
    """
    count = max(1, round(stage.rate_per_s * stage.duration_s))
    gaps = rng.exponential(size=count) if arrivals == "poisson" else np.ones(count)
    times = np.cumsum(gaps) * (stage.duration_s / float(np.sum(gaps)))
    return np.asarray(np.round(times * US_PER_S), dtype=np.int64)


def prompt_lengths(workload: Workload, rng: np.random.Generator) -> I64:
    """Return (prompts,) lengths: the quantiles of a normal distribution in random order, at least one token."""
    normal = NormalDist(workload.prompt_tokens, max(workload.prompt_tokens_std, 1e-9))
    quantiles = [normal.inv_cdf((i + 0.5) / workload.prompts) for i in range(workload.prompts)]
    return np.maximum(1, np.round(rng.permutation(quantiles))).astype(np.int64)


def load_of(experiment: Experiment, seed: int) -> Load:
    """Return the load of an experiment; the same for the same seed and workload."""
    workload = experiment.workload
    per_group = -(-workload.prompts // workload.groups)
    stages = []
    for number, stage in enumerate(workload.stages):
        times = arrivals_us(stage, workload.arrivals, stream(seed, "arrivals", number))
        stages.append(StageLoad(times, np.arange(len(times), dtype=np.int64) % workload.prompts))
    return Load(
        prompt_tokens=prompt_lengths(workload, stream(seed, "prompts")),
        prompt_group=np.arange(workload.prompts, dtype=np.int64) // per_group,
        stages=tuple(stages),
    )
