from __future__ import annotations

import json
import time
from pathlib import Path
from statistics import NormalDist, pstdev

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evaluators.datasets import load_dataset
from evaluators.experiment import DataError, Experiment
from evaluators.inference_perf import read_folder, spread

STAGE_0 = "results/stage_0_lifecycle_metrics.json"
STAGE_1 = "results/stage_1_lifecycle_metrics.json"
SUMMARY = "results/summary_lifecycle_metrics.json"


def read(folder: Path) -> Experiment:
    experiment = read_folder(folder)
    assert isinstance(experiment, Experiment), str(experiment)
    return experiment


def refused(folder: Path, *words: str) -> DataError:
    error = read_folder(folder)
    assert isinstance(error, DataError)
    for word in words:
        assert word in str(error), str(error)
    return error


def test_every_fact_of_a_run_lands_in_its_field_in_our_units(run_folder):
    experiment = read(run_folder)
    load, (first, second) = experiment.workload, experiment.workload.stages
    assert (experiment.name, experiment.model.name, experiment.gpu.name) == (
        run_folder.name,
        "Llama-2-7b-hf",
        "H100-SXM-80GB",
    )
    assert (experiment.tp, experiment.engine.max_num_seqs, experiment.engine.kv_blocks) == (1, 128, 7463)
    assert (load.name, load.output_tokens, load.prompt_tokens, load.prompts, load.groups) == (
        "codegen",
        101,
        580,
        100,
        10,
    )
    assert load.shared_prefix_tokens == 116  # 100 of 500 configured tokens, the real prompts have 580
    assert (first.rate_per_s, first.duration_s, second.rate_per_s, load.timeout_s) == (5, 600, 10, 300)
    assert first.observed is not None
    assert first.observed.requests == first.observed.succeeded == 3000
    assert first.observed.e2e.mean_us == pytest.approx(2e6)
    assert first.observed.ttft.p90_us == pytest.approx(33e3)
    assert first.observed.tpot_us == pytest.approx((2.0 - 0.03) / 100 * 1e6)
    assert not experiment.overloaded
    assert not experiment.thrashing


def test_time_per_token_agrees_with_twice_stamped_gaps_within_a_fifth_of_a_percent(data_folder):
    checked = 0
    for folder in sorted((data_folder / "vllm-h100").iterdir()):
        experiment = read(folder)
        tokens = experiment.workload.output_tokens
        for number, stage in enumerate(experiment.workload.stages):
            file = folder / "results" / f"stage_{number}_lifecycle_metrics.json"
            gap_s = json.loads(file.read_text())["successes"]["latency"]["inter_token_latency"]["mean"]
            expected_us = gap_s * (2 * tokens + 1) / (tokens - 1) * 1e6
            assert stage.observed is not None
            assert stage.observed.tpot_us == pytest.approx(expected_us, rel=2e-3)
            checked += 1
    assert checked == 24


def test_only_the_reasoning_runs_at_four_per_second_are_overloaded_and_twelve_runs_stay(data_folder):
    experiments = load_dataset(str(data_folder / "vllm-h100"))
    assert not isinstance(experiments, DataError)
    overloaded = {e.name for e in experiments if e.overloaded}
    assert overloaded == {e.name for e in experiments if e.workload.name == "reasoning"}
    kept = [e for e in experiments if not e.overloaded]
    assert len(kept) == 12
    assert sum(len(e.workload.stages) for e in kept) == 20
    assert not any(e.thrashing for e in kept)


@pytest.mark.parametrize(
    ("failed", "ttft_s", "overloaded"), [(0, 0.1, False), (30, 0.1, False), (31, 0.1, True), (4, 11, True)]
)
def test_a_run_is_overloaded_above_one_percent_failures_or_ten_seconds_to_the_first_token(
    run_folder, change, failed, ttft_s, overloaded
):
    file = run_folder / STAGE_0
    change(file, "failures.count", failed)
    change(file, "successes.count", 3000 - failed)
    change(run_folder / SUMMARY, "successes.count", 9000 - failed)
    change(
        file,
        "successes.latency.request_latency",
        dict.fromkeys(("mean", "min", "p10", "median", "p90", "p99", "max"), 20.0),
    )
    change(
        file,
        "successes.latency.time_to_first_token",
        dict.fromkeys(("mean", "min", "p10", "median", "p90", "p99", "max"), ttft_s),
    )
    assert read(run_folder).overloaded is overloaded


@pytest.mark.parametrize("quantile", [NormalDist(600, 8).inv_cdf, lambda p: 580 + 40 * p])
def test_spread_of_a_distribution_follows_from_its_quantiles(quantile):
    levels = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0)
    sample = [quantile((n + 0.5) / 100) for n in range(100)]
    quantiles = {p: quantile(min(max(p, 0.005), 0.995)) for p in levels}
    assert spread(quantiles, sum(sample) / 100) == pytest.approx(pstdev(sample), rel=0.05)


def test_prompt_counts_that_the_generator_honours_are_taken_from_the_profile(run_folder, change):
    change(run_folder / "profile.yaml", "data.shared_prefix.num_groups", 5)
    change(run_folder / "profile.yaml", "data.shared_prefix.num_prompts_per_group", 30)
    change(
        run_folder / "profile.yaml", "data.shared_prefix.num_users_per_system_prompt", 44
    )  # ignored by the generator
    load = read(run_folder).workload
    assert (load.groups, load.prompts) == (5, 150)


def test_optional_settings_of_the_deployment_are_honoured(run_folder, change):
    for key, value in {
        "gpu": "a100",
        "precision": "fp8",
        "block_size": 32,
        "kv_blocks": 1234,
        "cpu_offload": True,
    }.items():
        change(run_folder / "exp-config.yaml", key, value)
    experiment = read(run_folder)
    assert (experiment.gpu.name, experiment.model.weight_bytes_per_param) == ("A100-SXM-80GB", 1.0)
    assert (experiment.engine.block_size, experiment.engine.kv_blocks) == (32, 1234)
    assert experiment.notes == ("KV cache offloaded to the CPU",)


def test_a_key_that_nothing_reads_is_named_in_the_notes_and_a_misspelt_one_is_refused(run_folder, change):
    change(run_folder / "exp-config.yaml", "replica", 3)
    assert "replica" in read(run_folder).notes[0]
    change(run_folder / "exp-config.yaml", "kv_blcks", 3)
    refused(run_folder, "kv_blcks", "`kv_blocks`")


def test_a_config_json_in_the_folder_describes_a_model_that_the_catalogue_lacks(run_folder, change):
    change(run_folder / "exp-config.yaml", "model", "acme/Tiny-1")
    refused(run_folder, "exp-config.yaml", "Tiny-1")
    own = {"model_type": "llama", "hidden_size": 512, "num_attention_heads": 8, "num_hidden_layers": 4}
    own |= {"vocab_size": 1000, "intermediate_size": 1024}
    (run_folder / "config.json").write_text(json.dumps(own))
    assert (read(run_folder).model.name, read(run_folder).model.layers) == ("Tiny-1", 4)


FAULTS = [
    ("exp-config.yaml", "model", "meta-llama/Lama-2-7b-hf", "did you mean `Llama-2-7b-hf`"),
    ("exp-config.yaml", "gpu", "H100-SXM-80BG", "did you mean `H100-SXM-80GB`"),
    ("exp-config.yaml", "tensor_parallelism", None, "tensor_parallelism: got nothing"),
    ("exp-config.yaml", "tensor_parallelism", 0, "from 1 to 64"),
    ("exp-config.yaml", "tensor_parallelism", "two", "`'two'`"),
    ("exp-config.yaml", "max_num_seqs", True, "a whole number"),
    ("exp-config.yaml", "max_num_seqs", 10**60, "50 digits"),
    ("exp-config.yaml", "precision", "fp3", "FP16"),
    ("profile.yaml", "data.shared_prefix.output_len", -5, "data.shared_prefix.output_len: got `-5`"),
    ("profile.yaml", "data.shared_prefix", [], "a mapping"),
    ("profile.yaml", "data.type", "random", "shared_prefix"),
    ("profile.yaml", "load.type", "bursty", "poisson"),
    ("profile.yaml", "load.stages", [], "a list of 1 to"),
    ("profile.yaml", "load.stages.0.rate", -1, "load.stages[0].rate: got `-1`"),
    ("profile.yaml", "load.stages.1.duration", 0, "load.stages[1].duration"),
    ("profile.yaml", "load.stages.1.duration", 500, "rate x duration"),
    ("profile.yaml", "server.ignore_eos", False, "ignore_eos"),
    (STAGE_0, "successes", None, "successes: got nothing"),
    (STAGE_0, "successes.count", 2999, "2999 + 0 failures"),
    (STAGE_0, "failures.count", 1, "3000 + 1 failures"),
    (STAGE_0, "load_summary.count", "3000", "load_summary.count"),
    (STAGE_0, "successes.latency.request_latency.mean", -2.0, "request_latency.mean: got `-2.0`"),
    (STAGE_0, "successes.latency.request_latency.mean", 1e308, "request_latency.mean"),
    (STAGE_0, "successes.latency.request_latency.mean", [2.0], "a list of 1"),
    (STAGE_0, "successes.latency.request_latency.p90", 1.0, "at least median"),
    (STAGE_0, "successes.latency.time_to_first_token", {"mean": 3.0}, "min: got nothing"),
    (STAGE_0, "successes.latency.request_latency.mean", 2.7, "a value from min"),
    (STAGE_0, "successes.prompt_len.p25", None, "prompt_len.p25"),
    (SUMMARY, "load_summary.count", 8999, "9000, the sum"),
    (SUMMARY, "successes.count", 12, "9000, the sum"),
]


@pytest.mark.parametrize(("file", "key", "value", "complaint"), FAULTS)
def test_a_wrong_value_is_refused_with_file_field_and_what_was_wanted(run_folder, change, file, key, value, complaint):
    if file == STAGE_0 and key.startswith("successes.prompt_len"):
        change(run_folder / STAGE_1, "successes.prompt_len.p25", None)
    change(run_folder / file, key, value)
    error = refused(run_folder, complaint)
    assert error.want
    assert Path(error.path).name in {Path(file).name, Path(STAGE_1).name, Path(STAGE_0).name}


@pytest.mark.parametrize("name", ["exp-config.yaml", "profile.yaml", STAGE_0, STAGE_1])
def test_a_missing_empty_or_foreign_file_is_refused_by_name(run_folder, name):
    file = run_folder / name
    for content in (
        b"",
        b"\0\1\2",
        b"\xff\xfe\x00",
        b"just words",
        b"[1, 2]",
        b"{",
        b"NaN",
        b'{"a": NaN}',
        b"[" * 100_000,
    ):
        file.write_bytes(content)
        refused(run_folder, file.name)
    file.unlink()
    refused(run_folder, "results" if "results" in name else file.name)
    file.mkdir()
    refused(run_folder, file.name)


def test_nan_and_infinity_in_a_result_file_are_refused(run_folder):
    file = run_folder / STAGE_0
    good = file.read_text()
    for bad in ("NaN", "Infinity", "-Infinity", "1e999"):
        file.write_text(good.replace('"mean": 2.0', f'"mean": {bad}', 1))
        refused(run_folder, "stage_0")


def test_a_stage_file_more_or_less_than_the_profile_has_stages_is_refused(run_folder):
    (run_folder / "results/stage_2_lifecycle_metrics.json").write_text("{}")
    refused(run_folder, "3 stage files", "stage_0 to stage_1")
    (run_folder / "results/stage_2_lifecycle_metrics.json").unlink()
    (run_folder / STAGE_1).unlink()
    refused(run_folder, "without stage_1")


BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n"
HOSTILE = {
    "bomb": (BOMB, "a YAML alias"),
    "merge": ("a: &a {x: 1}\nb: {<<: *a}\n", "a YAML alias"),
    "lists": ("[" * 60_000, "more than 20 levels"),
    "mappings": ("{a: " * 20_000, "more than 20 levels"),
    "dashes": ("- " * 50_000, "more than 20 levels"),
    "keys": ("? " * 50_000, "more than 20 levels"),
    "object": ("model: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
    "date": ("a: 2024-99-99", "ValueError"),
    "large": ("model: " + "x" * 1_000_000, "more than 131072 bytes"),
}


@pytest.mark.parametrize(("text", "complaint"), HOSTILE.values(), ids=HOSTILE)
def test_hostile_yaml_is_refused_quickly(run_folder, text, complaint):
    (run_folder / "exp-config.yaml").write_text(text)
    start = time.monotonic()
    refused(run_folder, "exp-config.yaml", complaint)
    assert time.monotonic() - start < 5


def test_a_result_file_above_the_size_cap_is_refused_unread(run_folder):
    with (run_folder / STAGE_0).open("wb") as stream:
        stream.truncate(1 << 40)
    refused(run_folder, "stage_0", "at most")


@settings(derandomize=True, max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    cut=st.floats(0, 1), junk=st.binary(max_size=3), name=st.sampled_from(["exp-config.yaml", "profile.yaml", STAGE_0])
)
def test_a_file_damaged_anywhere_never_raises(run_folder, cut, junk, name):
    file = run_folder / name
    good = file.read_bytes()
    at = int(cut * len(good))
    file.write_bytes(good[:at] + junk + good[at + 1 :])
    assert isinstance(read_folder(run_folder), Experiment | DataError)
    file.write_bytes(good[:at])
    assert isinstance(read_folder(run_folder), Experiment | DataError)
    file.write_bytes(good)
