"""The host cannot go faster than it launches layers: a floor under the device's time."""

CONSTANTS = {
    "floor_per_layer": 150.0,
    "per_byte": 1.2,
    "per_flop": 1.5,
    "per_hop": 20.0,
    "per_request": 20.0,
    "arrival": 6500.0,
    "front_end": 50.0,
}


def predict_step_time(b):
    device = per_byte * b["total_bytes"] + per_flop * b["total_flops"] + per_hop * b["tp_hops"]
    return max(floor_per_layer * b["layers"], device) + per_request * b["batch_size"]


def predict_queueing_time(r):
    return arrival


def predict_output_token_time():
    return front_end
