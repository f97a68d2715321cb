"""What kernels take at the rates measured on the GPU, one after the other, and the host's share per layer."""

CONSTANTS = {
    "per_gemm": 1.0,
    "per_elementwise": 1.0,
    "per_kv_read": 1.0,
    "per_allreduce": 1.0,
    "per_layer": 10.0,
    "arrival": 6500.0,
    "front_end": 50.0,
}


def predict_step_time(b):
    kernels = per_gemm * b["gemm_time"] + per_elementwise * b["elementwise_time"] + per_kv_read * b["kv_read_time"]
    return kernels + per_allreduce * b["allreduce_time"] + per_layer * b["layers"]


def predict_queueing_time(r):
    return arrival


def predict_output_token_time():
    return front_end
