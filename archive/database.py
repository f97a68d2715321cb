"""openevolve's program database as the population store under the archive, made deterministic.

What it takes, each a trap of openevolve 0.4 that was met: the cell rule is ours (openevolve rescales an axis whenever a
descriptor is read); islands and archive keep insertion order (sets of strings order by PYTHONHASHSEED); ids are content
hashes (a migration makes uuids); the global ``random`` is lent, never seeded; the ``diversity`` dimension is not used.
Importing this module imports openevolve: one second, 75 MB. ``archive.elites`` does it on demand.
"""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable, Iterator, MutableSet, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from archive.random_state import lent_random_state

if TYPE_CHECKING:
    from archive.elites import Axes, Cell, Elite

logging.getLogger("openevolve").setLevel(logging.ERROR)  # it reports every cell on INFO

from openevolve.config import DatabaseConfig  # noqa: E402
from openevolve.database import Program, ProgramDatabase  # noqa: E402

EXPLORATION = 0.2
"""Share of the parents drawn from anywhere in the island's population."""

EXPLOITATION = 0.7
"""Share of the parents drawn from the island's cells; the rest is drawn by fitness."""


class OrderedIds(MutableSet[str]):
    """A set of ids that iterates in the order of insertion."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        self._ids = dict.fromkeys(ids)

    def __contains__(self, item: object) -> bool:
        return item in self._ids

    def __iter__(self) -> Iterator[str]:
        return iter(self._ids)

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, value: str) -> None:
        """Append an id unless it is in the set."""
        self._ids.setdefault(value)

    def discard(self, value: str) -> None:
        """Remove an id if it is in the set."""
        self._ids.pop(value, None)


@dataclass
class Resident(Program):  # type: ignore[misc]
    """An elite as one island's inhabitant; the same elite on two islands is two residents."""

    elite: Elite | None = None
    cell: Cell = (0, 0)


def _key(elite_id: str, island: int) -> str:
    return f"{elite_id}@{island}"


def _fitness(resident: Resident) -> float:
    return float(resident.metrics["combined_score"])


class IslandDatabase(ProgramDatabase):  # type: ignore[misc]
    """The store and the sampler; ``Archive`` is its one user and checks all arguments."""

    def __init__(self, axes: Axes, islands: int, migration_rate: float, capacity: int) -> None:
        config = DatabaseConfig(
            population_size=capacity,
            archive_size=axes.cells * islands,
            num_islands=islands,
            exploration_ratio=EXPLORATION,
            exploitation_ratio=EXPLOITATION,
            feature_dimensions=["operations", "features"],
            feature_bins={"operations": axes.operations.bins, "features": axes.features.bins},
            migration_rate=migration_rate,
            random_seed=None,  # a seed here would seed the process
            log_prompts=False,
        )
        super().__init__(config)
        self.axes = axes
        self.islands = [OrderedIds() for _ in range(islands)]
        self.archive = OrderedIds()

    def __len__(self) -> int:
        return len(self.programs)

    # What the archive asks of it

    def place(self, elite: Elite, island: int) -> None:
        """Add an elite to an island; its key there is its content hash."""
        with lent_random_state(0):  # adding draws nothing today; should it ever, it draws the same everywhere
            self.add(self._resident(elite, island), iteration=elite.number, target_island=island)

    def draw(self, island: int, seed: int, inspirations: int) -> tuple[Elite, tuple[Elite, ...]]:
        """Draw a parent and inspirations from an island, or from the next one that has programs."""
        count = len(self.islands)
        home = next(i for i in ((island + step) % count for step in range(count)) if self.islands[i])
        with lent_random_state(seed):
            parent, others = self.sample_from_island(home, inspirations)
        return parent.elite, tuple(other.elite for other in others if other.elite.id != parent.elite.id)

    def exchange(self, seed: int) -> int:
        """Migrate the best of each island around the ring; return how many copies arrived."""
        before = set(self.programs)
        with lent_random_state(seed):
            self.migrate_programs()
        return sum(key not in before for key in self.programs)

    def find(self, elite_id: str, island: int) -> Elite | None:
        """Return the elite with this id on an island."""
        resident = self.programs.get(_key(elite_id, island))
        return None if resident is None else resident.elite

    def owner(self, cell: Cell, island: int) -> Elite | None:
        """Return the elite that holds a cell of an island."""
        key = self.island_feature_maps[island].get(self._feature_coords_to_key(cell))
        return None if key is None else self.programs[key].elite

    def owners(self, island: int) -> Iterator[tuple[Cell, Elite]]:
        """Yield the held cells of an island with their elites."""
        for key in self.island_feature_maps[island].values():
            resident = self.programs[key]
            yield resident.cell, resident.elite

    def population(self) -> Iterator[Elite]:
        """Yield every resident's elite, in order of insertion."""
        return (resident.elite for resident in self.programs.values())

    def residents(self) -> Iterator[tuple[Elite, int]]:
        """Yield every elite with the island it lives on, in order of insertion."""
        return ((resident.elite, resident.metadata["island"]) for resident in self.programs.values())

    def best(self) -> Elite:
        """Return the fittest elite. Raises: LookupError: when there is none."""
        if self.best_program_id is None:
            raise LookupError("the archive is empty: it has no best program")
        elite: Elite = self.programs[self.best_program_id].elite
        return elite

    def orders(self) -> dict[str, object]:
        """Return the parts of the state, beside the programs, that later draws and evictions depend on."""
        return {
            "programs": list(self.programs),
            "travelled": [key for key, resident in self.programs.items() if resident.metadata.get("migrant")],
            "islands": [list(island) for island in self.islands],
            "cells": [sorted(cells.items()) for cells in self.island_feature_maps],
            "archive": list(self.archive),
            "best": self.best_program_id,
            "island_best": self.island_best_programs,
        }

    # What openevolve asks of itself, decided here

    def _calculate_feature_coords(self, program: Resident) -> list[int]:
        return list(program.cell)

    def _feature_coords_to_key(self, coords: Sequence[int]) -> str:
        return f"{coords[0]}-{coords[1]}"  # openevolve's own text, at half its price: sampling asks it of everyone

    def _update_archive(self, program: Resident) -> None:
        """Keep the cell owners, not the fittest hundred: parents should come from all over the grid.

        openevolve itself puts a new owner in the place of the one it displaces.
        """
        cells = self.island_feature_maps[program.metadata["island"]]
        if cells.get(self._feature_coords_to_key(program.cell)) == program.id:
            self.archive.add(program.id)

    def _migrate_one(self, program_id: str, target_island: int) -> None:
        migrant = self.programs.get(program_id)
        if migrant is None or migrant.metadata.get("migrant") or _key(migrant.elite.id, target_island) in self.programs:
            return
        copy = self._resident(migrant.elite, target_island)
        copy.metadata["migrant"] = True
        self.add(copy, target_island=target_island)

    def get_top_programs(self, n: int = 10, metric: str | None = None, island_idx: int | None = None) -> list[Resident]:
        """Return the ``n`` fittest, the earlier one on a tie, without sorting the whole island for one of them."""
        keys = self.programs if island_idx is None else self.islands[island_idx]
        return heapq.nlargest(n, (self.programs[key] for key in keys), key=_fitness)

    def _resident(self, elite: Elite, island: int) -> Resident:
        return Resident(
            id=_key(elite.id, island),
            code=elite.source,
            timestamp=0.0,
            metrics={"combined_score": elite.fitness},
            metadata={"island": island},
            elite=elite,
            cell=self.axes.cell_of(elite.descriptor),
        )
