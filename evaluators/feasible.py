"""What a reader cannot see in one field: whether an experiment as a whole can be, and can be simulated here.

Asked for every experiment of every source before any of them is used, so that no search begins on one that fails.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from evaluators.experiment import Experiment

MOST_BATCHED_TOKENS = 1 << 18
MOST_REQUESTS = 1_000_000
"""Requests of one stage."""
MOST_BLOCKS = 20_000_000
"""KV blocks; the simulator holds 56 bytes for each."""
MOST_PROMPT_BLOCKS = 50_000_000
"""Prompts x blocks of one; the simulator holds 8 bytes for each."""


class Fault(NamedTuple):
    """Which field of an experiment makes it impossible, what was found and what should be."""

    field: str
    got: str
    want: str


def fault_of(experiment: Experiment) -> Fault | None:
    """Return the first reason why an experiment cannot have been, or cannot be simulated; None if it can."""
    return _deployment_fault(experiment) or _size_fault(experiment) or _stage_fault(experiment)


def _deployment_fault(experiment: Experiment) -> Fault | None:
    model, engine, load = experiment.model, experiment.engine, experiment.workload
    if model.heads % experiment.tp:
        return Fault("tp", str(experiment.tp), f"a divisor of the {model.heads} attention heads of {model.name}")
    if engine.max_num_batched_tokens < engine.max_num_seqs:
        want = f"at least max_num_seqs = {engine.max_num_seqs}"
        return Fault("max_num_batched_tokens", str(engine.max_num_batched_tokens), want)
    needed = math.ceil(load.prompt_tokens) + load.output_tokens
    capacity_tokens = engine.kv_blocks * engine.block_size
    if capacity_tokens < needed:
        where = f"{model.name} on {experiment.tp} x {experiment.gpu.name}"
        want = f"room for a request of {needed} tokens: check model, GPU, TP and precision, or state the KV blocks"
        return Fault("KV cache", f"{capacity_tokens} tokens for {where}", want)
    if engine.max_model_len < needed:
        return Fault("max_model_len", str(engine.max_model_len), f"at least {needed}, a prompt and its output")
    return None


def _size_fault(experiment: Experiment) -> Fault | None:
    engine, load = experiment.engine, experiment.workload
    if engine.max_num_batched_tokens > MOST_BATCHED_TOKENS:
        return Fault("max_num_batched_tokens", str(engine.max_num_batched_tokens), f"at most {MOST_BATCHED_TOKENS}")
    if engine.kv_blocks > MOST_BLOCKS:
        return Fault("KV blocks", str(engine.kv_blocks), f"at most {MOST_BLOCKS}")
    blocks = load.prompts * math.ceil(load.prompt_tokens / engine.block_size)
    if blocks > MOST_PROMPT_BLOCKS:
        return Fault("prompts", f"{load.prompts} that fill {blocks} blocks", f"at most {MOST_PROMPT_BLOCKS} blocks")
    return None


def _stage_fault(experiment: Experiment) -> Fault | None:
    for number, stage in enumerate(experiment.workload.stages):
        requests = stage.rate_per_s * stage.duration_s
        if requests > MOST_REQUESTS:
            return Fault(f"stage {number}: rate x duration", f"{requests:.0f} requests", f"at most {MOST_REQUESTS}")
        seen = stage.observed
        if seen is None:
            continue
        for what, mean_us in (("E2E", seen.e2e.mean_us), ("TTFT", seen.ttft.mean_us), ("TPOT", seen.tpot_us)):
            if not 0.0 < mean_us < math.inf:
                return Fault(f"stage {number}: mean {what}", f"{mean_us:g} us", "a time above 0")
    return None
