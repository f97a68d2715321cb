"""A dataset that simulates in milliseconds, records by hand, and runs of the real command line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from archive import Accepted, Descriptor, Duplicate, Elite, Outcome, Rejected

REPOSITORY = Path(__file__).resolve().parents[2]
STAGES = """\
experiment,stage,workload,model,gpu,tp,precision,max_num_batched_tokens,cpu_offload,kv_blocks_total,rate_rps,\
prompt_tokens,output_tokens,e2e_ms,ttft_ms,tpot_ms,e2e_p90,e2e_p99,ttft_p90,ttft_p99,duration_s
small,0,quick,Llama-2-7b-hf,H100,1,FP16,2048,,7463,4,200,21,171,27,7.2,,,,,3
small,1,quick,Llama-2-7b-hf,H100,1,FP16,2048,,7463,8,200,21,189,29,8.0,,,,,3
large,0,quick,Llama-2-70b-hf,H100,4,FP16,2048,,31000,4,200,21,400,52,17.4,,,,,3
"""
LINEAR = """\
CONSTANTS = {"scale": 1.0, "launch": 900.0}

def predict_step_time(b):
    return scale * b["gemm_time"] + launch
"""


def tiny_dataset(folder: Path, text: str = STAGES) -> Path:
    """Write three stages of three seconds; the table's quantile columns must hold something."""
    lines = []
    for line in text.splitlines():
        cells = line.split(",")
        if cells[0] != "experiment":
            e2e, ttft = float(cells[13]), float(cells[14])
            cells[16:20] = [f"{value:.1f}" for value in (e2e * 1.1, e2e * 1.2, ttft * 1.1, ttft * 1.2)]
        lines.append(",".join(cells))
    path = folder / "stages.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def command(*arguments: object, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``python -m evolve`` to its end."""
    return subprocess.run(
        [sys.executable, "-m", "evolve", *map(str, arguments)],
        cwd=cwd, env=_environment(**environment), capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def begin(*arguments: object, cwd: Path) -> subprocess.Popen[str]:
    """Start ``python -m evolve`` and let it run."""
    return subprocess.Popen(
        [sys.executable, "-m", "evolve", *map(str, arguments)],
        cwd=cwd, env=_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _environment(**changes: str) -> dict[str, str]:
    path = os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH"))))
    return {**os.environ, "PYTHONPATH": path, **changes}


def summary_without_times(folder: Path) -> dict[str, Any]:
    summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    assert summary.pop("wall_s") > 0
    return summary


def score_json(e2e: float, ttft: float = 0.2, tpot: float = 0.1) -> str:
    errors = {"e2e": e2e, "ttft": ttft, "tpot": tpot}
    times = {"e2e": {"mean_us": 2e6}, "ttft": {"mean_us": 3e4}, "tpot_us": 8e3}
    rows = [
        {"name": "x", "stage": stage, **{m: sign * v for m, v in errors.items()}, "predicted": times, "observed": times}
        for stage, sign in ((0, 1), (1, -2))
    ]
    body = {"error": errors, "median": errors, "worst3": 2 * e2e, "bias": 0.0, "rows": rows}
    body["generalisation"] = {"model": 3 * e2e, "workload": None}
    return json.dumps(body)


def accepted(
    number: int, error: float, source: str = LINEAR, operations: int = 2, e2e: float | None = None
) -> Accepted:
    elite = Elite(
        id=f"{number:016x}",
        source=source,
        descriptor=Descriptor(operations, 1),
        fitness=1.0 / (1.0 + error),
        objectives=(error, error, float(operations)),
        operator="seed",
        parents=(),
        island=0,
        number=number,
    )
    return Accepted(elite, Outcome.NEW, score_json(error if e2e is None else e2e))


def rejected(number: int, stage: str = "fit") -> Rejected:
    return Rejected(number, LINEAR, "mutate", (), 0, stage, "EV001", "too far off")


def duplicate(number: int) -> Duplicate:
    return Duplicate(number, LINEAR, "mutate", (), 0, "0" * 16)
