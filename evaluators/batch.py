"""The running list and the waiting queue of the engine, and everything the features need of them, kept incrementally.

A *slot* is a place in the running list, in admission order. A decoding slot stores its context relative to the
decode clock, which counts steps: ``context = base + clock``; a step then costs O(1) whatever the batch.
At most one slot, the last, is in the middle of its prefill, since a prefill takes all of the budget that is left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from evaluators import jit as jit
from evaluators.kv_cache import FREE, I64, NOTHING, Cache, extend, give, hold, release, take

B8 = NDArray[np.int8]
(
    SLOTS, DECODING, DONE, CLOCK, KV_SUM, KV_SQUARE_SUM, KV_MAX, NEXT_END, PREFILLING, PREEMPTED, NEXT_ARRIVAL,
    STEPS, PREFILL_TOKENS, ADMISSIONS, PREEMPTIONS, BUSY_US, REQUEST_STEPS, OLDEST_US,
) = range(18)  # fmt: skip
COUNTERS = 18
DECODE_SLOT, DONE_SLOT, PREFILL_SLOT = 0, 1, 2
NEVER = np.int64(2**62)
WAITING, RUNNING, FINISHED, TIMED_OUT, TOO_LARGE = 0, 1, 2, 3, 4


class Limits(NamedTuple):
    """The engine settings that the scheduler obeys."""

    max_num_seqs: int
    max_num_batched_tokens: int
    block_size: int
    prefix_caching: bool
    groups: int
    timeout_us: int


class Requests(NamedTuple):
    """One row per request of a stage; the first six are given, the rest is state and outcome."""

    arrival_us: I64
    enqueue_us: I64
    group: I64
    chain: I64
    shared_blocks: I64
    prompt_tokens: I64
    output_tokens: I64
    generated: I64
    computed: I64
    group_depth: I64
    chain_depth: I64
    blocks: I64
    publishing: I64
    first_us: I64
    last_us: I64
    status: I64


class Batch(NamedTuple):
    """State of the scheduler: counters, and per slot its request, kind, base context and last clock."""

    count: I64
    request: I64
    kind: I64
    base: I64
    end: I64
    done_step: I64
    phase: I64
    """(block_size,) decoding slots whose base context has this remainder: who needs a block when."""
    preempted: I64
    """Stack of preempted requests; its top is the head of the waiting queue."""


def empty_batch(limits: Limits, requests: int) -> Batch:
    """Return an idle scheduler for a stage of ``requests`` requests."""
    slots = [np.zeros(limits.max_num_seqs + 1, dtype=np.int64) for _ in range(5)]
    count = np.zeros(COUNTERS, dtype=np.int64)
    count[NEXT_END] = count[OLDEST_US] = NEVER
    return Batch(count, *slots, np.zeros(limits.block_size, np.int64), np.zeros(requests + 1, np.int64))


@njit(cache=True)
def allocate(k: Cache, limits: Limits, q: Requests, r: int, tokens: int) -> None:
    """Give request ``r`` the blocks for its first ``tokens`` tokens and publish its full prompt blocks."""
    size = limits.block_size
    needed = (tokens + size - 1) // size - q.blocks[r]
    if needed > 0:
        take(k, needed)
        q.blocks[r] += needed
    full = min(tokens, q.prompt_tokens[r]) // size
    shared = q.shared_blocks[r]
    while q.publishing[r] == 1 and q.group_depth[r] + q.chain_depth[r] < full:
        depth, chain_depth = q.group_depth[r], q.chain_depth[r]
        if depth < shared:
            if k.cached[q.group[r]] != depth:
                q.publishing[r] = 0
            else:
                deeper = min(full, shared)
                extend(k, q.group[r], depth, deeper)
                q.group_depth[r] = deeper
        elif k.cached[q.chain[r]] != chain_depth:
            q.publishing[r] = 0
        else:
            extend(k, q.chain[r], chain_depth, full - shared)
            q.chain_depth[r] = full - shared


@njit(cache=True)
def free_blocks_of(k: Cache, q: Requests, r: int) -> None:
    """Return every block of request ``r`` to the pool, its youngest first."""
    give(k, NOTHING, 0, q.blocks[r] - q.group_depth[r] - q.chain_depth[r])
    release(k, q.chain[r], q.chain_depth[r])
    release(k, q.group[r], q.group_depth[r])
    q.blocks[r] = q.group_depth[r] = q.chain_depth[r] = 0


@njit(cache=True)
def try_admit(k: Cache, limits: Limits, q: Requests, r: int, budget: int) -> int:
    """Admit request ``r`` with as much of its prefill as fits the budget; return its new tokens, 0 if no blocks."""
    size = limits.block_size
    tokens = q.prompt_tokens[r] + q.generated[r]
    group_hit = chain_hit = 0
    if limits.prefix_caching:
        most = min((tokens - 1) // size, q.prompt_tokens[r] // size)
        group_hit = min(k.cached[q.group[r]], min(q.shared_blocks[r], most))
        if group_hit == q.shared_blocks[r]:
            chain_hit = min(k.cached[q.chain[r]], most - group_hit)
    hit = group_hit + chain_hit
    chunk = min(tokens - hit * size, budget)
    needed = (hit * size + chunk + size - 1) // size - hit
    queued = max(0, group_hit - k.deepest[q.group[r]]) + max(0, chain_hit - k.deepest[q.chain[r]])
    if needed + queued > k.pool[FREE]:
        return 0
    hold(k, q.group[r], group_hit)
    hold(k, q.chain[r], chain_hit)
    q.group_depth[r] = group_hit
    q.chain_depth[r] = chain_hit
    q.blocks[r] = hit
    q.computed[r] = hit * size
    q.publishing[r] = 1 if limits.prefix_caching else 0
    allocate(k, limits, q, r, hit * size + chunk)
    return chunk


@njit(cache=True)
def context_of(b: Batch, slot: int) -> int:
    """Return the cached context of a decoding slot before the coming step."""
    return b.base[slot] + b.count[CLOCK]


@njit(cache=True)
def start_decoding(b: Batch, q: Requests, slot: int) -> None:
    """Turn a slot whose prefill has just been computed into a decoding one; call it after the clock has moved on."""
    r = b.request[slot]
    context, clock = q.computed[r], b.count[CLOCK]
    b.kind[slot] = DECODE_SLOT
    b.base[slot] = context - clock
    b.end[slot] = clock + q.output_tokens[r] - q.generated[r]
    b.phase[b.base[slot] % b.phase.shape[0]] += 1
    b.count[DECODING] += 1
    b.count[KV_SUM] += context
    b.count[KV_SQUARE_SUM] += context * context
    b.count[KV_MAX] = max(b.count[KV_MAX], context)
    b.count[NEXT_END] = min(b.count[NEXT_END], b.end[slot])


@njit(cache=True)
def stop_decoding(b: Batch, q: Requests, slot: int) -> None:
    """Take a decoding slot out of the sums; the longest context and the next end are left to `survey`."""
    context = context_of(b, slot)
    r = b.request[slot]
    size = b.phase.shape[0]
    q.computed[r] = context
    q.blocks[r] = (context + size - 1) // size
    q.generated[r] = q.output_tokens[r] - (b.end[slot] - b.count[CLOCK])
    b.phase[b.base[slot] % b.phase.shape[0]] -= 1
    b.count[DECODING] -= 1
    b.count[KV_SUM] -= context
    b.count[KV_SQUARE_SUM] -= context * context


@njit(cache=True)
def survey(b: Batch, q: Requests) -> None:
    """Find the longest context and the next end among the decoding slots, and the oldest arrival, again."""
    longest, next_end, oldest_us = np.int64(-(2**62)), np.int64(NEVER), np.int64(NEVER)
    for slot in range(b.count[SLOTS]):
        oldest_us = min(oldest_us, q.arrival_us[b.request[slot]])
        if b.kind[slot] == DECODE_SLOT:
            longest = max(longest, b.base[slot])
            next_end = min(next_end, b.end[slot])
    b.count[KV_MAX] = longest + b.count[CLOCK] if b.count[DECODING] > 0 else 0
    b.count[NEXT_END] = next_end
    b.count[OLDEST_US] = oldest_us


@njit(cache=True)
def add_slot(b: Batch, q: Requests, r: int) -> int:
    """Append request ``r`` to the running list as a prefilling slot and return the slot."""
    slot = b.count[SLOTS]
    b.request[slot] = r
    b.kind[slot] = PREFILL_SLOT
    b.count[SLOTS] += 1
    b.count[PREFILLING] += 1
    b.count[OLDEST_US] = min(b.count[OLDEST_US], q.arrival_us[r])
    return slot


@njit(cache=True)
def remove_slots(b: Batch, k: Cache, q: Requests, finished_by_step: int, deadline_us: int) -> None:
    """Drop the slots that finished up to a step, and those that have waited past the client's patience.

    ``deadline_us`` is the latest arrival that has timed out by now; a request that arrived later stays.
    """
    kept = 0
    for slot in range(b.count[SLOTS]):
        r = b.request[slot]
        kind = b.kind[slot]
        if kind == DONE_SLOT and b.done_step[slot] <= finished_by_step:
            b.count[DONE] -= 1
            free_blocks_of(k, q, r)
            continue
        if kind != DONE_SLOT and q.arrival_us[r] <= deadline_us:
            if kind == DECODE_SLOT:
                stop_decoding(b, q, slot)
            else:
                b.count[PREFILLING] -= 1
            q.status[r] = TIMED_OUT
            free_blocks_of(k, q, r)
            continue
        if kept != slot:
            b.request[kept] = r
            b.kind[kept] = kind
            b.base[kept] = b.base[slot]
            b.end[kept] = b.end[slot]
            b.done_step[kept] = b.done_step[slot]
        kept += 1
    b.count[SLOTS] = kept
    survey(b, q)


@njit(cache=True)
def preempt(b: Batch, k: Cache, q: Requests, slot: int) -> None:
    """Send the slot's request back to the head of the waiting queue without its blocks."""
    r = b.request[slot]
    if b.kind[slot] == DECODE_SLOT:
        stop_decoding(b, q, slot)
    else:
        b.count[PREFILLING] -= 1
    free_blocks_of(k, q, r)
    q.computed[r] = 0
    q.status[r] = WAITING
    b.preempted[b.count[PREEMPTED]] = r
    b.count[PREEMPTED] += 1
    b.count[PREEMPTIONS] += 1
    for later in range(slot, b.count[SLOTS] - 1):
        b.request[later] = b.request[later + 1]
        b.kind[later] = b.kind[later + 1]
        b.base[later] = b.base[later + 1]
        b.end[later] = b.end[later + 1]
        b.done_step[later] = b.done_step[later + 1]
    b.count[SLOTS] -= 1
    survey(b, q)


@njit(cache=True)
def newest(b: Batch) -> int:
    """Return the last slot that has not finished."""
    slot = b.count[SLOTS] - 1
    while b.kind[slot] == DONE_SLOT:
        slot -= 1
    return slot


@njit(cache=True)
def blocks_needed(b: Batch) -> int:
    """Return how many decoding slots begin a new block in the coming step."""
    return b.phase[-b.count[CLOCK] % b.phase.shape[0]]


@njit(cache=True)
def grow_decoding(b: Batch, k: Cache, q: Requests) -> int:
    """Give every decoding slot the block it needs, preempting the newest when there is none; return preemptions."""
    size = b.phase.shape[0]
    needed = blocks_needed(b)
    if needed == 0:
        return 0
    if needed <= k.pool[FREE]:
        take(k, needed)
        return 0
    preemptions, slot = 0, 0
    while slot < b.count[SLOTS]:
        if b.kind[slot] == DECODE_SLOT and context_of(b, slot) % size == 0:
            victim = NOTHING
            while k.pool[FREE] == 0 and victim != slot:
                victim = newest(b)
                preempt(b, k, q, victim)
                preemptions += 1
            if victim == slot:
                return preemptions
            take(k, 1)
        slot += 1
    return preemptions
