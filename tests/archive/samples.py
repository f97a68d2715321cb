"""Elites for the archive's tests: plausible ones from a seed, exact ones by hand."""

from __future__ import annotations

import hashlib

import numpy as np

from archive.elites import Descriptor, Elite


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
