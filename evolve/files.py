"""Files that are either the old ones or the new ones, whatever happens while they are written."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from evolve.errors import CommandError


def write_atomic(path: Path, text: str) -> None:
    """Replace a file by ``text`` (UTF-8): it is on the disk when this returns, and no reader ever sees a part of it.

    Raises: CommandError: the disk is full, read-only or the like; the old file, if any, is as before.
    """
    temporary: str | None = None
    try:
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except (OSError, UnicodeEncodeError) as problem:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)
        reason = getattr(problem, "strerror", None) or "a name in it is not UTF-8"
        raise CommandError(f"{path}: cannot be written: {reason}. Check the disk and its permissions") from None


def _sync_folder(folder: Path) -> None:
    """Put the folder's entries on the disk where the system can do that."""
    with suppress(OSError):  # not on Windows, not on some network file systems
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
