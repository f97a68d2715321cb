"""Where one mutation works: its generator, the function it changes, and the constants that it may add to."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from evolve.alphabet import DEFAULT_SCALE_US, SCALE_US, features_for, typical
from evolve.subtrees import names_of, substituted
from translate.ir import Constant, Expr, Number
from translate.to_plain import number

T = TypeVar("T")
FACTOR = (0.3, 2.0)
"""Start values of a factor on a time that physics has computed."""
SHARE = (0.01, 0.2)
"""Share of the usual result that a new term of any other kind starts with."""


@dataclass(slots=True)
class Bench:
    """Lives for one mutation; ``constants`` is its own copy."""

    rng: np.random.Generator
    function: str
    constants: dict[str, float]

    def pick(self, items: Sequence[T]) -> T:
        """Draw one of ``items``; there must be one."""
        return items[int(self.rng.integers(len(items)))]

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return bool(self.rng.random() < probability)

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return ``items`` in random order."""
        return [items[int(i)] for i in self.rng.permutation(len(items))]

    def uniform(self, low: float, high: float) -> float:
        """Draw a number between the two."""
        return float(self.rng.uniform(low, high))

    def share(self) -> float:
        """Draw the share of the whole that a new term starts with."""
        return math.exp(self.uniform(math.log(SHARE[0]), math.log(SHARE[1])))

    def constant(self, value: float) -> Constant:
        """Declare a new constant with three significant digits of ``value``."""
        name = f"new {len(self.constants)}"
        while name in self.constants:
            name += "x"
        self.constants[name] = rounded(value)
        return Constant(name)

    def adopt(self, node: Expr, values: Mapping[str, float]) -> Expr:
        """Return ``node`` of another program, each of its constants renamed to one declared here."""
        new: dict[Expr, Expr] = {}
        for name in names_of(node, Constant):
            fresh = self.constant(1.0)
            self.constants[fresh.name] = values[name]
            new[Constant(name)] = fresh
        return substituted(node, new)  # type: ignore[arg-type]

    @property
    def features(self) -> tuple[str, ...]:
        """Return the features that the function may read."""
        return features_for(self.function)

    @property
    def scale_us(self) -> float:
        """Return what the function usually returns [us]."""
        return SCALE_US.get(self.function, DEFAULT_SCALE_US)

    def size(self, node: Expr) -> float:
        """Return the absolute value of ``node`` on the typical step; 0 where it is not finite."""
        value = abs(number(node, typical(), self.constants, {}))
        return value if math.isfinite(value) else 0.0


def rounded(value: float, digits: int = 3) -> float:
    """Return a finite value at a few significant digits."""
    return float(f"{value:.{digits}g}") if math.isfinite(value) else 1.0


def whole(value: float) -> Number:
    """Return a literal at two significant digits, a whole number from 2 on."""
    short = rounded(value, 2)
    return Number(float(round(short)) if short >= 2.0 else short)
