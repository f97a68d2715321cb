"""Memory and arithmetic overlap in part: their root sum of squares, and a fixed cost per layer."""

import math

CONSTANTS = {
    "per_byte": 1.1,
    "per_flop": 2.0,
    "per_elementwise": 1.0,
    "per_hop": 8.0,
    "per_layer": 40.0,
    "arrival": 6500.0,
    "front_end": 50.0,
}


def predict_step_time(b):
    memory = per_byte * (b["weight_load"] + b["kv_read"])
    compute = per_flop * (b["prefill_gemm"] + b["decode_gemm"] + b["attention_flops"])
    overlapped = math.sqrt(memory * memory + compute * compute)
    return overlapped + per_elementwise * b["elementwise_time"] + per_hop * b["tp_hops"] + per_layer * b["layers"]


def predict_queueing_time(r):
    return arrival


def predict_output_token_time():
    return front_end
