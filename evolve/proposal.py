"""What operators take and give: parents in, one proposal out, and what the registry knows of an operator."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from translate.caps import Caps
from translate.ir import Program


@dataclass(frozen=True, slots=True)
class Parent:
    """A program that was accepted; its constants hold the fitted values."""

    id: str
    program: Program


@dataclass(frozen=True, slots=True)
class Proposal:
    """A program to try, the operator that made it, and the ids of the parents that it was made from."""

    program: Program
    operator: str
    parents: tuple[str, ...]


Apply = Callable[[Sequence[Parent], np.random.Generator, Caps], Proposal]


@dataclass(frozen=True, slots=True)
class Operator:
    """A way to make a proposal: how many parents it takes, and its share of the proposals before anything is known."""

    apply: Apply
    parents: int
    weight: float
