from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from evaluators.catalogue import find_model
from evaluators.experiment import DataError, Model
from evaluators.hf_config import read_hf_config

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 32,
    "intermediate_size": 14336,
    "vocab_size": 128256,
}
MIXTRAL = LLAMA | {"model_type": "mixtral", "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2}
QWEN3_MOE = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "num_hidden_layers": 48,
    "intermediate_size": 6144,
    "vocab_size": 151936,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 768,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
}
SCOUT = {
    "model_type": "llama4",
    "text_config": {
        "model_type": "llama4_text",
        "hidden_size": 5120,
        "num_attention_heads": 40,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "num_hidden_layers": 48,
        "intermediate_size": 8192,
        "intermediate_size_mlp": 16384,
        "interleave_moe_layer_step": 1,
        "vocab_size": 202048,
        "num_local_experts": 16,
        "num_experts_per_tok": 1,
    },
    "vision_config": {"hidden_size": 1408},
}


def read(tmp_path: Path, config: dict[str, object], name: str = "m") -> Model | DataError:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    return read_hf_config(file, name=name)


def known(tmp_path: Path, config: dict[str, object], name: str = "m") -> Model:
    model = read(tmp_path, config, name)
    assert isinstance(model, Model), str(model)
    return model


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (LLAMA, "Llama-3.1-8B"),
        (MIXTRAL, "Mixtral-8x7B-v0.1"),
        (QWEN3_MOE, "Qwen3-30B-A3B"),
        (SCOUT, "Llama-4-Scout-17B-16E"),
        (
            SCOUT | {"text_config": SCOUT["text_config"] | {"num_local_experts": 128, "interleave_moe_layer_step": 2}},
            "Llama-4-Maverick-17B-128E",
        ),
    ],
)
def test_a_config_json_gives_the_model_of_the_catalogue(tmp_path, config, name):
    assert known(tmp_path, config, name) == find_model(name)


def test_the_public_configs_give_the_models_of_the_catalogue(data_folder):
    folders = sorted((data_folder / "hf-configs").iterdir())
    assert len(folders) == 4
    for folder in folders:
        assert read_hf_config(folder) == read_hf_config(folder / "config.json") == find_model(folder.name)


def test_head_dim_defaults_to_hidden_over_heads_and_wins_where_it_is_given(tmp_path):
    assert known(tmp_path, LLAMA | {"hidden_size": 5120, "num_attention_heads": 32}).head_dim == 160
    assert known(tmp_path, LLAMA | {"hidden_size": 5120, "num_attention_heads": 32, "head_dim": 128}).head_dim == 128
    assert known(tmp_path, LLAMA | {"head_dim": None}).head_dim == 128


def test_a_config_without_kv_heads_has_one_for_each_query_head(tmp_path):
    assert known(tmp_path, {k: v for k, v in LLAMA.items() if k != "num_key_value_heads"}).kv_heads == 32


def test_layers_without_experts_are_counted_as_dense(tmp_path):
    sparse = known(tmp_path, QWEN3_MOE | {"decoder_sparse_step": 2, "mlp_only_layers": [1, 3]})
    assert (sparse.moe_layers, sparse.ffn) == (22, 6144)


def test_a_shared_expert_is_read(tmp_path):
    config = QWEN3_MOE | {"model_type": "qwen2_moe", "shared_expert_intermediate_size": 5632}
    assert known(tmp_path, config).shared_ffn == 5632


def test_tied_embeddings_are_read_from_either_level(tmp_path):
    assert known(tmp_path, LLAMA | {"tie_word_embeddings": True}).tied_embeddings
    assert known(tmp_path, SCOUT | {"tie_word_embeddings": True}).tied_embeddings


@pytest.mark.parametrize(
    ("quantization", "weight", "cache"),
    [
        ({"quant_method": "fp8"}, 1.0, 2.0),
        ({"quant_method": "gptq", "bits": 4}, 0.5, 2.0),
        ({"quant_method": "awq", "w_bit": 4}, 0.5, 2.0),
        ({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": {"num_bits": 8}}}}, 1.0, 2.0),
        ({"quant_method": "fp8", "kv_cache_scheme": {"num_bits": 8}}, 1.0, 1.0),
        (None, 2.0, 2.0),
    ],
)
def test_quantisation_sets_the_bytes_of_weights_and_cache(tmp_path, quantization, weight, cache):
    plain = known(tmp_path, LLAMA)
    model = known(tmp_path, LLAMA | {"quantization_config": quantization, "torch_dtype": "float32"})
    assert model == replace(plain, weight_bytes_per_param=weight, kv_bytes_per_value=cache)


def test_the_name_falls_back_to_the_files_own_and_then_to_its_folders(tmp_path):
    folder = tmp_path / "Tiny-1"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    model = read_hf_config(folder)
    assert isinstance(model, Model)
    assert model.name == "Tiny-1"
    (folder / "config.json").write_text(json.dumps(LLAMA | {"_name_or_path": "acme/Tiny-2"}))
    model = read_hf_config(folder)
    assert isinstance(model, Model)
    assert model.name == "Tiny-2"


@pytest.mark.parametrize("key", sorted(set(LLAMA) - {"num_key_value_heads"}))
@pytest.mark.parametrize("value", [None, 0, -1, 1.5, "4096", True, [4096], 10**30])
def test_a_missing_or_impossible_field_is_refused_with_file_field_and_want(tmp_path, key, value):
    error = read(tmp_path, LLAMA | {key: value})
    assert isinstance(error, DataError)
    assert error.path.endswith("config.json")
    assert error.field == key
    assert error.want


@pytest.mark.parametrize("key", ["num_local_experts", "num_experts_per_tok", "intermediate_size_mlp"])
def test_a_missing_nested_field_is_refused_with_its_full_place(tmp_path, key):
    inner = {k: v for k, v in SCOUT["text_config"].items() if k != key}
    error = read(tmp_path, SCOUT | {"text_config": inner})
    assert isinstance(error, DataError)
    assert error.field == f"text_config.{key}"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"model_type": "deepseek_v3", "kv_lora_rank": 512}, "latent attention"),
        ({"model_type": "lama"}, "did you mean `llama`"),
        ({"model_type": "mamba"}, "model_type: got `'mamba'`"),
        ({"hidden_size": 4097}, "a multiple of the 32 heads"),
        ({"num_key_value_heads": 5}, "a divisor of the 32 query heads"),
        ({"num_key_value_heads": 64}, "a divisor"),
        ({"quantization_config": {"quant_method": "magic"}}, "quantization_config.quant_method"),
        ({"quantization_config": {}}, "quant_method: got nothing"),
        ({"quantization_config": "fp8"}, "a mapping"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 64}}, "bits"),
        ({"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {}}}, "group_0"),
        ({"text_config": 3}, "a mapping"),
        ({"tie_word_embeddings": "yes"}, "true or false"),
    ],
)
def test_what_cannot_be_described_is_refused_with_a_reason(tmp_path, change, complaint):
    error = read(tmp_path, LLAMA | change)
    assert isinstance(error, DataError)
    assert complaint in str(error)


def test_more_experts_per_token_than_experts_are_refused(tmp_path):
    assert isinstance(read(tmp_path, MIXTRAL | {"num_experts_per_tok": 9}), DataError)


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"model_type": NaN}', "[" * 100_000, '"' + "a" * 100])
def test_a_file_that_is_not_a_json_object_is_refused(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    assert isinstance(read_hf_config(tmp_path), DataError)


def test_a_missing_file_is_refused(tmp_path):
    assert isinstance(read_hf_config(tmp_path / "none.json"), DataError)
    assert isinstance(read_hf_config(tmp_path), DataError)
