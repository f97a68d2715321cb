"""Experiments that cannot have been, or that no simulation could hold, are refused before anything begins."""

from __future__ import annotations

from dataclasses import replace

import pytest

from evaluators.benchmark import builtin
from evaluators.experiment import Engine, Experiment, Latency, Stage, Workload
from evaluators.feasible import MOST_BATCHED_TOKENS, MOST_REQUESTS, fault_of

SOUND = builtin("h100-vllm")[0]


def with_engine(**changes: int) -> Experiment:
    engine: Engine = replace(SOUND.engine, **changes)  # type: ignore[arg-type]
    return replace(SOUND, engine=engine)


def with_load(**changes: object) -> Experiment:
    load: Workload = replace(SOUND.workload, **changes)  # type: ignore[arg-type]
    return replace(SOUND, workload=load)


def with_stage(**changes: object) -> Experiment:
    first: Stage = replace(SOUND.workload.stages[0], **changes)  # type: ignore[arg-type]
    return with_load(stages=(first, *SOUND.workload.stages[1:]))


def without_first_tokens() -> Experiment:
    observed = SOUND.workload.stages[0].observed
    assert observed is not None
    return with_stage(observed=replace(observed, ttft=Latency(0.0)))


def test_every_experiment_of_the_benchmark_can_be_simulated() -> None:
    assert [fault_of(experiment) for experiment in builtin("h100-vllm")] == [None] * 16


@pytest.mark.parametrize(
    ("experiment", "field", "words"),
    [
        (replace(SOUND, tp=3), "tp", "a divisor of the 32 attention heads of Llama-2-7b"),
        (with_engine(max_model_len=100), "max_model_len", "at least 839, a prompt and its output"),
        (with_engine(max_num_batched_tokens=10_000_000), "max_num_batched_tokens", f"at most {MOST_BATCHED_TOKENS}"),
        (with_engine(kv_blocks=10**9), "KV blocks", "at most"),
        (with_load(prompts=10_000_000), "prompts", "at most"),
        (with_stage(rate_per_s=1e6, duration_s=1e7), "stage 0: rate x duration", f"at most {MOST_REQUESTS}"),
        (without_first_tokens(), "stage 0: mean TTFT", "a time above 0"),
    ],
)
def test_what_cannot_be_simulated_is_named_by_its_field(experiment: Experiment, field: str, words: str) -> None:
    fault = fault_of(experiment)
    assert fault is not None
    assert fault.field == field
    assert words in fault.want
