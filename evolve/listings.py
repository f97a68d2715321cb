"""What there is to work with: `data` lists the experiments of a dataset, `features` what a program may read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from evaluators.experiment import Experiment, Stage
from evolve.dataset import open_dataset
from evolve.tables import milliseconds, print_table


def data_rows(experiments: Sequence[Experiment]) -> list[dict[str, Any]]:
    """Return one JSON object per stage of every experiment."""
    return [
        _stage_row(experiment, number, stage)
        for experiment in experiments
        for number, stage in enumerate(experiment.workload.stages)
    ]


def _stage_row(experiment: Experiment, number: int, stage: Stage) -> dict[str, Any]:
    load, seen = experiment.workload, stage.observed
    return {
        "name": experiment.name,
        "stage": number,
        "model": experiment.model.name,
        "gpu": experiment.gpu.name,
        "tp": experiment.tp,
        "workload": load.name,
        "rate_per_s": stage.rate_per_s,
        "duration_s": stage.duration_s,
        "prompt_tokens": load.prompt_tokens,
        "output_tokens": load.output_tokens,
        "max_num_seqs": experiment.engine.max_num_seqs,
        "kv_blocks": experiment.engine.kv_blocks,
        "observed": None if seen is None else asdict(seen),
        "overloaded": experiment.overloaded,
        "thrashing": experiment.thrashing,
    }


def print_data(source: str) -> None:
    """Print the experiments of a dataset, a line per stage."""
    experiments = open_dataset(source)
    header = ("model", "GPU", "TP", "workload", "req/s", "in", "out", "E2E ms", "TTFT ms", "TPOT ms", "flags")
    rows = []
    for row in data_rows(experiments):
        seen = row["observed"]
        times = ("-", "-", "-")
        if seen is not None:
            means_us = (seen["e2e"]["mean_us"], seen["ttft"]["mean_us"], seen["tpot_us"])
            times = (milliseconds(means_us[0]), milliseconds(means_us[1]), milliseconds(means_us[2]))
        flags = ", ".join(flag for flag in ("overloaded", "thrashing") if row[flag])
        rows.append((
            row["model"], row["gpu"], str(row["tp"]), row["workload"], f"{row['rate_per_s']:g}",
            f"{row['prompt_tokens']:.0f}", str(row["output_tokens"]), *times, flags,
        ))  # fmt: skip
    print_table(header, rows, left=("model", "GPU", "workload", "flags"), group=4)
    stages = sum(len(experiment.workload.stages) for experiment in experiments)
    out = sum(experiment.overloaded or experiment.thrashing for experiment in experiments)
    print(f"\n{len(experiments)} experiments, {stages} stages; {out} experiments are flagged and not scored.")
    print("Lengths are tokens, times are means over the requests of a stage.")


def feature_rows() -> list[dict[str, Any]]:
    """Return one JSON object per feature; ``typical`` is the median over realistic batches that have any of it."""
    import numpy as np

    from evaluators.features import FEATURES, REQUEST_FEATURES
    from evaluators.invariants import probe

    steps = probe().steps
    busy = [column[column != 0.0] for column in steps.T]
    rows = [
        {**asdict(f), "typical": float(np.median(busy[n])) if len(busy[n]) else 0.0} for n, f in enumerate(FEATURES)
    ]
    rows += [{**asdict(f), "typical": None} for f in REQUEST_FEATURES if f.kind == "request"]
    return rows


def print_features() -> None:
    """Print what a program may read."""
    header = ("name", "unit", "typical", "range", "meaning")
    rows = feature_rows()
    print_table(
        header,
        [
            (row["name"], row["unit"], "-" if row["typical"] is None else f"{row['typical']:.3g}",
             f"{row['low']:g}..{row['high']:g}", row["meaning"])
            for row in rows
        ],
        left=("name", "unit", "meaning", "range"),
    )  # fmt: skip
    print(f"\n{len(rows)} features. `predict_step_time(b)` reads those of a batch and the metadata;")
    print("`predict_queueing_time(r)` reads prompt_tokens and the metadata.")
    print("Typical: the median over a probe of realistic batches, those that have any of it.")
