"""Evaluation in worker processes. Workers only compute: what they are given decides what they return."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait

from evaluators.evaluation import Benchmark, Evaluation, Failure, fit_and_score, prepare
from evaluators.experiment import Experiment
from translate.ir import Program

ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
"""Environment of the workers: their matrices are tiny, and threads would only fight over the cores."""
PROGRAMS_PER_WORKER = 250
"""Programs after which processes are replaced: machine code is never unloaded, nearly a megabyte each."""

_benchmark: Benchmark | None = None
_seed = 0


class Pool:
    """Evaluates programs, in order, on a fixed number of processes."""

    def __init__(self, count: int, experiments: Sequence[Experiment], seed: int) -> None:
        self._count = count
        self._arguments = (tuple(experiments), seed)
        self._executor = self._start()
        self._submitted = 0

    def evaluate(self, programs: Sequence[Program]) -> list[Future[Evaluation | Failure]]:
        """Start evaluating; the futures are in the order of the programs. Call it when earlier ones are done."""
        if self._submitted > PROGRAMS_PER_WORKER * self._count:
            self.close()
            self._executor, self._submitted = self._start(), 0
        self._submitted += len(programs)
        with _deaf_to_interrupts():
            return [self._executor.submit(_evaluate, program) for program in programs]

    def close(self) -> None:
        """Stop the processes; what is running is finished first, what is waiting is dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    def _start(self) -> ProcessPoolExecutor:
        context = multiprocessing.get_context("spawn")
        return ProcessPoolExecutor(self._count, mp_context=context, initializer=_prepare, initargs=self._arguments)


@contextmanager
def _deaf_to_interrupts() -> Iterator[None]:
    """Start processes that Ctrl-C does not reach, though it goes to the whole group; ours waits until the end."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _prepare(experiments: Sequence[Experiment], seed: int) -> None:
    global _benchmark, _seed
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # where no signal can be blocked
    threading.Thread(target=_follow_parent, daemon=True).start()
    _benchmark, _seed = prepare(experiments), seed


def _follow_parent() -> None:
    """End this process as soon as the main one is gone, however it went."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


def _evaluate(program: Program) -> Evaluation | Failure:
    assert _benchmark is not None
    return fit_and_score(program, _benchmark, _seed)


@contextmanager
def workers(count: int, experiments: Sequence[Experiment], seed: int) -> Iterator[Pool]:
    """Start ``count`` processes that score against the experiments, and stop them at the end."""
    before = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    pool = Pool(count, experiments, seed)
    try:
        yield pool
    finally:
        pool.close()
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
