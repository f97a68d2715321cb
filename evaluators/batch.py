"""The running list and the waiting queue of the engine, and everything the features need of them, kept incrementally.

A *slot* is a place in the running list, in admission order. A decoding slot stores its context relative to the
decode clock, which counts steps: ``context = base + clock``; a step then costs O(1) whatever the batch.
At most one slot, the last, is in the middle of its prefill, since a prefill takes all of the budget that is left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from evaluators.jit import kernel
from evaluators.kv_cache import FREE, I64, NOTHING, Cache, Rows, extend, give, hold, release, take

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
    kv_blocks: int
    prefix_caching: bool
    timeout_us: int


REQUEST = np.dtype(
    [
        (name, np.int64)
        for name in (
            "arrival_us", "enqueue_us", "group", "chain", "shared_blocks", "prompt_tokens", "output_tokens",
            "generated", "computed", "group_depth", "chain_depth", "blocks", "publishing", "first_us", "last_us",
            "status",
        )
    ]
)  # fmt: skip
"""A request: what arrives (up to output_tokens), then its state and outcome."""
SLOT = np.dtype([(name, np.int64) for name in ("request", "kind", "base", "end", "done_step", "arrival_us")])
"""A place in the running list: base context and last clock of a decoding one, step of a finished one."""


class Batch(NamedTuple):
    """State of the scheduler."""

    counts: I64
    """(COUNTERS,)"""
    slots: Rows
    """(max_num_seqs,) `SLOT` rows in admission order."""
    phase: I64
    """(block_size,) decoding slots whose base context has this remainder: who needs a block when."""
    preempted: I64
    """Stack of preempted requests; its top is the head of the waiting queue."""


def empty_batch(limits: Limits, requests: int) -> Batch:
    """Return an idle scheduler for a stage of ``requests`` requests."""
    count = np.zeros(COUNTERS, dtype=np.int64)
    count[NEXT_END] = count[OLDEST_US] = NEVER
    slots = np.zeros(limits.max_num_seqs + 1, dtype=SLOT)
    return Batch(count, slots, np.zeros(limits.block_size, np.int64), np.zeros(requests + 1, np.int64))


@kernel
def allocate(k: Cache, limits: Limits, q: Rows, r: int, tokens: int) -> None:
    """Give request ``r`` the blocks for its first ``tokens`` tokens and publish its full prompt blocks."""
    size = limits.block_size
    needed = (tokens + size - 1) // size - q[r].blocks
    if needed > 0:
        take(k, needed)
        q[r].blocks += needed
    full = min(tokens, q[r].prompt_tokens) // size
    shared = q[r].shared_blocks
    while q[r].publishing == 1 and q[r].group_depth + q[r].chain_depth < full:
        depth, chain_depth = q[r].group_depth, q[r].chain_depth
        if depth < shared:
            if k.chains[q[r].group].cached != depth:
                q[r].publishing = 0
            else:
                deeper = min(full, shared)
                extend(k, q[r].group, depth, deeper)
                q[r].group_depth = deeper
        elif k.chains[q[r].chain].cached != chain_depth:
            q[r].publishing = 0
        else:
            extend(k, q[r].chain, chain_depth, full - shared)
            q[r].chain_depth = full - shared


@kernel
def free_blocks_of(k: Cache, q: Rows, r: int) -> None:
    """Return every block of request ``r`` to the pool, its youngest first."""
    give(k, NOTHING, 0, q[r].blocks - q[r].group_depth - q[r].chain_depth)
    release(k, q[r].chain, q[r].chain_depth)
    release(k, q[r].group, q[r].group_depth)
    q[r].blocks = q[r].group_depth = q[r].chain_depth = 0


@kernel
def try_admit(k: Cache, limits: Limits, q: Rows, r: int, budget: int) -> int:
    """Admit request ``r`` with as much of its prefill as fits the budget; return its new tokens, 0 if no blocks."""
    size = limits.block_size
    tokens = q[r].prompt_tokens + q[r].generated
    group_hit = chain_hit = 0
    if limits.prefix_caching:
        most = min((tokens - 1) // size, q[r].prompt_tokens // size)
        group_hit = min(k.chains[q[r].group].cached, q[r].shared_blocks, most)
        if group_hit == q[r].shared_blocks:
            chain_hit = min(k.chains[q[r].chain].cached, most - group_hit)
    hit = group_hit + chain_hit
    chunk = min(tokens - hit * size, budget)
    needed = (hit * size + chunk + size - 1) // size - hit
    queued = max(0, group_hit - k.chains[q[r].group].deepest) + max(0, chain_hit - k.chains[q[r].chain].deepest)
    if needed + queued > k.pool[FREE]:
        return 0
    hold(k, q[r].group, group_hit)
    hold(k, q[r].chain, chain_hit)
    q[r].group_depth = group_hit
    q[r].chain_depth = chain_hit
    q[r].blocks = hit
    q[r].computed = hit * size
    q[r].publishing = 1 if limits.prefix_caching else 0
    allocate(k, limits, q, r, hit * size + chunk)
    return int(chunk)


@kernel
def context_of(b: Batch, slot: int) -> int:
    """Return the cached context of a decoding slot before the coming step."""
    return int(b.slots[slot].base + b.counts[CLOCK])


@kernel
def start_decoding(b: Batch, q: Rows, slot: int) -> None:
    """Turn a slot whose prefill has just been computed into a decoding one; call it after the clock has moved on."""
    r = b.slots[slot].request
    context, clock = q[r].computed, b.counts[CLOCK]
    b.slots[slot].kind = DECODE_SLOT
    b.slots[slot].base = context - clock
    b.slots[slot].end = clock + q[r].output_tokens - q[r].generated
    b.phase[b.slots[slot].base % b.phase.shape[0]] += 1
    b.counts[DECODING] += 1
    b.counts[KV_SUM] += context
    b.counts[KV_SQUARE_SUM] += context * context
    b.counts[KV_MAX] = max(b.counts[KV_MAX], context)
    b.counts[NEXT_END] = min(b.counts[NEXT_END], b.slots[slot].end)


@kernel
def stop_decoding(b: Batch, q: Rows, slot: int) -> None:
    """Take a decoding slot out of the sums; the longest context and the next end are left to `survey`."""
    context = context_of(b, slot)
    r = b.slots[slot].request
    size = b.phase.shape[0]
    q[r].computed = context
    q[r].blocks = (context + size - 1) // size
    q[r].generated = q[r].output_tokens - (b.slots[slot].end - b.counts[CLOCK])
    b.phase[b.slots[slot].base % b.phase.shape[0]] -= 1
    b.counts[DECODING] -= 1
    b.counts[KV_SUM] -= context
    b.counts[KV_SQUARE_SUM] -= context * context


@kernel
def survey(b: Batch) -> None:
    """Find the longest context and the next end among the decoding slots, and the oldest arrival, again."""
    longest, next_end, oldest_us = np.int64(-(2**62)), np.int64(NEVER), np.int64(NEVER)
    for slot in range(b.counts[SLOTS]):
        oldest_us = min(oldest_us, b.slots[slot].arrival_us)
        if b.slots[slot].kind == DECODE_SLOT:
            longest = max(longest, b.slots[slot].base)
            next_end = min(next_end, b.slots[slot].end)
    b.counts[KV_MAX] = longest + b.counts[CLOCK] if b.counts[DECODING] > 0 else 0
    b.counts[NEXT_END] = next_end
    b.counts[OLDEST_US] = oldest_us


@kernel
def add_slot(b: Batch, q: Rows, r: int) -> int:
    """Append request ``r`` to the running list as a prefilling slot and return the slot."""
    slot = b.counts[SLOTS]
    b.slots[slot].request = r
    b.slots[slot].kind = PREFILL_SLOT
    b.slots[slot].arrival_us = q[r].arrival_us
    b.counts[SLOTS] += 1
    b.counts[PREFILLING] += 1
    b.counts[OLDEST_US] = min(b.counts[OLDEST_US], q[r].arrival_us)
    return int(slot)


@kernel
def remove_slots(b: Batch, k: Cache, q: Rows, finished_by_step: int, deadline_us: int) -> None:
    """Drop the slots that finished up to a step, and those that have waited past the client's patience.

    ``deadline_us`` is the latest arrival that has timed out by now; a request that arrived later stays.
    """
    kept = 0
    for slot in range(b.counts[SLOTS]):
        r, kind = b.slots[slot].request, b.slots[slot].kind
        if kind == DONE_SLOT and b.slots[slot].done_step <= finished_by_step:
            b.counts[DONE] -= 1
            free_blocks_of(k, q, r)
            continue
        if kind != DONE_SLOT and b.slots[slot].arrival_us <= deadline_us:
            if kind == DECODE_SLOT:
                stop_decoding(b, q, slot)
            else:
                b.counts[PREFILLING] -= 1
            q[r].status = TIMED_OUT
            free_blocks_of(k, q, r)
            continue
        if kept != slot:
            b.slots[kept] = b.slots[slot]
        kept += 1
    b.counts[SLOTS] = kept
    survey(b)


@kernel
def preempt(b: Batch, k: Cache, q: Rows, slot: int) -> None:
    """Send the slot's request back to the head of the waiting queue without its blocks."""
    r = b.slots[slot].request
    if b.slots[slot].kind == DECODE_SLOT:
        stop_decoding(b, q, slot)
    else:
        b.counts[PREFILLING] -= 1
    free_blocks_of(k, q, r)
    q[r].computed = 0
    q[r].status = WAITING
    b.preempted[b.counts[PREEMPTED]] = r
    b.counts[PREEMPTED] += 1
    b.counts[PREEMPTIONS] += 1
    for later in range(slot, b.counts[SLOTS] - 1):
        b.slots[later] = b.slots[later + 1]
    b.counts[SLOTS] -= 1
    survey(b)


@kernel
def newest(b: Batch) -> int:
    """Return the last slot that has not finished."""
    slot = b.counts[SLOTS] - 1
    while b.slots[slot].kind == DONE_SLOT:
        slot -= 1
    return int(slot)


@kernel
def blocks_needed(b: Batch) -> int:
    """Return how many decoding slots begin a new block in the coming step."""
    return int(b.phase[-b.counts[CLOCK] % b.phase.shape[0]])


@kernel
def grow_decoding(b: Batch, k: Cache, q: Rows) -> int:
    """Give every decoding slot the block it needs, preempting the newest when there is none; return preemptions."""
    size = b.phase.shape[0]
    needed = blocks_needed(b)
    if needed == 0:
        return 0
    if needed <= k.pool[FREE]:
        take(k, needed)
        return 0
    preemptions, slot = 0, 0
    while slot < b.counts[SLOTS]:
        if b.slots[slot].kind == DECODE_SLOT and context_of(b, slot) % size == 0:
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
