"""The input alphabet of programs: one table of features and the one kernel that computes them.

The table feeds validation, documentation and prompts; `fill_features` feeds the simulator, the mean field and step
rows alike. Nothing here names a model, a workload or an experiment, so no formula can memorise one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from evaluators.jit import kernel
from evaluators.physics import Physics
from translate.vocabulary import Vocabulary

F64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Feature:
    """One row of the table. ``kind`` says what the value depends on."""

    name: str
    unit: str
    meaning: str
    low: float
    high: float
    kind: Literal["batch", "request", "metadata"] = "batch"


def _metadata(name: str, unit: str, meaning: str, low: float, high: float) -> Feature:
    return Feature(name, unit, meaning, low, high, "metadata")


FEATURES: tuple[Feature, ...] = (
    Feature("prefill_tokens", "tokens", "prompt tokens computed in this step", 0, 16384),
    Feature("decode_tokens", "tokens", "tokens computed for decoding requests, one each", 0, 1024),
    Feature("prefill_reqs", "requests", "requests that compute prompt tokens in this step", 0, 1024),
    Feature("decode_reqs", "requests", "requests that decode in this step", 0, 1024),
    Feature("batch_size", "requests", "all requests of the step", 1, 1024),
    Feature("total_tokens", "tokens", "prefill and decode tokens together", 1, 16384),
    Feature(
        "padded_tokens", "tokens", "total tokens padded to the next CUDA-graph size (1, 2, 4, multiples of 8)", 1, 16384
    ),
    Feature("kv_mean", "tokens", "cached context per request before the step, mean over the batch", 0, 131072),
    Feature("kv_max", "tokens", "longest cached context of the batch", 0, 131072),
    Feature("kv_sum", "tokens", "cached context of the whole batch", 0, 2e6),
    Feature("kv_var", "tokens^2", "variance of the cached context over the batch", 0, 1e10),
    Feature("kv_decode_mean", "tokens", "cached context, mean over the decoding requests", 0, 131072),
    Feature("kv_decode_max", "tokens", "longest cached context of a decoding request", 0, 131072),
    Feature("prefill_gemm", "us", "weight GEMM FLOPs of the prefill tokens at peak", 0, 1e6),
    Feature("prefill_attn", "us", "attention FLOPs of the prefill tokens at peak, causal", 0, 1e6),
    Feature("decode_gemm", "us", "weight GEMM FLOPs of the decode tokens at peak", 0, 1e5),
    Feature("decode_attn", "us", "attention FLOPs of the decode tokens at peak", 0, 1e5),
    Feature("lm_head", "us", "LM-head FLOPs at peak, one row per request", 0, 1e4),
    Feature(
        "weight_load", "us", "weight bytes read at peak bandwidth; of the experts those the tokens should touch", 1, 1e6
    ),
    Feature("kv_read", "us", "KV-cache bytes read at peak bandwidth", 0, 1e5),
    Feature("kv_write", "us", "KV-cache bytes written at peak bandwidth", 0, 1e4),
    Feature("tp_comm", "us", "all-reduce payload at peak link bandwidth; 0 on one GPU", 0, 1e6),
    Feature("tp_hops", "count", "all-reduces of the step; 0 on one GPU", 0, 300),
    Feature("activation_io", "us", "activation bytes at peak bandwidth", 0, 1e5),
    Feature("total_flops", "us", "all FLOPs at peak", 0, 1e6),
    Feature("total_bytes", "us", "all bytes at peak bandwidth", 0, 1e6),
    Feature("attention_flops", "us", "prefill and decode attention FLOPs at peak", 0, 1e6),
    Feature("gemm_time", "us", "weight GEMMs at the GPU's measured rates", 1, 1e6),
    Feature("elementwise_time", "us", "norms, activations and residuals at the GPU's measured rates", 0, 1e5),
    Feature("kv_read_time", "us", "KV-cache bytes read at the GPU's achieved bandwidth", 0, 1e5),
    Feature("allreduce_time", "us", "all-reduces at the GPU's measured latency; 0 on one GPU", 0, 1e5),
    _metadata("layers", "count", "transformer layers", 1, 200),
    _metadata("moe_layers", "count", "layers with routed experts", 0, 200),
    _metadata("tp", "GPUs", "tensor-parallel degree", 1, 16),
    _metadata("is_moe", "0 or 1", "whether the model has routed experts", 0, 1),
    _metadata("model_params_b", "1e9", "all parameters", 0.1, 2000),
    _metadata("active_params_b", "1e9", "parameters that one token multiplies with, LM head included", 0.1, 1000),
    _metadata("vocab_per_gpu", "tokens", "vocabulary over tensor-parallel degree", 1000, 300000),
    _metadata("hidden", "values", "hidden width", 256, 32768),
    _metadata("heads_per_gpu", "heads", "query heads over tensor-parallel degree", 1, 256),
    _metadata("kv_heads_per_gpu", "heads", "KV heads on one GPU", 1, 256),
    _metadata("gpu_tflops", "TFLOP/s", "peak of the GPU at the weights' precision", 10, 20000),
    _metadata("gpu_hbm_gb_per_s", "GB/s", "peak memory bandwidth of the GPU", 100, 20000),
    _metadata("gpu_link_gb_per_s", "GB/s", "peak interconnect bandwidth of the GPU, one direction", 10, 2000),
)
REQUEST_FEATURES: tuple[Feature, ...] = (
    Feature("prompt_tokens", "tokens", "length of the request's prompt", 1, 131072, "request"),
    *(feature for feature in FEATURES if feature.kind == "metadata"),
)
"""Inputs of ``predict_queueing_time(r)``: what is known when a request arrives."""

FEATURE_NAMES: tuple[str, ...] = tuple(feature.name for feature in FEATURES)
REQUEST_NAMES: tuple[str, ...] = tuple(feature.name for feature in REQUEST_FEATURES)
FEATURE_COUNT = len(FEATURES)
INDEX = {name: number for number, name in enumerate(FEATURE_NAMES)}
VOCABULARY = Vocabulary(
    {
        "predict_step_time": frozenset(FEATURE_NAMES),
        "predict_queueing_time": frozenset(REQUEST_NAMES),
        "predict_output_token_time": frozenset(),
        "predict_scheduling_time": frozenset(),
        "predict_preemption_time": frozenset(),
    }
)

(
    _PREFILL_TOKENS, _DECODE_TOKENS, _PREFILL_REQS, _DECODE_REQS, _BATCH_SIZE, _TOTAL_TOKENS, _PADDED_TOKENS,
    _KV_MEAN, _KV_MAX, _KV_SUM, _KV_VAR, _KV_DECODE_MEAN, _KV_DECODE_MAX,
    _PREFILL_GEMM, _PREFILL_ATTN, _DECODE_GEMM, _DECODE_ATTN, _LM_HEAD, _WEIGHT_LOAD, _KV_READ, _KV_WRITE,
    _TP_COMM, _TP_HOPS, _ACTIVATION_IO, _TOTAL_FLOPS, _TOTAL_BYTES, _ATTENTION_FLOPS,
    _GEMM_TIME, _ELEMENTWISE_TIME, _KV_READ_TIME, _ALLREDUCE_TIME,
) = range(FEATURE_COUNT - (len(REQUEST_FEATURES) - 1))  # fmt: skip
METADATA_START = FEATURE_COUNT - (len(REQUEST_FEATURES) - 1)
_SMALL_TOKENS, _GROWTH_TOKENS = 16.0, 112.0
"""Range over which the measured GEMM rates were fitted: 16 to 128 tokens."""


@kernel
def padded(tokens: float) -> float:
    """Return ``tokens`` padded to a CUDA-graph size; beyond 512 tokens steps run unpadded."""
    if tokens <= 2.0:
        return max(1.0, math.ceil(tokens))
    if tokens <= 4.0:
        return 4.0
    return 8.0 * math.ceil(tokens / 8.0) if tokens <= 512.0 else tokens


@kernel
def experts_touched(p: Physics, tokens: float) -> float:
    """Return the expected share of the routed experts that ``tokens`` tokens use, 1 - (1 - k/E)^n."""
    if p.experts == 0.0:
        return 0.0
    return 1.0 - math.pow(1.0 - p.experts_per_token / p.experts, tokens)


@kernel
def gemm_time_us(p: Physics, tokens: float, touched: float) -> float:
    """Return the weight GEMMs of all layers and the LM head at achieved rates [us]."""
    growth = 1.0 + p.gemm_growth * max(tokens - _SMALL_TOKENS, 0.0) / _GROWTH_TOKENS
    memory = (p.achieved_dense_us + p.achieved_expert_us * touched) * growth
    return max(memory, p.achieved_gemm_us_per_token * tokens) + p.achieved_head_us + p.achieved_launch_us


@kernel
def fill_metadata(p: Physics, out: F64, start: int) -> None:
    """Write the metadata features to ``out[start:]`` in table order."""
    out[start] = p.layers
    out[start + 1] = p.moe_layers
    out[start + 2] = p.tp
    out[start + 3] = p.is_moe
    out[start + 4] = p.model_params_b
    out[start + 5] = p.active_params_b
    out[start + 6] = p.vocab_per_gpu
    out[start + 7] = p.hidden
    out[start + 8] = p.heads_per_gpu
    out[start + 9] = p.kv_heads_per_gpu
    out[start + 10] = p.gpu_tflops
    out[start + 11] = p.gpu_hbm_gb_per_s
    out[start + 12] = p.gpu_link_gb_per_s


@kernel
def fill_features(p: Physics, batch: F64, touched: float, gemm_us: float, out: F64) -> None:
    """Write every batch feature of one step to ``out``; metadata is written once by `fill_metadata`.

    ``batch`` is a `BATCH_FIELDS` row; ``touched`` and ``gemm_us`` depend on the number of tokens alone and come from
    a table in the simulator. Sums are of *cached* context, before the step.
    """
    prefill_tokens, prefill_reqs, decodes = batch[0], batch[1], batch[2]
    tokens, requests = prefill_tokens + decodes, prefill_reqs + decodes
    out[_PREFILL_TOKENS] = prefill_tokens
    out[_DECODE_TOKENS] = decodes
    out[_PREFILL_REQS] = prefill_reqs
    out[_DECODE_REQS] = decodes
    out[_BATCH_SIZE] = requests
    out[_TOTAL_TOKENS] = tokens
    out[_PADDED_TOKENS] = padded(tokens)
    out[_PREFILL_GEMM] = p.gemm_us_per_token * prefill_tokens
    out[_PREFILL_ATTN] = p.attention_us_per_token_pair * batch[8]
    out[_DECODE_GEMM] = p.gemm_us_per_token * decodes
    out[_LM_HEAD] = p.head_us_per_row * requests
    out[_WEIGHT_LOAD] = p.dense_weight_us + p.expert_weight_us * touched
    out[_KV_WRITE] = p.kv_us_per_token * tokens
    out[_TP_COMM] = p.comm_us_per_token * tokens
    out[_TP_HOPS] = p.hops
    out[_ACTIVATION_IO] = p.activation_us_per_token * tokens
    out[_GEMM_TIME] = gemm_us
    out[_ELEMENTWISE_TIME] = p.elementwise_us + p.elementwise_us_per_token * tokens
    out[_ALLREDUCE_TIME] = p.allreduce_us
    fill_context(p, batch, out)


@kernel
def fill_context(p: Physics, batch: F64, out: F64) -> None:
    """Write the features that change while the same requests go on decoding."""
    kv_sum, kv_square_sum, decode_sum = batch[3], batch[4], batch[6]
    requests, decodes = out[_BATCH_SIZE], batch[2]
    mean = kv_sum / requests
    out[_KV_MEAN] = mean
    out[_KV_MAX] = batch[5]
    out[_KV_SUM] = kv_sum
    out[_KV_VAR] = max(kv_square_sum / requests - mean * mean, 0.0)
    out[_KV_DECODE_MEAN] = decode_sum / decodes if decodes > 0.0 else 0.0
    out[_KV_DECODE_MAX] = batch[7]
    out[_DECODE_ATTN] = p.attention_us_per_token_pair * decode_sum
    out[_ATTENTION_FLOPS] = out[_PREFILL_ATTN] + out[_DECODE_ATTN]
    out[_KV_READ] = p.kv_us_per_token * kv_sum
    out[_KV_READ_TIME] = p.achieved_kv_us_per_token * kv_sum
    out[_TOTAL_FLOPS] = out[_PREFILL_GEMM] + out[_DECODE_GEMM] + out[_LM_HEAD] + out[_ATTENTION_FLOPS]
    out[_TOTAL_BYTES] = out[_WEIGHT_LOAD] + out[_KV_READ] + out[_KV_WRITE] + out[_ACTIVATION_IO]


BATCH_FIELDS = (
    "prefill_tokens",
    "prefill_reqs",
    "decode_reqs",
    "kv_sum",
    "kv_square_sum",
    "kv_max",
    "kv_decode_sum",
    "kv_decode_max",
    "prefill_pairs",
)
"""What the kernel needs to know of a batch. ``prefill_pairs`` is the sum over prefills of new * (cached + (new + 1)/2):
the token pairs that causal attention multiplies."""


@kernel
def _fill_rows(p: Physics, batches: F64, row: F64, out: F64) -> None:
    fill_metadata(p, row, METADATA_START)
    for column in range(batches.shape[1]):
        tokens = batches[0, column] + batches[2, column]
        touched = experts_touched(p, tokens)
        fill_features(p, batches[:, column], touched, gemm_time_us(p, tokens, touched), row)
        for number in range(row.shape[0]):
            out[number, column] = row[number]


def features_of(physics: Physics, batches: F64) -> F64:
    """Return the feature matrix of many steps of one experiment.

    Args:    batches: (len(BATCH_FIELDS), n), a column per step; counts may be fractional (mean field).
    Returns: (FEATURE_COUNT, n), rows in table order, units as in the table.
    Raises:  ValueError: wrong number of rows, or a step without a request.
    """
    if batches.ndim != 2 or batches.shape[0] != len(BATCH_FIELDS):
        raise ValueError(f"batches: got shape {batches.shape}; want ({len(BATCH_FIELDS)}, n)")
    if np.any(batches[1] + batches[2] <= 0.0):
        raise ValueError("batches: got a step without a request; want prefill_reqs + decode_reqs > 0")
    out = np.empty((FEATURE_COUNT, batches.shape[1]))
    _fill_rows(physics, np.ascontiguousarray(batches, dtype=np.float64), np.empty(FEATURE_COUNT), out)
    return out


def request_features_of(physics: Physics, prompt_tokens: F64) -> F64:
    """Return the (len(REQUEST_NAMES), n) features of requests with the given prompt lengths (n,)."""
    out = np.empty((len(REQUEST_NAMES), prompt_tokens.shape[0]))
    metadata = np.empty(len(REQUEST_NAMES))
    fill_metadata(physics, metadata, 1)
    out[:] = metadata[:, None]
    out[0] = prompt_tokens
    return out
