"""Where a run lies on disk: its folder is made, found and opened here, and nowhere else.

runs/<name>/settings.toml, run.db, and after the run summary.json and champion.py
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path

from archive import Ledger, LedgerError, LedgerReader
from evolve.errors import CommandError, UsageError
from evolve.files import write_atomic
from evolve.settings import Settings, read_settings

LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one run."""

    path: Path

    @property
    def name(self) -> str:
        """Return the run's name."""
        return self.path.name

    @property
    def ledger_path(self) -> Path:
        """Return the place of the ledger."""
        return self.path / "run.db"

    @property
    def settings_path(self) -> Path:
        """Return the place of the resolved settings."""
        return self.path / "settings.toml"

    @property
    def summary_path(self) -> Path:
        """Return the place of the summary for scripts."""
        return self.path / "summary.json"

    @property
    def champion_path(self) -> Path:
        """Return the place of the champion's program text."""
        return self.path / "champion.py"

    def settings(self) -> Settings:
        """Return the settings of the run. Raises: UsageError: somebody changed them to nonsense."""
        return read_settings(self.settings_path)


def create_run(runs: Path, name: str | None, settings: Settings) -> RunFolder:
    """Make the folder of a new run, with its settings and an empty ledger.

    The ledger comes last: a folder that holds one is whole.

    Raises: UsageError: a name that is no folder name. CommandError: it exists already, or the disk refuses.
    """
    folder = RunFolder(runs / (_checked_name(name) if name is not None else _fresh_name()))
    try:
        folder.path.mkdir(parents=True)
    except FileExistsError:
        if folder.path.is_dir():
            way_out = f"Give another --name, or go on with `resume {folder.path}`"
            raise CommandError(f"{folder.path}: a run of this name exists already. {way_out}") from None
        raise CommandError(f"{runs}: not a folder. Choose another one with --runs") from None
    except (OSError, ValueError) as problem:
        raise CommandError(f"{folder.path}: cannot be made: {_reason(problem)}. Choose a folder with --runs") from None
    try:
        write_atomic(folder.settings_path, settings.to_toml())
        with naming_ledger_errors(), Ledger.create(folder.ledger_path):
            pass
    except BaseException:
        _remove_empty(folder)
        raise
    return folder


def open_run(run: str, runs: Path) -> RunFolder:
    """Return the whole run of a name in ``runs``, or of a path.

    Raises: CommandError: missing, half-written, or no run at all.
    """
    named, direct = runs / run, Path(run)
    path = direct if _has_parts(run) or (not named.is_dir() and direct.is_dir()) else named
    try:
        if path.is_dir():
            return _whole(RunFolder(path))
        if path.exists():
            raise CommandError(f"{path}: this is a file; want a run folder")
    except (OSError, ValueError) as problem:
        raise CommandError(f"{ascii(run)[:200]}: cannot be read: {_reason(problem)}") from None
    near = get_close_matches(run, [folder.name for folder in whole_runs(runs)], n=1, cutoff=0.6)
    meant = f"Did you mean `{near[0]}`?" if near else "Check the name and --runs; `run` starts one"
    raise CommandError(f"{path}: there is no such run. {meant}")


def newest_run(runs: Path) -> RunFolder:
    """Return the run that was started last. Raises: CommandError: there is none."""
    folders = whole_runs(runs)
    if not folders:
        raise CommandError(f"{runs}: there is no run yet. Start one with `run`, or say where they lie with --runs")
    return folders[-1]


def whole_runs(runs: Path) -> list[RunFolder]:
    """Return the whole runs in a folder, oldest first; anything else in it is passed over."""
    dated = []
    with suppress(OSError):
        for entry in runs.iterdir():
            folder = RunFolder(entry)
            if folder.settings_path.is_file() and folder.ledger_path.is_file():
                dated.append((folder.settings_path.stat().st_mtime_ns, entry.name, folder))
    return [folder for _, _, folder in sorted(dated, key=lambda item: item[:2])]


@contextmanager
def reading(folder: RunFolder) -> Iterator[LedgerReader]:
    """Open a run's ledger for reading, also while the run goes on. Raises: CommandError."""
    with naming_ledger_errors(), LedgerReader.open(folder.ledger_path) as ledger:
        yield ledger


@contextmanager
def writing(folder: RunFolder) -> Iterator[Ledger]:
    """Open a run's ledger as its one writer. Raises: CommandError: in use, damaged, newer, or the disk refuses."""
    with naming_ledger_errors(), Ledger.open(folder.ledger_path) as ledger:
        yield ledger


def is_running(folder: RunFolder) -> bool:
    """Say whether some process is writing to the run now; asking changes nothing.

    Not for the process that writes: closing a file drops all locks that a process has on it.
    """
    lock = folder.path / "run.db.lock"
    if not lock.exists():
        return False
    with suppress(sqlite3.OperationalError), closing(_connect(lock)) as connection:
        connection.execute("SELECT 1 FROM sqlite_master")
        return False
    return True


def _connect(lock: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{lock.absolute().as_uri()}?mode=ro", uri=True, timeout=0)


@contextmanager
def naming_ledger_errors() -> Iterator[None]:
    """Turn a ledger's errors into what the user sees."""
    try:
        yield
    except LedgerError as problem:
        raise CommandError(str(problem)) from problem


def _whole(folder: RunFolder) -> RunFolder:
    settings, ledger = folder.settings_path.is_file(), folder.ledger_path.is_file()
    if settings and ledger:
        return folder
    if not settings and not ledger:
        raise CommandError(f"{folder.path}: not a run folder: it holds no run.db and no settings.toml")
    missing = "run.db" if settings else "settings.toml"
    way_out = "Delete the folder and start the run again" if settings else "Restore it from a copy"
    raise CommandError(f"{folder.path}: a half-written run: it holds no {missing}. {way_out}")


def _checked_name(name: str) -> str:
    plain = name.isprintable() and not _has_parts(name) and not name.startswith((".", "-")) and name == name.strip()
    if not plain or not 1 <= len(name) <= LONGEST_NAME:
        got = ascii(name if len(name) <= LONGEST_NAME else name[:40] + "...")
        raise UsageError(f"--name: got {got}; want a folder name of 1 to {LONGEST_NAME} characters, without / or \\")
    return name


def _fresh_name() -> str:
    return f"{datetime.now():%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


def _has_parts(name: str) -> bool:
    return "/" in name or "\\" in name or name in (".", "..")


def _reason(problem: Exception) -> str:
    return getattr(problem, "strerror", None) or str(problem)


def _remove_empty(folder: RunFolder) -> None:
    """Undo a creation that failed, as far as nothing but our own files lies there."""
    with suppress(OSError):
        folder.settings_path.unlink(missing_ok=True)
        folder.ledger_path.unlink(missing_ok=True)
        folder.ledger_path.with_name("run.db.lock").unlink(missing_ok=True)
        folder.path.rmdir()
