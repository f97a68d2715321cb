from __future__ import annotations

import subprocess
import sys
from dataclasses import fields, replace
from pathlib import Path

import pytest

from evaluators.benchmark import FOLDER, builtin, builtin_names, read_benchmark, table_text
from evaluators.datasets import load_dataset
from evaluators.experiment import DataError, Experiment

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_built_in_set_has_sixteen_experiments_of_four_models_and_four_workloads():
    experiments = builtin("h100-vllm")
    assert builtin_names() == ("h100-vllm",)
    assert len({e.name for e in experiments}) == 16
    assert {(e.model.name, e.workload.name) for e in experiments} == {
        (model, load)
        for model in ("Llama-2-7b-hf", "CodeLlama-34b-Instruct-hf", "Llama-2-70b-hf", "Mixtral-8x7B-v0.1")
        for load in ("general", "codegen", "roleplay", "reasoning")
    }
    assert sum(len(e.workload.stages) for e in experiments) == 24
    assert sum(len(e.workload.stages) for e in experiments if not e.overloaded) == 20
    assert not any(e.thrashing for e in experiments if not e.overloaded)


def test_the_built_in_set_equals_the_raw_folders_field_by_field(data_folder):
    raw = load_dataset(str(data_folder / "vllm-h100"))
    assert not isinstance(raw, DataError)
    carried = builtin("h100-vllm")
    assert [e.name for e in carried] == [e.name for e in raw]
    for ours, theirs in zip(carried, raw, strict=True):
        for field in fields(Experiment):
            assert getattr(ours, field.name) == getattr(theirs, field.name), (ours.name, field.name)


def test_every_built_in_time_per_token_follows_from_its_two_means():
    for experiment in builtin("h100-vllm"):
        for stage in experiment.workload.stages:
            seen = stage.observed
            assert seen is not None
            tokens = experiment.workload.output_tokens
            assert seen.tpot_us == pytest.approx((seen.e2e.mean_us - seen.ttft.mean_us) / (tokens - 1), rel=1e-12)
            assert seen.requests == round(stage.rate_per_s * stage.duration_s)


def test_the_table_names_its_source_and_how_to_regenerate_it():
    heading = [line for line in (FOLDER / "h100-vllm.csv").read_text().splitlines() if line.startswith("#")]
    assert "github.com/inference-sim/training" in "".join(heading)
    assert "python -m benchmarks.make_builtin_table" in "".join(heading)


def test_writing_and_reading_a_table_gives_the_same_experiments(tmp_path):
    experiments = builtin("h100-vllm")
    file = tmp_path / "t.csv"
    file.write_text(table_text(experiments, ["a heading"]))
    assert read_benchmark(file) == experiments


def test_an_experiment_that_was_not_observed_cannot_be_written():
    experiment = builtin("h100-vllm")[0]
    stages = (replace(experiment.workload.stages[0], observed=None),)
    with pytest.raises(ValueError, match="was not observed"):
        table_text([replace(experiment, workload=replace(experiment.workload, stages=stages))], [])


def test_an_unknown_benchmark_raises_key_error():
    with pytest.raises(KeyError):
        builtin("h100-vlm")


@pytest.mark.parametrize(
    "spoil",
    [lambda t: t[: len(t) // 2], lambda t: t.replace("tpot_us", "tpot"), lambda t: t.replace("Mixtral", "Mxtral")],
)
def test_a_damaged_table_is_refused(tmp_path, spoil):
    file = tmp_path / "t.csv"
    file.write_text(spoil((FOLDER / "h100-vllm.csv").read_text()))
    assert isinstance(read_benchmark(file), DataError)


def test_regenerating_from_the_raw_folders_gives_the_table_that_is_kept(data_folder):
    code = (
        "import sys; from benchmarks.make_builtin_table import HEADING; from evaluators.benchmark import table_text; "
    )
    code += (
        "from evaluators.datasets import load_dataset; sys.stdout.write(table_text(load_dataset(sys.argv[1]), HEADING))"
    )
    command = [sys.executable, "-c", code, str(data_folder / "vllm-h100")]
    made = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=60)
    assert made.stdout == (FOLDER / "h100-vllm.csv").read_text()


@pytest.mark.parametrize("arguments", [[], ["a", "b"], ["no-such-folder"]])
def test_the_script_that_regenerates_the_table_refuses_wrong_arguments(arguments):
    command = [sys.executable, "-m", "benchmarks.make_builtin_table", *arguments]
    made = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=60)
    assert made.returncode in {1, 2}
    assert made.stderr
