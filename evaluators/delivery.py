"""What a step leaves behind: tokens handed out one after the other, in batch order, and requests that are done."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evaluators.batch import (
    CLOCK,
    DECODE_SLOT,
    DECODING,
    DONE,
    DONE_SLOT,
    FINISHED,
    KV_MAX,
    KV_SQUARE_SUM,
    KV_SUM,
    NEXT_END,
    PREFILLING,
    SLOTS,
    STEPS,
    TIMED_OUT,
    start_decoding,
    stop_decoding,
    survey,
)
from evaluators.jit import kernel
from evaluators.kv_cache import NOTHING
from evaluators.scheduler import END_US, PREFILLS, Scheduler, Scratch


class Costs(NamedTuple):
    """What a program says beside the step time [us]."""

    output_token_us: float
    scheduling_us: float
    preemption_us: float
    completion_us: int
    """Client-side cost at the end of a request, the same for every program."""


@kernel
def _end_request(s: Scheduler, costs: Costs, slot: int, at_us: int) -> None:
    b, q = s.batch, s.requests
    r = b.slots[slot].request
    q[r].last_us = at_us + costs.completion_us
    q[r].status = FINISHED if q[r].last_us - q[r].arrival_us <= s.limits.timeout_us else TIMED_OUT
    b.slots[slot].kind = DONE_SLOT
    b.slots[slot].done_step = b.counts[STEPS]
    b.counts[DONE] += 1


@kernel
def _finish_decoding(s: Scheduler, costs: Costs, end_us: int) -> None:
    """Mark the slots whose last token this step produced; they keep seat and blocks until the engine sees it."""
    b = s.batch
    rank = 0
    for slot in range(b.counts[SLOTS]):
        if b.slots[slot].kind == DECODE_SLOT:
            rank += 1
            if b.slots[slot].end == b.counts[CLOCK]:
                stop_decoding(b, s.requests, slot)
                _end_request(s, costs, slot, end_us + np.int64(rank * costs.output_token_us))
    survey(b)


@kernel
def _finish_prefills(s: Scheduler, costs: Costs, end_us: int, decoding: int) -> None:
    """Hand out the first token of every request whose prefill is complete and let it decode."""
    b, q = s.batch, s.requests
    rank = decoding
    for slot in range(b.counts[SLOTS] - b.counts[PREFILLING], b.counts[SLOTS]):
        r = b.slots[slot].request
        if q[r].computed < q[r].prompt_tokens + q[r].generated:
            continue
        rank += 1
        q[r].generated += 1
        b.counts[PREFILLING] -= 1
        at_us = end_us + np.int64(rank * costs.output_token_us)
        if q[r].first_us == NOTHING:
            q[r].first_us = at_us
        if q[r].generated >= q[r].output_tokens:
            _end_request(s, costs, slot, at_us)
        else:
            start_decoding(b, q, slot)


@kernel
def deliver(s: Scheduler, costs: Costs, w: Scratch) -> None:
    """Move the clock on after a step: new tokens, first tokens, finished requests."""
    count = s.batch.counts
    finishing = count[NEXT_END] == count[CLOCK] + 1
    decoding = count[DECODING]
    count[CLOCK] += 1
    count[KV_SQUARE_SUM] += 2 * count[KV_SUM] + decoding
    count[KV_SUM] += decoding
    count[KV_MAX] += 1 if decoding > 0 else 0
    if finishing:
        _finish_decoding(s, costs, w.step[END_US])
    if w.step[PREFILLS] > 0:
        _finish_prefills(s, costs, w.step[END_US], decoding)
