"""The public shell of the simulator: an experiment and a program in, the latencies of every stage out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from evaluators.batch import (
    ADMISSIONS,
    BUSY_US,
    FINISHED,
    PREEMPTIONS,
    PREFILL_TOKENS,
    REQUEST,
    REQUEST_STEPS,
    STEPS,
    Limits,
    empty_batch,
)
from evaluators.delivery import Costs
from evaluators.experiment import Experiment
from evaluators.features import experts_touched, gemm_time_us, request_features_of
from evaluators.kv_cache import FREE, Rows, empty_cache
from evaluators.load import Load, StageLoad, load_of
from evaluators.physics import Physics, physics_of
from evaluators.scheduler import Scheduler, empty_scratch
from evaluators.simulator import STEP_TOO_LONG, Deployment, Program, Tables, stage_kernel

F64 = NDArray[np.float64]
I64 = NDArray[np.int64]
COMPLETION_US = 2000
"""Client-side cost at the end of a request, beyond its last token."""
DEFAULT_SEED = 20260217
DEFAULT_QUEUEING_US = 7900.0
"""Arrival-to-queue delay of a program that has no ``predict_queueing_time``: the median over the built-in benchmark."""
DEFAULT_OUTPUT_TOKEN_US = 2.0
"""Front-end time per token of a program that has no ``predict_output_token_time``."""


@dataclass(frozen=True, slots=True)
class StageOutcome:
    """What one simulated stage gave. Latencies [us] are of the requests that succeeded, in order of arrival."""

    requests: int
    e2e_us: I64
    ttft_us: I64
    tpot_us: float
    """Mean (E2E - TTFT) / (N - 1), N the tokens that each request generates."""
    steps: int
    prefill_tokens: int
    admissions: int
    preemptions: int
    busy_us: int
    """Time that the engine was running steps."""
    request_steps: int
    """Requests in the batch, summed over steps."""


@dataclass(frozen=True, slots=True)
class StepTooLong:
    """The program gave a step of more than a minute, so the simulation was stopped."""

    experiment: str


@dataclass(frozen=True, slots=True)
class Timing:
    """A program ready to simulate: its compiled step time and what its other functions say [us]."""

    step: Program
    constants: F64
    queueing: Callable[[F64], F64] | None = None
    """``predict_queueing_time`` from request features (len(REQUEST_NAMES), n) to (n,); None for its default."""
    output_token_us: float = DEFAULT_OUTPUT_TOKEN_US
    scheduling_us: float = 0.0
    preemption_us: float = 0.0


@dataclass(frozen=True, slots=True)
class Scene:
    """Everything about an experiment that is the same for every program."""

    experiment: Experiment
    physics: Physics
    tables: Tables
    limits: Limits
    load: Load
    shared_blocks: I64
    request_features: F64
    """(len(REQUEST_NAMES), prompts)"""


@lru_cache(maxsize=256)
def scene_of(experiment: Experiment, seed: int = DEFAULT_SEED) -> Scene:
    """Prepare an experiment for simulation.

    Raises: ValueError: settings that no engine accepts.
    """
    engine, workload = experiment.engine, experiment.workload
    if engine.max_num_batched_tokens < engine.max_num_seqs:
        raise ValueError(
            f"{experiment.name}: max_num_batched_tokens: got {engine.max_num_batched_tokens}; "
            f"want at least max_num_seqs = {engine.max_num_seqs}"
        )
    physics, load = physics_of(experiment), load_of(experiment, seed)
    tokens = np.arange(engine.max_num_batched_tokens + 1, dtype=np.float64)
    touched = np.array([experts_touched(physics, n) for n in tokens])
    gemm_us = np.array([gemm_time_us(physics, n, share) for n, share in zip(tokens, touched, strict=True)])
    limits = Limits(
        max_num_seqs=engine.max_num_seqs,
        max_num_batched_tokens=engine.max_num_batched_tokens,
        block_size=engine.block_size,
        kv_blocks=engine.kv_blocks,
        prefix_caching=engine.prefix_caching,
        timeout_us=round(workload.timeout_s * 1e6),
    )
    shared = np.minimum(workload.shared_prefix_tokens, load.prompt_tokens) // engine.block_size
    features = request_features_of(physics, load.prompt_tokens.astype(np.float64))
    return Scene(experiment, physics, Tables(touched, gemm_us), limits, load, shared.astype(np.int64), features)


def _requests_of(scene: Scene, stage: StageLoad, delays_us: F64) -> tuple[Rows, I64]:
    """Return the request rows of a stage in order of enqueueing, and that order."""
    enqueue_us = stage.arrival_us + delays_us[stage.prompt].astype(np.int64)
    order = np.argsort(enqueue_us, kind="stable")
    prompt = stage.prompt[order]
    prompt_tokens = scene.load.prompt_tokens[prompt]
    room = scene.experiment.engine.max_model_len - prompt_tokens
    requests = np.zeros(len(order), dtype=REQUEST)
    requests["arrival_us"] = stage.arrival_us[order]
    requests["enqueue_us"] = enqueue_us[order]
    requests["group"] = scene.load.prompt_group[prompt]
    requests["chain"] = scene.experiment.workload.groups + prompt
    requests["shared_blocks"] = scene.shared_blocks[prompt]
    requests["prompt_tokens"] = prompt_tokens
    requests["output_tokens"] = np.clip(room, 1, scene.experiment.workload.output_tokens)
    requests["first_us"] = requests["last_us"] = -1
    return requests, order


def queueing_us(scene: Scene, timing: Timing) -> F64:
    """Return the arrival-to-queue delay of each prompt [us], never negative, at most a minute."""
    if timing.queueing is None:
        return np.full(len(scene.load.prompt_tokens), DEFAULT_QUEUEING_US)
    return np.clip(np.nan_to_num(timing.queueing(scene.request_features), nan=60e6), 0.0, 60e6)


def _outcome(run: StageRun, output_tokens: int) -> StageOutcome:
    requests, order, counts = run.requests, run.order, run.counts
    done = np.empty(len(order), dtype=bool)
    e2e, ttft = np.empty(len(order), dtype=np.int64), np.empty(len(order), dtype=np.int64)
    done[order] = requests["status"] == FINISHED
    e2e[order] = requests["last_us"] - requests["arrival_us"]
    ttft[order] = requests["first_us"] - requests["arrival_us"]
    e2e, ttft = e2e[done], ttft[done]
    tokens = max(output_tokens - 1, 1)
    return StageOutcome(
        requests=len(order),
        e2e_us=e2e,
        ttft_us=ttft,
        tpot_us=float(np.mean(e2e - ttft)) / tokens if len(e2e) else float("nan"),
        steps=int(counts[STEPS]),
        prefill_tokens=int(counts[PREFILL_TOKENS]),
        admissions=int(counts[ADMISSIONS]),
        preemptions=int(counts[PREEMPTIONS]),
        busy_us=int(counts[BUSY_US]),
        request_steps=int(counts[REQUEST_STEPS]),
    )


@dataclass(frozen=True, slots=True)
class StageRun:
    """One simulated stage as the kernel left it."""

    requests: Rows
    """(n,) `evaluators.batch.REQUEST` rows in order of enqueueing."""
    order: I64
    """(n,) which arrival each row is."""
    counts: I64
    """(COUNTERS,) of `evaluators.batch`."""
    trace: I64
    """(traced steps, len(TRACE_COLUMNS)) of `evaluators.scheduler`."""
    free_blocks: int


def stage_runs(scene: Scene, timing: Timing, *, traced_steps: int = 0) -> Iterator[StageRun | StepTooLong]:
    """Simulate one stage after the other; the prefix cache outlives a stage. Nothing follows a `StepTooLong`."""
    workload, engine = scene.experiment.workload, scene.experiment.engine
    longest = int(scene.load.prompt_tokens.max()) // engine.block_size + 1
    cache = empty_cache(engine.kv_blocks, workload.groups + workload.prompts, longest)
    costs = Costs(
        float(timing.output_token_us), float(timing.scheduling_us), float(timing.preemption_us), COMPLETION_US
    )
    deployment = Deployment(scene.physics, scene.tables, costs, engine.asynchronous)
    delays_us = queueing_us(scene, timing)
    run_stage = stage_kernel()
    for stage in scene.load.stages:
        requests, order = _requests_of(scene, stage, delays_us)
        batch, scratch = empty_batch(scene.limits, len(order)), empty_scratch(traced_steps)
        scheduler = Scheduler(batch, cache, scene.limits, requests)
        if run_stage(scheduler, deployment, scratch, timing.step, timing.constants) == STEP_TOO_LONG:
            yield StepTooLong(scene.experiment.name)
            return
        trace = scratch.trace[: batch.counts[STEPS]]
        yield StageRun(requests, order, batch.counts, trace, int(cache.pool[FREE]))


def simulate(scene: Scene, timing: Timing) -> tuple[StageOutcome, ...] | StepTooLong:
    """Simulate every stage of an experiment in the full closed loop."""
    outcomes = []
    for run in stage_runs(scene, timing):
        if isinstance(run, StepTooLong):
            return run
        outcomes.append(_outcome(run, scene.experiment.workload.output_tokens))
    return tuple(outcomes)
