"""Worker processes return what the same call returns here, in order, and leave nothing behind."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from evaluators.benchmark import builtin
from evaluators.evaluation import Evaluation, Failure, fit_and_score, prepare
from evaluators.experiment import Experiment
from evolve import workers as module
from evolve.workers import ONE_THREAD, Pool, workers
from tests.programs import program, shortened, step_program

SEED = 5
PROGRAMS = tuple(
    program(step_program(text, {"a": 1.1, "c": 50.0}))
    for text in (
        "a * b['gemm_time'] + 1.3 * b['kv_read_time'] + 2.0 * b['attention_flops'] + c * b['layers']",
        "a / 0.0 + c",
        "a * b['weight_load'] + c * b['layers'] + 1000.0",
        "a * b['gemm_time'] + c / b['batch_size'] * 1e6",
    )
)


@pytest.fixture(scope="module")
def experiments() -> tuple[Experiment, ...]:
    return tuple(shortened(experiment, 10.0) for experiment in builtin("h100-vllm")[:2])


@pytest.fixture(scope="module")
def here(experiments: tuple[Experiment, ...]) -> list[Evaluation | Failure]:
    benchmark = prepare(experiments)
    return [fit_and_score(candidate, benchmark, SEED) for candidate in PROGRAMS]


@pytest.fixture(scope="module")
def pool(experiments: tuple[Experiment, ...]) -> Iterator[Pool]:
    with workers(2, experiments, SEED) as started:
        yield started


def test_two_processes_return_what_one_call_here_returns_in_the_order_of_the_programs(
    pool: Pool, here: list[Evaluation | Failure]
) -> None:
    assert [future.result(timeout=120) for future in pool.evaluate(PROGRAMS)] == here
    assert {type(verdict) for verdict in here} == {Evaluation, Failure}


def test_replacing_the_processes_changes_no_verdict(
    pool: Pool, here: list[Evaluation | Failure], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = pool._executor
    monkeypatch.setattr(module, "PROGRAMS_PER_WORKER", 0)
    assert [future.result(timeout=120) for future in pool.evaluate(PROGRAMS)] == here
    assert pool._executor is not before


def test_nothing_to_evaluate_is_no_work(pool: Pool) -> None:
    assert pool.evaluate([]) == []


def test_the_thread_settings_last_as_long_as_the_workers(
    experiments: tuple[Experiment, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, *others = ONE_THREAD
    monkeypatch.setenv(first, "7")
    for name in others:
        monkeypatch.delenv(name, raising=False)
    with workers(1, experiments, SEED):
        assert [os.environ[name] for name in ONE_THREAD] == ["1"] * len(ONE_THREAD)
    assert os.environ[first] == "7"
    assert not [name for name in others if name in os.environ]


def test_the_workers_end_with_an_error_inside_the_block(experiments: tuple[Experiment, ...]) -> None:
    met: list[Pool] = []

    def fail_inside() -> None:
        with workers(1, experiments, SEED) as started:
            met.append(started)
            raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        fail_inside()
    with pytest.raises(RuntimeError, match="shutdown"):
        met[0].evaluate(PROGRAMS[:1])
