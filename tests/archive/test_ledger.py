"""What the ledger keeps, what it refuses to write, and how it names a file that it cannot use."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from archive import (
    Accepted,
    Archive,
    Ledger,
    LedgerCorrupt,
    LedgerExists,
    LedgerFailed,
    LedgerInUse,
    LedgerMissing,
    LedgerNewer,
    LedgerReader,
    Record,
    Rejected,
)
from archive.schema import _TABLES
from tests.archive.samples import accepted, elite, mixed_round, random_elite, rejected


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "run.db"


def write(path: Path, rounds: int, count: int = 3) -> None:
    with Ledger.create(path) as ledger:
        for number in range(rounds):
            ledger.append_round(number, mixed_round(number * count, count), f"digest {number}")


def test_what_is_written_is_read_back_the_same(path: Path) -> None:
    write(path, 4)
    with LedgerReader.open(path) as reader:
        rounds = list(reader.rounds())
        assert [past.number for past in rounds] == [0, 1, 2, 3]
        assert [list(past.records) for past in rounds] == [mixed_round(3 * number) for number in range(4)]
        assert [past.archive_digest for past in rounds] == [f"digest {number}" for number in range(4)]
        assert [past.number for past in reader.rounds(start=2)] == [2, 3]
        assert (reader.next_round, reader.next_number) == (4, 12)


@pytest.mark.parametrize(
    "text", ["", "µs \U0001f680", "a\x00b", "half a pair \ud83d", "'; DROP TABLE round; --", "x" * 300_000]
)
def test_any_text_a_model_may_send_is_kept_as_it_came(path: Path, text: str) -> None:
    record = rejected(0, source=text, reason=text)
    with Ledger.create(path) as ledger:
        ledger.append_round(0, [record])
        assert [past.records for past in ledger.rounds()] == [(record,)]


def test_scores_keep_every_bit_of_their_floats(path: Path) -> None:
    values = (0.1 + 0.2, 5e-324, 1.7976931348623157e308)
    record = replace(accepted(0), elite=elite(0, fitness=1 / 3, objectives=values))
    with Ledger.create(path) as ledger:
        ledger.append_round(0, [record])
        assert next(ledger.rounds()).records == (record,)


def test_a_round_may_be_empty_and_numbers_may_have_gaps(path: Path) -> None:
    with Ledger.create(path) as ledger:
        ledger.append_round(0, [])
        ledger.append_round(1, [accepted(7), rejected(10)])
        assert [len(past.records) for past in ledger.rounds()] == [0, 2]
        assert ledger.next_number == 11


def test_an_archive_folded_from_the_ledger_equals_the_one_that_was_written_down(path: Path) -> None:
    archive, rng = Archive(islands=2, migration_interval=2, capacity=120), np.random.default_rng(4)
    with Ledger.create(path) as ledger:
        for number in range(12):
            records: list[Record] = []
            for proposal in range(number * 20, number * 20 + 20):
                newcomer = replace(random_elite(proposal, rng), island=proposal % 2)
                records.append(Accepted(newcomer, archive.insert(newcomer, newcomer.island), "{}"))
            archive.migrate(number, np.random.default_rng(number))
            ledger.append_round(number, records, archive.digest())
    folded = Archive(islands=2, migration_interval=2, capacity=120)
    with LedgerReader.open(path) as reader:
        for past in reader.rounds():
            for record in past.records:
                assert isinstance(record, Accepted)
                assert folded.insert(record.elite, record.island) is record.outcome
            folded.migrate(past.number, np.random.default_rng(past.number))
            assert folded.digest() == past.archive_digest


def test_events_are_kept_in_order(path: Path) -> None:
    with Ledger.create(path) as ledger:
        ledger.append_event("started", {"seed": 7, "models": ["a"], "budget": None})
        ledger.append_event("finished", {})
        assert [(e.number, e.kind, e.body) for e in ledger.events()] == [
            (1, "started", {"seed": 7, "models": ["a"], "budget": None}),
            (2, "finished", {}),
        ]
        with pytest.raises(ValueError, match="JSON compliant"):
            ledger.append_event("finished", {"error": float("nan")})


@pytest.mark.parametrize(
    ("number", "records"),
    [
        (2, []),  # a round left out
        (0, []),  # a round told twice
        (1, [accepted(2)]),  # a proposal told twice
        (1, [accepted(5), rejected(4)]),
        (1, [accepted(5), rejected(5)]),
        (1, [accepted(3), accepted(4, score_json='{"error": NaN}')]),
        (1, [accepted(3), accepted(4, score_json='{"error": -Infinity}')]),
        (1, [accepted(3, score_json="[]")]),
        (1, [accepted(3, score_json="not json")]),
        (1, [replace(accepted(3), elite=elite(3, fitness=float("inf")))]),
    ],
)
def test_a_round_that_breaks_a_rule_leaves_no_trace(path: Path, number: int, records: list[Record]) -> None:
    with Ledger.create(path) as ledger:
        ledger.append_round(0, mixed_round(0))
        with pytest.raises(ValueError, match=r"got|want|Expecting"):
            ledger.append_round(number, records)
        assert [past.number for past in ledger.rounds()] == [0]
        ledger.append_round(1, mixed_round(3))


@pytest.mark.parametrize("table", _TABLES)
def test_rows_are_never_changed_deleted_or_replaced(path: Path, table: str) -> None:
    write(path, 2)
    with Ledger.open(path) as ledger:
        ledger.append_event("started", {})
    with closing(sqlite3.connect(path, isolation_level=None)) as raw:
        before = raw.execute(f"SELECT * FROM {table}").fetchall()
        assert before
        marks = ", ".join("?" * len(before[0]))
        for statement, values in (
            (f"UPDATE {table} SET number = number + 100", ()),
            (f"DELETE FROM {table}", ()),
            (f"INSERT OR REPLACE INTO {table} VALUES ({marks})", before[0]),
        ):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                raw.execute(statement, values)
        assert raw.execute(f"SELECT * FROM {table}").fetchall() == before


def test_a_second_writer_is_refused_while_the_first_is_open(path: Path) -> None:
    with Ledger.create(path) as first:
        with pytest.raises(LedgerInUse, match=r"run\.db.*another process is writing.*Wait"):
            Ledger.open(path)
        first.append_round(0, mixed_round(0))
    with Ledger.open(path) as second:
        assert second.next_round == 1


def test_a_reader_sees_whole_rounds_while_the_writer_goes_on(path: Path) -> None:
    with Ledger.create(path) as ledger, LedgerReader.open(path) as reader:
        assert list(reader.rounds()) == []
        for number in range(5):
            past = reader.rounds()
            ledger.append_round(number, mixed_round(number * 3))
            assert [seen.number for seen in past] == list(range(number + 1))
        assert reader.next_round == 5


def test_a_reader_cannot_write(path: Path) -> None:
    write(path, 1)
    with LedgerReader.open(path) as reader:
        assert not hasattr(reader, "append_round")
    before = path.read_bytes()
    with LedgerReader.open(path) as reader:
        list(reader.rounds())
    assert path.read_bytes() == before


def test_a_ledger_that_is_not_there_is_missing_and_is_not_made(path: Path) -> None:
    for opening in (Ledger.open, LedgerReader.open):
        with pytest.raises(LedgerMissing, match=r"run\.db: there is no run here"):
            opening(path)
    assert list(path.parent.iterdir()) == []


def test_a_ledger_is_not_made_over_another(path: Path) -> None:
    write(path, 1)
    with pytest.raises(LedgerExists, match="lies here already"):
        Ledger.create(path)
    with Ledger.open(path) as ledger:
        assert ledger.next_round == 1


def test_a_folder_that_does_not_exist_is_named(path: Path) -> None:
    with pytest.raises(LedgerFailed, match=r"nowhere/run\.db.*folder exists"):
        Ledger.create(path.parent / "nowhere" / "run.db")


def test_a_later_schema_is_left_alone(path: Path) -> None:
    write(path, 1)
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("PRAGMA user_version = 99")
    for opening in (Ledger.open, LedgerReader.open):
        with pytest.raises(LedgerNewer, match=r"schema 99.*Update the program"):
            opening(path)


@pytest.mark.parametrize(
    "content", [b"not a database at all, but long enough to have a header" * 40, b"SQLite format 3\0", b""]
)
def test_a_file_that_is_no_database_is_corrupt(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for opening in (Ledger.open, LedgerReader.open):
        with pytest.raises(LedgerCorrupt, match=r"run\.db"):
            opening(path)
    assert path.read_bytes() == content


def test_another_programs_database_is_not_a_ledger(path: Path) -> None:
    with closing(sqlite3.connect(path)) as raw:
        raw.execute("CREATE TABLE round (number)")
    for opening in (Ledger.open, LedgerReader.open):
        with pytest.raises(LedgerCorrupt, match="other program"):
            opening(path)


def test_a_file_cut_short_anywhere_is_corrupt(path: Path) -> None:
    write(path, 30, 30)
    whole = path.read_bytes()
    assert len(whole) > 100_000
    for size in (*range(1, len(whole), 7919), *range(len(whole) - 4200, len(whole), 601), len(whole) - 1):
        path.write_bytes(whole[:size])
        for opening in (Ledger.open, LedgerReader.open):
            with pytest.raises(LedgerCorrupt):
                opening(path)


def test_a_page_overwritten_with_zeros_is_never_read_as_a_shorter_run(path: Path) -> None:
    write(path, 30, 30)
    whole = path.read_bytes()
    for page in range(1, len(whole) // 4096):
        path.write_bytes(whole[: page * 4096] + bytes(4096) + whole[(page + 1) * 4096 :])
        with pytest.raises(LedgerCorrupt):
            read_all(path)


def test_a_row_that_does_not_decode_names_the_file(path: Path) -> None:
    write(path, 1)
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("DROP TRIGGER program_no_update")
        raw.execute("UPDATE program SET objectives = '[0.1, '")
    with pytest.raises(LedgerCorrupt, match="does not decode"):
        read_all(path)


def test_a_round_that_lost_a_record_is_not_passed_on(path: Path) -> None:
    write(path, 1)
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("DROP TRIGGER refusal_no_delete")
        raw.execute("DELETE FROM refusal")
    with pytest.raises(LedgerCorrupt, match="2 of its 3 records"):
        read_all(path)


class Interrupting(Rejected):
    """A record at whose writing the user presses Ctrl-C."""

    @property
    def source(self) -> str:  # type: ignore[override]
        raise KeyboardInterrupt


def test_an_interrupt_within_a_round_takes_all_of_it_back(path: Path) -> None:
    interrupting = Interrupting.__new__(Interrupting)
    object.__setattr__(interrupting, "number", 9)
    with Ledger.create(path) as ledger:
        with pytest.raises(KeyboardInterrupt):
            ledger.append_round(0, [*mixed_round(0), interrupting])
        assert ledger.next_round == 0
        ledger.append_round(0, mixed_round(0))
        assert [len(past.records) for past in ledger.rounds()] == [3]


def read_all(path: Path) -> None:
    with LedgerReader.open(path) as reader:
        list(reader.rounds())
        list(reader.events())


def test_a_path_with_odd_characters_works(tmp_path: Path) -> None:
    folder = tmp_path / "50% of a run? #1 & µ"
    folder.mkdir()
    write(folder / "run.db", 1)
    read_all(folder / "run.db")
    assert {entry.name for entry in folder.iterdir()} >= {"run.db", "run.db.lock"}
