"""Where compiled kernels are kept: a cache folder named by the sources it was compiled from.

Numba decides whether a cached kernel is stale by the one file that defines it, and so misses a change in a
kernel that it calls. Naming the folder by a digest of every kernel source closes that hole.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba import njit

NAME = "evolve-step-time"


def kernel_files() -> tuple[Path, ...]:
    """Return the sources that compiled code depends on: every module that uses this one, and the argument types."""
    package = Path(__file__).parent
    users = [path for path in package.glob("*.py") if b"evaluators.jit import" in path.read_bytes()]
    return tuple(sorted({*users, package / "physics.py"}))


def cache_base() -> Path:
    """Return the user's cache folder, or a private temporary one where there is none that can be written."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / NAME
        base.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=base):
            return base
    except (OSError, RuntimeError):  # read-only, not a folder, or no home at all
        return _temporary_base()


def _temporary_base() -> Path:
    """Return a folder for temporary files that nobody else can write: what it holds will be run."""
    user = os.getuid() if sys.platform != "win32" else 0
    folder = Path(tempfile.gettempdir()) / f"{NAME}-{user}"
    with suppress(FileExistsError):
        folder.mkdir(mode=0o700)
    status = folder.lstat()
    ours = sys.platform == "win32" or (status.st_uid == user and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    if ours and stat.S_ISDIR(status.st_mode):
        return folder
    return Path(tempfile.mkdtemp(prefix=f"{NAME}-"))


def use_cache_folder() -> Path:
    """Point Numba's cache at a folder for exactly these kernel sources and return it."""
    digest = hashlib.sha256(f"{numba.__version__} {sys.version}".encode())
    for path in kernel_files():
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    folder = cache_base() / f"kernels-{digest.hexdigest()[:16]}"
    numba.config.CACHE_DIR = str(folder)
    return folder


CACHE_FOLDER = use_cache_folder()

_OPTIONS = {"cache": True, "error_model": "numpy", "_nrt": False, "forceinline": True}

kernel = njit(**_OPTIONS)
"""Decorate a kernel: cached on disk, IEEE division, inlined, and without reference counting of its arrays.

Kernels allocate nothing, so they need none; counting cost more than the simulation itself (measured: 2.6 times).
Inlining saves handing groups of arrays from kernel to kernel (measured: a third of the time)."""


def entry_kernel(signature: Any) -> Any:
    """Return the `kernel` decorator for one signature, compiled where it stands.

    A function with a ``types.FunctionType`` argument needs it: called with a compiled program, a lazily compiled kernel
    would be compiled anew for each program (2 s) instead of taking it by its address.
    """
    return njit(signature, **_OPTIONS)
