"""The ledger and other processes: killed writers, writers that hold the lock, a full disk, a read-only folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from archive import Ledger, LedgerInUse, LedgerReader
from tests.archive.samples import mixed_round

ROOT = Path(__file__).parents[2]

HEADER = """
import os, signal, sys, time
from pathlib import Path
from archive import *
from tests.archive.samples import mixed_round, rejected
path = Path(sys.argv[1])
"""

WRITES_FOR_EVER = """
count = int(sys.argv[2])
with Ledger.open(path) as ledger:
    while True:
        number = ledger.next_round
        ledger.append_round(number, mixed_round(number * count, count))
        print(number, flush=True)
"""


def start(code: str, *arguments: object) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HEADER + code, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def kill(process: subprocess.Popen[str]) -> list[str]:
    process.kill()
    assert process.stdout is not None
    with process.stdout as out:
        said = out.read().split()
    assert process.wait() == -signal.SIGKILL
    return said


@pytest.fixture
def path(tmp_path: Path) -> Path:
    Ledger.create(tmp_path / "run.db").close()
    return tmp_path / "run.db"


def test_a_killed_writer_leaves_whole_rounds_and_no_lock(path: Path) -> None:
    told = 0
    for delay_s in (0.0, 0.013, 0.05):  # between commits and within them: a round of 600 takes some 10 ms
        process = start(WRITES_FOR_EVER, path, 600)
        told = int(first_line(process))
        time.sleep(delay_s)
        told = max([told, *map(int, kill(process))])
        with LedgerReader.open(path) as reader:
            rounds = list(reader.rounds())
        assert [past.number for past in rounds] == list(range(len(rounds)))
        assert all(past.records == tuple(mixed_round(past.number * 600, 600)) for past in rounds)
        assert told < len(rounds) <= told + 2  # every round that was announced, and at most the one that was not yet
    with Ledger.open(path) as ledger:
        ledger.append_round(ledger.next_round, mixed_round(ledger.next_number))


DIES_WITHIN_A_ROUND = """
class Deadly(Rejected):
    reads = 0
    @property
    def source(self):
        Deadly.reads += 1
        os.kill(os.getpid(), signal.SIGKILL)

deadly = Deadly.__new__(Deadly)
for name, value in dict(number=5000, operator="x", parents=(), island=0, stage="x", code="x", reason="x").items():
    object.__setattr__(deadly, name, value)
ledger = Ledger.open(path)
ledger.append_round(0, mixed_round(0))
ledger.append_round(1, [*(rejected(number, source="x" * 4000) for number in range(3, 2003)), deadly])
"""


def test_a_writer_killed_within_a_round_leaves_nothing_of_it(path: Path) -> None:
    process = start(DIES_WITHIN_A_ROUND, path)
    assert process.communicate()[0] == ""
    assert process.returncode == -signal.SIGKILL
    assert path.with_name("run.db-wal").stat().st_size > 4_000_000  # eight megabytes of the round were on their way
    with LedgerReader.open(path) as reader:
        assert [past.number for past in reader.rounds()] == [0]
    with Ledger.open(path) as ledger:
        assert (ledger.next_round, ledger.next_number) == (1, 3)
        ledger.append_round(1, mixed_round(3))
        assert [len(past.records) for past in ledger.rounds()] == [3, 3]


LEAVES_A_WORKER_BEHIND = """
ledger = Ledger.open(path)
worker = os.fork()
if worker == 0:
    time.sleep(60)
    os._exit(0)
print(worker, flush=True)
time.sleep(60)
"""


def test_a_worker_that_outlives_a_killed_writer_does_not_hold_the_lock(path: Path) -> None:
    process = start(LEAVES_A_WORKER_BEHIND, path)
    worker = int(first_line(process))
    try:
        with pytest.raises(LedgerInUse, match="another process"):
            Ledger.open(path)
        process.kill()
        process.wait()
        os.kill(worker, 0)  # still there
        with Ledger.open(path) as ledger:
            ledger.append_round(0, mixed_round(0))
    finally:
        os.kill(worker, signal.SIGKILL)
        assert process.stdout is not None
        process.stdout.close()


CREATION_CUT_SHORT = """
import sqlite3
connection = sqlite3.connect(path.with_name("new.db"))
connection.execute("PRAGMA journal_mode = WAL")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_creation_cut_short_is_taken_up_again(path: Path) -> None:
    start(CREATION_CUT_SHORT, path).communicate()
    new = path.with_name("new.db")
    assert new.exists()
    with Ledger.create(new) as ledger:
        ledger.append_round(0, mixed_round(0))


FILLS_THE_DISK = """
import resource
ledger = Ledger.open(path)
ledger.append_round(0, mixed_round(0))
_, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, hard))
try:
    ledger.append_round(1, [rejected(number, source="x" * 4000) for number in range(3, 2003)])
except LedgerFailed as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
assert ledger.next_round == 1, ledger.next_round
ledger.append_round(1, mixed_round(3))
print(*(len(past.records) for past in ledger.rounds()))
"""


def test_a_round_that_does_not_fit_the_disk_is_rolled_back_and_can_be_written_again(path: Path) -> None:
    process = start(FILLS_THE_DISK, path)
    message, rounds = process.communicate()[0].splitlines()
    assert process.returncode == 0
    assert "run.db" in message
    assert "Free some space" in message
    assert rounds == "3 3"


READS_AS_NOBODY = """
os.chmod(path.parent, 0o555)
os.chmod(path, 0o444)
os.setgid(65534)
os.setuid(65534)
with LedgerReader.open(path) as reader:
    print(reader.next_round)
try:
    Ledger.open(path)
except LedgerError as error:
    print(type(error).__name__)
"""


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can become nobody")
def test_a_run_in_a_read_only_folder_can_be_read(path: Path) -> None:
    with Ledger.open(path) as ledger:
        ledger.append_round(0, mixed_round(0))
    path.with_name("run.db.lock").unlink()
    for folder in path.parents:  # pytest keeps its folders to itself
        if folder.is_relative_to(tempfile.gettempdir()) and folder != Path(tempfile.gettempdir()):
            folder.chmod(0o755)
    process = start(READS_AS_NOBODY, path)
    assert process.communicate()[0].split() == ["1", "LedgerFailed"]
