"""The closed loop: arrivals, queue, batch, step, tokens, departures, compiled once; a program enters as a function.

Batch k+1 is formed when batch k starts (asynchronous scheduling) or ends (synchronous). A request that arrives during
step k thus waits for its end, for step k+1, which is already formed, and gets its token at the end of step k+2.
The front end then hands the tokens of a step out one after the other, in batch order.

All times are whole microseconds since the start of the stage.
Source: semantics of vLLM V1 as far as the measured latencies show them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numpy.typing import NDArray

from evaluators.batch import (
    ADMISSIONS,
    BUSY_US,
    CLOCK,
    DECODE_SLOT,
    DECODING,
    DONE,
    DONE_SLOT,
    FINISHED,
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
    REQUEST_STEPS,
    RUNNING,
    SLOTS,
    STEPS,
    TIMED_OUT,
    TOO_LARGE,
    Batch,
    Limits,
    add_slot,
    allocate,
    grow_decoding,
    newest,
    preempt,
    remove_slots,
    start_decoding,
    stop_decoding,
    survey,
    try_admit,
)
from evaluators.features import BATCH_FIELDS, FEATURE_COUNT, METADATA_START, fill_context, fill_features, fill_metadata
from evaluators.jit import kernel
from evaluators.kv_cache import FREE, I64, NOTHING, Cache, Rows, take
from evaluators.physics import Physics

F64 = NDArray[np.float64]
SIGNATURE = types.float64(types.float64[::1], types.float64[::1])
LONGEST_STEP_US = 60_000_000
OK, STEP_TOO_LONG, STAGE_OVER = 0, 1, 2
Program = Any
"""A compiled step-time function of `SIGNATURE`; Numba's types have no name that mypy could check."""
_FORM_US, _FREE_US, _START_US, _END_US, _PREFILLS, _PREFILL_TOKENS, _PAIRS, _PREEMPTED_NOW, _ADMITTED = range(9)
_ALL_STEPS = np.int64(2**62)


class Costs(NamedTuple):
    """What a program says beside the step time [us]."""

    output_token_us: float
    scheduling_us: float
    preemption_us: float
    completion_us: int
    """Client-side cost at the end of a request, the same for every program."""


class Tables(NamedTuple):
    """What depends on the number of tokens in a step alone, by that number."""

    touched: F64
    gemm_us: F64


class Scratch(NamedTuple):
    """Working memory of one simulation."""

    step: I64
    """What is being formed and run, by the ``_FORM_US`` .. ``_ADMITTED`` positions."""
    context: F64
    """Cached context of the prefilling requests: sum, sum of squares, longest."""
    row: F64
    """The step's `BATCH_FIELDS`."""
    out: F64
    """The step's features."""


def empty_scratch() -> Scratch:
    """Return zeroed working memory."""
    return Scratch(np.zeros(9, dtype=np.int64), np.zeros(3), np.zeros(len(BATCH_FIELDS)), np.zeros(FEATURE_COUNT))


@kernel
def whole_us(step_us: float) -> int:
    """Return max(1, trunc(step_us)); NaN and overflow saturate."""
    if step_us < 9.2e18:
        return max(np.int64(1), np.int64(step_us)) if step_us > 1.0 else np.int64(1)
    return np.int64(2**63 - 1)


@kernel
def _next_waiting(b: Batch, q: Rows, now_us: int, timeout_us: int) -> int:
    """Return the head of the waiting queue after dropping those that timed out, NOTHING if it is empty."""
    while b.count[PREEMPTED] > 0:
        r = b.preempted[b.count[PREEMPTED] - 1]
        if q[r].arrival_us + timeout_us > now_us:
            return r
        q[r].status = TIMED_OUT
        b.count[PREEMPTED] -= 1
    while b.count[NEXT_ARRIVAL] < q.shape[0]:
        r = b.count[NEXT_ARRIVAL]
        if q[r].enqueue_us > now_us:
            return NOTHING
        if q[r].arrival_us + timeout_us > now_us:
            return r
        q[r].status = TIMED_OUT
        b.count[NEXT_ARRIVAL] += 1
    return NOTHING


@kernel
def _pop_waiting(b: Batch) -> None:
    if b.count[PREEMPTED] > 0:
        b.count[PREEMPTED] -= 1
    else:
        b.count[NEXT_ARRIVAL] += 1


@kernel
def _add_prefill(step: I64, q: Rows, r: int, tokens: int) -> None:
    """Count a prefill chunk of request ``r``, whose ``computed`` tokens are cached, in the step being formed."""
    step[_PREFILLS] += 1
    step[_PREFILL_TOKENS] += tokens
    # twice the token pairs, to stay in whole numbers
    step[_PAIRS] += tokens * (2 * q[r].computed + tokens + 1)


@kernel
def _continue_prefill(b: Batch, k: Cache, limits: Limits, q: Rows, step: I64, context: F64) -> None:
    """Give the request in the middle of its prefill, always the newest, what is left of the budget."""
    slot = newest(b)
    r = b.slots[slot].request
    size = limits.block_size
    left = q[r].prompt_tokens + q[r].generated - q[r].computed
    chunk = min(left, limits.max_num_batched_tokens - b.count[DECODING])
    if chunk <= 0:
        return
    if (q[r].computed + chunk + size - 1) // size - q[r].blocks > k.pool[FREE]:
        preempt(b, k, q, slot)
        step[_PREEMPTED_NOW] += 1
        return
    _add_prefill(step, q, r, chunk)
    _note_context(context, q[r].computed)
    allocate(k, limits, q, r, q[r].computed + chunk)
    q[r].computed += chunk


@kernel
def _note_context(context: F64, cached: int) -> None:
    """Add a prefilling request's cached tokens to [sum, square sum, max]."""
    context[0] += cached
    context[1] += float(cached) * float(cached)
    context[2] = max(context[2], float(cached))


@kernel
def _admit(b: Batch, k: Cache, limits: Limits, q: Rows, step: I64, context: F64) -> None:
    """Admit waiting requests in order while seats, budget and blocks last."""
    budget = limits.max_num_batched_tokens - b.count[DECODING] - step[_PREFILL_TOKENS]
    while b.count[SLOTS] < limits.max_num_seqs and budget > 0:
        r = _next_waiting(b, q, step[_FORM_US], limits.timeout_us)
        if r == NOTHING:
            return
        chunk = try_admit(k, limits, q, r, budget)
        if chunk == 0:
            if b.count[SLOTS] > 0:
                return
            q[r].status = TOO_LARGE
            _pop_waiting(b)
            continue
        _pop_waiting(b)
        add_slot(b, q, r)
        q[r].status = RUNNING
        b.count[ADMISSIONS] += 1
        step[_ADMITTED] += 1
        _add_prefill(step, q, r, chunk)
        _note_context(context, q[r].computed)
        q[r].computed += chunk
        budget -= chunk


@kernel
def _form_batch(b: Batch, k: Cache, limits: Limits, q: Rows, step: I64, context: F64) -> bool:
    """Decide what the coming step computes; False if there is nothing to do."""
    step[_PREFILLS] = step[_PREFILL_TOKENS] = step[_PAIRS] = step[_PREEMPTED_NOW] = step[_ADMITTED] = 0
    context[0] = context[1] = context[2] = 0.0
    if b.count[DECODING] > 0:
        step[_PREEMPTED_NOW] = grow_decoding(b, k, q)
    if b.count[PREFILLING] > 0:
        _continue_prefill(b, k, limits, q, step, context)
    if step[_PREEMPTED_NOW] == 0:
        _admit(b, k, limits, q, step, context)
    return b.count[DECODING] + step[_PREFILLS] > 0


@kernel
def _describe(b: Batch, p: Physics, tables: Tables, step: I64, context: F64, row: F64, out: F64) -> None:
    """Fill the features of the formed batch."""
    row[0] = step[_PREFILL_TOKENS]
    row[1] = step[_PREFILLS]
    row[2] = b.count[DECODING]
    row[3] = b.count[KV_SUM] + context[0]
    row[4] = b.count[KV_SQUARE_SUM] + context[1]
    row[5] = max(float(b.count[KV_MAX]), context[2])
    row[6] = b.count[KV_SUM]
    row[7] = b.count[KV_MAX]
    row[8] = 0.5 * step[_PAIRS]
    tokens = step[_PREFILL_TOKENS] + b.count[DECODING]
    fill_features(p, row, tables.touched[tokens], tables.gemm_us[tokens], out)


@kernel
def _deliver(b: Batch, q: Rows, step: I64, costs: Costs, timeout_us: int) -> None:
    """Move the clock on after a step: new tokens, first tokens, finished requests."""
    finishing = b.count[NEXT_END] == b.count[CLOCK] + 1
    decoding = b.count[DECODING]
    b.count[CLOCK] += 1
    b.count[KV_SQUARE_SUM] += 2 * b.count[KV_SUM] + decoding
    b.count[KV_SUM] += decoding
    b.count[KV_MAX] += 1 if decoding > 0 else 0
    if finishing:
        _finish_decoding(b, q, step[_END_US], costs, timeout_us)
    if step[_PREFILLS] > 0:
        _finish_prefills(b, q, step[_END_US], decoding, costs, timeout_us)


@kernel
def _end_request(b: Batch, q: Rows, slot: int, at_us: int, costs: Costs, timeout_us: int) -> None:
    r = b.slots[slot].request
    q[r].last_us = at_us + costs.completion_us
    q[r].status = FINISHED if q[r].last_us - q[r].arrival_us <= timeout_us else TIMED_OUT
    b.slots[slot].kind = DONE_SLOT
    b.slots[slot].done_step = b.count[STEPS]
    b.count[DONE] += 1


@kernel
def _finish_decoding(b: Batch, q: Rows, end_us: int, costs: Costs, timeout_us: int) -> None:
    """Mark the slots whose last token this step produced; they keep seat and blocks until the engine sees it."""
    rank = 0
    for slot in range(b.count[SLOTS]):
        if b.slots[slot].kind == DECODE_SLOT:
            rank += 1
            if b.slots[slot].end == b.count[CLOCK]:
                stop_decoding(b, q, slot)
                _end_request(b, q, slot, end_us + np.int64(rank * costs.output_token_us), costs, timeout_us)
    survey(b)


@kernel
def _finish_prefills(b: Batch, q: Rows, end_us: int, decoding: int, costs: Costs, timeout_us: int) -> None:
    """Hand out the first token of every request whose prefill is complete and let it decode."""
    rank = decoding
    for slot in range(b.count[SLOTS] - b.count[PREFILLING], b.count[SLOTS]):
        r = b.slots[slot].request
        if q[r].computed < q[r].prompt_tokens + q[r].generated:
            continue
        rank += 1
        q[r].generated += 1
        b.count[PREFILLING] -= 1
        at_us = end_us + np.int64(rank * costs.output_token_us)
        if q[r].first_us == NOTHING:
            q[r].first_us = at_us
        if q[r].generated >= q[r].output_tokens:
            _end_request(b, q, slot, at_us, costs, timeout_us)
        else:
            start_decoding(b, q, slot)


@kernel
def _decode_run(
    b: Batch, k: Cache, limits: Limits, q: Rows, p: Physics, tables: Tables, asynchronous: bool, step: I64, row: F64,
    out: F64, program: Program, constants: F64,
) -> int:
    """Advance decoding steps in a tight loop until something else than decoding has to happen."""
    seats = b.count[SLOTS] < limits.max_num_seqs
    if b.count[DECODING] == 0 or b.count[PREFILLING] > 0 or b.count[DONE] > 0 or b.count[PREEMPTED] > 0 and seats:
        return OK
    arrival_us = NEVER
    if seats and b.count[NEXT_ARRIVAL] < q.shape[0]:
        arrival_us = q[b.count[NEXT_ARRIVAL]].enqueue_us
    until_us = min(arrival_us, b.count[OLDEST_US] + limits.timeout_us)
    decoding, free = b.count[DECODING], k.pool[FREE]
    clock, end, kv_sum, kv_square_sum, kv_max = (
        b.count[CLOCK], b.count[NEXT_END], b.count[KV_SUM], b.count[KV_SQUARE_SUM], b.count[KV_MAX],
    )  # fmt: skip
    first = clock
    blocks = 0
    form_us, free_us = step[_FORM_US], step[_FREE_US]
    size = limits.block_size
    phase = -clock % size
    described = False
    verdict = OK
    while form_us < until_us and clock + 1 < end:
        needed = b.phase[phase]
        if blocks + needed > free:
            break
        row[3] = row[6] = kv_sum
        row[4] = kv_square_sum
        row[5] = row[7] = kv_max
        if described:
            fill_context(p, row, out)
        else:
            row[0] = row[1] = row[8] = 0.0
            row[2] = decoding
            fill_features(p, row, tables.touched[decoding], tables.gemm_us[decoding], out)
            described = True
        duration_us = whole_us(program(out, constants))
        if duration_us > LONGEST_STEP_US:
            verdict = STEP_TOO_LONG
            break
        blocks += needed
        start_us = max(form_us, free_us)
        free_us = start_us + duration_us
        form_us = start_us if asynchronous else free_us
        b.count[BUSY_US] += duration_us
        kv_square_sum += 2 * kv_sum + decoding
        kv_sum += decoding
        kv_max += 1
        clock += 1
        phase = phase - 1 if phase > 0 else size - 1
    take(k, blocks)
    b.count[CLOCK], b.count[KV_SUM], b.count[KV_SQUARE_SUM], b.count[KV_MAX] = clock, kv_sum, kv_square_sum, kv_max
    b.count[STEPS] += clock - first
    b.count[REQUEST_STEPS] += (clock - first) * decoding
    step[_FORM_US], step[_FREE_US] = form_us, free_us
    return verdict


@kernel
def _one_step(
    b: Batch, k: Cache, limits: Limits, q: Rows, p: Physics, tables: Tables, costs: Costs, asynchronous: bool,
    step: I64, context: F64, row: F64, out: F64, program: Program, constants: F64,
) -> int:
    """Form one batch at ``step[_FORM_US]`` and run it; or, with nothing to do, move on to when there is."""
    idle = step[_FORM_US] >= step[_FREE_US]
    deadline_us = step[_FORM_US] - limits.timeout_us
    if b.count[DONE] > 0 or b.count[OLDEST_US] <= deadline_us:
        lag = 1 if asynchronous and not idle else 0
        remove_slots(b, k, q, b.count[STEPS] - lag, deadline_us)
    if not _form_batch(b, k, limits, q, step, context):
        return _wait(b, q, step)
    _describe(b, p, tables, step, context, row, out)
    duration_us = whole_us(program(out, constants))
    if duration_us > LONGEST_STEP_US:
        return STEP_TOO_LONG
    overhead_us = step[_ADMITTED] * costs.scheduling_us + step[_PREEMPTED_NOW] * costs.preemption_us
    duration_us += np.int64(overhead_us)
    step[_START_US] = max(step[_FORM_US], step[_FREE_US])
    step[_END_US] = step[_START_US] + duration_us
    step[_FREE_US] = step[_END_US]
    step[_FORM_US] = step[_START_US] if asynchronous else step[_END_US]
    b.count[STEPS] += 1
    b.count[BUSY_US] += duration_us
    b.count[PREFILL_TOKENS] += step[_PREFILL_TOKENS]
    b.count[REQUEST_STEPS] += b.count[DECODING] + step[_PREFILLS]
    _deliver(b, q, step, costs, limits.timeout_us)
    return OK


@kernel
def _wait(b: Batch, q: Rows, step: I64) -> int:
    """Move an engine with nothing to schedule to the end of the running step, then to the next arrival."""
    if step[_PREEMPTED_NOW] > 0:
        return OK
    if step[_FORM_US] < step[_FREE_US]:
        step[_FORM_US] = step[_FREE_US]
    elif b.count[NEXT_ARRIVAL] < q.shape[0]:
        step[_FORM_US] = max(step[_FORM_US], q[b.count[NEXT_ARRIVAL]].enqueue_us)
    else:
        return STAGE_OVER
    return OK


@kernel
def run_stage(
    b: Batch, k: Cache, limits: Limits, q: Rows, p: Physics, tables: Tables, costs: Costs, asynchronous: bool,
    scratch: Scratch, program: Program, constants: F64,
) -> int:
    """Simulate one stage to its end; outcomes are in ``q``, counters in ``b``."""
    step, context, row, out = scratch.step, scratch.context, scratch.row, scratch.out
    fill_metadata(p, out, METADATA_START)
    verdict = OK
    while verdict == OK:
        verdict = _one_step(b, k, limits, q, p, tables, costs, asynchronous, step, context, row, out, program, constants)
        if verdict == OK:
            verdict = _decode_run(b, k, limits, q, p, tables, asynchronous, step, row, out, program, constants)
    return verdict
