"""The closed loop: arrivals, queue, batch, step, tokens, departures, compiled once; a program enters as a function.

Batch k+1 is formed when batch k starts (asynchronous scheduling) or ends (synchronous). A request that arrives during
step k thus waits for its end, for step k+1, which is already formed, and gets its token at the end of step k+2.
The front end then hands the tokens of a step out one after the other, in batch order.

All times are whole microseconds since the start of the stage.
Source: semantics of vLLM V1 as far as the measured latencies show them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numba import typeof, types
from numpy.typing import NDArray

from evaluators.batch import (
    BUSY_US,
    CLOCK,
    DECODING,
    DONE,
    KV_MAX,
    KV_SQUARE_SUM,
    KV_SUM,
    NEVER,
    NEXT_ARRIVAL,
    NEXT_END,
    OLDEST_US,
    PREEMPTED,
    PREFILL_TOKENS,
    PREFILLING,
    REQUEST,
    REQUEST_STEPS,
    SLOTS,
    STEPS,
    Limits,
    empty_batch,
    remove_slots,
)
from evaluators.delivery import Costs, deliver
from evaluators.features import METADATA_START, fill_context, fill_features, fill_metadata
from evaluators.jit import entry_kernel, kernel
from evaluators.kv_cache import FREE, empty_cache, take
from evaluators.physics import Physics
from evaluators.scheduler import (
    ADMITTED,
    END_US,
    FORM_US,
    FREE_US,
    PAIRS,
    PREEMPTED_NOW,
    PREFILLS,
    START_US,
    STEP_PREFILL_TOKENS,
    Scheduler,
    Scratch,
    empty_scratch,
    form_batch,
)

F64 = NDArray[np.float64]
SIGNATURE = types.float64(types.float64[::1], types.float64[::1])
LONGEST_STEP_US = 60_000_000
OK, STEP_TOO_LONG, STAGE_OVER = 0, 1, 2
Program = Any
"""A compiled step-time function of `SIGNATURE`; Numba's types have no name that mypy could check."""


class Tables(NamedTuple):
    """What depends on the number of tokens in a step alone, by that number."""

    touched: F64
    gemm_us: F64


class Deployment(NamedTuple):
    """Everything beside the program that turns a batch into time."""

    physics: Physics
    tables: Tables
    costs: Costs
    asynchronous: bool


StageKernel = Callable[[Scheduler, Deployment, Scratch, Program, F64], int]


@kernel
def whole_us(step_us: float) -> int:
    """Return max(1, trunc(step_us)); NaN and overflow saturate."""
    if step_us < 9.2e18:
        return max(1, int(step_us)) if step_us > 1.0 else 1
    return 2**63 - 1


@kernel
def _describe(s: Scheduler, d: Deployment, w: Scratch) -> None:
    """Fill the features of the formed batch."""
    count, step, row = s.batch.counts, w.step, w.row
    row[0] = step[STEP_PREFILL_TOKENS]
    row[1] = step[PREFILLS]
    row[2] = count[DECODING]
    row[3] = count[KV_SUM] + w.context[0]
    row[4] = count[KV_SQUARE_SUM] + w.context[1]
    row[5] = max(float(count[KV_MAX]), w.context[2])
    row[6] = count[KV_SUM]
    row[7] = count[KV_MAX]
    row[8] = 0.5 * step[PAIRS]
    tokens = step[STEP_PREFILL_TOKENS] + count[DECODING]
    fill_features(d.physics, row, d.tables.touched[tokens], d.tables.gemm_us[tokens], w.out)


@kernel
def _record(w: Scratch, number: int, start_us: int, duration_us: int, decodes: int) -> None:
    """Write a step to the trace where it has room."""
    if number < w.trace.shape[0]:
        w.trace[number, 0] = start_us
        w.trace[number, 1] = duration_us
        w.trace[number, 2] = w.step[STEP_PREFILL_TOKENS]
        w.trace[number, 3] = decodes
        w.trace[number, 4] = w.step[PREEMPTED_NOW]


@kernel
def _undisturbed_until_us(s: Scheduler) -> int:
    """Return up to when forming a batch can mean nothing but decoding on; 0 if it means more right away."""
    count, q = s.batch.counts, s.requests
    seats = count[SLOTS] < s.limits.max_num_seqs
    if count[DECODING] == 0 or count[PREFILLING] > 0 or count[DONE] > 0 or (count[PREEMPTED] > 0 and seats):
        return 0
    arrival_us = NEVER
    if seats and count[NEXT_ARRIVAL] < q.shape[0]:
        arrival_us = q[count[NEXT_ARRIVAL]].enqueue_us
    return int(min(arrival_us, count[OLDEST_US] + s.limits.timeout_us))


@kernel
def _decode_run(s: Scheduler, d: Deployment, w: Scratch, program: Program, constants: F64) -> int:
    """Advance decoding steps in a tight loop until something else than decoding has to happen."""
    until_us = _undisturbed_until_us(s)
    count, step, row, out = s.batch.counts, w.step, w.row, w.out
    if step[FORM_US] >= until_us:
        return OK
    size, free, decoding = s.limits.block_size, s.cache.pool[FREE], count[DECODING]
    clock, end, kv_sum, kv_square_sum, kv_max = (
        count[CLOCK], count[NEXT_END], count[KV_SUM], count[KV_SQUARE_SUM], count[KV_MAX],
    )  # fmt: skip
    first, blocks, phase = clock, 0, -clock % size
    form_us, free_us = step[FORM_US], step[FREE_US]
    described = False
    verdict = OK
    while form_us < until_us and clock + 1 < end:
        needed = s.batch.phase[phase]
        if blocks + needed > free:
            break
        row[3] = row[6] = kv_sum
        row[4] = kv_square_sum
        row[5] = row[7] = kv_max
        if described:
            fill_context(d.physics, row, out)
        else:
            row[0] = row[1] = row[8] = 0.0
            row[2] = decoding
            step[STEP_PREFILL_TOKENS] = step[PREEMPTED_NOW] = 0
            fill_features(d.physics, row, d.tables.touched[decoding], d.tables.gemm_us[decoding], out)
            described = True
        duration_us = whole_us(program(out, constants))
        if duration_us > LONGEST_STEP_US:
            verdict = STEP_TOO_LONG
            break
        blocks += needed
        start_us = max(form_us, free_us)
        _record(w, count[STEPS] + clock - first, start_us, duration_us, decoding)
        free_us = start_us + duration_us
        form_us = start_us if d.asynchronous else free_us
        count[BUSY_US] += duration_us
        kv_square_sum += 2 * kv_sum + decoding
        kv_sum += decoding
        kv_max += 1
        clock += 1
        phase = phase - 1 if phase > 0 else size - 1
    take(s.cache, blocks)
    count[CLOCK], count[KV_SUM], count[KV_SQUARE_SUM], count[KV_MAX] = clock, kv_sum, kv_square_sum, kv_max
    count[STEPS] += clock - first
    count[REQUEST_STEPS] += (clock - first) * decoding
    step[FORM_US], step[FREE_US] = form_us, free_us
    return verdict


@kernel
def _wait(s: Scheduler, w: Scratch) -> int:
    """Move an engine with nothing to schedule to the end of the running step, then to the next arrival."""
    count, step, q = s.batch.counts, w.step, s.requests
    if step[FORM_US] < step[FREE_US]:
        step[FORM_US] = step[FREE_US]
    elif step[PREEMPTED_NOW] > 0:
        return OK  # what was preempted a moment ago waits now and can be admitted
    elif count[NEXT_ARRIVAL] < q.shape[0]:
        step[FORM_US] = max(step[FORM_US], q[count[NEXT_ARRIVAL]].enqueue_us)
    else:
        return STAGE_OVER
    return OK


@kernel
def _one_step(s: Scheduler, d: Deployment, w: Scratch, program: Program, constants: F64) -> int:
    """Form one batch at ``w.step[FORM_US]`` and run it; or, with nothing to do, move on to when there is."""
    count, step = s.batch.counts, w.step
    idle = step[FORM_US] >= step[FREE_US]
    deadline_us = step[FORM_US] - s.limits.timeout_us
    if count[DONE] > 0 or count[OLDEST_US] <= deadline_us:
        lag = 1 if d.asynchronous and not idle else 0
        remove_slots(s.batch, s.cache, s.requests, count[STEPS] - lag, deadline_us)
    if not form_batch(s, w):
        return int(_wait(s, w))
    _describe(s, d, w)
    duration_us = whole_us(program(w.out, constants))
    if duration_us > LONGEST_STEP_US:
        return STEP_TOO_LONG
    overhead_us = step[ADMITTED] * d.costs.scheduling_us + step[PREEMPTED_NOW] * d.costs.preemption_us
    duration_us += np.int64(overhead_us)
    step[START_US] = max(step[FORM_US], step[FREE_US])
    step[END_US] = step[START_US] + duration_us
    step[FREE_US] = step[END_US]
    step[FORM_US] = step[START_US] if d.asynchronous else step[END_US]
    _record(w, count[STEPS], step[START_US], duration_us, count[DECODING])
    count[STEPS] += 1
    count[BUSY_US] += duration_us
    count[PREFILL_TOKENS] += step[STEP_PREFILL_TOKENS]
    count[REQUEST_STEPS] += count[DECODING] + step[PREFILLS]
    deliver(s, d.costs, w)
    return OK


def _stage_signature() -> Any:
    """Return the one signature of `stage_kernel`, in which the program is an address and not a type of its own."""
    limits = Limits(1, 1, 1, 1, True, 1)
    scheduler = Scheduler(empty_batch(limits, 1), empty_cache(1, 1, 1), limits, np.zeros(1, dtype=REQUEST))
    physics = Physics(*(0.0 for _ in Physics._fields))
    tables, costs = Tables(np.zeros(1), np.zeros(1)), Costs(0.0, 0.0, 0.0, 0)
    arguments = (scheduler, Deployment(physics, tables, costs, True), empty_scratch())
    return types.int64(*map(typeof, arguments), types.FunctionType(SIGNATURE), types.float64[::1])


def _run_stage(s: Scheduler, d: Deployment, w: Scratch, program: Program, constants: F64) -> int:
    fill_metadata(d.physics, w.out, METADATA_START)
    verdict = OK
    while verdict == OK:
        verdict = _one_step(s, d, w, program, constants)
        if verdict == OK:
            verdict = _decode_run(s, d, w, program, constants)
    return verdict


@cache
def stage_kernel() -> StageKernel:
    """Return the simulation of one stage, compiled (or fetched from the disk) on first use.

    It returns ``STAGE_OVER`` or ``STEP_TOO_LONG``; outcomes are in the requests, counters in the batch.
    """
    compiled: StageKernel = entry_kernel(_stage_signature())(_run_stage)
    return compiled
