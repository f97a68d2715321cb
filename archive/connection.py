"""How the ledger's file is opened: by one writer at a time, by any number of readers."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from archive.errors import LedgerFailed, LedgerInUse, LedgerMissing, corrupt, naming_failures
from archive.schema import check_file, create_tables

BUSY_TIMEOUT_S = 10.0
"""How long a reader waits while a crashed writer's log is being recovered."""


def take_writer_lock(path: Path) -> sqlite3.Connection:
    """Return a connection that holds the ledger's one writer's lock until it is closed.

    It is an exclusive SQLite lock on an empty database beside the ledger. The system drops it with the process, however
    that ends, and a forked worker does not inherit it. The empty file stays.

    Raises: LedgerInUse: when somebody holds it. LedgerFailed: when the folder cannot be written.
    """
    lock = path.with_name(path.name + ".lock")
    with naming_failures(path):
        connection = sqlite3.connect(lock, isolation_level=None, timeout=0)
        try:
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("BEGIN EXCLUSIVE")
        except sqlite3.OperationalError as error:
            connection.close()
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY:
                raise
            raise LedgerInUse(
                path, "another process is writing to this run", "Wait for it or stop it; reading is possible meanwhile"
            ) from None
    return connection


def connect_writer(path: Path, *, create: bool) -> sqlite3.Connection:
    """Open the file for writing, as a new ledger or as one that exists; the caller holds the writer's lock.

    Raises: LedgerExists, LedgerMissing, LedgerCorrupt, LedgerNewer, LedgerFailed.
    """
    with naming_failures(path):
        connection = _connect(path, "mode=rwc" if create else "mode=rw")
        try:
            if create:
                create_tables(connection, path)
            check_file(connection, path)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")  # a round may hold replies that were paid for
            connection.execute("PRAGMA foreign_keys = ON")
        except BaseException:
            connection.close()
            raise
    return connection


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open the file read-only, while a writer is at work or not, also in a folder that cannot be written.

    Raises: LedgerMissing, LedgerCorrupt, LedgerNewer, LedgerFailed.
    """
    require_file(path)
    with naming_failures(path):
        connection = _connect(path, "mode=ro" if _opens_shared(path) else "mode=ro&immutable=1")
        try:
            check_file(connection, path)
        except BaseException:
            connection.close()
            raise
    return connection


def require_file(path: Path) -> None:
    """Check from outside that there is a file of whole pages.

    SQLite reads the missing end of a last page as zeros; with an empty log nothing could have meant it so.

    Raises: LedgerMissing, LedgerCorrupt, LedgerFailed.
    """
    try:
        if not path.is_file():
            raise LedgerMissing(path, "there is no run here", "Check the name, or start a run")
        with path.open("rb") as file:
            page_bytes = int.from_bytes(file.read(18)[16:], "big")
    except OSError as error:
        raise LedgerFailed(path, f"cannot be read: {error.strerror}", "Check its permissions") from error
    if page_bytes > 1 and path.stat().st_size % page_bytes and not _log_waits(path):
        raise corrupt(path, "its end is missing")


def _connect(path: Path, query: str) -> sqlite3.Connection:
    uri = f"{path.absolute().as_uri()}?{query}"
    connection = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=BUSY_TIMEOUT_S)
    connection.text_factory = lambda raw: raw.decode("utf-8", "surrogatepass")
    return connection


def _opens_shared(path: Path) -> bool:
    """Say whether readers' shared memory can be set up beside the file.

    It cannot in a read-only folder; when no log waits to be merged, such a file cannot change and needs none.
    """
    if _log_waits(path):
        return True
    with closing(_connect(path, "mode=ro")) as connection:
        try:
            connection.execute("SELECT 1 FROM sqlite_master")
        except sqlite3.OperationalError as error:
            return error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN)
    return True


def _log_waits(path: Path) -> bool:
    """Say whether there is a log that is not merged yet."""
    log = path.with_name(path.name + "-wal")
    return log.exists() and log.stat().st_size > 0
