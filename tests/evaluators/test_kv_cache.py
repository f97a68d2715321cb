"""The cache of block runs against a cache of single blocks, and its rules one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from evaluators.kv_cache import FREE, HEAD, NOTHING, Cache, empty_cache, extend, give, hold, release, take
from evaluators.reference_pool import Block, Pool, Tokens

BLOCKS, CHAINS, DEPTH = 12, 3, 6


def queue_of(cache: Cache) -> list[tuple[int, int]]:
    """Return the free blocks, oldest first, as (chain, place); anonymous ones as (NOTHING, 0)."""
    blocks, node = [], int(cache.pool[HEAD])
    while node != NOTHING:
        row = cache.nodes[node]
        chain = int(row["chain"])
        places = range(int(row["high"]) - 1, int(row["low"]) - 1, -1)
        blocks += [(chain, place if chain != NOTHING else 0) for place in places]
        node = int(row["after"])
    return blocks


def text(chain: int, place: int) -> Tokens:
    return (("chain", chain, place),)


class RunsAgainstBlocks(RuleBasedStateMachine):
    """Requests hold, extend and release chains, and take anonymous blocks, in both caches."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = empty_cache(BLOCKS, CHAINS, DEPTH)
        self.pool = Pool(BLOCKS)
        self.held: list[tuple[int, list[Block]]] = []
        self.anonymous: list[Block] = []

    def cached(self, chain: int) -> list[Block]:
        found = [self.pool.cached.get(text(chain, place)) for place in range(DEPTH)]
        return [block for block in found[: found.index(None) if None in found else DEPTH] if block is not None]

    @rule(chain=st.integers(0, CHAINS - 1), wanted=st.integers(0, DEPTH))
    def hold_a_prefix(self, chain: int, wanted: int) -> None:
        blocks = self.cached(chain)[:wanted]
        hold(self.cache, chain, len(blocks))
        for block in blocks:
            self.pool.hold(block)
        self.held.append((chain, blocks))

    @precondition(lambda self: self.held and self.pool.free)
    @rule(data=st.data())
    def compute_more_of_a_prompt(self, data: st.DataObject) -> None:
        chain, blocks = data.draw(st.sampled_from(self.held))
        depth = len(blocks)
        if depth != len(self.cached(chain)) or depth == DEPTH:
            return
        more = data.draw(st.integers(1, min(DEPTH - depth, len(self.pool.free))))
        take(self.cache, more)
        extend(self.cache, chain, depth, depth + more)
        for place in range(depth, depth + more):
            block = self.pool.take()
            block.key = text(chain, place)
            self.pool.cached[block.key] = block
            blocks.append(block)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def let_go(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, len(self.held) - 1))
        chain, blocks = self.held.pop(place)
        release(self.cache, chain, len(blocks))
        for block in reversed(blocks):
            self.pool.release(block)

    @precondition(lambda self: self.pool.free)
    @rule(data=st.data())
    def take_for_output(self, data: st.DataObject) -> None:
        number = data.draw(st.integers(1, len(self.pool.free)))
        take(self.cache, number)
        self.anonymous += [self.pool.take() for _ in range(number)]

    @precondition(lambda self: self.anonymous)
    @rule()
    def give_output_back(self) -> None:
        give(self.cache, NOTHING, 0, len(self.anonymous))
        for block in self.anonymous:
            self.pool.release(block)
        self.anonymous = []

    @invariant()
    def both_have_the_same_queue(self) -> None:
        want = [(key[0][1], key[0][2]) if (key := block.key) else (NOTHING, 0) for block in self.pool.free]
        assert queue_of(self.cache) == want
        assert self.cache.pool[FREE] == len(want)

    @invariant()
    def both_cache_the_same_prefixes(self) -> None:
        for chain in range(CHAINS):
            assert self.cache.chains[chain]["cached"] == len(self.cached(chain))
            held = max((len(blocks) for of, blocks in self.held if of == chain), default=0)
            assert self.cache.chains[chain]["deepest"] == held


TestRunsAgainstBlocks = RunsAgainstBlocks.TestCase
TestRunsAgainstBlocks.settings = settings(
    derandomize=True, max_examples=150, stateful_step_count=40, deadline=None, database=None
)


def filled(depth: int) -> Cache:
    """Return a cache in which one request has computed chain 0 and gone."""
    cache = empty_cache(BLOCKS, CHAINS, DEPTH)
    hold(cache, 0, 0)
    take(cache, depth)
    extend(cache, 0, 0, depth)
    release(cache, 0, depth)
    return cache


def test_a_freed_prompt_is_evicted_from_its_end() -> None:
    cache = filled(4)
    assert queue_of(cache)[-4:] == [(0, 3), (0, 2), (0, 1), (0, 0)]
    take(cache, BLOCKS - 4 + 1)
    assert cache.chains[0]["cached"] == 3


def test_a_prompt_that_is_held_is_not_evicted() -> None:
    cache = filled(4)
    hold(cache, 0, 3)
    assert cache.pool[FREE] == BLOCKS - 3
    take(cache, BLOCKS - 3)
    assert cache.chains[0]["cached"] == 3
    assert queue_of(cache) == []


def test_a_second_holder_costs_no_block() -> None:
    cache = filled(4)
    hold(cache, 0, 4)
    hold(cache, 0, 4)
    assert cache.pool[FREE] == BLOCKS - 4
    release(cache, 0, 4)
    assert cache.pool[FREE] == BLOCKS - 4
    release(cache, 0, 4)
    assert cache.pool[FREE] == BLOCKS


def test_a_prompt_used_again_moves_to_the_young_end() -> None:
    cache = filled(2)
    hold(cache, 1, 0)
    take(cache, 2)
    extend(cache, 1, 0, 2)
    release(cache, 1, 2)
    hold(cache, 0, 2)
    release(cache, 0, 2)
    assert queue_of(cache)[-4:] == [(1, 1), (1, 0), (0, 1), (0, 0)]


def test_an_empty_cache_offers_every_block() -> None:
    cache = empty_cache(5, 2, 3)
    assert cache.pool[FREE] == 5
    assert queue_of(cache) == [(NOTHING, 0)] * 5
    assert np.all(cache.chains["cached"] == 0)
