"""The run's ledger: an append-only SQLite file with one writer and any number of readers.

A round is one transaction: after a kill -9 or a full disk, all of it is there or none. Whatever a run knows is a fold
over ``rounds()``; ``archive/records.py`` says what they hold, ``archive/schema.py`` how they lie in the file.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self, assert_never

from archive.connection import connect_reader, connect_writer, require_file, take_writer_lock
from archive.elites import Descriptor, Elite, Outcome, require_finite
from archive.errors import corrupt, naming_failures
from archive.records import Accepted, Duplicate, Event, JsonValue, Record, Rejected, Round

_PROPOSAL = "p.number, p.source, p.operator, p.parents, p.island"


class LedgerReader:
    """The past of a run, readable while it goes on. Use it in a ``with`` block, from one thread."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        self.path = path
        self._connection = connection

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a ledger for reading. Raises: LedgerMissing, LedgerCorrupt, LedgerNewer, LedgerFailed."""
        return cls(path, connect_reader(path))

    def rounds(self, start: int = 0) -> Iterator[Round]:
        """Yield the rounds from ``start`` on, in order; to follow a run, ask again from ``next_round``.

        Raises: LedgerCorrupt: when a row cannot be what was written. LedgerFailed.
        """
        heads = self._rows(
            "SELECT number, at_utc, records, archive_digest FROM round WHERE number >= ? ORDER BY 1", start
        )
        for number, at_utc, count, digest in heads:
            with self._decoding():
                records = tuple(sorted(self._records(number), key=lambda record: record.number))
            if len(records) != count:
                raise corrupt(self.path, f"round {number} has {len(records)} of its {count} records")
            yield Round(number, at_utc, records, digest)

    def events(self) -> Iterator[Event]:
        """Yield the run's events in order. Raises: LedgerCorrupt, LedgerFailed."""
        for number, kind, at_utc, body in self._rows("SELECT number, kind, at_utc, body FROM event ORDER BY number"):
            with self._decoding():
                content = json.loads(body)
            yield Event(number, kind, at_utc, content)

    @property
    def next_round(self) -> int:
        """Return the number that the next round will have; 0 in a new ledger."""
        return self._after_last("round")

    @property
    def next_number(self) -> int:
        """Return one more than the highest proposal number; 0 in a new ledger."""
        return self._after_last("proposal")

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _after_last(self, table: str) -> int:
        return int(self._rows(f"SELECT coalesce(max(number) + 1, 0) FROM {table}")[0][0])

    def _rows(self, query: str, *values: int) -> list[sqlite3.Row]:
        with naming_failures(self.path):
            return self._connection.execute(query, values).fetchall()

    @contextmanager
    def _decoding(self) -> Iterator[None]:
        try:
            yield
        except (ValueError, TypeError) as error:
            raise corrupt(self.path, f"a row does not decode ({error})") from error

    def _records(self, round_number: int) -> Iterator[Record]:
        for number, source, operator, parents, island, *program, outcome, score in self._rows(
            f"SELECT {_PROPOSAL}, g.id, g.operations, g.features, g.fitness, g.objectives, g.outcome, s.body "
            "FROM proposal p JOIN program g USING (number) JOIN score s USING (number) WHERE p.round = ?",
            round_number,
        ):
            key, operations, features, fitness, objectives = program
            descriptor, values = Descriptor(operations, features), tuple(json.loads(objectives))
            elite = Elite(key, source, descriptor, fitness, values, operator, _names(parents), island, number)
            require_finite(elite)
            yield Accepted(elite, Outcome(outcome), score)
        for number, source, operator, parents, island, *refusal in self._rows(
            f"SELECT {_PROPOSAL}, r.stage, r.code, r.reason FROM proposal p JOIN refusal r USING (number) "
            "WHERE p.round = ?",
            round_number,
        ):
            yield Rejected(number, source, operator, _names(parents), island, *refusal)
        for number, source, operator, parents, island, known in self._rows(
            f"SELECT {_PROPOSAL}, d.program_id FROM proposal p JOIN duplicate d USING (number) WHERE p.round = ?",
            round_number,
        ):
            yield Duplicate(number, source, operator, _names(parents), island, known)


class Ledger(LedgerReader):
    """The one writer; its lock lasts until ``close`` or the end of the process, however it ends."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        if not create:
            require_file(path)
        self._lock = take_writer_lock(path)
        try:
            super().__init__(path, connect_writer(path, create=create))
        except BaseException:
            self._lock.close()
            raise

    @classmethod
    def create(cls, path: Path) -> Self:
        """Make a new ledger in an existing folder. Raises: LedgerExists, LedgerInUse, LedgerCorrupt, LedgerFailed."""
        return cls(path, create=True)

    @classmethod
    def open(cls, path: Path) -> Self:
        """Open a ledger to go on with it.

        Raises: LedgerMissing, LedgerInUse, LedgerCorrupt, LedgerNewer, LedgerFailed.
        """
        return cls(path)

    def append_round(self, round_number: int, records: Sequence[Record], archive_digest: str | None = None) -> None:
        """Write one round, all of it or nothing; it is on the disk when this returns.

        Args:   round_number: ``next_round``.
                records: in rising order of their numbers, from ``next_number`` on; may be empty.
                archive_digest: of the archive after this round.
        Raises: ValueError: numbers out of order, a score that is not finite, JSON that is not a strict object.
                LedgerFailed: disk full or the like; the ledger is as before and can be written again.
        """
        _require_rising([round_number], self.next_round, "round", exactly=True)
        _require_rising([record.number for record in records], self.next_number, "proposal", exactly=False)
        for record in records:
            if isinstance(record, Accepted):
                require_finite(record.elite)
                _require_json_object(record.score_json)
        with self._transaction():
            head = (round_number, _now_utc(), len(records), archive_digest)
            self._connection.execute("INSERT INTO round VALUES (?, ?, ?, ?)", head)
            for record in records:
                self._insert(round_number, record)

    def append_event(self, kind: str, body: Mapping[str, JsonValue]) -> None:
        """Write one event. Raises: ValueError: NaN or infinity in ``body``. LedgerFailed."""
        row = (kind, _now_utc(), json.dumps(body, allow_nan=False))
        with self._transaction():
            self._connection.execute("INSERT INTO event (kind, at_utc, body) VALUES (?, ?, ?)", row)

    def close(self) -> None:
        """Close the file and give up the writer's lock; closing twice is fine."""
        super().close()
        self._lock.close()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with naming_failures(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:  # on a full disk SQLite may have rolled back by itself
                    self._connection.execute("ROLLBACK")
                raise

    def _insert(self, round_number: int, record: Record) -> None:
        execute, number = self._connection.execute, record.number
        execute(
            "INSERT INTO proposal VALUES (?, ?, CAST(? AS TEXT), ?, ?, ?)",
            (number, round_number, _raw(record.source), record.operator, json.dumps(record.parents), record.island),
        )
        match record:
            case Accepted(elite, outcome, score_json):
                place, objectives = elite.descriptor, json.dumps(elite.objectives)
                row = (number, elite.id, place.operations, place.features, elite.fitness, objectives, outcome.value)
                execute("INSERT INTO program VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                execute("INSERT INTO score VALUES (?, ?)", (number, score_json))
            case Rejected():
                row_out = (number, record.stage, record.code, _raw(record.reason))
                execute("INSERT INTO refusal VALUES (?, ?, ?, CAST(? AS TEXT))", row_out)
            case Duplicate():
                execute("INSERT INTO duplicate VALUES (?, ?)", (number, record.program_id))
            case _:
                assert_never(record)


def _raw(text: str) -> bytes:
    """Return the bytes of a text that may come from anywhere: a reply can hold halves of surrogate pairs."""
    return text.encode("utf-8", "surrogatepass")


def _names(parents: str) -> tuple[str, ...]:
    return tuple(json.loads(parents))


def _now_utc() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _require_rising(numbers: Sequence[int], first: int, what: str, *, exactly: bool) -> None:
    least = first
    for number in numbers:
        if number < least or (exactly and number != least):
            raise ValueError(f"got {what} {number}; want {least}{'' if exactly else ' or more'}: the ledger only grows")
        least = number + 1


def _require_json_object(text: str) -> None:
    if not isinstance(json.loads(text, parse_constant=_refuse_constant), dict):
        raise ValueError(f"got a score that is not a JSON object: {text[:60]}")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"got {name} in a score; want finite numbers")
