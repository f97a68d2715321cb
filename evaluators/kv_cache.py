"""The paged KV cache with prefix reuse, as runs of blocks instead of single ones.

A *chain* is the sequence of full blocks of one prompt (or of the prefix that a group of prompts has in common);
only leading blocks can be hit. Requests hold a chain to some depth. What nobody holds waits in one queue, oldest
first, and is evicted from there; a freed chain is queued deepest block first, so chains shrink from their end.
Blocks that no other request can use are anonymous and only counted. All operations are O(runs touched).

Two liberties against vLLM's block pool: a block computed while an equal one is cached stays private to its request,
and so do all later blocks of that request; a preempted request can reuse its prompt's blocks, not its output's.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from evaluators import jit as jit

I64 = NDArray[np.int64]
NOTHING = -1
FREE, HEAD, TAIL, SPARE = 0, 1, 2, 3


class Cache(NamedTuple):
    """State of the block pool. Chains and queue nodes are rows of parallel arrays."""

    pool: I64
    """[free blocks, queue head, queue tail, first unused node]."""
    cached: I64
    """(chains,) leading blocks that are cached, held or free."""
    deepest: I64
    """(chains,) leading blocks that some running request holds."""
    holders: I64
    """(chains, depth + 1) requests that hold a chain to exactly this depth."""
    top: I64
    """(chains,) queue node with the shallowest free blocks of a chain."""
    chain: I64
    """(nodes,) chain of a queue node, or NOTHING for anonymous blocks."""
    low: I64
    high: I64
    """(nodes,) the node stands for blocks low..high-1, high-1 evicted first."""
    before: I64
    after: I64
    """(nodes,) neighbours in the queue; ``after`` also links unused nodes."""
    below: I64
    above: I64
    """(nodes,) the next deeper and the next shallower free run of the same chain."""


def empty_cache(blocks: int, chains: int, depth: int) -> Cache:
    """Return a pool of ``blocks`` free blocks and ``chains`` chains of at most ``depth`` blocks."""
    nodes = blocks + 2
    after = np.arange(1, nodes + 1, dtype=np.int64)
    after[-1] = NOTHING
    filled = [np.full(nodes, NOTHING, dtype=np.int64) for _ in range(5)]
    cache = Cache(
        pool=np.array([0, NOTHING, NOTHING, 0], dtype=np.int64),
        cached=np.zeros(chains, dtype=np.int64),
        deepest=np.zeros(chains, dtype=np.int64),
        holders=np.zeros((chains, depth + 1), dtype=np.int64),
        top=np.full(chains, NOTHING, dtype=np.int64),
        chain=filled[0],
        low=np.zeros(nodes, dtype=np.int64),
        high=np.zeros(nodes, dtype=np.int64),
        before=filled[1],
        after=after,
        below=filled[2],
        above=filled[3],
    )
    give(cache, NOTHING, 0, blocks)
    return cache


@njit(cache=True)
def _unlink(k: Cache, node: int) -> None:
    """Remove a node from the queue and from its chain's stack, and keep it for reuse."""
    before, after = k.before[node], k.after[node]
    if before == NOTHING:
        k.pool[HEAD] = after
    else:
        k.after[before] = after
    if after == NOTHING:
        k.pool[TAIL] = before
    else:
        k.before[after] = before
    if k.chain[node] != NOTHING:
        above, below = k.above[node], k.below[node]
        if above == NOTHING:
            k.top[k.chain[node]] = below
        else:
            k.below[above] = below
        if below != NOTHING:
            k.above[below] = above
    k.after[node] = k.pool[SPARE]
    k.pool[SPARE] = node


@njit(cache=True)
def give(k: Cache, chain: int, low: int, high: int) -> None:
    """Put blocks low..high-1 of a chain (or anonymous ones) at the young end of the queue."""
    if high <= low:
        return
    k.pool[FREE] += high - low
    tail = k.pool[TAIL]
    if chain == NOTHING and tail != NOTHING and k.chain[tail] == NOTHING:
        k.high[tail] += high - low
        return
    node = k.pool[SPARE]
    k.pool[SPARE] = k.after[node]
    k.chain[node] = chain
    k.low[node] = low
    k.high[node] = high
    k.before[node] = tail
    k.after[node] = NOTHING
    if tail == NOTHING:
        k.pool[HEAD] = node
    else:
        k.after[tail] = node
    k.pool[TAIL] = node
    if chain != NOTHING:
        below = k.top[chain]
        k.below[node] = below
        k.above[node] = NOTHING
        if below != NOTHING:
            k.above[below] = node
        k.top[chain] = node


@njit(cache=True)
def take(k: Cache, blocks: int) -> None:
    """Take blocks from the old end of the queue, evicting what they held; the caller has checked that they exist."""
    k.pool[FREE] -= blocks
    while blocks > 0:
        node = k.pool[HEAD]
        size = k.high[node] - k.low[node]
        taken = min(size, blocks)
        k.high[node] -= taken
        if k.chain[node] != NOTHING:
            k.cached[k.chain[node]] = k.high[node]
        if taken == size:
            _unlink(k, node)
        blocks -= taken


@njit(cache=True)
def hold(k: Cache, chain: int, depth: int) -> None:
    """Let one more request hold the leading ``depth`` cached blocks, out of the queue if they were free."""
    k.holders[chain, depth] += 1
    deepest = k.deepest[chain]
    if depth <= deepest:
        return
    k.pool[FREE] -= depth - deepest
    k.deepest[chain] = depth
    node = k.top[chain]
    while node != NOTHING and k.low[node] < depth:
        below = k.below[node]
        if k.high[node] <= depth:
            _unlink(k, node)
        else:
            k.low[node] = depth
        node = below


@njit(cache=True)
def release(k: Cache, chain: int, depth: int) -> None:
    """Let one request go; blocks that no other request holds join the queue."""
    k.holders[chain, depth] -= 1
    if depth < k.deepest[chain] or k.holders[chain, depth] > 0:
        return
    held = depth
    while held > 0 and k.holders[chain, held] == 0:
        held -= 1
    k.deepest[chain] = held
    give(k, chain, held, depth)


@njit(cache=True)
def extend(k: Cache, chain: int, depth: int, deeper: int) -> None:
    """Publish blocks depth..deeper-1 of a chain whose cached end is ``depth``, by the request that holds it there."""
    k.holders[chain, depth] -= 1
    k.holders[chain, deeper] += 1
    k.cached[chain] = deeper
    k.deepest[chain] = deeper
