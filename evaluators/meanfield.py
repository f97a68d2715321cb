"""The simulator's smooth shadow: mean concurrency instead of events, for fitting constants.

Each stage row is reduced to a few typical steps (decoding a little below and above the observed concurrency, a step
with a warm prefill, one with a cold prompt). A program's times for those give, by Little's law linearised around the
observation, the fixed point of step time and concurrency, and with it mean E2E, TTFT and TPOT. The typical steps do
not depend on the program, so they are described once per dataset.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evaluators.experiment import Experiment, Observed, Stage
from evaluators.features import features_of, request_features_of
from evaluators.physics import physics_of
from evaluators.simulation import COMPLETION_US

F64 = NDArray[np.float64]
METRICS = ("e2e", "ttft", "tpot")
SPREAD = 0.05
"""How far below and above the observed concurrency the slope of the step time is taken, as a fraction of it."""
STEPS_TO_FIRST_TOKEN = {True: 2.5, False: 1.5}
"""Mean steps from enqueueing to the first token, by whether scheduling is asynchronous."""
LEAST_CONCURRENCY = 0.5
"""Fewest decoding requests that a typical step is described with."""
LEAST_STIFFNESS = 0.05
"""Floor of 1 - d(step)/d(concurrency) * d(concurrency)/d(step): at 0 the queue has no stable length."""
_BELOW, _ABOVE, _WARM, _COLD = range(4)
TYPICAL_STEPS = 4


@dataclass(frozen=True, slots=True)
class MeanField:
    """A dataset's stage rows, ready for any program. Arrays are (rows,) unless stated; times in us."""

    labels: tuple[tuple[str, int], ...]
    """Experiment name and stage number of each row."""
    models: tuple[str, ...]
    """What each row is left out with: its model, and its workload."""
    workloads: tuple[str, ...]
    steps: F64
    """(TYPICAL_STEPS * rows, FEATURE_COUNT) features of the typical steps, a block of rows per kind."""
    requests: F64
    """(len(REQUEST_NAMES), rows) features of a mean request."""
    observed: F64
    """(len(METRICS), rows) measured means."""
    rate_per_us: F64
    decode_tokens: F64
    """Tokens after the first, N - 1."""
    concurrency: F64
    """Decoding requests that the typical steps are described at: by Little's law from the observed TPOT."""
    prefill_share: F64
    """Share of steps that carry a prefill."""
    cold_share: F64
    """Share of the stage's requests whose prompt is not cached yet."""
    steps_to_first_token: F64


def _typical_steps(experiment: Experiment, stage: Stage, observed: Observed) -> F64:
    """Return the (len(BATCH_FIELDS), TYPICAL_STEPS) batches of one stage."""
    cold_tokens, warm_tokens = _cold_and_warm_tokens(experiment)
    prompt, output = experiment.workload.prompt_tokens, experiment.workload.output_tokens
    per_step = stage.rate_per_s * observed.tpot_us / 1e6
    decodes = max(per_step * (output - 1), LEAST_CONCURRENCY)
    mean = prompt + max(output - 2, 0) / 2.0
    square, longest = mean * mean + output * output / 12.0, prompt + max(output - 2, 0)
    prefills = per_step / (1.0 - np.exp(-per_step))
    kinds = (
        (1.0 - SPREAD, 0.0, 0.0),
        (1.0 + SPREAD, 0.0, 0.0),
        (1.0, prefills, warm_tokens),
        (1.0, 1.0, cold_tokens),
    )
    batches = []
    for scale, count, tokens in kinds:
        n = decodes * scale
        cached = max(prompt - tokens, 0.0) if count else 0.0
        batches.append(
            [
                count * tokens, count, n,
                n * mean + count * cached, n * square + count * cached * cached, longest,
                n * mean, longest, count * tokens * (cached + (tokens + 1.0) / 2.0),
            ]
        )  # fmt: skip
    return np.array(batches).T


def _cold_and_warm_tokens(experiment: Experiment) -> tuple[float, float]:
    """Return the prompt tokens that a cold and a warm request compute."""
    workload, block = experiment.workload, experiment.engine.block_size
    if not experiment.engine.prefix_caching:
        return workload.prompt_tokens, workload.prompt_tokens
    shared = (workload.shared_prefix_tokens // block) * block * (1.0 - workload.groups / workload.prompts)
    cold = max(workload.prompt_tokens - shared, 1.0)
    return cold, cold if experiment.thrashing else (block + 1) / 2.0


def _cold_share(experiment: Experiment, stage: int, observed: Observed) -> float:
    """Return the share of a stage's requests that compute a cold prompt where others compute a warm one.

    Only a prefix cache that holds the prompts has warm requests; each stage begins with the first prompt again, so it
    is cold in those that no earlier stage has sent.
    """
    if experiment.thrashing or not experiment.engine.prefix_caching:
        return 0.0
    prompts = experiment.workload.prompts
    sent = [round(earlier.rate_per_s * earlier.duration_s) for earlier in experiment.workload.stages[:stage]]
    known = min(max(sent, default=0), prompts)
    return max(min(prompts, observed.requests) - known, 0) / observed.requests


def mean_field(experiments: Sequence[Experiment]) -> MeanField:
    """Describe every observed stage of the experiments.

    Raises: ValueError: no stage has an observation.
    """
    rows = [
        (experiment, number, stage, stage.observed)
        for experiment in experiments
        for number, stage in enumerate(experiment.workload.stages)
        if stage.observed is not None
    ]
    if not rows:
        raise ValueError("dataset: got no observed stage; want at least one")
    blocks, requests = [], []
    for experiment, _, stage, observed in rows:
        constants = physics_of(experiment)
        blocks.append(features_of(constants, _typical_steps(experiment, stage, observed)))
        requests.append(request_features_of(constants, np.array([experiment.workload.prompt_tokens])))
    rate = np.array([stage.rate_per_s / 1e6 for _, _, stage, _ in rows])
    tokens = np.array([max(experiment.workload.output_tokens - 1, 1) for experiment, *_ in rows], dtype=np.float64)
    tpot = np.array([observed.tpot_us for *_, observed in rows])
    return MeanField(
        labels=tuple((experiment.name, number) for experiment, number, *_ in rows),
        models=tuple(experiment.model.name for experiment, *_ in rows),
        workloads=tuple(experiment.workload.name for experiment, *_ in rows),
        steps=np.ascontiguousarray(np.stack(blocks).transpose(2, 0, 1).reshape(-1, blocks[0].shape[0])),
        requests=np.concatenate(requests, axis=1),
        observed=np.array([[o.e2e.mean_us, o.ttft.mean_us, o.tpot_us] for *_, o in rows]).T,
        rate_per_us=rate,
        decode_tokens=tokens,
        concurrency=np.maximum(rate * tpot * tokens, LEAST_CONCURRENCY),
        prefill_share=1.0 - np.exp(-rate * tpot),
        cold_share=np.array([_cold_share(e, number, seen) for e, number, _, seen in rows]),
        steps_to_first_token=np.array([STEPS_TO_FIRST_TOKEN[e.engine.asynchronous] for e, *_ in rows]),
    )


def rows_of(field: MeanField, chosen: NDArray[np.bool_]) -> MeanField:
    """Return the mean field of some of the rows, given a mask (rows,)."""
    kept = [number for number, wanted in enumerate(chosen) if wanted]
    features = field.steps.shape[1]
    steps = field.steps.reshape(TYPICAL_STEPS, -1, features)[:, kept].reshape(-1, features)
    return MeanField(
        labels=tuple(field.labels[number] for number in kept),
        models=tuple(field.models[number] for number in kept),
        workloads=tuple(field.workloads[number] for number in kept),
        steps=np.ascontiguousarray(steps),
        requests=field.requests[:, kept],
        observed=field.observed[:, kept],
        rate_per_us=field.rate_per_us[kept],
        decode_tokens=field.decode_tokens[kept],
        concurrency=field.concurrency[kept],
        prefill_share=field.prefill_share[kept],
        cold_share=field.cold_share[kept],
        steps_to_first_token=field.steps_to_first_token[kept],
    )


def predict(field: MeanField, step_us: F64, queueing_us: F64 | float, output_token_us: float) -> F64:
    """Return mean E2E, TTFT and TPOT of each row, (len(METRICS), rows) [us].

    Args: step_us: (TYPICAL_STEPS * rows,) a program's times for ``field.steps``; queueing_us: (rows,) or one for all.
    """
    below, above, warm, cold = step_us.reshape(TYPICAL_STEPS, -1)
    share = field.prefill_share
    mean = (1.0 - share) * 0.5 * (below + above) + share * warm
    slope = (above - below) / (2.0 * SPREAD * field.concurrency)
    per_us = field.rate_per_us * field.decode_tokens
    stiffness = np.maximum(1.0 - slope * per_us, LEAST_STIFFNESS)
    cycle = (mean - slope * field.concurrency) / stiffness
    running = per_us * cycle
    extra = field.cold_share * (cold - mean)
    waiting = 1.0 + field.steps_to_first_token * field.rate_per_us * cycle
    ttft = queueing_us + field.steps_to_first_token * cycle + (warm - mean) + output_token_us * (running + 1.0)
    ttft = ttft + extra * waiting
    decoding = field.decode_tokens * cycle + COMPLETION_US - output_token_us * running
    decoding = decoding + extra * (running + 1.0 - waiting)
    return np.stack([ttft + decoding, ttft, decoding / field.decode_tokens])
