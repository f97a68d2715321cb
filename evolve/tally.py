"""What a run has found so far, folded from its records: the search, the view, the summary and `show` read it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from archive import Accepted, Duplicate, Elite, Record, Rejected, frontier
from evaluators.features import VOCABULARY
from translate.caps import Caps
from translate.complexity import Complexity, measure
from translate.errors import Refusal
from translate.ir import Program
from translate.parse import parse

WITHIN = 1.05
"""The champion is the simplest program with a loss of at most so many times the best one."""
ANY_SIZE = Caps(operations=10_000, conditionals=1_000, constants=1_000)


@dataclass(frozen=True, slots=True)
class Errors:
    """Mean absolute relative errors over the stage rows, as fractions."""

    e2e: float
    ttft: float
    tpot: float


@dataclass(frozen=True, slots=True)
class Scored:
    """An accepted program with what its score says."""

    elite: Elite
    errors: Errors
    score_json: str

    @property
    def error(self) -> float:
        """Return the first objective: the weighted mean of the three errors."""
        return self.elite.objectives[0]


@dataclass(slots=True)
class Tally:
    """A fold over the records of a run; keeps only the programs that can still matter."""

    evaluations: int = 0
    proposals: int = 0
    rejected: dict[str, int] = field(default_factory=dict)
    """By stage, duplicates among them."""
    front: tuple[Scored, ...] = ()
    """Nobody beats them in error, worst case and operations together; by operations."""
    contenders: tuple[Scored, ...] = ()
    """Within reach of the best loss, by number."""

    def add(self, records: Iterable[Record]) -> None:
        """Fold the records of a round."""
        fresh = []
        for record in records:
            self.proposals += 1
            match record:
                case Accepted():
                    self.evaluations += 1
                    fresh.append(scored(record))
                case Rejected(stage=stage):
                    self.evaluations += 1
                    self._reject(stage)
                case Duplicate():
                    self._reject("duplicate")
        if fresh:
            self._settle(fresh)

    def champion(self) -> Scored | None:
        """Return the simplest program within 5 % of the best loss: fewest operations, constants, features, loss."""
        return min(self.contenders, key=_simplicity, default=None)

    def best_error(self) -> float | None:
        """Return the lowest error so far."""
        return min((entry.error for entry in self.contenders), default=None)

    def _reject(self, stage: str) -> None:
        self.rejected[stage] = self.rejected.get(stage, 0) + 1

    def _settle(self, fresh: list[Scored]) -> None:
        everyone = (*self.contenders, *fresh)
        limit = min(entry.error for entry in everyone) * WITHIN
        self.contenders = tuple(entry for entry in everyone if entry.error <= limit)
        best: dict[str, Scored] = {}
        for entry in (*self.front, *fresh):  # of several fits of one program the best
            held = best.get(entry.elite.id)
            if held is None or entry.error < held.error:
                best[entry.elite.id] = entry
        elites = frontier(entry.elite for entry in best.values())
        self.front = tuple(best[elite.id] for elite in elites)


def scored(record: Accepted) -> Scored:
    """Return an accepted record with its errors read."""
    errors = json.loads(record.score_json)["error"]
    return Scored(record.elite, Errors(errors["e2e"], errors["ttft"], errors["tpot"]), record.score_json)


def recorded_program(source: str) -> Program:
    """Parse a program text that the ledger vouches for, whatever its size.

    Raises: ValueError: the text is no program, so the ledger was not written by this version.
    """
    program = parse(source, VOCABULARY, ANY_SIZE)
    if isinstance(program, Refusal):
        raise ValueError(f"the ledger holds a program that does not parse: {program}")
    return program


def complexity_of(elite: Elite) -> Complexity:
    """Return the counts of a kept program."""
    return measure(recorded_program(elite.source))


def _simplicity(entry: Scored) -> tuple[float, ...]:
    counts = complexity_of(entry.elite)
    return counts.operations, counts.constants, len(counts.features), entry.error, entry.elite.number
