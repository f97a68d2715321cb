"""What every usable step-time formula keeps, checked on batches of many models and GPUs, not only the measured ones.

INV-M-1 positive, INV-M-5 softly monotone (more work takes no less time, under 5 % violations), INV-M-6 unbiased (mean
signed error under 5 %). INV-M-2 and INV-M-3, deterministic and free of side effects, hold by construction of the
language, and so does INV-M-4, under 1 ms: at most 30 operations. INV-P-1 is ours: no step is faster than reading its
weights and context, or than its arithmetic, at the data sheet's peak. It refuses formulas that fit the measured steps
with a ceiling or a saturation which no larger batch, prompt or model would respect.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from evaluators.catalogue import load_gpus, load_models
from evaluators.compiled import Compiled, evaluate_steps
from evaluators.experiment import Engine, Experiment, Gpu, Model, Workload
from evaluators.features import BATCH_FIELDS, INDEX, features_of
from evaluators.physics import physics_of, total_params
from evaluators.random import stream

F64 = NDArray[np.float64]
MOST_VIOLATIONS = 0.05
LARGEST_BIAS = 0.05
LEAST_OF_PEAK = 0.8
"""Margin of INV-P-1: caches and expert routing make a step's real bytes differ from the expected ones."""
DEPLOYMENTS = 24
BATCHES = 12
GROWTH = 1.25
PROBE_SEED = 5
LONGEST_PROBE_CONTEXT = 4096.0


@dataclass(frozen=True, slots=True)
class Probe:
    """Feature matrices (n, FEATURE_COUNT) of the same n batches, as they are and with more of one kind of work."""

    steps: F64
    more_decodes: F64
    more_context: F64
    more_prefill: F64


@dataclass(frozen=True, slots=True)
class Violation:
    """Which invariant fails and by how much."""

    code: str
    reason: str


def _deployments() -> list[Experiment]:
    """Return deployments drawn from the catalogues whose weights fit the GPUs."""
    choices: list[tuple[Model, Gpu, int]] = [
        (model, gpu, tp)
        for model in load_models()
        for gpu in load_gpus()
        for tp in (1, 2, 4, 8)
        if total_params(model) * model.weight_bytes_per_param / tp < 0.8 * gpu.memory_bytes and model.heads % tp == 0
    ]
    rng = stream(PROBE_SEED, "deployments")
    picked = rng.choice(len(choices), size=min(DEPLOYMENTS, len(choices)), replace=False)
    load = Workload("probe", 1, 1.0, 0.0, 0, ())
    deployments = []
    for number in sorted(picked):
        model, gpu, tp = choices[number]
        deployments.append(Experiment("probe", model, gpu, tp, Engine(kv_blocks=1), load))
    return deployments


def _batches(rng: np.random.Generator) -> F64:
    """Return (len(BATCH_FIELDS), BATCHES) batches: idle to full, decode-only, mixed, one long prefill."""
    decodes = np.round(np.exp(rng.uniform(0.0, np.log(256.0), BATCHES)))
    prefill_reqs = np.where(rng.random(BATCHES) < 0.5, 0.0, rng.integers(1, 4, BATCHES).astype(np.float64))
    new = np.where(rng.random(BATCHES) < 0.7, rng.integers(1, 17, BATCHES), rng.integers(64, 1024, BATCHES))
    mean = np.round(np.exp(rng.uniform(np.log(64.0), np.log(LONGEST_PROBE_CONTEXT / 1.5), BATCHES)))
    longest = np.round(mean * rng.uniform(1.0, 1.5, BATCHES))
    cached = np.round(mean * rng.uniform(0.0, 1.0, BATCHES))
    square = mean**2 + (longest - mean) ** 2 / 3.0
    return np.array(
        [
            prefill_reqs * new, prefill_reqs, decodes,
            decodes * mean + prefill_reqs * cached, decodes * square + prefill_reqs * cached**2,
            np.maximum(longest, np.where(prefill_reqs > 0, cached, 0.0)),
            decodes * mean, longest, prefill_reqs * new * (cached + (new + 1.0) / 2.0),
        ]
    )  # fmt: skip


def _scaled(batches: F64, factors: dict[str, float]) -> F64:
    scaled = batches.copy()
    for name, factor in factors.items():
        scaled[BATCH_FIELDS.index(name)] *= factor
    return scaled


@lru_cache(maxsize=1)
def probe() -> Probe:
    """Return the fixed probe set."""
    rng = stream(PROBE_SEED, "batches")
    more_decodes = {"decode_reqs": GROWTH, "kv_decode_sum": GROWTH}
    more_context = dict.fromkeys(("kv_sum", "kv_max", "kv_decode_sum", "kv_decode_max"), GROWTH)
    kinds: list[list[F64]] = [[], [], [], []]
    for deployment in _deployments():
        physics, batches = physics_of(deployment), _batches(rng)
        grown = _scaled(batches, more_decodes)
        extra = grown[6] - batches[6]
        grown[3] += extra
        grown[4] += extra * np.where(batches[6] > 0, batches[4] / batches[3], 0.0)
        deeper = _scaled(batches, {**more_context, "kv_square_sum": GROWTH**2})
        longer = _scaled(batches, {"prefill_tokens": GROWTH, "prefill_pairs": GROWTH})
        for kind, described in zip(kinds, (batches, grown, deeper, longer), strict=True):
            kind.append(features_of(physics, described).T)
    return Probe(*(np.ascontiguousarray(np.concatenate(kind)) for kind in kinds))


def check(compiled: Compiled, constants: F64) -> Violation | None:
    """Return the first invariant that the formula breaks on the probe set, None if it keeps them."""
    batches = probe()
    times = np.empty((4, batches.steps.shape[0]))
    for number, kind in enumerate((batches.steps, batches.more_decodes, batches.more_context, batches.more_prefill)):
        evaluate_steps(compiled.step, kind, constants, times[number])
    bad = int(np.sum(~(np.isfinite(times) & (times > 0.0)).all(axis=0)))
    if bad:
        return Violation("INV-M-1", f"{bad} of {times.shape[1]} probe batches get no positive finite time")
    for work, more in zip(("decoding requests", "context", "prefill tokens"), times[1:], strict=True):
        share = float(np.mean(more < times[0] * (1.0 - 1e-9)))
        if share >= MOST_VIOLATIONS:
            return Violation("INV-M-5", f"more {work} take less time in {share:.0%} of the probe batches; want < 5%")
    share = float(np.mean(times[0] < LEAST_OF_PEAK * peak_us(batches.steps)))
    if share >= MOST_VIOLATIONS:
        return Violation("INV-P-1", f"{share:.0%} of the probe batches are faster than the hardware's peak; want < 5%")
    return None


def peak_us(steps: F64) -> F64:
    """Return the least time of each step (n, FEATURE_COUNT) at peak rates [us]: bytes or arithmetic, the slower."""
    bytes_us = steps[:, INDEX["weight_load"]] + steps[:, INDEX["kv_read"]]
    return np.maximum(bytes_us, steps[:, INDEX["total_flops"]])


@lru_cache(maxsize=1)
def _sample() -> tuple[F64, F64]:
    """Return every third probe batch and its time at peak, for the fit."""
    steps = np.ascontiguousarray(probe().steps[::3])
    return steps, peak_us(steps)


def faster_than_peak(compiled: Compiled, constants: F64) -> F64:
    """Return by which share each sampled probe batch is faster than the hardware's peak, 0 where it is not, (n,)."""
    steps, least_us = _sample()
    times = np.empty(len(steps))
    evaluate_steps(compiled.step, steps, constants, times)
    with np.errstate(all="ignore"):
        lead = 1.0 - times / least_us
    return np.clip(np.where(np.isnan(lead), 1.0, lead), 0.0, 1.0)


def check_bias(bias: float) -> Violation | None:
    """Return INV-M-6 if the mean signed error is 5 % or more."""
    if abs(bias) < LARGEST_BIAS:
        return None
    return Violation("INV-M-6", f"mean signed E2E error {bias:+.1%}; want within 5%")
