"""The command line where its surroundings are poor: no streams, a full disk behind them, ASCII only, stray files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.evolve.tiny_runs import REPOSITORY, STAGES, command, tiny_dataset

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(REPOSITORY)}


def shell(text: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a shell command in which ``$EVOLVE`` is the command line."""
    line = text.replace("$EVOLVE", f"{sys.executable} -m evolve")
    return subprocess.run(
        ["/bin/sh", "-c", line], cwd=cwd, env=ENVIRONMENT, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
def test_closed_streams_stop_nothing(tmp_path: Path, closed: str) -> None:
    done = shell(f"$EVOLVE data {closed}", tmp_path)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_standard_output_is_one_message(tmp_path: Path) -> None:
    done = shell("$EVOLVE data > /dev/full", tmp_path)
    assert done.returncode == 1
    assert done.stderr == "error: the output cannot be written: No space left on device\n"


def test_names_outside_ascii_are_escaped_where_the_stream_lacks_them(tmp_path: Path) -> None:
    path = tiny_dataset(tmp_path, STAGES.replace("quick", "schn\u00e4ll"))
    plain = command("data", path, cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert "schn\\xe4ll" in plain.stdout, plain.stderr
    document = command("data", path, "--json", cwd=tmp_path, PYTHONIOENCODING="ascii")
    assert json.loads(document.stdout)[0]["workload"] == "schn\u00e4ll"


@pytest.mark.parametrize("name", ["seeds", "numpy", "json"])
def test_a_stray_module_in_the_working_folder_is_not_imported(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text("raise SystemExit('stray')\n")
    done = command("features", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)


def test_a_python_without_the_packages_is_one_message() -> None:
    done = subprocess.run(
        [sys.executable, "-S", "-m", "evolve"], cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: the package typer is missing. Run `uv sync`")
