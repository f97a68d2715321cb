"""Standard output and error as every command may assume them: there, and able to take any text."""

from __future__ import annotations

import io
import os
import sys


def usable_streams() -> None:
    """Open what was closed on the way here, and escape what an encoding lacks instead of failing on it."""
    if sys.stdout is None:
        sys.stdout = _nowhere()
    if sys.stderr is None:
        sys.stderr = _nowhere()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _nowhere() -> io.TextIOWrapper:
    return open(os.devnull, "w", encoding="utf-8")
