"""Reader of a stage table: one row per stage, several rows of one `experiment` in the order of their stages.

Times are ms; ``tpot_ms`` is per generated token. The table does not say how long a stage lasted, which prefix the
prompts share or how far they spread: these come from the named workload, or from optional columns.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from evaluators.assembly import complete
from evaluators.catalogue import Catalogue, find_gpu, find_model, stated_weight_bytes, with_weight_bytes
from evaluators.experiment import DataError, Engine, Experiment, Latency, Observed, Stage, Workload
from evaluators.fields import Fields, UnreadableError, found
from evaluators.tables import read_table
from evaluators.workloads import LOADS, shared_prefix_tokens

US_PER_MS = 1e3
MAX_TOKENS = 10_000_000
MAX_PROMPTS = 100_000
PROMPT_SPREAD = 0.010
"""Standard deviation of the prompt lengths over their mean, where the table has none: as in the public H100 runs."""

_PER_STAGE = {"stage", "rate_rps", "e2e_ms", "ttft_ms", "tpot_ms", "e2e_p90", "e2e_p99", "ttft_p90", "ttft_p99"}
_PER_STAGE_OPTIONAL = {"duration_s", "requests", "succeeded", "e2e_p10", "e2e_p50", "ttft_p10", "ttft_p50"}
_COMMON = {"workload", "model", "gpu", "tp", "precision", "max_num_batched_tokens", "cpu_offload", "kv_blocks_total"}
_COMMON |= {"prompt_tokens", "output_tokens"}
_COMMON_OPTIONAL = {"shared_prefix_tokens", "prompt_tokens_std", "max_num_seqs", "max_model_len", "block_size"}
_COMMON_OPTIONAL |= {"prompts", "groups", "enable_prefix_caching", "gpu_memory_utilization"}
REQUIRED = frozenset({"experiment"} | _PER_STAGE | _COMMON)
OPTIONAL = frozenset(_PER_STAGE_OPTIONAL | _COMMON_OPTIONAL)
_PER_EXPERIMENT = tuple(sorted(_COMMON | _COMMON_OPTIONAL))


def read_stages(path: str | Path, catalogue: Catalogue | None = None) -> tuple[Experiment, ...] | DataError:
    """Return the experiments of a stage table, in the order of their first rows."""
    try:
        grouped: dict[str, list[Fields]] = {}
        for row in read_table(Path(path), REQUIRED, OPTIONAL):
            grouped.setdefault(row.text("experiment"), []).append(row)
        return tuple(_experiment(name, rows, catalogue) for name, rows in grouped.items())
    except UnreadableError as problem:
        return problem.error


def _experiment(name: str, rows: Sequence[Fields], catalogue: Catalogue | None) -> Experiment:
    first = rows[0]
    for place, row in enumerate(rows):
        if row.integer("stage", 0, 10_000) != place:
            row.wrong("stage", f"{place}: the stages of `{name}` in order, each once")
        for key in _PER_EXPERIMENT:
            if row.values.get(key) != first.values.get(key):
                row.wrong(key, f"`{first.values.get(key)}` as in stage 0 of `{name}`")
    model = found(find_model(first.text("model"), catalogue), first, "model")
    experiment = Experiment(
        name=name,
        model=with_weight_bytes(model, stated_weight_bytes(first)),
        gpu=found(find_gpu(first.text("gpu"), catalogue), first, "gpu"),
        tp=first.integer("tp", 1, 64),
        engine=_engine(first),
        workload=_workload(first, tuple(_stage(row) for row in rows)),
        notes=_notes(first),
    )
    blocks = first.integer("kv_blocks_total", 1, 10**9) if first.has("kv_blocks_total") else None
    share = first.number("gpu_memory_utilization", 0.05, 1.0, 0.9)
    return complete(experiment, measured_kv_blocks=blocks, memory_share=share)


def _engine(row: Fields) -> Engine:
    # what was served was not too long; twice the mean leaves room for the longer prompts
    longest = 2 * math.ceil(row.number("prompt_tokens", 1, MAX_TOKENS)) + row.integer("output_tokens", 2, MAX_TOKENS)
    return Engine(
        max_num_seqs=row.integer("max_num_seqs", 1, 1_000_000, Engine().max_num_seqs),
        max_num_batched_tokens=row.integer("max_num_batched_tokens", 1, MAX_TOKENS),
        max_model_len=row.integer("max_model_len", 1, MAX_TOKENS, max(Engine().max_model_len, longest)),
        block_size=row.integer("block_size", 1, 4096, Engine().block_size),
        prefix_caching=row.flag("enable_prefix_caching", True),
    )


def _workload(row: Fields, stages: tuple[Stage, ...]) -> Workload:
    name = row.text("workload")
    load = LOADS.get(name)
    prompt_tokens = row.number("prompt_tokens", 1, MAX_TOKENS)
    shared = 0 if load is None else shared_prefix_tokens(load.system_tokens, load.question_tokens, prompt_tokens)
    prompts = row.integer("prompts", 1, MAX_PROMPTS, 100)
    return Workload(
        name=name,
        output_tokens=row.integer("output_tokens", 2, MAX_TOKENS),
        prompt_tokens=prompt_tokens,
        prompt_tokens_std=row.number("prompt_tokens_std", 0, MAX_TOKENS, PROMPT_SPREAD * prompt_tokens),
        shared_prefix_tokens=row.integer("shared_prefix_tokens", 0, int(prompt_tokens), shared),
        stages=stages,
        prompts=prompts,
        groups=row.integer("groups", 1, prompts, min(10, prompts)),
    )


def _stage(row: Fields) -> Stage:
    rate_per_s = row.number("rate_rps", 1e-6, 1e6)
    load = LOADS.get(row.text("workload"))
    if load is None and not row.has("duration_s"):
        row.wrong("workload", f"one of {sorted(LOADS)}, or a column duration_s")
    duration_s = row.number("duration_s", 1e-3, 1e7, load.duration_s if load else None)
    requests = row.integer("requests", 1, 10**9, max(1, round(rate_per_s * duration_s)))
    succeeded = row.integer("succeeded", 1, requests, requests)
    e2e, ttft = _latency(row, "e2e"), _latency(row, "ttft")
    tpot_us = row.number("tpot_ms", 1e-6, 1e9) * US_PER_MS
    if ttft.mean_us >= e2e.mean_us:
        row.wrong("ttft_ms", f"less than the E2E of {e2e.mean_us / US_PER_MS:g} ms")
    implied_us = (e2e.mean_us - ttft.mean_us) / (row.integer("output_tokens", 2, MAX_TOKENS) - 1)
    if abs(tpot_us - implied_us) > 0.05 * implied_us:
        row.wrong("tpot_ms", f"(e2e_ms - ttft_ms) / (output_tokens - 1) = {implied_us / US_PER_MS:.4g}, within 5 %")
    return Stage(rate_per_s, duration_s, Observed(requests, succeeded, e2e, ttft, tpot_us))


def _latency(row: Fields, what: str) -> Latency:
    mean_us = row.number(f"{what}_ms", 1e-6, 1e9) * US_PER_MS
    quantiles: list[float | None] = []
    last_us = 0.0
    for name in ("p10", "p50", "p90", "p99"):
        key = f"{what}_{name}"
        if not row.has(key) and key in OPTIONAL:
            quantiles.append(None)
            continue
        value_us = row.number(key, 0, 1e9) * US_PER_MS
        if value_us < last_us:
            row.wrong(key, f"at least the quantile before it, {last_us / US_PER_MS:g}")
        quantiles.append(value_us)
        last_us = value_us
    return Latency(mean_us, *quantiles)


def _notes(row: Fields) -> tuple[str, ...]:
    notes = []
    if row.flag("cpu_offload", False):
        notes.append("KV cache offloaded to the CPU")
    if not row.has("prompt_tokens_std"):
        notes.append("spread of the prompt lengths assumed")
    if unused := sorted(set(row.values) - REQUIRED - OPTIONAL):
        notes.append(f"columns not used: {', '.join(unused)}"[:300])
    return tuple(notes)
