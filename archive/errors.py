"""What can go wrong with a ledger: each error names the file, what was found and the way out."""

# ruff: noqa: N818 - they read as what is the case; the base class carries the suffix

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CORRUPT_CODES = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})


class LedgerError(Exception):
    """A ledger cannot be used as asked. Base of the errors below."""

    def __init__(self, path: Path, got: str, way_out: str) -> None:
        super().__init__(f"{path}: {got}. {way_out}")
        self.path = path
        self.got = got
        self.way_out = way_out


class LedgerMissing(LedgerError):
    """There is no ledger at this path."""


class LedgerExists(LedgerError):
    """A new ledger was asked for where one lies already."""


class LedgerInUse(LedgerError):
    """Another writer, alive, holds this ledger."""


class LedgerNewer(LedgerError):
    """The ledger was written under a later schema than this program knows."""


class LedgerCorrupt(LedgerError):
    """The file is not a ledger, or no longer a whole one."""


class LedgerFailed(LedgerError):
    """The file system refused (disk full, no permission, input/output error); a round in progress was rolled back."""


@contextmanager
def naming_failures(path: Path) -> Iterator[None]:
    """Turn SQLite's errors, and text that cannot be decoded, into a ``LedgerError`` that names ``path``."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)
        if code & 0xFF in _CORRUPT_CODES or code == sqlite3.SQLITE_IOERR_SHORT_READ:
            raise corrupt(path, str(error)) from error
        if code & 0xFF in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR):
            way_out = "Free some space on the disk and resume the run: nothing of this write was kept"
        elif code & 0xFF in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
            way_out = "Check that its folder exists and that you may write there"
        else:
            way_out = "Nothing of this call was kept"
        raise LedgerFailed(path, f"SQLite says: {error}", way_out) from error
    except UnicodeDecodeError as error:
        raise corrupt(path, f"a text is not UTF-8 ({error.reason})") from error


def corrupt(path: Path, got: str) -> LedgerCorrupt:
    """Return the error for a damaged file."""
    return LedgerCorrupt(path, f"not a whole ledger: {got}", "Restore it from a copy, or start a new run")
