"""Which operator proposes next: probability matching on how often each one's proposals won a cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

PRIOR_TRIES = 4.0
"""Tries that the prior counts for; an operator starts as if it had won half of them."""
LEAST_SHARE = 0.02
"""No operator's probability falls below this, so none is given up."""
MEMORY = 0.98
"""Factor on all past tries per new one: what works changes during a run."""


@dataclass(slots=True)
class Bandit:
    """Discounted tries and wins per arm; a fold over the records of a run."""

    weights: Mapping[str, float]
    """Prior weight of each arm, > 0."""
    tries: dict[str, float] = field(default_factory=dict)
    wins: dict[str, float] = field(default_factory=dict)

    def learn(self, arm: str, won: bool) -> None:
        """Count one evaluated proposal of an arm; other names (seeds) are not arms and are left out."""
        if arm not in self.weights:
            return
        self.tries[arm] = MEMORY * self.tries.get(arm, 0.0) + 1.0
        self.wins[arm] = MEMORY * self.wins.get(arm, 0.0) + float(won)

    def shares(self) -> dict[str, float]:
        """Return the probability of each arm."""
        rates = {
            arm: weight * (self.wins.get(arm, 0.0) + 0.5 * PRIOR_TRIES) / (self.tries.get(arm, 0.0) + PRIOR_TRIES)
            for arm, weight in self.weights.items()
        }
        total = sum(rates.values())
        floor = min(LEAST_SHARE, 1.0 / len(rates))
        spare = 1.0 - floor * len(rates)
        return {arm: floor + spare * rate / total for arm, rate in rates.items()}

    def choose(self, rng: np.random.Generator) -> str:
        """Draw an arm; one draw is taken from ``rng``."""
        shares = self.shares()
        return str(rng.choice(list(shares), p=np.array(list(shares.values()))))
