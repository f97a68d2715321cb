"""What the ledger keeps of a run: rounds of records, and events.

Every proposal ends as exactly one record. All three kinds answer to ``number``, ``source``, ``operator``, ``parents``
and ``island``; a ``match`` tells them apart. A run's state is a fold over its rounds::

    for past in ledger.rounds():
        for record in past.records:
            if isinstance(record, Accepted):
                archive.insert(record.elite, record.island)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from archive.elites import Elite, Outcome

JsonValue: TypeAlias = "bool | int | float | str | Sequence[JsonValue] | Mapping[str, JsonValue] | None"


@dataclass(frozen=True, slots=True)
class Accepted:
    """A proposal that got a score and was offered to the archive."""

    elite: Elite
    outcome: Outcome
    score_json: str
    """The whole score as a JSON object; the ledger does not look inside."""

    @property
    def number(self) -> int:
        """Return the proposal's number."""
        return self.elite.number

    @property
    def program_id(self) -> str:
        """Return the program's content hash."""
        return self.elite.id

    @property
    def source(self) -> str:
        """Return the program text with its fitted constants."""
        return self.elite.source

    @property
    def operator(self) -> str:
        """Return the name of the operator that proposed it."""
        return self.elite.operator

    @property
    def parents(self) -> tuple[str, ...]:
        """Return the ids of its parents."""
        return self.elite.parents

    @property
    def island(self) -> int:
        """Return the island that it was proposed for."""
        return self.elite.island


@dataclass(frozen=True, slots=True)
class Rejected:
    """A proposal that failed, and where: a value of its own, never a score."""

    number: int
    source: str
    """The text as proposed, even where it does not parse."""
    operator: str
    parents: tuple[str, ...]
    island: int
    stage: str
    """Of the cascade: parse, invariants, fit, simulate, ..."""
    code: str
    """Short and stable: ``TR007``."""
    reason: str


@dataclass(frozen=True, slots=True)
class Duplicate:
    """A proposal that repeats a program already known; nothing was paid for it."""

    number: int
    source: str
    operator: str
    parents: tuple[str, ...]
    island: int
    program_id: str
    """Of the program that it repeats."""


Record: TypeAlias = Accepted | Rejected | Duplicate


@dataclass(frozen=True, slots=True)
class Round:
    """One round as it was written: whole, in one transaction."""

    number: int
    at_utc: str
    """ISO 8601, to the second."""
    records: tuple[Record, ...]
    """By number."""
    archive_digest: str | None
    """``Archive.digest()`` after the round, where the loop recorded it: what a replay compares."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to the run as a whole: started, resumed, stopped, finished."""

    number: int
    kind: str
    at_utc: str
    body: Mapping[str, JsonValue]
