"""What a step computes: decoding requests first, then the prefill under way, then waiting requests in order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evaluators.batch import (
    ADMISSIONS,
    DECODING,
    NEXT_ARRIVAL,
    PREEMPTED,
    PREFILLING,
    RUNNING,
    SLOTS,
    TIMED_OUT,
    TOO_LARGE,
    Batch,
    Limits,
    add_slot,
    allocate,
    grow_decoding,
    newest,
    preempt,
    try_admit,
)
from evaluators.features import BATCH_FIELDS, FEATURE_COUNT
from evaluators.jit import kernel
from evaluators.kv_cache import FREE, I64, NOTHING, Cache, Rows

F64 = NDArray[np.float64]
FORM_US, FREE_US, START_US, END_US, PREFILLS, STEP_PREFILL_TOKENS, PAIRS, PREEMPTED_NOW, ADMITTED = range(9)
TRACE_COLUMNS = ("start_us", "duration_us", "prefill_tokens", "decode_reqs", "preemptions")


class Scheduler(NamedTuple):
    """Everything that decides what a step computes."""

    batch: Batch
    cache: Cache
    limits: Limits
    requests: Rows
    """(n,) `REQUEST` rows in order of enqueueing."""


class Scratch(NamedTuple):
    """Working memory of one simulation."""

    step: I64
    """What is being formed and run, by the ``FORM_US`` .. ``ADMITTED`` positions."""
    context: F64
    """Cached context of the prefilling requests: sum, sum of squares, longest."""
    row: F64
    """The step's `BATCH_FIELDS`."""
    out: F64
    """The step's features."""
    trace: I64
    """(steps, len(TRACE_COLUMNS)) record of the first steps, for tests and plots; of no steps as a rule."""


def empty_scratch(traced_steps: int = 0) -> Scratch:
    """Return zeroed working memory."""
    trace = np.zeros((traced_steps, len(TRACE_COLUMNS)), dtype=np.int64)
    step = np.zeros(9, dtype=np.int64)
    return Scratch(step, np.zeros(3), np.zeros(len(BATCH_FIELDS)), np.zeros(FEATURE_COUNT), trace)


@kernel
def _next_waiting(b: Batch, q: Rows, now_us: int, timeout_us: int) -> int:
    """Return the head of the waiting queue after dropping those that timed out, NOTHING if it is empty."""
    while b.counts[PREEMPTED] > 0:
        r = b.preempted[b.counts[PREEMPTED] - 1]
        if q[r].arrival_us + timeout_us > now_us:
            return int(r)
        q[r].status = TIMED_OUT
        b.counts[PREEMPTED] -= 1
    while b.counts[NEXT_ARRIVAL] < q.shape[0]:
        r = b.counts[NEXT_ARRIVAL]
        if q[r].enqueue_us > now_us:
            return NOTHING
        if q[r].arrival_us + timeout_us > now_us:
            return int(r)
        q[r].status = TIMED_OUT
        b.counts[NEXT_ARRIVAL] += 1
    return NOTHING


@kernel
def _pop_waiting(b: Batch) -> None:
    if b.counts[PREEMPTED] > 0:
        b.counts[PREEMPTED] -= 1
    else:
        b.counts[NEXT_ARRIVAL] += 1


@kernel
def _add_prefill(w: Scratch, cached: int, tokens: int) -> None:
    """Count a prefill chunk of ``tokens`` behind ``cached`` tokens in the step being formed."""
    w.step[PREFILLS] += 1
    w.step[STEP_PREFILL_TOKENS] += tokens
    # twice the token pairs, to stay in whole numbers
    w.step[PAIRS] += tokens * (2 * cached + tokens + 1)
    w.context[0] += cached
    w.context[1] += float(cached) * float(cached)
    w.context[2] = max(w.context[2], float(cached))


@kernel
def _continue_prefill(s: Scheduler, w: Scratch) -> None:
    """Give the request in the middle of its prefill, always the newest, what is left of the budget."""
    b, q = s.batch, s.requests
    slot = newest(b)
    r = b.slots[slot].request
    size = s.limits.block_size
    cached = q[r].computed
    left = q[r].prompt_tokens + q[r].generated - cached
    chunk = min(left, s.limits.max_num_batched_tokens - b.counts[DECODING])
    if (cached + chunk + size - 1) // size - q[r].blocks > s.cache.pool[FREE]:
        preempt(b, s.cache, q, slot)
        w.step[PREEMPTED_NOW] += 1
        return
    _add_prefill(w, cached, chunk)
    allocate(s.cache, s.limits, q, r, cached + chunk)
    q[r].computed += chunk


@kernel
def _admit(s: Scheduler, w: Scratch) -> None:
    """Admit waiting requests in order while seats, budget and blocks last."""
    b, q, limits = s.batch, s.requests, s.limits
    budget = limits.max_num_batched_tokens - b.counts[DECODING] - w.step[STEP_PREFILL_TOKENS]
    while b.counts[SLOTS] < limits.max_num_seqs and budget > 0:
        r = _next_waiting(b, q, w.step[FORM_US], limits.timeout_us)
        if r == NOTHING:
            return
        if q[r].prompt_tokens + q[r].generated > limits.kv_blocks * limits.block_size:
            q[r].status = TOO_LARGE
            _pop_waiting(b)
            continue
        chunk = try_admit(s.cache, limits, q, r, budget)
        if chunk == 0:
            return
        _pop_waiting(b)
        add_slot(b, q, r)
        q[r].status = RUNNING
        b.counts[ADMISSIONS] += 1
        w.step[ADMITTED] += 1
        _add_prefill(w, q[r].computed, chunk)
        q[r].computed += chunk
        budget -= chunk


@kernel
def form_batch(s: Scheduler, w: Scratch) -> bool:
    """Decide what the coming step computes; False if there is nothing to do."""
    step, context = w.step, w.context
    step[PREFILLS] = step[STEP_PREFILL_TOKENS] = step[PAIRS] = step[PREEMPTED_NOW] = step[ADMITTED] = 0
    context[0] = context[1] = context[2] = 0.0
    if s.batch.counts[DECODING] > 0:
        step[PREEMPTED_NOW] = grow_decoding(s.batch, s.cache, s.requests)
    if s.batch.counts[PREFILLING] > 0:
        _continue_prefill(s, w)
    if step[PREEMPTED_NOW] == 0:
        _admit(s, w)
    return bool(s.batch.counts[DECODING] + step[PREFILLS] > 0)
