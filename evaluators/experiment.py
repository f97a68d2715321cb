"""What an experiment is: a model on GPUs behind an engine, a load, and what was observed.

Plain frozen values. Lengths are tokens, rates requests/s, sizes bytes; every name carries its unit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True, slots=True)
class Model:
    """Architecture of a decoder-only transformer, as its config.json states it."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    ffn: int
    """Width of the dense (gated) MLP; 0 where every layer is a mixture of experts."""
    moe_layers: int = 0
    experts: int = 0
    experts_per_token: int = 0
    expert_ffn: int = 0
    """Width of one routed expert."""
    shared_ffn: int = 0
    """Width of the expert that every token passes beside the routed ones; 0 without one."""
    weight_bytes_per_param: float = 2.0
    kv_bytes_per_value: float = 2.0
    tied_embeddings: bool = False


@dataclass(frozen=True, slots=True)
class Gpu:
    """One accelerator: data-sheet peaks, and the rates that kernels measured on it achieve.

    The weight GEMMs of a layer take ``bytes / (gemm_efficiency * hbm) * (1 + gemm_growth * max(n - 16, 0) / 112)
    + gemm_layer_us``; Source: kernel profiles of three Llama models (the project's measurement notes).
    """

    name: str
    memory_bytes: float
    hbm_bytes_per_s: float
    flops_per_s_16bit: float
    flops_per_s_8bit: float
    link_bytes_per_s: float
    """Bandwidth of the tensor-parallel interconnect, one direction, per GPU."""
    gemm_efficiency: float
    gemm_layer_us: float
    gemm_growth: float
    gemm_flops_efficiency: float
    """Share of the peak FLOP/s that a large, compute-bound GEMM reaches."""
    elementwise_us: float
    """Elementwise kernels of one layer at small batches [us]."""
    elementwise_us_at_128: float
    """The same at 128 tokens [us]."""
    allreduce_us: float
    """One small all-reduce inside a decode step [us]."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Settings of the serving engine (vLLM V1 names)."""

    max_num_seqs: int = 128
    max_num_batched_tokens: int = 2048
    max_model_len: int = 4096
    block_size: int = 16
    kv_blocks: int = 0
    """KV-cache capacity in blocks, all layers and GPUs together; ingest fills it in, measured or estimated."""
    prefix_caching: bool = True
    asynchronous: bool = True
    """Whether batch k+1 is formed while batch k runs (vLLM V1) or after it (synchronous simulators)."""


@dataclass(frozen=True, slots=True)
class Latency:
    """Distribution of one latency over the successful requests of a stage [us]; None where the source has no figure."""

    mean_us: float
    p10_us: float | None = None
    p50_us: float | None = None
    p90_us: float | None = None
    p99_us: float | None = None


@dataclass(frozen=True, slots=True)
class Observed:
    """What the load generator measured in one stage. ``tpot_us`` is per generated token, (E2E - TTFT) / (N - 1)."""

    requests: int
    succeeded: int
    e2e: Latency
    ttft: Latency
    tpot_us: float


@dataclass(frozen=True, slots=True)
class Stage:
    """One constant-rate stretch of load; the next begins when the last request of this one has ended."""

    rate_per_s: float
    duration_s: float
    observed: Observed | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """Open-loop load: ``prompts`` fixed prompts in ``groups`` of a common prefix, sent in a cycle."""

    name: str
    output_tokens: int
    prompt_tokens: float
    """Mean prompt length."""
    prompt_tokens_std: float
    """Spread of the lengths over the fixed prompts."""
    shared_prefix_tokens: int
    """Leading tokens that the prompts of one group have in common."""
    stages: tuple[Stage, ...]
    prompts: int = 100
    groups: int = 10
    arrivals: Literal["poisson", "constant"] = "poisson"
    timeout_s: float = 300.0
    pause_s: float = 2.0
    """Idle time between two stages."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """One measured (or imagined) deployment under load."""

    name: str
    model: Model
    gpu: Gpu
    tp: int
    engine: Engine
    workload: Workload
    overloaded: bool = False
    """True where most requests timed out: a capacity check, kept out of the accuracy figures."""
    thrashing: bool = False
    """True where the prompts overflow the prefix cache and every request prefills in full."""
    notes: tuple[str, ...] = field(default=())

    @property
    def observed(self) -> bool:
        """Return whether any stage was measured."""
        return any(stage.observed for stage in self.workload.stages)

    @property
    def scored(self) -> bool:
        """Return whether it counts in the accuracy figures: observed, not overloaded, prompts within the cache."""
        return self.observed and not self.overloaded and not self.thrashing


@dataclass(frozen=True, slots=True)
class DataError:
    """Why a source could not be read: file, field, what was found, what was wanted."""

    path: str
    field: str
    got: str
    want: str

    def __str__(self) -> str:
        return f"{self.path}: {self.field}: got {self.got}; want {self.want}"
