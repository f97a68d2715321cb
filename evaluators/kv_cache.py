"""The paged KV cache with prefix reuse, as runs of blocks instead of single ones.

A *chain* is the sequence of full blocks of one prompt (or of the prefix that a group of prompts has in common);
only leading blocks can be hit. Requests hold a chain to some depth. What nobody holds waits in one queue, oldest
first, and is evicted from there; a freed chain is queued deepest block first, so chains shrink from their end.
Blocks that no other request can use are anonymous and only counted. All operations are O(runs touched).

Two liberties against vLLM's block pool: a block computed while an equal one is cached stays private to its request,
and so do all later blocks of that request; a preempted request can reuse its prompt's blocks, not its output's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evaluators.jit import kernel

I64 = NDArray[np.int64]
NOTHING = -1
FREE, HEAD, TAIL, SPARE = 0, 1, 2, 3


NODE = np.dtype(
    [
        ("chain", np.int64),  # whose blocks these are, or NOTHING for anonymous ones
        ("low", np.int64),  # the node stands for blocks low..high-1, high-1 evicted first
        ("high", np.int64),
        ("before", np.int64),  # neighbours in the queue; ``after`` also links unused nodes
        ("after", np.int64),
        ("below", np.int64),  # the next deeper and the next shallower free run of the same chain
        ("above", np.int64),
    ]
)
CHAIN = np.dtype(
    [
        ("cached", np.int64),  # leading blocks that are cached, held or free
        ("deepest", np.int64),  # leading blocks that some running request holds
        ("top", np.int64),  # queue node with the shallowest free blocks
    ]
)
Rows = NDArray[Any]
"""Structured array; one array instead of a column each keeps calls between kernels cheap."""


class Cache(NamedTuple):
    """State of the block pool."""

    pool: I64
    """[free blocks, queue head, queue tail, first unused node]."""
    chains: Rows
    """(chains,) `CHAIN` rows."""
    holders: I64
    """(chains, depth + 1) requests that hold a chain to exactly this depth."""
    nodes: Rows
    """(nodes,) `NODE` rows: the queue of free runs."""


def empty_cache(blocks: int, chains: int, depth: int) -> Cache:
    """Return a pool of ``blocks`` free blocks and ``chains`` chains of at most ``depth`` blocks."""
    nodes = np.full(blocks + 2, NOTHING, dtype=np.int64).astype(NODE)
    nodes["after"] = np.arange(1, blocks + 3)
    nodes["after"][-1] = NOTHING
    rows = np.zeros(chains, dtype=CHAIN)
    rows["top"] = NOTHING
    pool = np.array([0, NOTHING, NOTHING, 0], dtype=np.int64)
    cache = Cache(pool, rows, np.zeros((chains, depth + 1), dtype=np.int64), nodes)
    give(cache, NOTHING, 0, blocks)
    return cache


@kernel
def _unlink(k: Cache, node: int) -> None:
    """Remove a node from the queue and from its chain's stack, and keep it for reuse."""
    before, after = k.nodes[node].before, k.nodes[node].after
    if before == NOTHING:
        k.pool[HEAD] = after
    else:
        k.nodes[before].after = after
    if after == NOTHING:
        k.pool[TAIL] = before
    else:
        k.nodes[after].before = before
    if k.nodes[node].chain != NOTHING:
        above, below = k.nodes[node].above, k.nodes[node].below
        if above == NOTHING:
            k.chains[k.nodes[node].chain].top = below
        else:
            k.nodes[above].below = below
        if below != NOTHING:
            k.nodes[below].above = above
    k.nodes[node].after = k.pool[SPARE]
    k.pool[SPARE] = node


@kernel
def give(k: Cache, chain: int, low: int, high: int) -> None:
    """Put blocks low..high-1 of a chain (or anonymous ones) at the young end of the queue."""
    if high <= low:
        return
    k.pool[FREE] += high - low
    tail = k.pool[TAIL]
    if chain == NOTHING and tail != NOTHING and k.nodes[tail].chain == NOTHING:
        k.nodes[tail].high += high - low
        return
    node = k.pool[SPARE]
    k.pool[SPARE] = k.nodes[node].after
    k.nodes[node].chain = chain
    k.nodes[node].low = low
    k.nodes[node].high = high
    k.nodes[node].before = tail
    k.nodes[node].after = NOTHING
    if tail == NOTHING:
        k.pool[HEAD] = node
    else:
        k.nodes[tail].after = node
    k.pool[TAIL] = node
    if chain != NOTHING:
        below = k.chains[chain].top
        k.nodes[node].below = below
        k.nodes[node].above = NOTHING
        if below != NOTHING:
            k.nodes[below].above = node
        k.chains[chain].top = node


@kernel
def take(k: Cache, blocks: int) -> None:
    """Take blocks from the old end of the queue, evicting what they held; the caller has checked that they exist."""
    k.pool[FREE] -= blocks
    while blocks > 0:
        node = k.pool[HEAD]
        size = k.nodes[node].high - k.nodes[node].low
        taken = min(size, blocks)
        k.nodes[node].high -= taken
        if k.nodes[node].chain != NOTHING:
            k.chains[k.nodes[node].chain].cached = k.nodes[node].high
        if taken == size:
            _unlink(k, node)
        blocks -= taken


@kernel
def hold(k: Cache, chain: int, depth: int) -> None:
    """Let one more request hold the leading ``depth`` cached blocks, out of the queue if they were free."""
    k.holders[chain, depth] += 1
    deepest = k.chains[chain].deepest
    if depth <= deepest:
        return
    k.pool[FREE] -= depth - deepest
    k.chains[chain].deepest = depth
    node = k.chains[chain].top
    while node != NOTHING and k.nodes[node].low < depth:
        below = k.nodes[node].below
        if k.nodes[node].high <= depth:
            _unlink(k, node)
        else:
            k.nodes[node].low = depth
        node = below


@kernel
def release(k: Cache, chain: int, depth: int) -> None:
    """Let one request go; blocks that no other request holds join the queue."""
    k.holders[chain, depth] -= 1
    if depth < k.chains[chain].deepest or k.holders[chain, depth] > 0:
        return
    held = depth
    while held > 0 and k.holders[chain, held] == 0:
        held -= 1
    k.chains[chain].deepest = held
    give(k, chain, held, depth)


@kernel
def extend(k: Cache, chain: int, depth: int, deeper: int) -> None:
    """Publish blocks depth..deeper-1 of a chain whose cached end is ``depth``, by the request that holds it there."""
    k.holders[chain, depth] -= 1
    k.holders[chain, deeper] += 1
    k.chains[chain].cached = deeper
    k.chains[chain].deepest = deeper
