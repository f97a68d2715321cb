"""How many KV-cache blocks an engine has, and whether the prompts of a load overflow them."""

from __future__ import annotations

from functools import cache

from evaluators.catalogue import FOLDER, parameters
from evaluators.experiment import Gpu, Model, Workload
from evaluators.fields import read_toml
from evaluators.physics import kv_bytes_per_token

GIB = float(1 << 30)
MEASURED_BLOCK_SIZE = 16
MEASURED_MEMORY_SHARE = 0.9
LARGE_VOCABULARY = 64_000


def kv_blocks(
    model: Model,
    gpu: Gpu,
    tp: int,
    *,
    block_size: int = MEASURED_BLOCK_SIZE,
    memory_share: float = MEASURED_MEMORY_SHARE,
) -> int:
    """Return the KV capacity in blocks: measured for this model, GPU and TP where it was, else estimated.

    A measured value holds for the memory share it was measured at and is rescaled to other block sizes.
    """
    measured = measured_blocks(model, gpu, tp)
    if measured is not None and memory_share == MEASURED_MEMORY_SHARE:
        return measured * MEASURED_BLOCK_SIZE // block_size
    return estimated_blocks(model, gpu, tp, block_size=block_size, memory_share=memory_share)


def measured_blocks(model: Model, gpu: Gpu, tp: int) -> int | None:
    """Return the measured capacity in blocks of 16 tokens, or None where nobody measured it."""
    return _measured().get((model.name, gpu.name, tp))


def estimated_blocks(
    model: Model,
    gpu: Gpu,
    tp: int,
    *,
    block_size: int = MEASURED_BLOCK_SIZE,
    memory_share: float = MEASURED_MEMORY_SHARE,
) -> int:
    """Estimate the KV capacity in blocks; 0 where the weights leave no room.

    Per GPU, bytes = share x memory - weights / TP - overhead. KV heads are split over the GPUs, at least one each.
    Source: agrees with ten measured H100 capacities within 0.7 %, but is two thirds too high for Llama-4-Scout
    (test_kv_capacity.py states each error).
    """
    weight_bytes = parameters(model) * model.weight_bytes_per_param / tp
    free_bytes = memory_share * gpu.memory_bytes - weight_bytes - overhead_bytes(model, tp)
    block_bytes = block_size * kv_bytes_per_token(model, tp)
    return max(0, int(free_bytes // block_bytes))


def overhead_bytes(model: Model, tp: int) -> float:
    """Return the bytes per GPU that neither weights nor KV cache take: activations, CUDA graphs, communication.

    Source: 72 GiB less weights less measured KV capacity: 1.14 GiB (32k vocabulary, one GPU), 1.60-1.64 (32k, several),
    1.90-2.22 (64k-152k).
    """
    if model.vocab >= LARGE_VOCABULARY:
        return 2.0 * GIB
    return (1.6 if tp > 1 else 1.1) * GIB


def cache_need_tokens(workload: Workload, running: float) -> float:
    """Return the tokens of KV cache that keep every prompt of a cyclic load cached at ``running`` concurrent requests.

    Concurrent requests hold their prompt (shared by equals) and half of their output; every other prompt waits in the
    LRU list with the output that followed it.
    Source: need = min(C, 100) P + C N / 2 + max(0, 100 - C)(P + N), the project's measurement notes, section 3.
    """
    prompts, length, output = workload.prompts, workload.prompt_tokens, workload.output_tokens
    idle = max(0.0, prompts - running)
    return min(running, prompts) * length + running * output / 2 + idle * (length + output)


def overflows_cache(workload: Workload, max_num_seqs: int, capacity_tokens: float) -> bool:
    """Return whether some observed stage needs more cache than there is, so that every request prefills in full.

    Concurrency is rate x mean E2E (Little's law), at most ``max_num_seqs``. Reuse in a cycle with LRU eviction is all
    or nothing: measured loads that need up to 0.86 of the capacity always hit, those at 1.69 and 2.01 never; none lies
    between, so the limit of 1 is the theory's. A stage that sends no prompt twice has nothing to lose.
    Source: the project's measurement notes, sections 1 and 3.
    """
    for stage in workload.stages:
        if stage.observed is not None and stage.observed.requests > workload.prompts:
            running = min(stage.rate_per_s * stage.observed.e2e.mean_us / 1e6, float(max_num_seqs))
            if cache_need_tokens(workload, running) > capacity_tokens:
                return True
    return False


@cache
def _measured() -> dict[tuple[str, str, int], int]:
    rows = read_toml(FOLDER / "kv_blocks.toml").sections("measured")
    return {(r.text("model"), r.text("gpu"), r.integer("tp", 1, 64)): r.integer("blocks", 1, 10**9) for r in rows}
