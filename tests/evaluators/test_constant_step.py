"""The proof that needs no formula: with the observed time per token as a constant step, the latencies come out."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from evaluators.datasets import load_dataset
from evaluators.experiment import DataError, Experiment, Observed
from evaluators.features import INDEX
from evaluators.scheduler import TRACE_COLUMNS
from evaluators.simulation import StageOutcome, StageRun, Timing, scene_of, simulate, stage_runs
from evaluators.simulator import SIGNATURE

F64 = NDArray[np.float64]
_RUNNING = INDEX["batch_size"]


@njit(SIGNATURE)
def constant_step(f: F64, c: F64) -> float:
    return c[0]


@njit(SIGNATURE)
def growing_step(f: F64, c: F64) -> float:
    return c[0] + c[1] * f[_RUNNING]


@cache
def benchmark() -> dict[str, Experiment]:
    experiments = load_dataset("h100-vllm")
    assert not isinstance(experiments, DataError)
    return {experiment.name: experiment for experiment in experiments}


def named(*words: str) -> Experiment:
    return next(e for name, e in benchmark().items() if all(word in name for word in words))


def observed(experiment: Experiment, stage: int) -> Observed:
    seen = experiment.workload.stages[stage].observed
    assert seen is not None
    return seen


def simulated(experiment: Experiment, *constants: float, step: object = constant_step) -> tuple[StageOutcome, ...]:
    outcomes = simulate(scene_of(experiment), Timing(step, np.array(constants)))
    assert isinstance(outcomes, tuple)
    return outcomes


@cache
def rows() -> list[tuple[str, Observed, StageOutcome]]:
    """Return the 20 accuracy rows, each simulated with its own observed time per token."""
    return [
        (f"{e.name} stage {stage}", observed(e, stage), simulated(e, observed(e, stage).tpot_us)[stage])
        for e in benchmark().values()
        if not e.overloaded
        for stage in range(len(e.workload.stages))
    ]


def test_a_constant_step_gives_the_median_ttft_of_every_row() -> None:
    errors = {name: float(np.median(sim.ttft_us)) / (seen.ttft.p50_us or 0.0) - 1.0 for name, seen, sim in rows()}
    assert len(errors) == 20
    assert np.mean(np.abs(list(errors.values()))) < 0.035
    assert max(map(abs, errors.values())) < 0.08, errors


def test_a_constant_step_gives_the_mean_e2e_of_every_row() -> None:
    errors = {name: float(np.mean(sim.e2e_us)) / seen.e2e.mean_us - 1.0 for name, seen, sim in rows()}
    assert np.mean(np.abs(list(errors.values()))) < 0.002
    assert max(map(abs, errors.values())) < 0.01, errors


def test_every_request_of_the_accuracy_rows_succeeds_without_preemption() -> None:
    for name, seen, sim in rows():
        assert len(sim.e2e_us) == sim.requests == seen.requests, name
        assert sim.preemptions == 0, name


def test_a_constant_step_gives_back_its_own_time_per_token() -> None:
    for name, seen, sim in rows():
        assert sim.tpot_us == pytest.approx(seen.tpot_us, rel=0.002), name


@pytest.mark.parametrize("words", [("70b", "codegen"), ("mixtral", "codegen"), ("codellama", "codegen")])
def test_the_spread_of_ttft_is_that_of_an_asynchronous_scheduler(words: tuple[str, ...]) -> None:
    experiment = named(*words)
    seen = observed(experiment, 1)
    got_us = np.percentile(simulated(experiment, seen.tpot_us)[1].ttft_us, [10, 50, 90])
    want_us = np.array([seen.ttft.p10_us, seen.ttft.p50_us, seen.ttft.p90_us], dtype=np.float64)
    assert np.abs(got_us - want_us).max() < 1500.0, (got_us, want_us)


def test_a_synchronous_scheduler_has_one_step_less_of_ttft() -> None:
    experiment = named("codellama", "codegen")
    step_us = 15_000.0
    other = replace(experiment, engine=replace(experiment.engine, asynchronous=False))
    medians = [np.median(simulated(e, step_us)[1].ttft_us) for e in (experiment, other)]
    assert medians[0] - medians[1] == pytest.approx(step_us, abs=300.0)


@pytest.mark.parametrize("workload", ["codegen", "general", "roleplay"])
def test_cold_prompts_prefill_in_full_and_warm_ones_at_most_a_block(workload: str) -> None:
    """Evenly spaced arrivals, so that no step admits two requests and the trace shows each request's prefill."""
    experiment = named("codellama", workload)
    load = experiment.workload
    spaced = replace(experiment, workload=replace(load, arrivals="constant"))
    runs = list(stage_runs(scene_of(spaced), Timing(constant_step, np.array([12_000.0])), traced_steps=200_000))
    cold = 0
    for stage, run in enumerate(runs):
        assert isinstance(run, StageRun)
        prefill_tokens = run.trace[:, TRACE_COLUMNS.index("prefill_tokens")]
        per_request = prefill_tokens[prefill_tokens > 0]
        assert len(per_request) == len(run.requests)
        warm = per_request[per_request <= experiment.engine.block_size]
        cold += len(per_request) - len(warm)
        assert cold == 100, stage
        assert 8.0 <= warm.mean() <= 9.0
        assert np.percentile(warm, 98) == 16


def test_a_step_that_grows_with_the_running_requests_queues_the_70b_model_at_20_per_s() -> None:
    """Observed: mean 121 ms, p50 68, p90 250, p99 987, from bursts against the cap of 128 sequences."""
    running = np.array([15.0, 25.0, 35.0, 50.0, 90.0, 110.0])
    cycle_us = np.array([16_400.0, 17_200.0, 18_300.0, 18_900.0, 20_900.0, 21_700.0])
    slope, base = np.polyfit(running, cycle_us, 1)
    experiment = named("70b", "general")
    growing = simulated(experiment, base, slope, step=growing_step)[1]
    steady = simulated(experiment, observed(experiment, 1).tpot_us)[1]
    assert growing.tpot_us == pytest.approx(observed(experiment, 1).tpot_us, rel=0.02)
    for sim in (growing, steady):
        assert np.mean(sim.ttft_us) > 1.1 * np.median(sim.ttft_us)
        assert np.percentile(sim.ttft_us, 99) > 3.0 * np.median(sim.ttft_us)
    quiet = simulated(experiment, base, slope, step=growing_step)[0]
    assert np.mean(quiet.ttft_us) < 1.05 * np.median(quiet.ttft_us)


@pytest.mark.parametrize(
    ("model", "low", "high"),
    [("llama-2-7b", 350, 1100), ("llama-2-70b", 2400, 4000), ("mixtral", 1000, 2250), ("codellama", 4700, 4800)],
)
def test_overload_leaves_about_as_many_survivors_as_observed(model: str, low: int, high: int) -> None:
    """Observed 732, 3200, 1506 and 4796 of 4800. The step is the survivors' time per token; only the order counts."""
    experiment = named(model, "reasoning")
    seen = observed(experiment, 0)
    assert low <= seen.succeeded <= high
    (sim,) = simulated(experiment, seen.tpot_us)
    assert sim.requests == 4800
    assert low <= len(sim.e2e_us) <= high
    assert float(np.mean(sim.ttft_us)) == pytest.approx(seen.ttft.mean_us, rel=0.3)
    assert float(np.mean(sim.e2e_us)) == pytest.approx(seen.e2e.mean_us, rel=0.15)


def test_the_7b_model_is_bound_by_its_cache_under_overload_and_the_others_by_their_seats() -> None:
    for model in ("llama-2-7b", "llama-2-70b", "mixtral", "codellama"):
        experiment = named(model, "reasoning")
        (sim,) = simulated(experiment, observed(experiment, 0).tpot_us)
        bound_by_seats = sim.request_steps / sim.steps > 0.95 * experiment.engine.max_num_seqs
        assert bound_by_seats == (model != "llama-2-7b")
        assert (sim.preemptions > 0) == (model == "llama-2-7b")
