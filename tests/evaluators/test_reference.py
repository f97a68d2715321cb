"""The kernels against the slow, obvious simulator: every event of small random worlds."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings

from evaluators.batch import (
    ADMISSIONS,
    BUSY_US,
    FINISHED,
    PREEMPTIONS,
    PREFILL_TOKENS,
    REQUEST_STEPS,
    STEPS,
    TIMED_OUT,
    TOO_LARGE,
)
from evaluators.experiment import Engine, Experiment, Stage, Workload
from evaluators.features import FEATURE_NAMES
from evaluators.reference import ReferenceStage, Status
from evaluators.simulation import DEFAULT_QUEUEING_US, StageRun
from tests.evaluators.small_worlds import DENSE, GPU, TRACED_STEPS, World, by_kernel, by_reference, recorded, worlds

STATUS = {FINISHED: Status.FINISHED, TIMED_OUT: Status.TIMED_OUT, TOO_LARGE: Status.TOO_LARGE}
EXAMPLES = 250


def assert_same_steps(run: StageRun, stage: ReferenceStage) -> None:
    assert run.counts[STEPS] <= TRACED_STEPS
    want = [(s.start_us, s.duration_us, s.prefill_tokens, s.decode_reqs, s.preemptions) for s in stage.steps]
    assert run.trace.tolist() == [list(step) for step in want]


def assert_same_requests(run: StageRun, stage: ReferenceStage) -> None:
    got = {
        int(arrival): (STATUS[row["status"]], row["first_us"], row["last_us"])
        for arrival, row in zip(run.order, run.requests, strict=True)
    }
    want = {number: (r.status, r.first_us, r.last_us) for number, r in enumerate(stage.requests)}
    assert got == want


def assert_same_totals(run: StageRun, stage: ReferenceStage) -> None:
    got = {name: int(run.counts[name]) for name in (STEPS, PREFILL_TOKENS, ADMISSIONS, PREEMPTIONS, BUSY_US)}
    assert got == {
        STEPS: len(stage.steps),
        PREFILL_TOKENS: sum(step.prefill_tokens for step in stage.steps),
        ADMISSIONS: stage.admissions,
        PREEMPTIONS: stage.preemptions,
        BUSY_US: sum(step.duration_us for step in stage.steps),
    }
    assert run.counts[REQUEST_STEPS] == sum(step.features["batch_size"] for step in stage.steps)
    assert run.free_blocks == stage.free_blocks


def corners(world: World, stages: list[ReferenceStage]) -> Counter[str]:
    """Count which corners of the engine a world has been to."""
    engine, steps = world.experiment.engine, [step for stage in stages for step in stage.steps]
    requests = [request for stage in stages for request in stage.requests]
    return Counter(
        {
            "preemption": sum(stage.preemptions for stage in stages) > 0,
            "chunking": any(step.chunked for step in steps),
            "eviction": sum(stage.evictions for stage in stages) > 0,
            "prefix hit": sum(s.prefill_tokens for s in steps) < sum(len(r.prompt) for r in requests)
            and all(r.status is Status.FINISHED for r in requests),
            "waiting for a seat": any(step.full for step in steps),
            "several stages": len(stages) > 1,
            "synchronous": not engine.asynchronous,
            "asynchronous": engine.asynchronous,
            "one seat": engine.max_num_seqs == 1,
            "one block": engine.kv_blocks == 1,
            "no prefix caching": not engine.prefix_caching,
            "one output token": any(r.output_tokens == 1 and r.status is Status.FINISHED for r in requests),
            "prompt longer than the budget": any(len(r.prompt) > engine.max_num_batched_tokens for r in requests),
            "out of order": world.queueing_us_per_token > 0.0,
            **{status.value: any(r.status is status for r in requests) for status in STATUS.values()},
            "timed out while running": any(r.status is Status.TIMED_OUT and r.first_us >= 0 for r in requests),
        }
    )


def assert_agreement(world: World) -> list[ReferenceStage]:
    """Run a world in both simulators, compare every event and feature, and return the reference's stages."""
    timing = world.timing()
    runs, stages = by_kernel(world, timing), by_reference(world)
    assert len(runs) == len(stages)
    for run, stage in zip(runs, stages, strict=True):
        assert_same_steps(run, stage)
        assert_same_requests(run, stage)
        assert_same_totals(run, stage)
    noted = recorded(timing)
    steps = [step for stage in stages for step in stage.steps][: len(noted)]
    want = np.array([[step.features[name] for name in FEATURE_NAMES] for step in steps]).reshape(noted.shape)
    np.testing.assert_allclose(noted, want, rtol=1e-9, atol=1e-9)
    return stages


def test_kernel_and_reference_agree_on_every_event_in_every_corner() -> None:
    seen: Counter[str] = Counter()

    @settings(derandomize=True, max_examples=EXAMPLES, deadline=None, database=None)
    @given(worlds())
    def agree(world: World) -> None:
        seen.update(+corners(world, assert_agreement(world)))

    agree()
    rare = {corner: count for corner, count in seen.items() if count < EXAMPLES // 50}
    assert not rare
    assert len(seen) == 18


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize(("late_us", "steps"), [(-1, 5), (0, 5), (1, 6)])
def test_a_client_gives_up_at_the_very_microsecond_of_its_timeout(asynchronous: bool, late_us: int, steps: int) -> None:
    """Steps of 1 ms; the timeout falls on the forming of the sixth batch, at the end (or start) of the fifth step."""
    forming_us = DEFAULT_QUEUEING_US + (4_000 if asynchronous else 5_000)
    workload = Workload(
        "one", 50, 10.0, 0.0, 0, (Stage(10.0, 0.1),), prompts=1, groups=1, timeout_s=(forming_us + late_us) / 1e6
    )
    world = World(
        Experiment("one", DENSE, GPU, 1, Engine(kv_blocks=10, asynchronous=asynchronous), workload),
        seed=1,
        weights=(1000.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        queueing_us_per_token=0.0,
        output_token_us=0.0,
        scheduling_us=0.0,
        preemption_us=0.0,
    )
    (stage,) = assert_agreement(world)
    assert len(stage.steps) == steps
    assert stage.requests[0].status is Status.TIMED_OUT
