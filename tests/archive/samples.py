"""Elites and records for the archive's tests: plausible ones from a seed, exact ones by hand."""

from __future__ import annotations

import hashlib

import numpy as np

from archive.elites import Descriptor, Elite, Outcome
from archive.records import Accepted, Duplicate, Record, Rejected


def elite(
    number: int,
    fitness: float = 0.5,
    operations: int = 5,
    features: int = 3,
    objectives: tuple[float, ...] | None = None,
    island: int = 0,
) -> Elite:
    return Elite(
        id=hashlib.sha256(str(number).encode()).hexdigest()[:16],
        source=f"def predict_step_time(b):\n    return {number}\n",
        descriptor=Descriptor(operations, features),
        fitness=fitness,
        objectives=objectives or (1.0 - fitness, 2.0 - fitness, float(operations)),
        operator="mutate",
        parents=(),
        island=island,
        number=number,
    )


def random_elite(number: int, rng: np.random.Generator, levels: int = 20) -> Elite:
    """Scores come in a few levels, so that ties are common."""
    return elite(
        number,
        fitness=float(rng.integers(levels)) / levels,
        operations=int(rng.integers(1, 31)),
        features=int(rng.integers(1, 16)),
    )


def accepted(number: int, score_json: str = '{"error": 0.1}') -> Accepted:
    return Accepted(elite(number, fitness=0.1 + 1e-17 * number), Outcome.IMPROVED, score_json)


def rejected(number: int, source: str = "while True: pass", reason: str = "got `while`; want no loops") -> Rejected:
    return Rejected(number, source, "llm_point", ("abc", "def"), 1, "parse", "TR007", reason)


def duplicate(number: int) -> Duplicate:
    return Duplicate(number, "def f(b):\n    return 1", "crossover", (), 2, "abc")


def mixed_round(first: int, count: int = 3) -> list[Record]:
    kinds = (accepted, rejected, duplicate)
    return [kinds[number % 3](number) for number in range(first, first + count)]
