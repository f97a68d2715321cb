"""MAP-Elites on islands: one elite per cell of operations x features, on every island.

The vocabulary is fixed: ``Axes`` cut the plane into cells, an ``Elite`` is a scored program, ``Archive.insert`` answers
with an ``Outcome``. One comparison decides a cell, and a tie keeps the incumbent. Source: Mouret and Clune,
"Illuminating search spaces by mapping elites", 2015.

The population behind the cells lives in openevolve's program database (``archive/database.py``,
``docs/decisions/0001-archive-on-openevolve.md``), imported when the first ``Archive`` is made: it costs a second.
"""

from __future__ import annotations

import enum
import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from archive.random_state import lent_random_state

if TYPE_CHECKING:
    import numpy as np

Cell = tuple[int, int]
"""(operations bin, features bin), both counted from 0."""

OBJECTIVES = ("error", "worst3", "operations")
"""What ``Elite.objectives`` holds, in this order; all are minimised."""

LARGEST_CAPACITY = 5000
"""Above this, openevolve's sampling leaves its time budget."""


@dataclass(frozen=True, slots=True)
class Descriptor:
    """Where a program lies on the two axes."""

    operations: int
    features: int


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis: whole numbers ``lowest..highest`` in ``bins`` bins of equal width."""

    lowest: int
    highest: int
    bins: int

    def __post_init__(self) -> None:
        if not (self.lowest <= self.highest and 1 <= self.bins <= self.highest - self.lowest + 1):
            raise ValueError(f"got {self}; want lowest <= highest and at least one value per bin")

    def bin_of(self, value: float) -> int:
        """Return the bin of ``value``; what lies outside the axis belongs to the bin at that end.

        Raises: ValueError: on NaN, which has no place on an axis.
        """
        clipped = min(max(value, float(self.lowest)), float(self.highest))  # as floats first: int(inf) has no value
        return int((clipped - self.lowest) * self.bins / (self.highest - self.lowest + 1))


@dataclass(frozen=True, slots=True)
class Axes:
    """The two axes of the grid. Their bounds are settings and never move with the data."""

    operations: Axis = Axis(1, 30, 10)
    features: Axis = Axis(1, 15, 5)

    def cell_of(self, descriptor: Descriptor) -> Cell:
        """Return the cell of a descriptor; reading it changes nothing."""
        return self.operations.bin_of(descriptor.operations), self.features.bin_of(descriptor.features)

    @property
    def cells(self) -> int:
        """Return how many cells the grid has."""
        return self.operations.bins * self.features.bins


@dataclass(frozen=True, slots=True)
class Elite:
    """A program with its score, as the archive and the ledger keep it."""

    id: str
    """Content hash of the program."""
    source: str
    """Program text, with its fitted constants."""
    descriptor: Descriptor
    fitness: float
    """Higher is better; finite. Positive values let openevolve's weighted draws tell programs apart."""
    objectives: tuple[float, ...]
    """``OBJECTIVES``; finite, lower is better."""
    operator: str
    parents: tuple[str, ...]
    island: int
    """Where it was proposed. A migrated copy lives elsewhere as well and keeps this."""
    number: int
    """Of the proposal, counted over the whole run."""


class Outcome(enum.Enum):
    """What an insertion did to its cell."""

    NEW = "new"
    IMPROVED = "improved"
    KEPT = "kept"


def require_finite(elite: Elite) -> None:
    """Refuse an elite whose score cannot be compared.

    Raises: ValueError: when the fitness or an objective is NaN or infinite, or the count of objectives is wrong.
    """
    if len(elite.objectives) != len(OBJECTIVES):
        raise ValueError(f"program {elite.id}: got {len(elite.objectives)} objectives; want {', '.join(OBJECTIVES)}")
    for name, value in zip(("fitness", *OBJECTIVES), (elite.fitness, *elite.objectives), strict=True):
        if not math.isfinite(value):
            raise ValueError(f"program {elite.id}: got {name} = {value}; want a finite number. Reject it instead")


class Archive:
    """Islands of programs, each with a grid of elites; the only mutations are ``insert`` and ``migrate``.

    Args:      axes: the grid, the same on every island.
               islands: how many, >= 1; they stand in a ring.
               migration_interval: rounds between two migrations, >= 1.
               migration_rate: fraction of an island's programs that is copied to both neighbours, 0..1.
               capacity: programs kept in all, more than there are cells and at most ``LARGEST_CAPACITY``. When it is
               full, the worst program that holds no cell leaves; an elite never does.
    Raises:    ValueError: for settings outside these bounds.
    Invariant: a cell holds the best fitness that was ever inserted there; test_a_cell_holds_the_best_fitness_seen.
               The same calls in the same order give the same archive, in any process.
    """

    def __init__(
        self,
        axes: Axes | None = None,
        islands: int = 4,
        migration_interval: int = 10,
        migration_rate: float = 0.1,
        capacity: int = 1000,
    ) -> None:
        self.axes = axes or Axes()
        if islands < 1 or migration_interval < 1 or not 0.0 <= migration_rate <= 1.0:
            raise ValueError(
                f"got islands={islands}, migration_interval={migration_interval}, migration_rate={migration_rate}; "
                "want islands >= 1, migration_interval >= 1 and 0 <= migration_rate <= 1"
            )
        if not self.axes.cells * islands < capacity <= LARGEST_CAPACITY:
            raise ValueError(
                f"got capacity={capacity}; want more than {self.axes.cells} cells x {islands} islands, "
                f"at most {LARGEST_CAPACITY}"
            )
        with lent_random_state(0):  # the import itself draws
            from archive.database import IslandDatabase

        self.islands = islands
        self.migration_interval = migration_interval
        self._database = IslandDatabase(self.axes, islands, migration_rate, capacity)

    def insert(self, elite: Elite, island: int) -> Outcome:
        """Offer a program to its cell on an island; it joins the island's population either way.

        A program that the island already holds under the same id changes nothing unless its fitness is better: a refit.

        Raises: ValueError: score not finite, no such island, or an id that already stands for another descriptor.
        """
        require_finite(elite)
        self._require_island(island)
        known = self._database.find(elite.id, island)
        if known is not None and known.descriptor != elite.descriptor:
            raise ValueError(f"program {elite.id}: got {elite.descriptor}; the archive holds it at {known.descriptor}")
        if known is not None and elite.fitness <= known.fitness:
            return Outcome.KEPT
        held = self._database.owner(self.axes.cell_of(elite.descriptor), island)
        self._database.place(elite, island)
        if held is None:
            return Outcome.NEW
        return Outcome.IMPROVED if elite.fitness > held.fitness else Outcome.KEPT  # a tie keeps the incumbent

    def sample(self, island: int, rng: np.random.Generator, inspirations: int) -> tuple[Elite, tuple[Elite, ...]]:
        """Draw a parent and up to ``inspirations`` other programs of an island; the archive stays as it is.

        Seven in ten parents come from the cells, two from anywhere in the population, one by fitness. An island without
        programs borrows from the next one that has some. One draw is taken from ``rng``.

        Raises: LookupError: when the archive is empty. ValueError: no such island or a negative count.
        """
        self._require_island(island)
        if inspirations < 0:
            raise ValueError(f"got inspirations={inspirations}; want 0 or more")
        if len(self) == 0:
            raise LookupError("the archive is empty: insert a seed program before sampling")
        return self._database.draw(island, int(rng.integers(2**63)), inspirations)

    def migrate(self, round_number: int, rng: np.random.Generator) -> int:
        """Copy each island's best programs to its neighbours when a migration is due after this round.

        It is due every ``migration_interval`` rounds, not after round 0; a copy does not travel on. One draw is taken
        from ``rng`` when it is due. Returns how many copies arrived.
        """
        if round_number < 1 or round_number % self.migration_interval != 0 or self.islands == 1:
            return 0
        return self._database.exchange(int(rng.integers(2**63)))

    def best(self) -> Elite:
        """Return the program with the highest fitness, the first one inserted on a tie.

        Raises: LookupError: when the archive is empty.
        """
        return self._database.best()

    def cells(self, island: int | None = None) -> Mapping[Cell, Elite]:
        """Return the elites by cell, in cell order: of one island, or the best of all (ties: the lower number).

        Raises: ValueError: no such island.
        """
        if island is not None:
            self._require_island(island)
        best: dict[Cell, Elite] = {}
        for number in range(self.islands) if island is None else (island,):
            for cell, elite in self._database.owners(number):
                held = best.get(cell)
                if held is None or (-elite.fitness, elite.number, elite.id) < (-held.fitness, held.number, held.id):
                    best[cell] = elite
        return dict(sorted(best.items()))

    def __iter__(self) -> Iterator[Elite]:
        """Yield every program of the population once, by number, then id."""
        best: dict[str, Elite] = {}
        for elite in self._database.population():
            held = best.get(elite.id)
            if held is None or elite.fitness > held.fitness:
                best[elite.id] = elite
        return iter(sorted(best.values(), key=lambda elite: (elite.number, elite.id)))

    def __len__(self) -> int:
        """Return how many programs the islands hold, migrated copies counted."""
        return len(self._database)

    def digest(self) -> str:
        """Return the SHA-256 over all that decides how this archive answers from here on.

        That is the programs, sorted, and the orders that later draws go through. Equal digests: equal archives.
        """
        programs = sorted(
            ({**asdict(elite), "lives_on": island} for elite, island in self._database.residents()),
            key=lambda entry: (entry["lives_on"], entry["id"]),
        )
        content = {"axes": asdict(self.axes), "programs": programs, "orders": self._database.orders()}
        return hashlib.sha256(json.dumps(content, sort_keys=True, allow_nan=False).encode()).hexdigest()

    def _require_island(self, island: int) -> None:
        if not 0 <= island < self.islands:
            raise ValueError(f"got island {island}; want 0..{self.islands - 1}")
