"""Rules that every simulation keeps, and queues whose latencies are known in closed form."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from numba import njit
from numpy.typing import NDArray

from evaluators.batch import ADMISSIONS, BUSY_US, FINISHED, PREEMPTIONS, PREFILL_TOKENS, STEPS, TIMED_OUT, TOO_LARGE
from evaluators.experiment import Engine, Experiment, Stage, Workload
from evaluators.scheduler import TRACE_COLUMNS
from evaluators.simulation import COMPLETION_US, DEFAULT_QUEUEING_US, StageRun, Timing, scene_of, simulate, stage_runs
from evaluators.simulator import SIGNATURE, whole_us
from tests.evaluators.small_worlds import DENSE, GPU, TRACED_STEPS, World, by_kernel, worlds

F64 = NDArray[np.float64]
REPEATABLE = settings(derandomize=True, max_examples=200, deadline=None, database=None)
START, DURATION, PREFILL, DECODES, PREEMPTED = range(len(TRACE_COLUMNS))


@njit(SIGNATURE)
def constant_step(f: F64, c: F64) -> float:
    return c[0]


def experiment(
    rate_per_s: float, requests: int, output_tokens: int, engine: Engine, prompt_tokens: int = 20
) -> Experiment:
    stage = Stage(rate_per_s, requests / rate_per_s)
    return Experiment("test", DENSE, GPU, 1, engine, Workload("test", output_tokens, prompt_tokens, 0.0, 0, (stage,)))


def run_of(of: Experiment, step_us: float, seed: int = 1) -> StageRun:
    timing = Timing(constant_step, np.array([step_us]), output_token_us=0.0)
    (run,) = stage_runs(scene_of(of, seed), timing, traced_steps=100_000)
    assert isinstance(run, StageRun)
    return run


def ttft_us(run: StageRun) -> F64:
    return np.asarray(run.requests["first_us"] - run.requests["arrival_us"], dtype=np.float64)


@REPEATABLE
@given(worlds())
def test_every_request_ends_once_and_every_block_comes_home(world: World) -> None:
    for run in by_kernel(world, world.timing()):
        assert set(run.requests["status"]) <= {FINISHED, TIMED_OUT, TOO_LARGE}
        assert run.free_blocks == world.experiment.engine.kv_blocks
        assert sorted(run.order) == list(range(len(run.requests)))


@REPEATABLE
@given(worlds())
def test_steps_follow_each_other_and_their_tokens_add_up(world: World) -> None:
    engine = world.experiment.engine
    for run in by_kernel(world, world.timing()):
        trace = run.trace
        assert run.counts[STEPS] == len(trace) <= TRACED_STEPS
        assert np.all(trace[:, DURATION] >= 1)
        assert np.all(trace[1:, START] >= trace[:-1, START] + trace[:-1, DURATION])
        assert trace[:, PREFILL].sum() == run.counts[PREFILL_TOKENS]
        assert trace[:, DURATION].sum() == run.counts[BUSY_US]
        assert np.all(trace[:, PREFILL] + trace[:, DECODES] <= engine.max_num_batched_tokens)
        assert np.all(trace[:, DECODES] <= engine.max_num_seqs)
        assert trace[:, PREEMPTED].sum() <= run.counts[PREEMPTIONS]


@REPEATABLE
@given(worlds())
def test_finished_requests_have_their_times_in_order(world: World) -> None:
    for run in by_kernel(world, world.timing()):
        done = run.requests[run.requests["status"] == FINISHED]
        assert np.all(done["first_us"] > done["enqueue_us"])
        assert np.all(done["last_us"] - COMPLETION_US >= done["first_us"])
        assert np.all(done["last_us"] - done["arrival_us"] <= world.scene().limits.timeout_us)


@REPEATABLE
@given(worlds())
def test_with_room_and_patience_every_token_is_computed_exactly_once(world: World) -> None:
    engine = replace(world.experiment.engine, kv_blocks=5000, prefix_caching=False)
    patient = replace(world.experiment.workload, timeout_s=1e6)
    roomy = replace(world, experiment=replace(world.experiment, engine=engine, workload=patient))
    for run in by_kernel(roomy, roomy.timing()):
        assert np.all(run.requests["status"] == FINISHED)
        assert run.counts[PREFILL_TOKENS] == run.requests["prompt_tokens"].sum()
        assert run.trace[:, DECODES].sum() == (run.requests["output_tokens"] - 1).sum()
        assert run.counts[ADMISSIONS] == len(run.requests)


@REPEATABLE
@given(worlds())
def test_the_same_world_gives_the_same_events(world: World) -> None:
    for first, again in zip(by_kernel(world, world.timing()), by_kernel(world, world.timing()), strict=True):
        np.testing.assert_array_equal(first.trace, again.trace)
        np.testing.assert_array_equal(first.requests, again.requests)


@REPEATABLE
@given(worlds())
def test_a_trace_changes_nothing_and_may_be_too_short(world: World) -> None:
    traced = by_kernel(world, world.timing())
    for length in (0, 3):
        runs = list(stage_runs(world.scene(), world.timing(), traced_steps=length))
        for run, full in zip(runs, traced, strict=True):
            assert isinstance(run, StageRun)
            np.testing.assert_array_equal(run.requests, full.requests)
            np.testing.assert_array_equal(run.trace, full.trace[:length])


def test_one_request_alone_gets_its_tokens_step_by_step() -> None:
    engine = Engine(kv_blocks=100)
    run = run_of(experiment(1.0, 1, 10, engine), 5_000.0)
    assert ttft_us(run)[0] == DEFAULT_QUEUEING_US + 5_000
    assert run.requests["last_us"][0] - run.requests["first_us"][0] == 9 * 5_000 + COMPLETION_US


@pytest.mark.parametrize(("prompt", "chunks"), [(50, 1), (64, 1), (65, 2), (200, 4)])
def test_a_prompt_longer_than_the_budget_takes_as_many_steps_as_chunks(prompt: int, chunks: int) -> None:
    engine = Engine(max_num_seqs=4, max_num_batched_tokens=64, kv_blocks=100)
    run = run_of(experiment(1.0, 1, 3, engine, prompt), 5_000.0)
    assert ttft_us(run)[0] == DEFAULT_QUEUEING_US + chunks * 5_000


@pytest.mark.parametrize(("asynchronous", "steps"), [(True, 2), (False, 1)])
def test_on_a_busy_engine_ttft_is_uniform_over_one_step_beyond_those_under_way(asynchronous: bool, steps: int) -> None:
    """The rest of the running step, U(0, 1), then one step, and with asynchronous scheduling the one already formed."""
    step_us = 10_000.0
    engine = Engine(kv_blocks=5000, asynchronous=asynchronous)
    run = run_of(experiment(10.0, 6000, 100, engine), step_us)
    shares = (np.sort(ttft_us(run)) - DEFAULT_QUEUEING_US) / step_us
    warm = shares[shares > steps * 0.99]
    assert len(warm) > 0.99 * len(shares)
    np.testing.assert_allclose(np.percentile(warm, [10, 50, 90]) - steps, [0.1, 0.5, 0.9], atol=0.02)


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_one_seat_and_one_token_make_an_m_d_1_queue(load: float) -> None:
    """Mean wait = load * service / (2 (1 - load)); Source: Pollaczek-Khinchine formula, deterministic service."""
    service_us, waits_us = 10_000.0, []
    engine = Engine(max_num_seqs=1, kv_blocks=100, asynchronous=False)
    for seed in range(8):
        run = run_of(experiment(load / service_us * 1e6, 20_000, 1, engine), service_us, seed)
        waits_us.append(float(np.mean(ttft_us(run))) - DEFAULT_QUEUEING_US - service_us)
    assert np.mean(waits_us) == pytest.approx(load * service_us / (2.0 * (1.0 - load)), rel=0.05)


def test_running_requests_obey_littles_law() -> None:
    engine = Engine(kv_blocks=5000, asynchronous=False)
    run = run_of(experiment(20.0, 6000, 100, engine), 10_000.0)
    served_us = run.requests["last_us"] - COMPLETION_US - run.requests["enqueue_us"]
    span_us = float(run.trace[-1, START])
    in_system = float(served_us.sum()) / span_us
    in_batch = float((run.trace[:, DECODES] * run.trace[:, DURATION]).sum()) / span_us
    assert in_batch == pytest.approx(in_system * 99.0 / 100.5, rel=0.01)


def test_steps_of_a_full_batch_do_not_wait_for_each_other() -> None:
    engine = Engine(max_num_seqs=4, max_num_batched_tokens=64, kv_blocks=100)
    run = run_of(experiment(1000.0, 40, 50, engine), 3_000.0)
    assert np.all(np.diff(run.trace[:, START]) == 3_000)


@pytest.mark.parametrize(
    ("step_us", "whole"),
    [
        *((-5.0, 1), (0.0, 1), (0.99, 1), (1.99, 1), (2.0, 2), (12345.9, 12345)),
        *((1e30, 2**63 - 1), (float("inf"), 2**63 - 1), (float("nan"), 2**63 - 1)),
    ],
)
def test_whole_us_truncates_to_at_least_one_and_saturates(step_us: float, whole: int) -> None:
    assert whole_us(step_us) == whole


def test_a_request_larger_than_the_cache_is_dropped_at_once_and_the_next_one_served() -> None:
    engine = Engine(max_num_seqs=2, max_num_batched_tokens=32, kv_blocks=3)
    run = run_of(experiment(10.0, 5, 4, engine, prompt_tokens=49), 1_000.0)
    assert np.all(run.requests["status"] == TOO_LARGE)
    assert run.counts[STEPS] == 0
    fits = run_of(experiment(10.0, 5, 4, engine, prompt_tokens=45), 1_000.0)
    assert np.all(fits.requests["status"] == FINISHED)


def test_a_request_that_outgrows_the_cache_while_decoding_is_dropped() -> None:
    engine = Engine(max_num_seqs=2, max_num_batched_tokens=32, kv_blocks=3)
    of = experiment(0.5, 3, 40, engine, prompt_tokens=40)
    run = run_of(of, 1_000.0)
    assert np.all(run.requests["status"] == TOO_LARGE)
    assert np.all(run.requests["first_us"] > 0)
    assert run.counts[PREEMPTIONS] == 3


def test_clients_that_give_up_free_their_seats() -> None:
    engine = Engine(max_num_seqs=1, kv_blocks=100)
    of = experiment(10.0, 20, 1000, engine)
    of = replace(of, workload=replace(of.workload, timeout_s=1.5))
    run = run_of(of, 10_000.0)
    assert np.all(run.requests["status"] == TIMED_OUT)
    assert run.counts[ADMISSIONS] > 1
    (outcome,) = simulate(scene_of(of, 1), Timing(constant_step, np.array([10_000.0])))
    assert len(outcome.e2e_us) == 0
    assert np.isnan(outcome.tpot_us)
