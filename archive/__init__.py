"""What a run keeps: elites on islands, the Pareto frontier, and the append-only ledger."""

from archive.elites import OBJECTIVES, Archive, Axes, Axis, Cell, Descriptor, Elite, Outcome
from archive.frontier import frontier, select

__all__ = [
    "OBJECTIVES",
    "Archive",
    "Axes",
    "Axis",
    "Cell",
    "Descriptor",
    "Elite",
    "Outcome",
    "frontier",
    "select",
]
