"""Small random experiments that bring out every corner of the engine, and a program that notes what it is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from numba import njit
from numpy.typing import NDArray

from evaluators.experiment import Engine, Experiment, Gpu, Model, Stage, Workload
from evaluators.features import FEATURE_COUNT, INDEX
from evaluators.reference import ReferenceCosts, ReferenceStage, run_reference
from evaluators.simulation import COMPLETION_US, Scene, StageRun, Timing, queueing_us, scene_of, stage_runs
from evaluators.simulator import SIGNATURE

F64 = NDArray[np.float64]
GPU = Gpu(
    name="test", memory_bytes=80e9, hbm_bytes_per_s=3.35e12, flops_per_s_16bit=989e12, flops_per_s_8bit=1979e12,
    link_bytes_per_s=450e9, gemm_efficiency=0.91, gemm_layer_us=23.0, gemm_growth=0.15, gemm_flops_efficiency=0.7,
    elementwise_us=14.0, elementwise_us_at_128=34.0, allreduce_us=7.0,
)  # fmt: skip
DENSE = Model("dense", layers=2, hidden=64, heads=4, kv_heads=2, head_dim=16, vocab=1000, ffn=160)
MIXTURE = Model(
    "mixture", layers=3, hidden=64, heads=4, kv_heads=1, head_dim=16, vocab=1000, ffn=96, moe_layers=2, experts=8,
    experts_per_token=2, expert_ffn=128, shared_ffn=32, weight_bytes_per_param=1.0, tied_embeddings=True,
)  # fmt: skip
TRACED_STEPS = 4096
RECORDED_STEPS = 256
_WEIGHTS = ("decode_tokens", "prefill_tokens", "kv_sum", "kv_max", "kv_decode_max")
_FIRST_ROW = 2 + len(_WEIGHTS)
_D, _P, _K, _M, _N = (INDEX[name] for name in _WEIGHTS)


@njit(SIGNATURE)
def recorder(f: F64, c: F64) -> float:
    """Return a linear step time and note the features behind the weights: c = [steps, base, weights.., rows..]."""
    start = _FIRST_ROW + int(c[0]) * FEATURE_COUNT
    if start + FEATURE_COUNT <= c.shape[0]:
        c[start : start + FEATURE_COUNT] = f
    c[0] += 1.0
    return c[1] + c[2] * f[_D] + c[3] * f[_P] + c[4] * f[_K] + c[5] * f[_M] + c[6] * f[_N]


@dataclass(frozen=True)
class World:
    """One experiment with a linear program whose step times are exact in binary."""

    experiment: Experiment
    seed: int
    weights: tuple[float, ...]
    queueing_us_per_token: float
    output_token_us: float
    scheduling_us: float
    preemption_us: float

    def scene(self) -> Scene:
        return scene_of(self.experiment, self.seed)

    def timing(self) -> Timing:
        """Return a timing with room for the features of the first steps."""
        constants = np.zeros(_FIRST_ROW + RECORDED_STEPS * FEATURE_COUNT)
        constants[1:_FIRST_ROW] = self.weights
        per_token = self.queueing_us_per_token
        queueing = None if per_token == 0.0 else lambda features: 500.5 + per_token * features[0]
        return Timing(recorder, constants, queueing, self.output_token_us, self.scheduling_us, self.preemption_us)

    def step_time(self, features: Mapping[str, float]) -> float:
        terms = (weight * features[name] for weight, name in zip(self.weights[1:], _WEIGHTS, strict=True))
        return self.weights[0] + sum(terms)


def recorded(timing: Timing) -> F64:
    """Return the (steps, FEATURE_COUNT) features that the recorder noted."""
    steps = min(int(timing.constants[0]), RECORDED_STEPS)
    return timing.constants[_FIRST_ROW : _FIRST_ROW + steps * FEATURE_COUNT].reshape(steps, FEATURE_COUNT)


def by_kernel(world: World, timing: Timing) -> list[StageRun]:
    runs = list(stage_runs(world.scene(), timing, traced_steps=TRACED_STEPS))
    assert all(isinstance(run, StageRun) for run in runs)
    return [run for run in runs if isinstance(run, StageRun)]


def by_reference(world: World) -> list[ReferenceStage]:
    scene, timing = world.scene(), world.timing()
    delays_us = tuple(int(delay) for delay in queueing_us(scene, timing))
    costs = ReferenceCosts(delays_us, timing.output_token_us, timing.scheduling_us, timing.preemption_us, COMPLETION_US)
    return list(run_reference(world.experiment, scene.load, costs, world.step_time))


def _stages(draw: st.DrawFn) -> tuple[Stage, ...]:
    spans = st.sampled_from([0.02, 0.1, 0.4])
    counts = draw(st.lists(st.integers(1, 16), min_size=1, max_size=3))
    return tuple(Stage(count / span, span) for count in counts for span in [draw(spans)])


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Draw an experiment of a few dozen requests."""
    seats = draw(st.integers(1, 6))
    engine = Engine(
        max_num_seqs=seats,
        max_num_batched_tokens=seats + draw(st.sampled_from([0, 1, 5, 20, 100])),
        max_model_len=draw(st.sampled_from([12, 60, 200])),
        block_size=draw(st.sampled_from([1, 2, 4, 16])),
        kv_blocks=draw(st.integers(1, 40)),
        prefix_caching=draw(st.sampled_from([True, True, True, False])),
        asynchronous=draw(st.booleans()),
    )
    prompts = draw(st.integers(1, 6))
    workload = Workload(
        name="random",
        output_tokens=draw(st.sampled_from([1, 2, 5, 12, 30])),
        prompt_tokens=draw(st.sampled_from([1.0, 7.0, 16.0, 25.0, 40.0])),
        prompt_tokens_std=draw(st.sampled_from([0.0, 1.0, 6.0])),
        shared_prefix_tokens=draw(st.sampled_from([0, 4, 9, 16, 33])),
        stages=_stages(draw),
        prompts=prompts,
        groups=draw(st.integers(1, prompts)),
        arrivals=draw(st.sampled_from(["poisson", "constant"])),
        timeout_s=draw(st.sampled_from([0.02, 0.06, 0.2, 300.0, 300.0, 300.0])),
    )
    experiment = Experiment(
        "random", draw(st.sampled_from([DENSE, MIXTURE])), GPU, draw(st.sampled_from([1, 2])), engine, workload
    )
    base = draw(st.sampled_from([0.0, 800.25, 5000.0]))
    weights = tuple(draw(st.sampled_from([0.0, 0.0, 1.75, 37.5])) for _ in _WEIGHTS)
    return World(
        experiment=experiment,
        seed=draw(st.integers(0, 2**31)),
        weights=(base, *weights),
        queueing_us_per_token=draw(st.sampled_from([0.0, 0.0, 250.0])),
        output_token_us=draw(st.sampled_from([0.0, 2.0, 333.25])),
        scheduling_us=draw(st.sampled_from([0.0, 150.5])),
        preemption_us=draw(st.sampled_from([0.0, 1000.25])),
    )
