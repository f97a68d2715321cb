"""Prefill and decode each bound by arithmetic or memory, the slower of the two, and an overhead: nine constants."""

CONSTANTS = {
    "prefill_compute": 1.5,
    "prefill_attention": 1.5,
    "prefill_memory": 1.0,
    "decode_compute": 1.5,
    "decode_attention": 1.5,
    "decode_memory": 1.1,
    "fixed": 1000.0,
    "per_request": 20.0,
    "per_layer_and_gpu": 60.0,
    "arrival": 7900.0,
}


def predict_step_time(b):
    prefill_flops = prefill_compute * b["prefill_gemm"] + prefill_attention * b["prefill_attn"]
    prefill = max(prefill_flops, prefill_memory * (b["weight_load"] + b["activation_io"]))
    decode_flops = decode_compute * b["decode_gemm"] + decode_attention * b["decode_attn"]
    decode = max(decode_flops, decode_memory * (b["weight_load"] + b["kv_read"] + b["kv_write"]))
    overhead = fixed + per_request * b["batch_size"] + per_layer_and_gpu * b["layers"] / b["tp"]
    return max(prefill, decode) + overhead


def predict_queueing_time(r):
    return arrival
