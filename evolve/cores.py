"""How many cores this process may really use: its CPU affinity and the quota of its control group."""

from __future__ import annotations

import os
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")


def usable_cores() -> int:
    """Return the number of cores that are worth a worker each, 1 or more."""
    affinity = getattr(os, "sched_getaffinity", None)  # not on macOS and Windows
    granted = len(affinity(0)) if affinity is not None else os.cpu_count() or 1
    quota = cgroup_quota(CGROUP)
    return max(1, granted if quota is None else min(granted, int(quota)))


def cgroup_quota(folder: Path) -> float | None:
    """Return the cores that a control group mounted at ``folder`` grants, None where it sets no limit.

    Reads version 2 (``cpu.max``: quota and period) or version 1 (``cpu/cpu.cfs_quota_us`` and its period).
    """
    try:
        if (folder / "cpu.max").exists():
            quota, period = (folder / "cpu.max").read_text().split()
        else:
            quota = (folder / "cpu" / "cpu.cfs_quota_us").read_text()
            period = (folder / "cpu" / "cpu.cfs_period_us").read_text()
        granted = float(quota) / float(period)
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or `max`: no limit
        return None
    return granted if granted > 0.0 else None
