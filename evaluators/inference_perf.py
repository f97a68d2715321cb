"""Reader of a run folder of the inference-perf load generator: exp-config.yaml, profile.yaml, results/stage_*.json.

Facts that the files do not show, from the resolved settings and sources of the generator that ran (autumn 2025):
arrivals of a ``constant`` load are Poisson, conditioned on their count; the multi-turn keys of a profile are ignored;
``num_groups`` x ``num_prompts_per_group`` fixed prompts (10 x 10 by default) are sent in a cycle; clients wait 300 s.
Its inter-token latency counts blank lines too and is half of the truth, so the time per token comes from
(E2E - TTFT) / (N - 1) with N the configured output length, which ``ignore_eos`` guarantees.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import sqrt
from pathlib import Path

from evaluators.assembly import complete
from evaluators.catalogue import DEFAULT_GPU, Catalogue, find_gpu, find_model, stated_weight_bytes, with_weight_bytes
from evaluators.experiment import DataError, Engine, Experiment, Gpu, Latency, Model, Observed, Stage, Workload
from evaluators.fields import Fields, UnreadableError, found, nearest, read_json, read_yaml, refuse
from evaluators.hf_config import read_hf_config
from evaluators.workloads import named_in, shared_prefix_tokens

MAX_STAGES = 100
MAX_TOKENS = 10_000_000
US_PER_S = 1e6

_LEVELS = {"min": 0.0, "p1": 0.01, "p5": 0.05, "p10": 0.1, "p25": 0.25, "median": 0.5, "p75": 0.75, "p90": 0.9}
_LEVELS |= {"p95": 0.95, "p99": 0.99, "max": 1.0}
_CONFIG_KEYS = frozenset({"model", "tensor_parallelism", "max_model_len", "max_num_batched_tokens", "max_num_seqs"})
_CONFIG_KEYS |= {"app", "gpu", "hardware", "precision", "kv_blocks", "block_size", "gpu_memory_utilization"}
_CONFIG_KEYS |= {"enable_prefix_caching", "cpu_offload", "workload"}


def read_folder(folder: str | Path, catalogue: Catalogue | None = None) -> Experiment | DataError:
    """Return the experiment of one run folder.

    Optional keys of exp-config.yaml beside those of the public runs: ``gpu`` or ``hardware`` (default H100-SXM-80GB,
    the GPU of those runs), ``precision``, ``kv_blocks``, ``block_size``, ``gpu_memory_utilization``,
    ``enable_prefix_caching``, ``cpu_offload``, ``workload``. Keys beyond these are named in the experiment's notes.
    A config.json in the folder (Hugging Face's) describes a model that the catalogue lacks.
    """
    try:
        return _read(Path(folder), catalogue)
    except UnreadableError as problem:
        return problem.error


def _read(folder: Path, catalogue: Catalogue | None) -> Experiment:
    if not folder.is_dir():
        refuse(folder, "folder", "a file" if folder.exists() else "nothing there", "a run folder")
    config = read_yaml(folder / "exp-config.yaml")
    profile = read_yaml(folder / "profile.yaml")
    shape = _shape(profile)
    output_tokens = shape.integer("output_len", 2, MAX_TOKENS)
    loads = _loads(profile)
    files = _stage_files(folder / "results", len(loads))
    results = [_stage(file, rate, duration, output_tokens) for file, (rate, duration) in zip(files, loads, strict=True)]
    _check_summary(folder / "results" / "summary_lifecycle_metrics.json", [stage for stage, _ in results])
    prompt_mean, prompt_std = _prompt_lengths(results)
    groups = shape.integer("num_groups", 1, 100_000, 10)
    system, question = shape.integer("system_prompt_len", 0, MAX_TOKENS), shape.integer("question_len", 1, MAX_TOKENS)
    name = folder.resolve().name
    workload = Workload(
        name=config.text("workload", named_in(name) or name),
        output_tokens=output_tokens,
        prompt_tokens=prompt_mean,
        prompt_tokens_std=prompt_std,
        shared_prefix_tokens=shared_prefix_tokens(system, question, prompt_mean),
        stages=tuple(stage for stage, _ in results),
        prompts=groups * shape.integer("num_prompts_per_group", 1, 100_000, 10),
        groups=groups,
    )
    return _deployment(name, config, folder, catalogue, workload)


def _deployment(name: str, config: Fields, folder: Path, catalogue: Catalogue | None, workload: Workload) -> Experiment:
    """Return the experiment of a load on what exp-config.yaml states."""
    engine = Engine(
        max_num_seqs=config.integer("max_num_seqs", 1, 1_000_000),
        max_num_batched_tokens=config.integer("max_num_batched_tokens", 1, MAX_TOKENS),
        max_model_len=config.integer("max_model_len", 1, MAX_TOKENS),
        block_size=config.integer("block_size", 1, 4096, 16),
        prefix_caching=config.flag("enable_prefix_caching", True),
    )
    experiment = Experiment(
        name=name,
        model=_model(config, folder, catalogue),
        gpu=_gpu(config, catalogue),
        tp=config.integer("tensor_parallelism", 1, 64),
        engine=engine,
        workload=workload,
        notes=_notes(config),
    )
    share = config.number("gpu_memory_utilization", 0.05, 1.0, 0.9)
    blocks = config.integer("kv_blocks", 1, 10**9) if config.has("kv_blocks") else None
    return complete(experiment, measured_kv_blocks=blocks, memory_share=share)


def _notes(config: Fields) -> tuple[str, ...]:
    """Return what a reader of the figures should know; refuse a misspelt optional key."""
    notes = ["KV cache offloaded to the CPU"] if config.flag("cpu_offload", False) else []
    unused = sorted(set(config.values) - _CONFIG_KEYS)
    for key in unused:
        if near := nearest(key, _CONFIG_KEYS, 0.85):
            refuse(config.path, key[:100], "an unknown key", f"`{near}`, or a name less like it")
    if unused:
        notes.append(f"keys of exp-config.yaml not used: {', '.join(unused)}"[:300])
    return tuple(notes)


def _model(config: Fields, folder: Path, catalogue: Catalogue | None) -> Model:
    name = config.text("model")
    own = folder / "config.json"
    if own.exists():
        described = read_hf_config(own, name=name.rsplit("/", 1)[-1])
        if isinstance(described, DataError):
            raise UnreadableError(described)
        model = described
    else:
        model = found(find_model(name, catalogue), config, "model")
    if not config.has("precision"):
        return model
    return with_weight_bytes(model, stated_weight_bytes(config))


def _gpu(config: Fields, catalogue: Catalogue | None) -> Gpu:
    key = "gpu" if config.has("gpu") else "hardware"
    return found(find_gpu(config.text(key, DEFAULT_GPU), catalogue), config, key)


def _shape(profile: Fields) -> Fields:
    """Return the section with the lengths of a shared-prefix load."""
    data = profile.section("data")
    if data.text("type") != "shared_prefix":
        data.wrong("type", "`shared_prefix`, the one load whose prompts are known from its profile")
    if profile.has("server") and not profile.section("server").flag("ignore_eos", True):
        profile.section("server").wrong("ignore_eos", "true: output lengths are taken from the profile")
    return data.section("shared_prefix")


def _loads(profile: Fields) -> list[tuple[float, float]]:
    """Return (rate [1/s], duration [s]) of each stage."""
    load = profile.section("load")
    if load.text("type") not in {"constant", "poisson"}:
        load.wrong("type", "`constant` or `poisson`")
    return [
        (stage.number("rate", 1e-6, 1e6), stage.number("duration", 1e-3, 1e7))
        for stage in load.sections("stages", MAX_STAGES)
    ]


def _stage_files(results: Path, wanted: int) -> list[Path]:
    """Return the result file of each stage, in order; as many as the profile has stages."""
    present = {path.name for path in results.glob("stage_*_lifecycle_metrics.json")} if results.is_dir() else set()
    names = [f"stage_{n}_lifecycle_metrics.json" for n in range(wanted)]
    if present != set(names):
        missing, extra = sorted(set(names) - present), sorted(present - set(names))
        got = f"{len(present)} stage files" + (f", without {missing[0]}" if missing else f", among them {extra[0]}")
        refuse(results, "stage files", got, f"stage_0 to stage_{wanted - 1}, one for each stage of profile.yaml")
    return [results / name for name in names]


def _stage(file: Path, rate_per_s: float, duration_s: float, output_tokens: int) -> tuple[Stage, Fields]:
    """Return one stage and its prompt-length statistics."""
    whole = read_json(file)
    successes = whole.section("successes")
    requests = whole.section("load_summary").integer("count", 1, 10**9)
    succeeded = successes.integer("count", 1, 10**9)
    failed = whole.section("failures").integer("count", 0, 10**9)
    if succeeded + failed != requests:
        refuse(file, "successes.count", f"{succeeded} + {failed} failures", f"the {requests} of load_summary.count")
    if abs(requests - rate_per_s * duration_s) > 1 + 0.01 * requests:
        want = f"rate x duration of profile.yaml = {rate_per_s:g}/s x {duration_s:g} s, within 1 %"
        refuse(file, "load_summary.count", str(requests), want)
    latency = successes.section("latency")
    e2e = _latency(latency.section("request_latency"))
    ttft = _latency(latency.section("time_to_first_token"))
    if ttft.mean_us >= e2e.mean_us:
        latency.section("time_to_first_token").wrong("mean", f"less than the mean E2E of {e2e.mean_us / US_PER_S:g} s")
    tpot_us = (e2e.mean_us - ttft.mean_us) / (output_tokens - 1)
    observed = Observed(requests, succeeded, e2e, ttft, tpot_us)
    return Stage(rate_per_s, duration_s, observed), successes.section("prompt_len")


def _latency(at: Fields) -> Latency:
    """Return a distribution, seconds in the file; its quantiles must not decrease and must bracket the mean."""
    seconds = {name: at.number(name, 0, 1e6) for name in ("mean", "min", "p10", "median", "p90", "p99", "max")}
    for lower, upper in pairwise(("min", "p10", "median", "p90", "p99", "max")):
        if seconds[lower] > seconds[upper]:
            at.wrong(upper, f"at least {lower} = {seconds[lower]:g}")
    if not seconds["min"] <= seconds["mean"] <= seconds["max"]:
        at.wrong("mean", f"a value from min {seconds['min']:g} to max {seconds['max']:g}")
    return Latency(
        mean_us=seconds["mean"] * US_PER_S,
        p10_us=seconds["p10"] * US_PER_S,
        p50_us=seconds["median"] * US_PER_S,
        p90_us=seconds["p90"] * US_PER_S,
        p99_us=seconds["p99"] * US_PER_S,
    )


def _prompt_lengths(results: list[tuple[Stage, Fields]]) -> tuple[float, float]:
    """Return mean and standard deviation of the prompt lengths: those of the stage with the most successes."""
    _, at = max(results, key=lambda pair: pair[0].observed.succeeded if pair[0].observed else 0)
    mean = at.number("mean", 1, MAX_TOKENS)
    return mean, spread({level: at.number(name, 1, MAX_TOKENS) for name, level in _LEVELS.items()}, mean)


def spread(quantiles: Mapping[float, float], mean: float) -> float:
    """Return the standard deviation of a distribution given by quantiles at rising levels from 0 to 1.

    The quantile function q is taken as linear in between: variance = integral of (q(p) - mean)^2 over p.
    """
    points = [(level, value - mean) for level, value in quantiles.items()]
    pairs = pairwise(points)
    return sqrt(sum((p1 - p0) * (a * a + a * b + b * b) / 3 for (p0, a), (p1, b) in pairs))


def _check_summary(file: Path, stages: list[Stage]) -> None:
    """Refuse a run whose summary, where there is one, counts other requests than its stages do."""
    if not file.exists():
        return
    summary = read_json(file)
    seen = [stage.observed for stage in stages if stage.observed is not None]
    totals = {"load_summary": sum(o.requests for o in seen), "successes": sum(o.succeeded for o in seen)}
    for section, total in totals.items():
        if summary.section(section).integer("count", 0, 10**9) != total:
            summary.section(section).wrong("count", f"{total}, the sum over the stage files")
