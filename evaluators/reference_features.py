"""The features of one step from the list of its requests, term by term: slow and obvious, the oracle of the kernels.

Nothing is shared with `evaluators.physics`: every rate is written out from the fields of Model and Gpu.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evaluators.experiment import Experiment, Gpu, Model

HALF = 2.0
"""Bytes of a 16-bit value: activations, LM head."""


@dataclass(frozen=True, slots=True)
class Work:
    """What one request computes in a step: ``tokens`` new ones behind ``cached`` ones."""

    tokens: int
    cached: int
    prefill: bool


def mean(values: Sequence[float]) -> float:
    """Return the mean, 0 of nothing."""
    return sum(values) / len(values) if values else 0.0


def variance(values: Sequence[float]) -> float:
    """Return the variance of a population."""
    centre = mean(values)
    return mean([(value - centre) ** 2 for value in values])


def graph_size(tokens: int) -> int:
    """Return the smallest CUDA-graph size that holds the tokens, or the tokens where none does."""
    sizes = [1, 2, 4, *range(8, 513, 8)]
    return next((size for size in sizes if size >= tokens), tokens)


def composition(batch: Sequence[Work]) -> dict[str, float]:
    """Return who is in the batch and what is cached for them."""
    prefills, decodes = [w for w in batch if w.prefill], [w for w in batch if not w.prefill]
    cached, decode_cached = [float(w.cached) for w in batch], [float(w.cached) for w in decodes]
    tokens = sum(w.tokens for w in batch)
    return {
        "prefill_tokens": sum(w.tokens for w in prefills),
        "decode_tokens": len(decodes),
        "prefill_reqs": len(prefills),
        "decode_reqs": len(decodes),
        "batch_size": len(batch),
        "total_tokens": tokens,
        "padded_tokens": graph_size(tokens),
        "kv_mean": mean(cached),
        "kv_max": max(cached),
        "kv_sum": sum(cached),
        "kv_var": variance(cached),
        "kv_decode_mean": mean(decode_cached),
        "kv_decode_max": max(decode_cached, default=0.0),
    }


def layer_weights(model: Model, experts: float) -> float:
    """Return the weights of all layers when ``experts`` experts of each MoE layer count."""
    total = 0.0
    for layer in range(model.layers):
        query_and_output = 2 * model.hidden * model.heads * model.head_dim
        key_and_value = 2 * model.hidden * model.kv_heads * model.head_dim
        total += query_and_output + key_and_value
        if layer < model.moe_layers:
            router = model.hidden * model.experts
            total += router + 3 * model.hidden * (experts * model.expert_ffn + model.shared_ffn)
        else:
            total += 3 * model.hidden * model.ffn
    return total


def attention_flops(model: Model, work: Work) -> float:
    """Return the FLOPs of one request's attention: each new token looks at all before it, and at itself in a prefill.

    QK' and PV take 2 FLOPs per value each.
    """
    seen = 0
    for token in range(work.tokens):
        seen += work.cached + (token + 1 if work.prefill else 0)
    return 4.0 * model.heads * model.head_dim * model.layers * seen


def expected_experts(model: Model, tokens: int) -> float:
    """Return how many experts of a layer ``tokens`` tokens touch: each expert is missed by a token with 1 - k/E."""
    if not model.experts:
        return 0.0
    missed = 1.0
    for _ in range(tokens):
        missed *= 1.0 - model.experts_per_token / model.experts
    return model.experts * (1.0 - missed)


def kv_bytes(model: Model, tp: int) -> float:
    """Return the bytes of one token's keys and values on one GPU; a KV head lives on one GPU at least."""
    return 2 * max(model.kv_heads / tp, 1) * model.head_dim * model.layers * model.kv_bytes_per_value


def activation_bytes(model: Model, tp: int) -> float:
    """Return the bytes of one token's activations on one GPU, each tensor written once and read once."""
    values = 0.0
    for layer in range(model.layers):
        values += 4 * model.hidden + (2 * model.heads + 2 * model.kv_heads) * model.head_dim / tp
        moe = model.experts_per_token * model.expert_ffn + model.shared_ffn
        values += 3 * (moe if layer < model.moe_layers else model.ffn) / tp
    return 2 * HALF * values


def peak_flops(model: Model, gpu: Gpu) -> float:
    """Return the FLOP/s of the GPU at the precision of the weights."""
    return gpu.flops_per_s_8bit if model.weight_bytes_per_param <= 1 else gpu.flops_per_s_16bit


def at_peak(experiment: Experiment, batch: Sequence[Work]) -> dict[str, float]:
    """Return the times at the data sheet's peak [us]."""
    model, gpu, tp = experiment.model, experiment.gpu, experiment.tp
    flops, half_flops = peak_flops(model, gpu) * tp / 1e6, gpu.flops_per_s_16bit * tp / 1e6
    hbm = gpu.hbm_bytes_per_s / 1e6
    prefills, decodes = [w for w in batch if w.prefill], [w for w in batch if not w.prefill]
    tokens = sum(w.tokens for w in batch)
    per_token = 2 * layer_weights(model, model.experts_per_token)
    head = model.vocab * model.hidden
    weights = layer_weights(model, expected_experts(model, tokens)) * model.weight_bytes_per_param + head * HALF
    hops = 2 * model.layers if tp > 1 else 0
    ring = 2 * (tp - 1) / tp
    times = {
        "prefill_gemm": per_token * sum(w.tokens for w in prefills) / flops,
        "prefill_attn": sum(attention_flops(model, w) for w in prefills) / half_flops,
        "decode_gemm": per_token * len(decodes) / flops,
        "decode_attn": sum(attention_flops(model, w) for w in decodes) / half_flops,
        "lm_head": 2 * head * len(batch) / half_flops,
        "weight_load": weights / tp / hbm,
        "kv_read": sum(w.cached for w in batch) * kv_bytes(model, tp) / hbm,
        "kv_write": tokens * kv_bytes(model, tp) / hbm,
        "tp_comm": hops * ring * tokens * model.hidden * HALF / (gpu.link_bytes_per_s / 1e6),
        "tp_hops": hops,
        "activation_io": tokens * activation_bytes(model, tp) / hbm,
    }
    times["attention_flops"] = times["prefill_attn"] + times["decode_attn"]
    times["total_flops"] = times["prefill_gemm"] + times["decode_gemm"] + times["lm_head"] + times["attention_flops"]
    times["total_bytes"] = times["weight_load"] + times["kv_read"] + times["kv_write"] + times["activation_io"]
    return times


def at_achieved_rates(experiment: Experiment, batch: Sequence[Work]) -> dict[str, float]:
    """Return the times at the rates that kernels measured on this GPU reach [us]."""
    model, gpu, tp = experiment.model, experiment.gpu, experiment.tp
    bandwidth = gpu.gemm_efficiency * gpu.hbm_bytes_per_s / 1e6
    tokens = sum(w.tokens for w in batch)
    shard = layer_weights(model, expected_experts(model, tokens)) * model.weight_bytes_per_param / tp
    memory_us = shard / bandwidth * (1 + gpu.gemm_growth * max(tokens - 16, 0) / 112)
    flops = gpu.gemm_flops_efficiency * peak_flops(model, gpu) * tp / 1e6
    compute_us = 2 * layer_weights(model, model.experts_per_token) * tokens / flops
    head_us = model.vocab * model.hidden * HALF / tp / bandwidth
    growth_us = (gpu.elementwise_us_at_128 - gpu.elementwise_us) * tokens / 128
    return {
        "gemm_time": max(memory_us, compute_us) + head_us + gpu.gemm_layer_us * model.layers,
        "elementwise_time": model.layers * (gpu.elementwise_us + growth_us),
        "kv_read_time": sum(w.cached for w in batch) * kv_bytes(model, tp) / bandwidth,
        "allreduce_time": 2 * model.layers * gpu.allreduce_us if tp > 1 else 0,
    }


def metadata(experiment: Experiment) -> dict[str, float]:
    """Return what does not depend on the batch."""
    model, gpu, tp = experiment.model, experiment.gpu, experiment.tp
    head = model.vocab * model.hidden
    every = layer_weights(model, model.experts) + head * (1 if model.tied_embeddings else 2)
    return {
        "layers": model.layers,
        "moe_layers": model.moe_layers,
        "tp": tp,
        "is_moe": 1 if model.moe_layers > 0 else 0,
        "model_params_b": every / 1e9,
        "active_params_b": (layer_weights(model, model.experts_per_token) + head) / 1e9,
        "vocab_per_gpu": model.vocab / tp,
        "hidden": model.hidden,
        "heads_per_gpu": model.heads / tp,
        "kv_heads_per_gpu": max(model.kv_heads / tp, 1),
        "gpu_tflops": peak_flops(model, gpu) / 1e12,
        "gpu_hbm_gb_per_s": gpu.hbm_bytes_per_s / 1e9,
        "gpu_link_gb_per_s": gpu.link_bytes_per_s / 1e9,
    }


def features_of_batch(experiment: Experiment, batch: Sequence[Work]) -> dict[str, float]:
    """Return every feature of `evaluators.features.FEATURES` by name, units as in that table."""
    return {
        name: float(value)
        for group in (
            composition(batch),
            at_peak(experiment, batch),
            at_achieved_rates(experiment, batch),
            metadata(experiment),
        )
        for name, value in group.items()
    }
