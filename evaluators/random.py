"""Named random streams: a draw depends on what it is for, never on what was drawn before."""

from __future__ import annotations

from zlib import crc32

import numpy as np


def stream(seed: int, *path: str | int) -> np.random.Generator:
    """Return the generator for ``path``, for example ``stream(7, "arrivals", stage)``."""
    words = [crc32(part.encode()) if isinstance(part, str) else part for part in path]
    return np.random.default_rng([seed, *words])
