"""Run folders: made whole or not at all, found by name, path or age, and refused with a reason."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import pytest

from archive import Ledger
from evolve.dataset import digest_of, open_dataset, require_same, require_scored
from evolve.errors import CommandError, UsageError
from evolve.files import write_atomic
from evolve.run_folder import (
    RunFolder,
    create_run,
    is_running,
    newest_run,
    open_run,
    reading,
    whole_runs,
    writing,
)
from evolve.settings import Settings
from tests.evolve.tiny_runs import accepted, tiny_dataset


def run_named(runs: Path, name: str, age_s: int = 0) -> RunFolder:
    folder = create_run(runs, name, Settings())
    moment_ns = 1_700_000_000_000_000_000 - age_s * 1_000_000_000
    os.utime(folder.settings_path, ns=(moment_ns, moment_ns))
    return folder


def test_a_new_run_holds_its_settings_and_an_empty_ledger(tmp_path: Path) -> None:
    folder = create_run(tmp_path / "deep" / "runs", "one", Settings())
    assert folder.settings() == Settings()
    with reading(folder) as ledger:
        assert list(ledger.rounds()) == []
    assert {entry.name.split("-")[0] for entry in folder.path.iterdir()} == {"settings.toml", "run.db", "run.db.lock"}


def test_runs_without_a_name_get_different_ones(tmp_path: Path) -> None:
    names = {create_run(tmp_path, None, Settings()).name for _ in range(5)}
    assert len(names) == 5


def test_a_name_that_is_taken_is_refused_and_the_run_is_left_as_it_was(tmp_path: Path) -> None:
    folder = run_named(tmp_path, "one")
    before = folder.settings_path.read_bytes()
    with pytest.raises(CommandError, match="exists already"):
        create_run(tmp_path, "one", Settings())
    assert folder.settings_path.read_bytes() == before


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", ".hidden", "-x", " a", "a\n", "a\0", "a" * 101])
def test_a_name_that_is_no_folder_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="--name"):
        create_run(tmp_path, name, Settings())
    assert list(tmp_path.iterdir()) == []


def test_runs_in_a_file_instead_of_a_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("")
    with pytest.raises(CommandError):
        create_run(tmp_path / "runs", "one", Settings())


def test_a_disk_that_is_read_only_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(CommandError, match=r"cannot be made: Read-only file system\. Choose a folder with --runs"):
        create_run(tmp_path, "one", Settings())


def test_a_disk_that_refuses_the_ledger_leaves_no_folder_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> Ledger:
        raise CommandError("disk full")

    monkeypatch.setattr(Ledger, "create", refuse)
    with pytest.raises(CommandError, match="disk full"):
        create_run(tmp_path, "one", Settings())
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_found_by_name_and_by_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = run_named(tmp_path / "runs", "one")
    monkeypatch.chdir(tmp_path)
    assert open_run("one", tmp_path / "runs") == folder
    assert open_run(str(folder.path), Path("elsewhere")) == folder
    assert open_run("runs/one", Path("elsewhere")).path.samefile(folder.path)


def test_the_newest_run_is_the_one_that_began_last_and_not_some_other_folder(tmp_path: Path) -> None:
    for age_s, name in ((20, "b"), (10, "a"), (30, "c")):
        run_named(tmp_path, name, age_s)
    (tmp_path / "zzz").mkdir()
    (tmp_path / "file").touch()
    assert [folder.name for folder in whole_runs(tmp_path)] == ["c", "b", "a"]
    assert newest_run(tmp_path).name == "a"


def test_no_run_at_all_is_said(tmp_path: Path) -> None:
    for runs in (tmp_path, tmp_path / "nothing"):
        with pytest.raises(CommandError, match="there is no run yet"):
            newest_run(runs)


def test_a_missing_run_is_refused_with_the_name_that_was_meant(tmp_path: Path) -> None:
    run_named(tmp_path, "first-run")
    with pytest.raises(CommandError, match="Did you mean `first-run`"):
        open_run("frist-run", tmp_path)


@pytest.mark.parametrize("missing", ["run.db", "settings.toml"])
def test_a_half_written_run_is_refused_with_what_it_lacks(tmp_path: Path, missing: str) -> None:
    folder = run_named(tmp_path, "one")
    (folder.path / missing).unlink()
    with pytest.raises(CommandError, match=f"half-written run: it holds no {missing}"):
        open_run("one", tmp_path)


def test_a_folder_that_is_no_run_and_a_file_are_refused(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "text").touch()
    with pytest.raises(CommandError, match="not a run folder"):
        open_run("photos", tmp_path)
    with pytest.raises(CommandError, match="this is a file"):
        open_run("text", tmp_path)


def test_a_run_can_be_read_but_not_written_while_another_process_writes(tmp_path: Path) -> None:
    folder = run_named(tmp_path, "one")
    with writing(folder) as ledger:
        ledger.append_round(0, [accepted(0, 0.1)])
        with reading(folder) as reader:
            assert reader.next_round == 1
        with pytest.raises(CommandError, match="another process is writing"), writing(folder):
            pass


def test_a_run_is_running_as_long_as_its_writer_is_there(tmp_path: Path) -> None:
    folder = run_named(tmp_path, "one")
    assert not is_running(folder)
    with writing(folder):
        assert is_running(folder)
    assert not is_running(folder)


def test_a_ledger_of_a_newer_schema_is_refused(tmp_path: Path) -> None:
    folder = run_named(tmp_path, "one")
    connection = sqlite3.connect(folder.ledger_path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(CommandError, match="written under schema 99"), reading(folder):
        pass


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    for text in ("old", "new and longer ü"):
        write_atomic(path, text)
    assert path.read_text(encoding="utf-8") == "new and longer ü"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_a_file_that_cannot_be_replaced_stays_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.json"
    write_atomic(path, "old")

    def refuse(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(CommandError, match="No space left"):
        write_atomic(path, "new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.json"]


def test_a_changed_dataset_has_another_digest_and_is_refused(tmp_path: Path) -> None:
    path = tiny_dataset(tmp_path)
    before = open_dataset(str(path))
    digest = digest_of(before)
    require_same("x", open_dataset(str(path)), digest)
    require_same("x", before, "")
    path.write_text(
        path.read_text().replace("small,0,quick,Llama-2-7b-hf,H100,1", "small,0,quick,Llama-2-7b-hf,H100,2")
    )
    path.write_text(
        path.read_text().replace("small,1,quick,Llama-2-7b-hf,H100,1", "small,1,quick,Llama-2-7b-hf,H100,2")
    )
    with pytest.raises(CommandError, match="it changed since this run began"):
        require_same("x", open_dataset(str(path)), digest)


def test_a_dataset_with_nothing_to_score_against_is_refused() -> None:
    from dataclasses import replace

    experiment = open_dataset("h100-vllm")[0]
    require_scored("x", [experiment])
    unseen = replace(
        experiment,
        workload=replace(
            experiment.workload, stages=tuple(replace(s, observed=None) for s in experiment.workload.stages)
        ),
    )
    with pytest.raises(CommandError, match="none of its 1 experiments has an observed stage"):
        require_scored("x", [unseen])
    with pytest.raises(CommandError, match="is overloaded or thrashing"):
        require_scored("x", [replace(experiment, overloaded=True)])


def test_a_dataset_that_cannot_be_read_is_refused_by_name() -> None:
    with pytest.raises(CommandError, match="dataset: nowhere"):
        open_dataset("nowhere")
