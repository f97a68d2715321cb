"""The public shell: what a program says reaches the latencies, and a bad one is refused as a value."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from evaluators.compiled import as_argument
from evaluators.experiment import Engine, Experiment, Stage, Workload
from evaluators.simulation import (
    COMPLETION_US,
    DEFAULT_QUEUEING_US,
    StageOutcome,
    StepTooLong,
    Timing,
    scene_of,
    simulate,
)
from evaluators.simulator import SIGNATURE, stage_kernel
from tests.evaluators.small_worlds import DENSE, GPU

F64 = NDArray[np.float64]
WORKLOAD = Workload("test", 50, 60.0, 4.0, 20, (Stage(10.0, 30.0), Stage(10.0, 30.0)))
EXPERIMENT = Experiment("test", DENSE, GPU, 1, Engine(kv_blocks=2000), WORKLOAD)
STEP_US = 8_000.0


@njit(SIGNATURE)
def constant_step(f: F64, c: F64) -> float:
    return c[0]


BASE = Timing(constant_step, np.array([STEP_US]), output_token_us=0.0)


def outcomes(timing: Timing, experiment: Experiment = EXPERIMENT) -> tuple[StageOutcome, ...]:
    result = simulate(scene_of(experiment), timing)
    assert isinstance(result, tuple)
    return result


def test_latencies_are_of_the_successful_requests_in_order_of_arrival() -> None:
    delays = replace(BASE, queueing=lambda features: 5e6 * (features[0] > 60))
    for stage, load in zip(outcomes(delays), scene_of(EXPERIMENT).load.stages, strict=True):
        assert stage.requests == len(stage.e2e_us) == len(stage.ttft_us) == 300
        late = scene_of(EXPERIMENT).load.prompt_tokens[load.prompt] > 60
        assert stage.ttft_us[late].min() > 5e6 > stage.ttft_us[~late].max()


def test_tpot_is_e2e_less_ttft_over_the_tokens_after_the_first() -> None:
    for stage in outcomes(BASE):
        assert stage.tpot_us == pytest.approx(float(np.mean(stage.e2e_us - stage.ttft_us)) / 49)
        assert stage.tpot_us == pytest.approx(STEP_US + COMPLETION_US / 49)


def test_a_longer_queueing_time_moves_ttft_and_nothing_after_it() -> None:
    shifted = replace(BASE, queueing=lambda features: np.full(features.shape[1], DEFAULT_QUEUEING_US + STEP_US))
    for before, after in zip(outcomes(BASE), outcomes(shifted), strict=True):
        assert np.mean(after.ttft_us) - np.mean(before.ttft_us) == pytest.approx(STEP_US, abs=400)
        np.testing.assert_array_equal(after.e2e_us - after.ttft_us, before.e2e_us - before.ttft_us)


def test_the_default_queueing_time_is_that_of_no_queueing_function() -> None:
    same = replace(BASE, queueing=lambda features: np.full(features.shape[1], DEFAULT_QUEUEING_US))
    for one, other in zip(outcomes(BASE), outcomes(same), strict=True):
        np.testing.assert_array_equal(one.ttft_us, other.ttft_us)


@pytest.mark.parametrize(("delay", "used"), [(-1e9, 0.0), (float("nan"), 60e6), (float("inf"), 60e6)])
def test_a_queueing_time_is_kept_between_zero_and_a_minute(delay: float, used: float) -> None:
    wild = replace(BASE, queueing=lambda features: np.full(features.shape[1], delay))
    tame = replace(BASE, queueing=lambda features: np.full(features.shape[1], used))
    for one, other in zip(outcomes(wild), outcomes(tame), strict=True):
        np.testing.assert_array_equal(one.e2e_us, other.e2e_us)


def test_the_front_end_hands_out_tokens_one_after_the_other() -> None:
    slow = outcomes(replace(BASE, output_token_us=100.0))
    for before, after in zip(outcomes(BASE), slow, strict=True):
        delay = after.e2e_us - before.e2e_us
        assert delay.min() >= 100
        running = before.request_steps / before.steps
        assert np.mean(delay) == pytest.approx(100 * (running + 1) / 2, rel=0.6)


def test_scheduling_and_preemption_cost_their_time() -> None:
    for costly in outcomes(replace(BASE, scheduling_us=500.0, preemption_us=1e6)):
        assert costly.preemptions == 0
        assert costly.busy_us - costly.steps * STEP_US == costly.admissions * 500


def test_the_prefix_cache_outlives_a_stage() -> None:
    first, second = outcomes(BASE)
    assert first.prefill_tokens > 100 * 40
    assert second.prefill_tokens <= 16 * second.requests


def test_without_prefix_caching_every_prompt_is_computed_in_full() -> None:
    plain = replace(EXPERIMENT, engine=replace(EXPERIMENT.engine, prefix_caching=False))
    load = scene_of(plain).load
    for outcome, stage in zip(outcomes(BASE, plain), load.stages, strict=True):
        assert outcome.prefill_tokens == load.prompt_tokens[stage.prompt].sum()


def test_a_request_stops_at_the_longest_context_of_the_model() -> None:
    short = replace(EXPERIMENT, engine=replace(EXPERIMENT.engine, max_model_len=80))
    lengths = scene_of(short).load.prompt_tokens
    (first, _) = outcomes(BASE, short)
    want = [STEP_US * (min(50, 80 - int(lengths[n % 100])) - 1) + COMPLETION_US for n in range(first.requests)]
    np.testing.assert_array_equal(first.e2e_us - first.ttft_us, want)


@pytest.mark.parametrize("step_us", [float("nan"), float("inf"), 60_000_001.0])
def test_a_step_of_more_than_a_minute_stops_the_simulation_with_a_value(step_us: float) -> None:
    assert simulate(scene_of(EXPERIMENT), replace(BASE, constants=np.array([step_us]))) == StepTooLong("test")


@pytest.mark.parametrize("step_us", [-1e300, 0.0, 0.5])
def test_a_step_takes_at_least_a_microsecond(step_us: float) -> None:
    for stage in outcomes(replace(BASE, constants=np.array([step_us]))):
        assert stage.busy_us == stage.steps
        assert len(stage.e2e_us) == stage.requests


def test_a_scene_refuses_a_token_budget_below_the_number_of_sequences() -> None:
    engine = replace(EXPERIMENT.engine, max_num_batched_tokens=100)
    with pytest.raises(ValueError, match="want at least max_num_seqs = 128"):
        scene_of(replace(EXPERIMENT, engine=engine))


def test_every_program_meets_the_same_arrivals() -> None:
    assert scene_of(EXPERIMENT) is scene_of(EXPERIMENT)
    slower = outcomes(replace(BASE, constants=np.array([2 * STEP_US])))
    for fast, slow in zip(outcomes(BASE), slower, strict=True):
        assert np.all(slow.e2e_us > fast.e2e_us)


def test_another_program_does_not_compile_the_simulator_again() -> None:
    @njit(SIGNATURE)
    def other(f: F64, c: F64) -> float:
        return c[0]

    by_dispatcher, by_address = (outcomes(replace(BASE, step=step)) for step in (other, as_argument(other)))
    for one, two in zip(by_dispatcher, by_address, strict=True):
        np.testing.assert_array_equal(one.e2e_us, two.e2e_us)
    assert len(getattr(stage_kernel(), "signatures", [None])) == 1
