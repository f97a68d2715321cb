from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from evaluators.benchmark import FOLDER, builtin
from evaluators.catalogue import Catalogue, load_catalogue
from evaluators.datasets import load_dataset
from evaluators.experiment import DataError


def refused(source: str) -> DataError:
    error = load_dataset(source)
    assert isinstance(error, DataError)
    return error


def test_a_built_in_name_gives_its_experiments():
    assert load_dataset("h100-vllm") == builtin("h100-vllm")


def test_one_run_and_a_folder_of_runs_give_the_same_experiment(run_folder):
    one = load_dataset(str(run_folder))
    assert not isinstance(one, DataError)
    assert len(one) == 1
    assert load_dataset(str(run_folder.parent)) == one


def test_runs_come_in_the_order_of_their_names_and_other_entries_are_passed_over(run_folder):
    for name in ("b-run", "a-run"):
        shutil.copytree(run_folder, run_folder.parent / name)
    (run_folder.parent / "README.md").write_text("notes")
    (run_folder.parent / "empty").mkdir()
    experiments = load_dataset(str(run_folder.parent))
    assert not isinstance(experiments, DataError)
    assert [e.name for e in experiments] == sorted((run_folder.name, "a-run", "b-run"))


def test_one_broken_run_refuses_the_whole_folder_and_names_its_file(run_folder):
    broken = run_folder.parent / "z-run"
    shutil.copytree(run_folder, broken)
    file = broken / "results" / "stage_0_lifecycle_metrics.json"
    file.write_text(file.read_text()[:200])
    assert refused(str(run_folder.parent)).path == str(file)


def test_a_stage_table_is_read_as_a_file_or_in_its_folder(data_folder):
    folder = data_folder / "vllm-h100-mixed"
    experiments = load_dataset(str(folder))
    assert not isinstance(experiments, DataError)
    assert load_dataset(str(folder / "stages.csv")) == experiments


def test_the_catalogue_of_the_caller_is_used(run_folder, tmp_path, change):
    text = (FOLDER.parent / "catalogue" / "models.toml").read_text().replace("Yi-34B", "Acme-34B")
    (tmp_path / "own.toml").write_text(text)
    change(run_folder / "exp-config.yaml", "model", "acme/Acme-34B")
    catalogue = load_catalogue([tmp_path / "own.toml"])
    assert isinstance(catalogue, Catalogue)
    assert isinstance(load_dataset(str(run_folder)), DataError)
    assert isinstance(load_dataset(str(run_folder), catalogue), tuple)


@pytest.mark.parametrize("source", ["h100-vlm", "/no/such/place", "", "\0", "x" * 5000, "stages.csv"])
def test_a_source_that_is_not_there_is_refused(source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert refused(source).want


def test_a_misspelt_built_in_name_is_corrected():
    assert "did you mean `h100-vllm`" in refused("h100-vlm").want


def test_a_folder_without_runs_is_refused_by_name(tmp_path):
    error = refused(str(tmp_path))
    assert error.path == str(tmp_path)
    assert "exp-config.yaml" in error.want


def test_a_file_of_another_kind_is_refused(tmp_path: Path):
    file = tmp_path / "picture.png"
    file.write_bytes(b"\x89PNG\r\n\x1a\n\0\0")
    assert refused(str(file)).path == str(file)


GPU = """\
[[gpu]]
name = "Z9"
memory_bytes = 1.0e11
hbm_bytes_per_s = 2.0e12
flops_per_s_16bit = 5.0e14
flops_per_s_8bit = 1.0e15
link_bytes_per_s = 1.0e11
gemm_efficiency = 0.9
gemm_layer_us = 25.0
gemm_growth = 0.2
gemm_flops_efficiency = 0.7
elementwise_us = 15.0
elementwise_us_at_128 = 40.0
allreduce_us = 9.0
"""


def test_a_catalogue_beside_the_data_adds_its_gpus(run_folder, change):
    change(run_folder / "exp-config.yaml", "gpu", "Z9")
    assert "Z9" in str(refused(str(run_folder)))
    (run_folder / "catalogue.toml").write_text(GPU)
    experiments = load_dataset(str(run_folder))
    assert not isinstance(experiments, DataError)
    assert experiments[0].gpu.name == "Z9"


def test_a_catalogue_beside_the_data_that_does_not_read_refuses_the_data(run_folder: Path):
    (run_folder.parent / "catalogue.toml").write_text(GPU.replace("memory_bytes = 1.0e11\n", ""))
    error = refused(str(run_folder.parent))
    assert error.path.endswith("catalogue.toml")
    assert "memory_bytes" in str(error)
