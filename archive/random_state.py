"""The global ``random`` state, lent to a library that cannot be handed a generator."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lent_random_state(seed: int) -> Iterator[None]:
    """Seed the global ``random`` for the length of the block and put the caller's state back afterwards.

    openevolve and deap draw from the global ``random``. Inside the block their draws depend on ``seed`` alone; outside
    it nothing has happened. Not for use from two threads at once: the state is the process's.
    """
    held = random.getstate()
    random.seed(seed)
    try:
        yield
    finally:
        random.setstate(held)
