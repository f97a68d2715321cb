"""What the operators know of the features: which are related, what kind of work they measure, their usual size."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from evaluators.datasets import load_dataset
from evaluators.experiment import DataError
from evaluators.features import FEATURE_NAMES, FEATURES, REQUEST_FEATURES, VOCABULARY, features_of
from evaluators.physics import physics_of
from translate.ir import Binary, Expr, Feature

F64 = NDArray[np.float64]

STEP = "predict_step_time"
QUEUEING = "predict_queueing_time"
OUTPUT_TOKEN = "predict_output_token_time"

SCALE_US: Mapping[str, float] = MappingProxyType({STEP: 15_000.0, QUEUEING: 6_500.0})
"""What a function usually returns [us]."""
DEFAULT_SCALE_US = 50.0

CATEGORIES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "memory": ("weight_load", "kv_read", "kv_write", "activation_io", "total_bytes", "kv_read_time"),
        "compute": (
            "prefill_gemm", "prefill_attn", "decode_gemm", "decode_attn", "lm_head", "total_flops", "attention_flops",
        ),
        "kernels": ("gemm_time", "elementwise_time"),
        "communication": ("tp_comm", "tp_hops", "allreduce_time"),
        "context": ("kv_mean", "kv_max", "kv_sum", "kv_var", "kv_decode_mean", "kv_decode_max", "prompt_tokens"),
        "batch": (
            "prefill_tokens", "decode_tokens", "prefill_reqs", "decode_reqs", "batch_size", "total_tokens",
            "padded_tokens",
        ),
    }
)  # fmt: skip
"""Features by what they measure; every other one describes the model or the hardware."""
CATEGORY: Mapping[str, str] = MappingProxyType({name: kind for kind, names in CATEGORIES.items() for name in names})

RELATED: tuple[tuple[str, ...], ...] = (
    ("weight_load", "gemm_time", "total_bytes"),
    ("kv_read", "kv_read_time", "kv_write", "decode_attn", "kv_sum", "kv_mean"),
    ("prefill_gemm", "decode_gemm", "total_flops", "gemm_time"),
    ("prefill_attn", "decode_attn", "attention_flops"),
    ("total_flops", "total_bytes"),
    ("activation_io", "elementwise_time", "kv_write", "lm_head"),
    ("tp_comm", "tp_hops", "allreduce_time"),
    ("layers", "moe_layers", "tp_hops"),
    ("batch_size", "decode_reqs", "total_tokens", "padded_tokens"),
    ("batch_size", "decode_tokens", "total_tokens", "padded_tokens"),
    ("prefill_tokens", "prefill_reqs", "prefill_gemm"),
    ("kv_mean", "kv_max", "kv_decode_mean", "kv_decode_max"),
    ("kv_sum", "kv_var"),
    ("model_params_b", "active_params_b", "layers"),
    ("hidden", "heads_per_gpu", "kv_heads_per_gpu"),
    ("vocab_per_gpu", "lm_head", "batch_size"),
    ("is_moe", "moe_layers"),
    ("gpu_tflops", "gpu_hbm_gb_per_s", "gpu_link_gb_per_s"),
    ("prompt_tokens", "layers", "tp"),
)
"""Features that stand for nearly the same work: peak and achieved rate, sum and mean, FLOPs and bytes."""

PARTS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "total_flops": ("prefill_gemm", "decode_gemm", "attention_flops"),
        "total_bytes": ("weight_load", "kv_read"),
    }
)
"""Totals and the parts that make up most of them; exact sums are left out, they would predict the same."""

STEP_TERMS: tuple[tuple[str, ...], ...] = (
    ("weight_load",), ("kv_read",), ("total_bytes",), ("activation_io",), ("kv_write",), ("gemm_time",),
    ("elementwise_time",), ("kv_read_time",), ("allreduce_time",), ("prefill_gemm",), ("decode_gemm",),
    ("total_flops",), ("attention_flops",), ("lm_head",), ("tp_comm",), ("tp_hops",), ("layers",), ("tp",),
    ("batch_size",), ("decode_reqs",), ("prefill_reqs",), ("prefill_tokens",), ("total_tokens",), ("padded_tokens",),
    ("moe_layers",), ("is_moe",), ("kv_sum",), ("kv_decode_mean",), ("layers", "batch_size"),
    ("layers", "tp"), ("tp", "batch_size"),
    ("moe_layers", "batch_size"), ("tp_hops", "batch_size"), ("layers", "total_tokens"), ("is_moe", "weight_load"),
    ("batch_size", "vocab_per_gpu"), ("layers", "kv_decode_mean"), ("is_moe", "batch_size"),
)  # fmt: skip
"""Products of features that mean something physically; each, times a constant, is a term."""
QUEUEING_TERMS: tuple[tuple[str, ...], ...] = (("prompt_tokens",), ("tp",), ("layers",), ("active_params_b",))

SWITCHES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        STEP: (
            "prefill_tokens", "batch_size", "total_tokens", "decode_reqs", "kv_decode_mean", "kv_max", "kv_sum",
            "tp", "is_moe",
        ),
        QUEUEING: ("prompt_tokens", "tp", "is_moe"),
    }
)  # fmt: skip
"""Features whose threshold may divide two regimes."""

BATCHES: tuple[tuple[float, float, float], ...] = (
    (64.0, 40.0, 700.0), (0.0, 4.0, 300.0), (0.0, 16.0, 600.0), (8.0, 24.0, 1100.0), (0.0, 100.0, 700.0),
    (600.0, 30.0, 700.0), (1800.0, 1.0, 600.0),
)  # fmt: skip
"""Probe steps: prefill tokens of one request, decoding requests, their mean context [tokens]. The first is typical."""
PROMPTS = np.array([575.0, 16.0, 128.0, 592.0, 1081.0, 2048.0, 4096.0])


def _batch_fields() -> F64:
    """Return (len(BATCH_FIELDS), len(BATCHES)) probe steps."""
    columns = [
        (new, float(new > 0), decodes, decodes * mean, decodes * mean**2 * 1.1, 1.5 * mean, decodes * mean, 1.5 * mean,
         new * (new + 1.0) / 2.0)
        for new, decodes, mean in BATCHES
    ]  # fmt: skip
    return np.array(columns).T


@lru_cache(maxsize=1)
def probes() -> dict[str, F64]:
    """Return each feature's values on realistic steps of the built-in H100 experiments, prompts of requests included.

    Every array has the same length: for each experiment one value per entry of BATCHES.
    Raises: ValueError where the built-in benchmark does not load.
    """
    experiments = load_dataset("h100-vllm")
    if isinstance(experiments, DataError):
        raise ValueError(str(experiments))
    fields = _batch_fields()
    matrix = np.hstack([features_of(physics_of(experiment), fields) for experiment in experiments])
    values = dict(zip(FEATURE_NAMES, matrix, strict=True))
    values["prompt_tokens"] = np.tile(PROMPTS, len(experiments))
    return values


@lru_cache(maxsize=1)
def typical() -> Mapping[str, float]:
    """Return each feature's usual value, > 0: the mean of the typical step over the built-in H100 experiments."""
    means = {name: float(np.mean(values[:: len(BATCHES)])) for name, values in probes().items()}
    return MappingProxyType({name: float(f"{value:.2g}") if value > 0.0 else 1.0 for name, value in means.items()})


def features_for(function: str) -> tuple[str, ...]:
    """Return the features that a function may read, in table order."""
    allowed = VOCABULARY.of(function)
    table = REQUEST_FEATURES if function == QUEUEING else FEATURES
    return tuple(feature.name for feature in table if feature.name in allowed)


@lru_cache(maxsize=1)
def divisors() -> frozenset[str]:
    """Return the features that are never 0."""
    return frozenset(feature.name for feature in (*FEATURES, *REQUEST_FEATURES) if feature.low > 0)


def related(name: str, function: str) -> tuple[str, ...]:
    """Return the features that may stand in for ``name``, in table order."""
    near = {other for group in RELATED if name in group for other in group} - {name}
    return tuple(other for other in features_for(function) if other in near)


def composite(name: str) -> Expr | None:
    """Return a total written out as the sum of its main parts; None for a feature that is no total."""
    names = PARTS.get(name)
    if names is None:
        return None
    total: Expr = Feature(names[0])
    for part in names[1:]:
        total = Binary("add", total, Feature(part))
    return total
