"""The slower of memory and arithmetic decides; launches and messages come on top."""

CONSTANTS = {
    "per_byte": 1.1,
    "per_flop": 2.0,
    "per_hop": 8.0,
    "per_layer": 60.0,
    "per_request": 10.0,
    "arrival": 6500.0,
    "front_end": 50.0,
}


def predict_step_time(b):
    memory = per_byte * b["total_bytes"]
    compute = per_flop * b["total_flops"]
    overhead = per_layer * b["layers"] + per_hop * b["tp_hops"] + per_request * b["batch_size"]
    return max(memory, compute) + overhead


def predict_queueing_time(r):
    return arrival


def predict_output_token_time():
    return front_end
