"""The ledger's tables, and how its file is made and recognised.

``round`` 1-n ``proposal``; a proposal has one row in ``program`` (with its ``score``), ``refusal`` or ``duplicate``.
Rows are only ever added: triggers refuse the rest, INSERT OR REPLACE included, which deletes without asking a delete
trigger.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path

from archive.errors import LedgerCorrupt, LedgerExists, LedgerNewer, corrupt

APPLICATION_ID = int.from_bytes(b"EvST", "big")
"""Stands in the file's header, so that ``file`` and we tell a ledger from any other database."""

VERSION = 1
"""Of the schema; raise it with every change to the tables."""

_TABLES = {
    "round": "number INTEGER PRIMARY KEY, at_utc TEXT NOT NULL, records INTEGER NOT NULL, archive_digest TEXT",
    "proposal": (
        "number INTEGER PRIMARY KEY, round INTEGER NOT NULL REFERENCES round, source TEXT NOT NULL, "
        "operator TEXT NOT NULL, parents TEXT NOT NULL, island INTEGER NOT NULL"
    ),
    "program": (
        "number INTEGER PRIMARY KEY REFERENCES proposal, id TEXT NOT NULL, operations INTEGER NOT NULL, "
        "features INTEGER NOT NULL, fitness REAL NOT NULL, objectives TEXT NOT NULL, outcome TEXT NOT NULL"
    ),
    "score": "number INTEGER PRIMARY KEY REFERENCES program, body TEXT NOT NULL",
    "refusal": (
        "number INTEGER PRIMARY KEY REFERENCES proposal, stage TEXT NOT NULL, code TEXT NOT NULL, reason TEXT NOT NULL"
    ),
    "duplicate": "number INTEGER PRIMARY KEY REFERENCES proposal, program_id TEXT NOT NULL",
    "event": "number INTEGER PRIMARY KEY, kind TEXT NOT NULL, at_utc TEXT NOT NULL, body TEXT NOT NULL",
}


def create_tables(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables in a new file, in one transaction; a creation that was cut short is taken up again.

    Raises: LedgerExists: when the file holds anything.
    """
    if _pragma(connection, "application_id") or _pragma(connection, "user_version") or _table_names(connection):
        raise LedgerExists(path, "a database lies here already", "Resume that run, or give the new one another name")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    for table, columns in _TABLES.items():
        connection.execute(f"CREATE TABLE {table} ({columns})")
        for verb, when in (("UPDATE", ""), ("DELETE", ""), ("INSERT", _taken(table))):
            connection.execute(
                f"CREATE TRIGGER {table}_no_{verb.lower()} BEFORE {verb} ON {table} {when} "
                f"BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: {table} {verb}'); END"
            )
    connection.execute("CREATE INDEX proposal_by_round ON proposal (round)")
    connection.execute("CREATE INDEX program_by_id ON program (id)")
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute(f"PRAGMA user_version = {VERSION}")
    connection.execute("COMMIT")


def check_file(connection: sqlite3.Connection, path: Path) -> None:
    """Accept a whole ledger of a schema we know.

    Raises: LedgerCorrupt: not a ledger, or SQLite finds damage. LedgerNewer: a later schema.
    """
    names = _table_names(connection)
    if not names:
        raise LedgerCorrupt(
            path, "the file is empty: making the ledger was interrupted", "Delete it and start the run again"
        )
    if _pragma(connection, "application_id") != APPLICATION_ID:
        raise corrupt(path, "this is some other program's database")
    version = _pragma(connection, "user_version")
    if version > VERSION:
        raise LedgerNewer(
            path, f"written under schema {version}; this program knows up to {VERSION}", "Update the program to read it"
        )
    verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    if verdict != "ok" or not names >= set(_TABLES):
        raise corrupt(path, str(verdict) if verdict != "ok" else f"it lacks {sorted(set(_TABLES) - names)}")


def _taken(table: str) -> str:
    return f"WHEN EXISTS (SELECT 1 FROM {table} WHERE number = NEW.number)"


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    return int(connection.execute(f"PRAGMA {name}").fetchone()[0])


def _table_names(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
