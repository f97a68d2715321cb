"""The KV cache of the reference simulator: one object per block, found by the text that it holds."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from evaluators.load import Load

Tokens = tuple[tuple[str, int, int], ...]


@dataclass(eq=False, slots=True)
class Block:
    """One block of the KV cache. ``key`` is the text that it is cached for, None while it is private."""

    key: Tokens | None = None
    holders: int = 0


class Pool:
    """All blocks: those that nobody holds wait in ``free``, oldest first, with what they still cache."""

    def __init__(self, blocks: int) -> None:
        self.free: OrderedDict[Block, None] = OrderedDict((Block(), None) for _ in range(blocks))
        self.cached: dict[Tokens, Block] = {}
        self.size = blocks
        self.evictions = 0

    def take(self) -> Block:
        """Return the oldest free block, forgetting what it cached."""
        block, _ = self.free.popitem(last=False)
        if block.key is not None:
            del self.cached[block.key]
            block.key = None
            self.evictions += 1
        block.holders = 1
        return block

    def hold(self, block: Block) -> None:
        """Let one more request hold a cached block."""
        self.free.pop(block, None)
        block.holders += 1

    def release(self, block: Block) -> None:
        """Let one request go of a block."""
        block.holders -= 1
        if block.holders == 0:
            self.free[block] = None


def prompt_text(load: Load, prompt: int, shared_tokens: int) -> Tokens:
    """Return the tokens of a fixed prompt: the prefix of its group, then words of its own."""
    length, group = int(load.prompt_tokens[prompt]), int(load.prompt_group[prompt])
    shared = [("group", group, place) for place in range(min(shared_tokens, length))]
    return (*shared, *(("prompt", prompt, place) for place in range(len(shared), length)))
