"""Evaluation in worker processes. Workers only compute: what they are given decides what they return."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

from evaluators.evaluation import Benchmark, Evaluation, Failure, fit_and_score, prepare
from evaluators.experiment import Experiment
from translate.ir import Program

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment of the workers: their matrices are tiny, and threads would only fight over the cores."""

_benchmark: Benchmark | None = None
_seed = 0


@dataclass(frozen=True, slots=True)
class Pool:
    """Evaluates programs, in order, on a fixed number of processes."""

    executor: ProcessPoolExecutor

    def evaluate(self, programs: Sequence[Program]) -> list[Future[Evaluation | Failure]]:
        """Start evaluating; the futures are in the order of the programs."""
        return [self.executor.submit(_evaluate, program) for program in programs]


def _start(experiments: Sequence[Experiment], seed: int) -> None:
    global _benchmark, _seed
    _benchmark, _seed = prepare(experiments), seed


def _evaluate(program: Program) -> Evaluation | Failure:
    assert _benchmark is not None
    return fit_and_score(program, _benchmark, _seed)


@contextmanager
def workers(count: int, experiments: Sequence[Experiment], seed: int) -> Iterator[Pool]:
    """Start ``count`` processes that score against the experiments, and stop them at the end."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    context = multiprocessing.get_context("spawn")
    executor = ProcessPoolExecutor(count, mp_context=context, initializer=_start, initargs=(experiments, seed))
    try:
        yield Pool(executor)
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
