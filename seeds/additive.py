"""Every resource adds up: weights, KV cache, arithmetic, messages, and a fixed cost per layer."""

CONSTANTS = {
    "per_weight_load": 1.0,
    "per_kv_read": 1.0,
    "per_gemm": 1.5,
    "per_hop": 8.0,
    "per_layer": 50.0,
    "arrival": 6500.0,
    "front_end": 50.0,
}


def predict_step_time(b):
    memory = per_weight_load * b["weight_load"] + per_kv_read * b["kv_read"]
    compute = per_gemm * (b["prefill_gemm"] + b["decode_gemm"])
    overhead = per_hop * b["tp_hops"] + per_layer * b["layers"]
    return memory + compute + overhead


def predict_queueing_time(r):
    return arrival


def predict_output_token_time():
    return front_end
