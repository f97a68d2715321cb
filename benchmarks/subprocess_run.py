"""A whole run in a process of its own: how long it took, and how much memory it and its workers held at most."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

INTERVAL_S = 0.25


def measure_run(budget: int, folder: Path) -> tuple[float, int]:
    """Return wall time [s] and peak memory [bytes] of ``run --budget N`` with its run folder in ``folder``.

    Memory is the sum of what the processes hold alone and their share of what they hold together; 0 where the system
    has no /proc.
    Raises: subprocess.CalledProcessError: the run failed.
    """
    command = [sys.executable, "-m", "evolve", "run", "--budget", str(budget), "--runs", str(folder), "--name", "long"]
    began, peak = time.monotonic(), 0
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None:
            peak = max(peak, sum(map(_held_bytes, _family(process.pid))))
            time.sleep(INTERVAL_S)
    if process.returncode != 0:
        raise subprocess.CalledProcessError(process.returncode, command)
    return time.monotonic() - began, peak


def _family(pid: int) -> list[int]:
    """Return a process and all that descend from it, as far as they are still there."""
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    except OSError:
        return []
    return [pid, *(member for child in children for member in _family(int(child)))]


def _held_bytes(pid: int) -> int:
    """Return the proportional set size of a process; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
