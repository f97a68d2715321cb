"""Where the public measurements lie; tests that need them skip with a message when they are absent."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Return the folder of public measurements: $EVOLVE_DATA, or shared/data beside the repository."""
    folder = Path(os.environ.get("EVOLVE_DATA", REPOSITORY.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"no measurements at {folder}; set EVOLVE_DATA to their folder")
    return folder


def latency(mean_s: float, scale: float = 1.0) -> dict[str, float]:
    """Return plausible statistics of a latency in the layout of inference-perf."""
    shares = {"min": 0.8, "p10": 0.9, "median": 1.0, "p90": 1.1, "p99": 1.2, "max": 1.3}
    return {"mean": mean_s * scale} | {name: mean_s * share * scale for name, share in shares.items()}


def stage_result(requests: int, failed: int, e2e_s: float, ttft_s: float) -> dict[str, object]:
    """Return one stage file in the layout of inference-perf."""
    lengths = {"min": 570, "p1": 571, "p5": 573, "p10": 575, "p25": 578, "median": 580, "p75": 582, "p90": 585}
    lengths |= {"p95": 587, "p99": 589, "max": 590}
    return {
        "load_summary": {"count": requests},
        "successes": {
            "count": requests - failed,
            "latency": {"request_latency": latency(e2e_s), "time_to_first_token": latency(ttft_s)},
            "prompt_len": {"mean": 580.0, **lengths},
        },
        "failures": {"count": failed},
    }


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    """Return a small valid run folder of two stages."""
    folder = tmp_path / "20260101-llama-2-7b-tp1-codegen"
    (folder / "results").mkdir(parents=True)
    config = {"model": "meta-llama/Llama-2-7b-hf", "tensor_parallelism": 1, "max_model_len": 4096}
    config |= {"max_num_batched_tokens": 2048, "max_num_seqs": 128, "app": "inference-perf"}
    profile = {
        "data": {
            "type": "shared_prefix",
            "shared_prefix": {"output_len": 101, "question_len": 400, "system_prompt_len": 100},
        },
        "load": {"type": "constant", "stages": [{"rate": 5, "duration": 600}, {"rate": 10, "duration": 600}]},
        "server": {"ignore_eos": True},
    }
    files = {
        "exp-config.yaml": config,
        "profile.yaml": profile,
        "results/stage_0_lifecycle_metrics.json": stage_result(3000, 0, 2.0, 0.03),
        "results/stage_1_lifecycle_metrics.json": stage_result(6000, 0, 2.5, 0.04),
        "results/summary_lifecycle_metrics.json": {"load_summary": {"count": 9000}, "successes": {"count": 9000}},
    }
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content), encoding="utf-8")
    return folder


@pytest.fixture
def change() -> Callable[[Path, str, object], None]:
    """Return a function that sets (or, given None, removes) one dotted key of a JSON file."""

    def set_key(file: Path, key: str, value: object) -> None:
        whole = json.loads(file.read_text(encoding="utf-8"))
        *path, last = key.split(".")
        at = whole
        for part in path:
            at = at[int(part)] if isinstance(at, list) else at[part]
        if value is None:
            del at[last]
        else:
            at[last] = value
        file.write_text(json.dumps(whole), encoding="utf-8")

    return set_key
