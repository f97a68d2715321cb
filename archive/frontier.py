"""The Pareto frontier over ``Elite.objectives``, all minimised, and NSGA-II selection; the sorting is deap's.

Two programs with the same objectives are clones here: the one proposed first stands for them, since clones would fill a
selection. Sorting and crowding see each objective's rank, not its value: dominance is a matter of order alone, and one
error of 10^6 among errors of 10^-2 would otherwise flatten every crowding distance.

Source: Deb et al., "A fast and elitist multiobjective genetic algorithm: NSGA-II", 2002; the sorting by Fortin et al.,
"Generalizing the improved run-time complexity algorithm for non-dominated sorting", 2013.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from archive.elites import Elite, require_finite
from archive.random_state import lent_random_state

if TYPE_CHECKING:
    import numpy as np


def frontier(elites: Iterable[Elite]) -> tuple[Elite, ...]:
    """Return the elites that no other one dominates, by operations, then error.

    The frontier of a union is that of the united frontiers, so a long run keeps its own and adds each round to it: the
    archive forgets a program that loses its cell on fitness although its worst case may be the better one.

    Raises: ValueError: when a score is not finite.
    """
    distinct = _without_clones(elites)
    if not distinct:
        return ()
    from deap.tools import sortLogNondominated

    with lent_random_state(0):
        front = sortLogNondominated(_ranked(distinct), len(distinct), first_front_only=True)
    return tuple(sorted((entry.elite for entry in front), key=_operations_then_error))


def select(elites: Iterable[Elite], k: int, rng: np.random.Generator) -> tuple[Elite, ...]:
    """Return up to ``k`` distinct elites as NSGA-II does: front by front, the least crowded of the last front.

    The order of ``elites`` does not matter; ties in crowding fall by one permutation drawn from ``rng``.

    Raises: ValueError: when a score is not finite or ``k`` is negative.
    """
    if k < 0:
        raise ValueError(f"got k={k}; want 0 or more")
    distinct = _without_clones(elites)
    if not distinct or k == 0:
        return ()
    from deap.tools import sortLogNondominated
    from deap.tools.emo import assignCrowdingDist

    with lent_random_state(0):
        *whole, last = sortLogNondominated(_ranked(distinct), k)
        assignCrowdingDist(last)
    last = [last[i] for i in rng.permutation(len(last))]  # deap's own selNSGA2 would let ties fall to the lower error
    last.sort(key=lambda entry: -entry.fitness.crowding_dist)
    chosen = [entry for front in whole for entry in front]
    return tuple(entry.elite for entry in (*chosen, *last[: k - len(chosen)]))


@dataclass(frozen=True, slots=True)
class _Entry:
    """An elite in the shape that deap sorts."""

    elite: Elite
    fitness: Any
    """A deap ``Fitness`` over the ranks."""


def _without_clones(elites: Iterable[Elite]) -> list[Elite]:
    first: dict[tuple[float, ...], Elite] = {}
    for elite in sorted(elites, key=lambda elite: (elite.number, elite.id)):
        require_finite(elite)
        first.setdefault(elite.objectives, elite)
    return list(first.values())


def _ranked(elites: Sequence[Elite]) -> list[_Entry]:
    from deap.base import Fitness

    columns = zip(*(elite.objectives for elite in elites), strict=True)
    rank_of = [{value: rank for rank, value in enumerate(sorted(set(column)))} for column in columns]

    class Minimised(Fitness):  # type: ignore[misc]
        weights = (-1.0,) * len(rank_of)

    return [
        _Entry(elite, Minimised([float(rank[value]) for rank, value in zip(rank_of, elite.objectives, strict=True)]))
        for elite in elites
    ]


def _operations_then_error(elite: Elite) -> tuple[float, ...]:
    error, worst3, operations = elite.objectives
    return operations, error, worst3
