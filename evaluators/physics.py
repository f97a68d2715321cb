"""What a step has to do at least: FLOPs, bytes and messages of one engine step, per GPU, as rates per token.

`Physics` holds the figures that do not change during an experiment; the feature kernel multiplies them with what is
in the batch. Times are microseconds at the data sheet's peak unless a name says ``achieved``.
"""

from __future__ import annotations

from typing import NamedTuple

from evaluators.experiment import Experiment, Gpu, Model

US_PER_S = 1e6
ACTIVATION_BYTES = 2.0
"""Activations stay in 16 bits, also where weights are quantised."""
HEAD_BYTES = 2.0
"""The LM head is kept in 16 bits, also where the layers are quantised."""


class Physics(NamedTuple):
    """Per-experiment constants of the feature kernel; tensor parallelism already divided in."""

    gemm_us_per_token: float
    head_us_per_row: float
    attention_us_per_token_pair: float
    dense_weight_us: float
    expert_weight_us: float
    experts: float
    experts_per_token: float
    kv_us_per_token: float
    comm_us_per_token: float
    hops: float
    activation_us_per_token: float
    achieved_dense_us: float
    achieved_expert_us: float
    achieved_head_us: float
    achieved_launch_us: float
    achieved_gemm_us_per_token: float
    gemm_growth: float
    elementwise_us: float
    elementwise_us_per_token: float
    achieved_kv_us_per_token: float
    allreduce_us: float
    layers: float
    moe_layers: float
    tp: float
    is_moe: float
    model_params_b: float
    active_params_b: float
    vocab_per_gpu: float
    hidden: float
    heads_per_gpu: float
    kv_heads_per_gpu: float
    gpu_tflops: float
    gpu_hbm_gb_per_s: float
    gpu_link_gb_per_s: float


def attention_params(model: Model) -> float:
    """Return the parameters of one layer's attention: query, key, value and output projections."""
    return 2.0 * model.hidden * model.head_dim * (model.heads + model.kv_heads)


def dense_params(model: Model) -> float:
    """Return the layer parameters that every token passes: attention, dense MLPs, routers, shared experts."""
    per_moe_layer = model.hidden * (model.experts + 3.0 * model.shared_ffn)
    mlp = 3.0 * model.hidden * model.ffn * (model.layers - model.moe_layers)
    return model.layers * attention_params(model) + mlp + model.moe_layers * per_moe_layer


def expert_params(model: Model) -> float:
    """Return the parameters of all routed experts of all layers."""
    return 3.0 * model.hidden * model.expert_ffn * model.experts * model.moe_layers


def head_params(model: Model) -> float:
    """Return the parameters of the LM head."""
    return float(model.vocab * model.hidden)


def total_params(model: Model) -> float:
    """Return all parameters, the embedding counted once more where it is not tied to the head."""
    embeddings = head_params(model) * (1.0 if model.tied_embeddings else 2.0)
    return dense_params(model) + expert_params(model) + embeddings


def active_layer_params(model: Model) -> float:
    """Return the layer parameters that one token multiplies with."""
    share = model.experts_per_token / model.experts if model.experts else 0.0
    return dense_params(model) + expert_params(model) * share


def kv_bytes_per_token(model: Model, tp: int) -> float:
    """Return the KV-cache bytes of one token on one GPU; KV heads are replicated once tp exceeds their number."""
    heads_per_gpu = max(1.0, model.kv_heads / tp)
    return 2.0 * heads_per_gpu * model.head_dim * model.layers * model.kv_bytes_per_value


def _activation_bytes_per_token(model: Model, tp: int) -> float:
    """Return the activation traffic of one token through all layers on one GPU, each tensor read and written once."""
    heads = (2.0 * model.heads + 2.0 * model.kv_heads) * model.head_dim / tp
    moe_width = model.expert_ffn * model.experts_per_token + model.shared_ffn
    mlp = 3.0 * (model.ffn * (model.layers - model.moe_layers) + moe_width * model.moe_layers) / tp
    return 2.0 * ACTIVATION_BYTES * ((4.0 * model.hidden + heads) * model.layers + mlp)


def _peak_flops(model: Model, gpu: Gpu) -> float:
    return gpu.flops_per_s_8bit if model.weight_bytes_per_param <= 1.0 else gpu.flops_per_s_16bit


def physics_of(experiment: Experiment) -> Physics:
    """Return the constants of the feature kernel for one experiment."""
    model, gpu, tp = experiment.model, experiment.gpu, float(experiment.tp)
    flops, hbm = _peak_flops(model, gpu) * tp / US_PER_S, gpu.hbm_bytes_per_s * tp / US_PER_S
    dense_us = dense_params(model) * model.weight_bytes_per_param / hbm
    expert_us = expert_params(model) * model.weight_bytes_per_param / hbm
    head_us = head_params(model) * HEAD_BYTES / hbm
    kv_us = kv_bytes_per_token(model, experiment.tp) / (gpu.hbm_bytes_per_s / US_PER_S)
    sharded = experiment.tp > 1
    payload = 2.0 * model.layers * model.hidden * ACTIVATION_BYTES * 2.0 * (tp - 1.0) / tp
    gemm_us = 2.0 * active_layer_params(model) / flops
    activation_bytes = _activation_bytes_per_token(model, experiment.tp)
    return Physics(
        gemm_us_per_token=gemm_us,
        head_us_per_row=2.0 * head_params(model) / (gpu.flops_per_s_16bit * tp / US_PER_S),
        attention_us_per_token_pair=4.0
        * model.heads
        * model.head_dim
        * model.layers
        / (gpu.flops_per_s_16bit * tp / US_PER_S),
        dense_weight_us=dense_us + head_us,
        expert_weight_us=expert_us,
        experts=float(model.experts),
        experts_per_token=float(model.experts_per_token),
        kv_us_per_token=kv_us,
        comm_us_per_token=payload / (gpu.link_bytes_per_s / US_PER_S),
        hops=2.0 * model.layers if sharded else 0.0,
        activation_us_per_token=activation_bytes / (gpu.hbm_bytes_per_s / US_PER_S),
        achieved_dense_us=dense_us / gpu.gemm_efficiency,
        achieved_expert_us=expert_us / gpu.gemm_efficiency,
        achieved_head_us=head_us / gpu.gemm_efficiency,
        achieved_launch_us=gpu.gemm_layer_us * model.layers,
        achieved_gemm_us_per_token=gemm_us / gpu.gemm_flops_efficiency,
        gemm_growth=gpu.gemm_growth,
        elementwise_us=gpu.elementwise_us * model.layers,
        elementwise_us_per_token=(gpu.elementwise_us_at_128 - gpu.elementwise_us) * model.layers / 128.0,
        achieved_kv_us_per_token=kv_us / gpu.gemm_efficiency,
        allreduce_us=2.0 * model.layers * gpu.allreduce_us if sharded else 0.0,
        layers=float(model.layers),
        moe_layers=float(model.moe_layers),
        tp=tp,
        is_moe=1.0 if model.moe_layers else 0.0,
        model_params_b=total_params(model) / 1e9,
        active_params_b=(active_layer_params(model) + head_params(model)) / 1e9,
        vocab_per_gpu=model.vocab / tp,
        hidden=float(model.hidden),
        heads_per_gpu=model.heads / tp,
        kv_heads_per_gpu=max(1.0, model.kv_heads / tp),
        gpu_tflops=_peak_flops(model, gpu) / 1e12,
        gpu_hbm_gb_per_s=gpu.hbm_bytes_per_s / 1e9,
        gpu_link_gb_per_s=gpu.link_bytes_per_s / 1e9,
    )
