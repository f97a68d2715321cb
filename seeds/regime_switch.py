"""Steps with a long prefill are bound by arithmetic, all others by memory."""

CONSTANTS = {
    "long_prefill": 128.0,
    "per_flop": 1.6,
    "per_weight_load": 1.0,
    "per_kv_read": 1.1,
    "per_hop": 12.0,
    "per_layer": 60.0,
    "per_request": 10.0,
    "arrival": 6500.0,
    "front_end": 50.0,
}


def predict_step_time(b):
    overhead = per_layer * b["layers"] + per_hop * b["tp_hops"] + per_request * b["batch_size"]
    memory = per_weight_load * b["weight_load"] + per_kv_read * b["kv_read"]
    if b["prefill_tokens"] > long_prefill:
        return memory + per_flop * b["total_flops"] + overhead
    return memory + overhead


def predict_queueing_time(r):
    return arrival


def predict_output_token_time():
    return front_end
