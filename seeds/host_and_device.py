"""Bytes at the achieved rate on the device; on the host a cost per layer and per request that grows with the GPUs."""

CONSTANTS = {
    "per_gemm": 1.0,
    "per_kv_read": 1.1,
    "per_payload": 2.0,
    "per_gpu": 900.0,
    "per_layer_request": 0.4,
    "arrival": 6500.0,
    "front_end": 50.0,
}


def predict_step_time(b):
    device = per_gemm * b["gemm_time"] + per_kv_read * b["kv_read_time"] + per_payload * b["tp_comm"]
    host = per_gpu * b["tp"] + per_layer_request * b["layers"] * b["batch_size"]
    return device + host


def predict_queueing_time(r):
    return arrival


def predict_output_token_time():
    return front_end
