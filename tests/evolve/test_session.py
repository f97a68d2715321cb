"""A run from end to end on a tiny dataset: the same whatever the workers, the interruptions and the day."""

from __future__ import annotations

import io
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from archive import Event, LedgerError, LedgerReader, Round
from evolve.errors import CommandError
from evolve.progress import PlainView
from evolve.run_folder import RunFolder, create_run, writing
from evolve.session import plan_of, restore, resume, session_seconds, start, tally_of
from evolve.settings import RunSettings, SearchSettings, Settings
from tests.evolve.tiny_runs import REPOSITORY, accepted, begin, command, summary_without_times, tiny_dataset

SMALL = ("--round-size", "4", "--islands", "2")


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_dataset(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def straight(tmp_path_factory: pytest.TempPathFactory, dataset: Path) -> RunFolder:
    """Return a run of 16 evaluations in one go, with one worker."""
    cwd = tmp_path_factory.mktemp("straight")
    done = command("run", "--budget", 16, "--data", dataset, "--workers", 1, "--name", "a", *SMALL, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return RunFolder(cwd / "runs" / "a")


def wait_for(condition: Callable[[], bool], seconds: float = 120.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.05)


def rounds_in(folder: RunFolder) -> int:
    if not folder.ledger_path.is_file():
        return 0
    try:
        with LedgerReader.open(folder.ledger_path) as ledger:
            return ledger.next_round
    except LedgerError:  # being made
        return 0


def children_of(process: subprocess.Popen[str]) -> list[int]:
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            parent = re.search(r"^PPid:\s+(\d+)", status.read_text(), re.MULTILINE)
        except OSError:
            continue
        if parent and int(parent[1]) == process.pid:
            found.append(int(status.parent.name))
    return found


def alive(process_id: int) -> bool:
    try:
        state = Path(f"/proc/{process_id}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_run_leaves_settings_ledger_summary_and_champion(straight: RunFolder) -> None:
    summary = summary_without_times(straight.path)
    assert (summary["status"], summary["evaluations"], summary["budget"]) == ("finished", 16, 16)
    assert summary["champion"]["source"] == straight.champion_path.read_text(encoding="utf-8")
    settings = straight.settings()
    assert (settings.run.workers, settings.search.round_size) == (1, 4)
    assert len(settings.run.dataset_digest) == 64


def test_the_same_seed_gives_the_same_run_on_two_workers(tmp_path: Path, straight: RunFolder, dataset: Path) -> None:
    done = command("run", "--budget", 16, "--data", dataset, "--workers", 2, "--name", "b", *SMALL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert summary_without_times(tmp_path / "runs" / "b") == summary_without_times(straight.path)
    assert digests(RunFolder(tmp_path / "runs" / "b")) == digests(straight)


def digests(folder: RunFolder) -> list[str | None]:
    with LedgerReader.open(folder.ledger_path) as ledger:
        return [past.archive_digest for past in ledger.rounds()]


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc to see the workers")
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_stopped_ends_its_workers_and_resumes_to_the_same_result(
    tmp_path: Path, straight: RunFolder, dataset: Path, ending: signal.Signals
) -> None:
    folder = RunFolder(tmp_path / "runs" / "c")
    process = begin("run", "--budget", 16, "--data", dataset, "--workers", 2, "--name", "c", *SMALL, cwd=tmp_path)
    wait_for(lambda: rounds_in(folder) >= 1)
    workers = children_of(process)
    assert workers
    process.send_signal(ending)
    output, complaints = process.communicate(timeout=60)
    if ending is signal.SIGKILL:
        assert process.returncode == -ending
        assert not folder.summary_path.exists()
    else:
        assert process.returncode == 128 + ending, complaints
        assert f"python -m evolve resume {folder.path}" in output
        assert "Traceback" not in complaints
        assert summary_without_times(folder.path)["status"] == "interrupted"
    wait_for(lambda: not any(map(alive, workers)), 20.0)
    done = command("resume", "c", "--workers", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert summary_without_times(folder.path) == summary_without_times(straight.path)
    assert digests(folder) == digests(straight)
    assert folder.champion_path.read_bytes() == straight.champion_path.read_bytes()


def test_resuming_a_finished_run_changes_nothing_but_the_time(tmp_path: Path, straight: RunFolder) -> None:
    before = summary_without_times(straight.path)
    finish = resume(straight, None, PlainView(io.StringIO()))
    assert finish.exit_code == 0
    assert summary_without_times(straight.path) == before


def test_resuming_on_a_changed_dataset_is_refused(tmp_path: Path) -> None:
    path = tiny_dataset(tmp_path)
    experiments_digest = "0" * 64
    settings = Settings(run=RunSettings(dataset=str(path), dataset_digest=experiments_digest))
    folder = create_run(tmp_path / "runs", "d", settings)
    with pytest.raises(CommandError, match="it changed since this run began"):
        resume(folder, 1, PlainView(io.StringIO()))


def test_resuming_under_another_seed_is_refused_and_a_larger_budget_is_not(straight: RunFolder, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "h")
    shutil.copytree(straight.path, folder.path)
    text = folder.settings_path.read_text()
    folder.settings_path.write_text(text.replace("seed = 0", "seed = 9"))
    with pytest.raises(CommandError, match="got another seed"):
        resume(folder, 1, PlainView(io.StringIO()))
    folder.settings_path.write_text(text.replace("budget = 16", "budget = 17"))
    assert resume(folder, 1, PlainView(io.StringIO())).summary["evaluations"] == 17


def test_a_new_run_on_an_unusable_dataset_leaves_no_folder(tmp_path: Path) -> None:
    settings = Settings(run=RunSettings(dataset="nowhere", runs=str(tmp_path / "runs")))
    with pytest.raises(CommandError, match="dataset: nowhere"):
        start(settings, "e", PlainView(io.StringIO()))
    assert list(tmp_path.iterdir()) == []


def test_restoring_refuses_an_archive_that_is_not_the_recorded_one(tmp_path: Path) -> None:
    folder = create_run(tmp_path, "f", Settings())
    with writing(folder) as ledger:
        ledger.append_round(0, [accepted(0, 0.1)], "not the digest")
        with pytest.raises(CommandError, match="after round 0 the archive is not the one that was recorded"):
            restore(ledger, plan_of(Settings()))


def test_restoring_refuses_a_program_that_does_not_parse(tmp_path: Path) -> None:
    folder = create_run(tmp_path, "g", Settings())
    with writing(folder) as ledger:
        ledger.append_round(0, [accepted(0, 0.1, "import os\n")])
        with pytest.raises(CommandError, match="round 0 cannot be read back"):
            restore(ledger, plan_of(Settings()))


def test_restoring_a_whole_run_counts_what_the_run_counted(straight: RunFolder) -> None:
    with LedgerReader.open(straight.ledger_path) as ledger:
        state = restore(ledger, plan_of(straight.settings()))
        assert state.tally == tally_of(ledger)
    assert state.tally.evaluations == summary_without_times(straight.path)["evaluations"]


def test_the_time_of_a_run_adds_up_over_its_sessions() -> None:
    def at(time_of_day: str) -> str:
        return f"2026-01-01T{time_of_day}+00:00"

    rounds = [Round(n, at(moment), (), None) for n, moment in enumerate(("10:00:07", "10:00:20", "11:00:05"))]
    events = [Event(0, "started", at("10:00:00"), {}), Event(1, "resumed", at("11:00:00"), {})]  # killed in between
    assert session_seconds(events, rounds) == 25.0
    ended = Event(2, "finished", at("11:00:06"), {"wall_s": 25.75})
    assert session_seconds([*events, ended], rounds) == 25.75


def test_every_setting_of_the_search_reaches_the_plan() -> None:
    search = SearchSettings(round_size=3, islands=2, migration_interval=5, migration_rate=0.3, capacity=300)
    plan = plan_of(Settings(run=RunSettings(seed=9, budget=11), search=search))
    got = (plan.seed, plan.budget, plan.round_size, plan.islands, plan.migration_interval)
    assert got == (9, 11, 3, 2, 5)
    assert (plan.migration_rate, plan.capacity, plan.caps.operations) == (0.3, 300, 30)


def test_the_second_signal_ends_the_process_at_once() -> None:
    script = (
        "import os, signal, time\n"
        "from evolve.stopping import StopRequested, stoppable\n"
        "with stoppable():\n"
        "    try:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    except StopRequested as stop:\n"
        "        assert stop.exit_code == 130\n"
        "        os.kill(os.getpid(), signal.SIGTERM)\n"
        "        time.sleep(60)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=REPOSITORY, timeout=30, check=False)
    assert done.returncode == 143
