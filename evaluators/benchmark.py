"""The benchmark that a fresh clone carries: observed figures of public measurements, in tables of the project's own."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from evaluators.assembly import complete
from evaluators.catalogue import find_gpu, find_model
from evaluators.experiment import DataError, Engine, Experiment, Latency, Observed, Stage, Workload
from evaluators.fields import Fields, UnreadableError, found
from evaluators.tables import read_table

FOLDER = Path(__file__).parent / "benchmark"

_FIGURES = tuple(f"{what}_{name}_us" for what in ("e2e", "ttft") for name in ("mean", "p10", "p50", "p90", "p99"))
COLUMNS = (
    "experiment",
    "model",
    "gpu",
    "tp",
    "max_model_len",
    "max_num_batched_tokens",
    "max_num_seqs",
    "workload",
    "output_tokens",
    "prompt_tokens",
    "prompt_tokens_std",
    "shared_prefix_tokens",
    "stage",
    "rate_per_s",
    "duration_s",
    "requests",
    "succeeded",
    *_FIGURES,
    "tpot_us",
)


def builtin_names() -> tuple[str, ...]:
    """Return the names of the built-in benchmarks."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.csv")))


def builtin(name: str) -> tuple[Experiment, ...]:
    """Return the experiments of a built-in benchmark.

    Raises:
        KeyError: no benchmark of this name.
    """
    if name not in builtin_names():
        raise KeyError(name)
    experiments = read_benchmark(FOLDER / f"{name}.csv")
    if isinstance(experiments, DataError):  # a file of the project: an error in it is a bug
        raise RuntimeError(str(experiments))
    return experiments


def read_benchmark(path: Path) -> tuple[Experiment, ...] | DataError:
    """Return the experiments of a table in the format that `table_text` writes."""
    try:
        grouped: dict[str, list[Fields]] = {}
        for row in read_table(path, frozenset(COLUMNS), frozenset()):
            grouped.setdefault(row.text("experiment"), []).append(row)
        return tuple(_experiment(name, rows) for name, rows in grouped.items())
    except UnreadableError as problem:
        return problem.error


def table_text(experiments: Sequence[Experiment], heading: Sequence[str]) -> str:
    """Return experiments as a table, one row per stage, numbers at full precision, under ``#`` heading lines."""
    text = io.StringIO()
    text.writelines(f"# {line}\n" for line in heading)
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for experiment in experiments:
        for number, stage in enumerate(experiment.workload.stages):
            table.writerow(_row(experiment, number, stage))
    return text.getvalue()


def _row(experiment: Experiment, number: int, stage: Stage) -> list[object]:
    engine, load, seen = experiment.engine, experiment.workload, stage.observed
    if seen is None:
        raise ValueError(f"{experiment.name}: stage {number} was not observed")
    what: list[object] = [experiment.name, experiment.model.name, experiment.gpu.name, experiment.tp]
    what += [engine.max_model_len, engine.max_num_batched_tokens, engine.max_num_seqs, load.name, load.output_tokens]
    what += [load.prompt_tokens, load.prompt_tokens_std, load.shared_prefix_tokens]
    what += [number, stage.rate_per_s, stage.duration_s, seen.requests, seen.succeeded]
    for latency in (seen.e2e, seen.ttft):
        what += [latency.mean_us, latency.p10_us, latency.p50_us, latency.p90_us, latency.p99_us]
    return [*what, seen.tpot_us]


def _experiment(name: str, rows: Sequence[Fields]) -> Experiment:
    first = rows[0]
    model = found(find_model(first.text("model")), first, "model")
    gpu = found(find_gpu(first.text("gpu")), first, "gpu")
    engine = Engine(
        max_num_seqs=first.integer("max_num_seqs", 1, 10**6),
        max_num_batched_tokens=first.integer("max_num_batched_tokens", 1, 10**7),
        max_model_len=first.integer("max_model_len", 1, 10**7),
    )
    workload = Workload(
        name=first.text("workload"),
        output_tokens=first.integer("output_tokens", 2, 10**7),
        prompt_tokens=first.number("prompt_tokens", 1, 1e7),
        prompt_tokens_std=first.number("prompt_tokens_std", 0, 1e7),
        shared_prefix_tokens=first.integer("shared_prefix_tokens", 0, 10**7),
        stages=tuple(_stage(row, place) for place, row in enumerate(rows)),
    )
    return complete(Experiment(name, model, gpu, first.integer("tp", 1, 64), engine, workload))


def _stage(row: Fields, place: int) -> Stage:
    if row.integer("stage", 0, 10_000) != place:
        row.wrong("stage", f"{place}: stages in order, each once")
    requests = row.integer("requests", 1, 10**9)
    observed = Observed(
        requests=requests,
        succeeded=row.integer("succeeded", 1, requests),
        e2e=_latency(row, "e2e"),
        ttft=_latency(row, "ttft"),
        tpot_us=row.number("tpot_us", 0, 1e12),
    )
    return Stage(row.number("rate_per_s", 1e-6, 1e6), row.number("duration_s", 1e-3, 1e7), observed)


def _latency(row: Fields, what: str) -> Latency:
    figures = {f"{name}_us": row.number(f"{what}_{name}_us", 0, 1e12) for name in ("mean", "p10", "p50", "p90", "p99")}
    return Latency(**figures)
