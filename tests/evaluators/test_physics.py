"""Physics against closed forms and published figures of models everybody knows."""

from __future__ import annotations

import numpy as np
import pytest

from evaluators.catalogue import find_gpu, find_model
from evaluators.experiment import DataError, Engine, Experiment, Gpu, Model, Stage, Workload
from evaluators.features import BATCH_FIELDS, INDEX, features_of
from evaluators.physics import head_params, kv_bytes_per_token, physics_of, total_params

LOAD = Workload("none", 10, 10.0, 0.0, 0, (Stage(1.0, 1.0),))
LLAMA_7B, LLAMA_70B, MIXTRAL = "Llama-2-7b-hf", "Llama-2-70b-hf", "Mixtral-8x7B-v0.1"


def model(name: str) -> Model:
    found = find_model(name)
    assert not isinstance(found, DataError)
    return found


def gpu(name: str) -> Gpu:
    found = find_gpu(name)
    assert not isinstance(found, DataError)
    return found


def experiment(name: str, tp: int) -> Experiment:
    return Experiment("test", model(name), gpu("H100"), tp, Engine(), LOAD)


def feature(of: Experiment, name: str, **batch: float) -> float:
    row = np.array([[batch.get(column, 0.0)] for column in BATCH_FIELDS])
    return float(features_of(physics_of(of), row)[INDEX[name], 0])


@pytest.mark.parametrize(
    ("name", "billions"),
    [(LLAMA_7B, 6.738), (LLAMA_70B, 68.977), (MIXTRAL, 46.703), ("CodeLlama-34b-Instruct-hf", 33.744)],
)
def test_parameters_are_those_of_the_model_card(name: str, billions: float) -> None:
    assert total_params(model(name)) / 1e9 == pytest.approx(billions, rel=0.001)
    assert feature(experiment(name, 2), "model_params_b", decode_reqs=1) == pytest.approx(billions, rel=0.001)


def test_a_step_of_llama_2_7b_reads_13_2_gb_of_weights_in_4_ms() -> None:
    """13.5 GB in all; the embedding table is looked up, not read."""
    of = experiment(LLAMA_7B, 1)
    assert total_params(of.model) * 2 == pytest.approx(13.5e9, rel=0.005)
    read_bytes = (total_params(of.model) - head_params(of.model)) * 2
    assert feature(of, "weight_load", decode_reqs=1) == pytest.approx(read_bytes / 3.35e12 * 1e6, rel=1e-9)
    assert feature(of, "weight_load", decode_reqs=1) == pytest.approx(3945.0, rel=0.002)


@pytest.mark.parametrize(
    ("name", "tp", "kib"),
    [
        (LLAMA_7B, 1, 512),
        (LLAMA_7B, 2, 256),
        (LLAMA_70B, 1, 320),
        (LLAMA_70B, 4, 80),
        (LLAMA_70B, 16, 40),  # 8 KV heads on 16 GPUs: one each
        (MIXTRAL, 2, 64),
    ],
)
def test_kv_bytes_per_token_and_gpu(name: str, tp: int, kib: int) -> None:
    assert kv_bytes_per_token(model(name), tp) == kib * 1024
    read_us = feature(experiment(name, tp), "kv_read", decode_reqs=1, kv_sum=1000, kv_decode_sum=1000)
    assert read_us == pytest.approx(1000 * kib * 1024 / 3.35e12 * 1e6)


def test_mixtral_computes_13_b_of_its_47_b_parameters_per_token_but_reads_nearly_all_for_64() -> None:
    of = experiment(MIXTRAL, 2)
    assert feature(of, "active_params_b", decode_reqs=1) == pytest.approx(12.75, rel=0.01)
    one, many = feature(of, "weight_load", decode_reqs=1), feature(of, "weight_load", decode_reqs=64)
    assert one == pytest.approx(12.75e9 * 2 / 2 / 3.35e12 * 1e6, rel=0.01)
    assert many == pytest.approx(46.57e9 * 2 / 2 / 3.35e12 * 1e6, rel=0.002)


def test_gemm_flops_are_two_per_parameter_and_token() -> None:
    of = experiment(LLAMA_7B, 1)
    params = total_params(of.model) - 2 * head_params(of.model)
    flops = of.gpu.flops_per_s_16bit
    prefill_us = feature(of, "prefill_gemm", prefill_reqs=1, prefill_tokens=512)
    assert prefill_us == pytest.approx(2 * params * 512 / flops * 1e6)
    assert feature(of, "decode_gemm", decode_reqs=32) == pytest.approx(2 * params * 32 / flops * 1e6)
    assert feature(of, "lm_head", decode_reqs=32) == pytest.approx(2 * head_params(of.model) * 32 / flops * 1e6)


def test_causal_attention_of_a_cold_prefill_is_half_the_square() -> None:
    of = experiment(LLAMA_7B, 1)
    n = 1024
    got_us = feature(of, "prefill_attn", prefill_reqs=1, prefill_tokens=n, prefill_pairs=n * (n + 1) / 2)
    assert got_us == pytest.approx(4 * 4096 * 32 * n * (n + 1) / 2 / of.gpu.flops_per_s_16bit * 1e6)


def test_one_gpu_has_no_all_reduce_and_more_have_two_per_layer() -> None:
    for name in ("tp_hops", "tp_comm", "allreduce_time"):
        assert feature(experiment(LLAMA_70B, 1), name, decode_reqs=8) == 0.0
    of = experiment(LLAMA_70B, 4)
    assert feature(of, "tp_hops", decode_reqs=8) == 160
    assert feature(of, "allreduce_time", decode_reqs=8) == pytest.approx(160 * of.gpu.allreduce_us)
    ring_bytes = 160 * 8 * 8192 * 2 * 2 * 3 / 4
    assert feature(of, "tp_comm", decode_reqs=8) == pytest.approx(ring_bytes / of.gpu.link_bytes_per_s * 1e6)


@pytest.mark.parametrize("name", [LLAMA_70B, MIXTRAL])
@pytest.mark.parametrize("work", ["prefill_gemm", "decode_gemm", "lm_head", "weight_load", "kv_read", "kv_write"])
def test_tensor_parallelism_divides_the_work(name: str, work: str) -> None:
    batch = {"prefill_tokens": 40, "prefill_reqs": 1, "decode_reqs": 9, "kv_sum": 5000, "kv_decode_sum": 5000}
    one, four = (feature(experiment(name, tp), work, **batch) for tp in (1, 4))
    assert four == pytest.approx(one / 4)


def test_gemm_time_follows_the_measured_law_between_16_and_128_tokens() -> None:
    """Bytes over achieved bandwidth, growing by g over 112 tokens, c per layer; the LM head once, without growth."""
    of = experiment(LLAMA_7B, 1)
    rate = of.gpu.gemm_efficiency * of.gpu.hbm_bytes_per_s / 1e6
    layers_us = (total_params(of.model) - 2 * head_params(of.model)) * 2 / rate
    fixed_us = head_params(of.model) * 2 / rate + 32 * of.gpu.gemm_layer_us
    assert feature(of, "gemm_time", decode_reqs=16) == pytest.approx(layers_us + fixed_us)
    assert feature(of, "gemm_time", decode_reqs=128) == pytest.approx(layers_us * (1 + of.gpu.gemm_growth) + fixed_us)


def test_a_long_prefill_is_bound_by_flops() -> None:
    of = experiment(LLAMA_7B, 1)
    least_us = 2 * (total_params(of.model) - 2 * head_params(of.model)) * 2048 / of.gpu.flops_per_s_16bit * 1e6
    assert feature(of, "gemm_time", prefill_reqs=1, prefill_tokens=2048) > least_us
