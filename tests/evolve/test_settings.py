"""Settings: defaults < file < flags, nothing unknown, nothing out of range, and the written file reads back equal."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive import Archive
from evolve.cores import cgroup_quota, usable_cores
from evolve.errors import UsageError
from evolve.settings import (
    RunSettings,
    SearchSettings,
    Settings,
    load_settings,
    read_settings,
)
from translate.caps import Caps

TEXTS = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=50)


def complaint(folder: Path, text: str) -> str:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(UsageError) as caught:
        read_settings(path)
    return str(caught.value).removeprefix(f"{path}: ")


def test_flags_win_over_the_file_and_the_file_over_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[run]\nseed = 3\nbudget = 50\n[search]\nislands = 2\n", encoding="utf-8")
    loaded = load_settings(path, {"run": {"budget": 7, "seed": None}, "search": {}})
    assert (loaded.run.seed, loaded.run.budget, loaded.search.islands) == (3, 7, 2)
    assert loaded.search.round_size == SearchSettings().round_size


@settings(derandomize=True, max_examples=50, deadline=None)
@given(TEXTS, TEXTS, st.floats(0.0, 1.0), st.integers(0, 2**63 - 1))
def test_written_settings_read_back_equal(
    tmp_path_factory: pytest.TempPathFactory, dataset: str, runs: str, rate: float, seed: int
) -> None:
    wanted = Settings(
        run=RunSettings(seed=seed, dataset=dataset, runs=runs), search=SearchSettings(migration_rate=rate)
    )
    path = tmp_path_factory.mktemp("s") / "settings.toml"
    path.write_text(wanted.to_toml(), encoding="utf-8", newline="")
    assert read_settings(path) == wanted


def test_an_unknown_key_is_refused_with_the_key_that_was_meant(tmp_path: Path) -> None:
    assert complaint(tmp_path, "[search]\nislandz = 3\n") == "[search] has no key `islandz`; did you mean `islands`?"


def test_a_key_in_the_wrong_section_is_sent_to_its_own(tmp_path: Path) -> None:
    assert complaint(tmp_path, "[run]\nislands = 3\n") == "[run] has no key `islands`; it belongs in [search]"
    assert complaint(tmp_path, "seed = 3\n") == "there is no section [seed]; it belongs in [run]"


def test_an_unknown_section_is_refused_with_the_one_that_was_meant(tmp_path: Path) -> None:
    assert complaint(tmp_path, "[serch]\nislands = 3\n") == "there is no section [serch]; did you mean [search]?"


@pytest.mark.parametrize("value", ["'4'", "true", "0", "100", "4.0", "[4]", "nan"])
def test_a_value_of_the_wrong_type_or_range_is_refused_with_what_was_wanted(tmp_path: Path, value: str) -> None:
    message = complaint(tmp_path, f"[search]\nislands = {value}\n")
    assert message.startswith("[search] islands: got ")
    assert message.endswith("; want a whole number from 1 to 99")


def test_a_capacity_that_does_not_hold_every_cell_is_refused() -> None:
    with pytest.raises(UsageError, match="--capacity: got 150; want more than 50 cells x 3 islands = 150"):
        load_settings(None, {"search": {"islands": 3, "capacity": 150}})


def test_a_flag_is_refused_under_its_own_name() -> None:
    with pytest.raises(UsageError, match="--max-operations: got 0; want a whole number from 1 to 1000"):
        load_settings(None, {"caps": {"operations": 0}})


@pytest.mark.parametrize("content", [b"x =", b"\xff\xfe", b"[run]\nseed = 99999999999999999999999", b"a" * 200_000])
def test_a_broken_file_is_refused_by_name(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=r"mine\.toml"):
        read_settings(path)


def test_a_missing_file_and_a_folder_are_refused_by_name(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "nothing.toml"):
        with pytest.raises(UsageError, match=path.name):
            read_settings(path)


def test_resolved_settings_hold_the_workers_and_absolute_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stages.csv").touch()
    resolved = Settings(run=RunSettings(dataset="stages.csv")).resolved("abc").run
    assert resolved.dataset == str(tmp_path / "stages.csv")
    assert resolved.runs == str(tmp_path / "runs")
    assert 1 <= resolved.workers <= 16
    assert resolved.dataset_digest == "abc"


def test_a_built_in_dataset_keeps_its_name_where_a_path_is_called_like_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "h100-vllm").mkdir()
    assert Settings().resolved("").run.dataset == "h100-vllm"


def test_the_parts_that_the_settings_are_for_accept_the_defaults() -> None:
    assert Settings().caps.for_parser() == Caps()
    search = Settings().search
    Archive(None, search.islands, search.migration_interval, search.migration_rate, search.capacity)


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu.max": "max 100000"}, None),
        ({"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4.0),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ({"cpu.max": "nonsense"}, None),
        ({}, None),
    ],
)
def test_the_quota_of_a_control_group_is_read_in_both_versions(
    tmp_path: Path, files: dict[str, str], cores: float | None
) -> None:
    (tmp_path / "cpu").mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text + "\n")
    assert cgroup_quota(tmp_path) == cores


def test_half_a_core_is_still_a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    monkeypatch.setattr("evolve.cores.CGROUP", tmp_path)
    assert usable_cores() == 1
