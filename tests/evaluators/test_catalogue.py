from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluators.catalogue import (
    Catalogue,
    find_gpu,
    find_model,
    load_catalogue,
    load_gpus,
    load_models,
    parameters,
    with_weight_bytes,
)
from evaluators.experiment import DataError, Gpu, Model

# Sizes as their makers publish them, in 1e9 weights.
PUBLISHED = {
    "Llama-2-7b-hf": 6.74,
    "Llama-2-13b-hf": 13.02,
    "Llama-2-70b-hf": 68.98,
    "CodeLlama-34b-Instruct-hf": 33.74,
    "Llama-3.1-8B": 8.03,
    "Llama-3.1-70B": 70.55,
    "Llama-3.1-405B": 405.85,
    "Llama-3.2-1B": 1.24,
    "Llama-3.2-3B": 3.21,
    "Mistral-7B-v0.1": 7.24,
    "Mistral-7B-v0.3": 7.25,
    "Mistral-Nemo-Base-2407": 12.25,
    "Mistral-Small-24B-Base-2501": 23.57,
    "Mixtral-8x7B-v0.1": 46.70,
    "Mixtral-8x22B-v0.1": 140.6,
    "Qwen2.5-0.5B": 0.494,
    "Qwen2.5-1.5B": 1.54,
    "Qwen2.5-3B": 3.09,
    "Qwen2.5-7B": 7.62,
    "Qwen2.5-14B": 14.77,
    "Qwen2.5-32B": 32.76,
    "Qwen2.5-72B": 72.71,
    "Qwen3-4B": 4.02,
    "Qwen3-8B": 8.19,
    "Qwen3-14B": 14.77,
    "Qwen3-32B": 32.76,
    "Qwen3-30B-A3B": 30.53,
    "Qwen3-235B-A22B": 235.1,
    "Yi-6B": 6.06,
    "Yi-34B": 34.39,
    "Phi-3-mini-4k-instruct": 3.82,
    "phi-4": 14.66,
    "deepseek-coder-33b-base": 33.34,
    "Llama-4-Maverick-17B-128E": 400.7,
}


def model(name: str) -> Model:
    found = find_model(name)
    assert isinstance(found, Model), str(found)
    return found


def gpu(name: str) -> Gpu:
    found = find_gpu(name)
    assert isinstance(found, Gpu), str(found)
    return found


@pytest.mark.parametrize(("name", "billions"), PUBLISHED.items())
def test_parameters_match_the_published_size_within_a_third_of_a_percent(name, billions):
    assert parameters(model(name)) / 1e9 == pytest.approx(billions, rel=0.0035)


def test_parameters_of_scout_match_its_published_size_less_the_vision_tower():
    assert parameters(model("Llama-4-Scout-17B-16E")) / 1e9 == pytest.approx(109, rel=0.015)


def test_models_of_unpublished_size_are_few():
    untested = {m.name for m in load_models()} - set(PUBLISHED)
    assert untested == {"CodeLlama-7b-hf", "CodeLlama-13b-hf", "Llama-4-Scout-17B-16E"}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("meta-llama/Llama-2-7b-hf", "Llama-2-7b-hf"),
        ("LLAMA-2-7B", "Llama-2-7b-hf"),
        ("meta-llama/Llama-2-7b-chat-hf", "Llama-2-7b-hf"),
        ("codellama/CodeLlama-34b-hf", "CodeLlama-34b-Instruct-hf"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "Mixtral-8x7B-v0.1"),
        ("mistralai/Mistral-Nemo-Instruct-2407", "Mistral-Nemo-Base-2407"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "Llama-3.1-8B"),
        ("meta-llama/Llama-3.3-70B-Instruct", "Llama-3.1-70B"),
        ("01-ai/Yi-34B", "Yi-34B"),
        ("Qwen/Qwen2.5-7B-Instruct", "Qwen2.5-7B"),
        (" microsoft/phi-4 ", "phi-4"),
    ],
)
def test_a_model_is_found_by_its_hugging_face_id_in_any_spelling(name, found):
    assert model(name).name == found


@pytest.mark.parametrize(
    ("name", "found", "size"),
    [
        ("RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic", "Llama-4-Scout-17B-16E-FP8", 1.0),
        ("neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8", "Llama-3.1-70B-FP8", 1.0),
        ("Qwen/Qwen2.5-72B-Instruct-AWQ", "Qwen2.5-72B-INT4", 0.5),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "Qwen2.5-7B-INT4", 0.5),
        ("RedHatAI/Qwen2.5-7B-quantized.w8a8", None, None),
    ],
)
def test_a_precision_at_the_end_of_a_name_sets_the_bytes_per_weight(name, found, size):
    if found is None:
        assert isinstance(find_model(name), DataError)
    else:
        assert (model(name).name, model(name).weight_bytes_per_param) == (found, size)


def test_setting_the_precision_back_restores_the_model():
    plain = model("Llama-3.1-8B")
    assert with_weight_bytes(with_weight_bytes(plain, 1.0), 2.0) == plain


@pytest.mark.parametrize(
    ("name", "meant"), [("Lama-2-7b-hf", "Llama-2-7b-hf"), ("mistralai/Mixtral-8x7", "Mixtral-8x7B-v0.1")]
)
def test_an_unknown_model_is_refused_with_the_nearest_name(name, meant):
    error = find_model(name)
    assert isinstance(error, DataError)
    assert f"did you mean `{meant}`" in error.want


@pytest.mark.parametrize("name", ["", "/", "x" * 10_000, "qwen2.5"])
def test_a_name_like_no_other_is_refused_plainly(name):
    error = find_model(name)
    assert isinstance(error, DataError)
    assert len(str(error)) < 500


@pytest.mark.parametrize("name", ["H100", "h100-sxm", "NVIDIA H100 80GB HBM3", "H100-SXM-80GB"])
def test_a_gpu_is_found_by_alias_in_any_spelling(name):
    assert gpu(name).name == "H100-SXM-80GB"


def test_an_unknown_gpu_is_refused_with_the_nearest_name():
    error = find_gpu("H100-SXM-80BG")
    assert isinstance(error, DataError)
    assert "did you mean `H100-SXM-80GB`" in error.want


def test_a_gpu_like_no_other_is_refused_with_all_names():
    error = find_gpu("TPU")
    assert isinstance(error, DataError)
    assert all(g.name in error.want for g in load_gpus())


def test_only_the_measured_gpus_differ_in_achieved_rates():
    measured = {(g.gemm_efficiency, g.gemm_layer_us, g.gemm_growth, g.elementwise_us_at_128) for g in load_gpus()}
    assert measured == {(0.91, 23.0, 0.15, 34.0), (0.82, 24.0, 0.37, 47.0)}


def test_peaks_of_the_gpus_are_dense_and_in_order_of_generation():
    assert gpu("A100").flops_per_s_16bit < gpu("H100").flops_per_s_16bit < gpu("B200").flops_per_s_16bit
    assert gpu("A100").hbm_bytes_per_s < gpu("H100").hbm_bytes_per_s < gpu("H200").hbm_bytes_per_s
    assert gpu("H100").flops_per_s_8bit == pytest.approx(2 * gpu("H100").flops_per_s_16bit, rel=0.01)
    assert gpu("A100").flops_per_s_8bit == gpu("A100").flops_per_s_16bit


TINY = 'name = "Tiny"\nlayers = 2\nhidden = 64\nheads = 4\nkv_heads = 2\nhead_dim = 16\nvocab = 100\nffn = 128\n'


def extended(tmp_path: Path, text: str) -> Catalogue | DataError:
    file = tmp_path / "own.toml"
    file.write_text(text)
    return load_catalogue([file])


def test_a_user_adds_or_overrides_a_model_by_a_few_lines_of_toml(tmp_path):
    added = extended(tmp_path, f'[[model]]\naliases = ["small"]\n{TINY}[[model]]\n{TINY.replace("Tiny", "Yi-34B")}')
    assert isinstance(added, Catalogue)
    for name in ("acme/tiny", "SMALL", "Yi-34B"):
        found = find_model(name, added)
        assert isinstance(found, Model)
        assert found.layers == 2
    assert isinstance(find_model("Llama-2-7b", added), Model)
    assert model("Yi-34B").layers == 60


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (TINY, "an unknown key"),
        ("[[model]]\n" + TINY.replace("layers", "layer"), "did you mean `layers`"),
        ("[[model]]\n" + TINY.replace("layers = 2\n", ""), "model[0].layers: got nothing"),
        ("[[model]]\n" + TINY.replace("hidden = 64", "hidden = -64"), "model[0].hidden: got `-64`"),
        ("[[model]]\n" + TINY.replace("hidden = 64", "hidden = 64.5"), "model[0].hidden: got `64.5`"),
        ("[[model]]\n" + TINY.replace("kv_heads = 2", "kv_heads = 3"), "a divisor of the 4 query heads"),
        ("[[model]]\n" + TINY.replace("ffn = 128", "ffn = 0"), "ffn"),
        ("[[model]]\n" + TINY + "moe_layers = 3\n", "at most the 2 layers"),
        (
            "[[model]]\n" + TINY + "moe_layers = 2\nexperts = 4\nexperts_per_token = 5\nexpert_ffn = 8\n",
            "1 to 4 experts",
        ),
        ("[[model]]\n" + TINY + "moe_layers = 2\nexperts = 4\nexperts_per_token = 2\n", "expert_ffn"),
        ("[[gpu]]\nname = 'X'\n", "gpu[0].memory_bytes: got nothing"),
        ("model = 3\n", "a list of 1 to"),
        ("[[model]\n", "a TOML document"),
        ("a = " + "[" * 50_000, "nested"),
    ],
)
def test_a_wrong_catalogue_file_is_refused_with_its_field(tmp_path, text, complaint):
    error = extended(tmp_path, text)
    assert isinstance(error, DataError)
    assert complaint in str(error)
    assert error.path.endswith("own.toml")


def test_a_missing_catalogue_file_is_refused(tmp_path):
    assert isinstance(load_catalogue([tmp_path / "none.toml"]), DataError)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(st.text(max_size=40))
def test_a_look_up_never_raises(name):
    assert isinstance(find_model(name), Model | DataError)
    assert isinstance(find_gpu(name), Gpu | DataError)
