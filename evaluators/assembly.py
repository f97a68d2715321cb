"""The last step of every reader: fill in capacity and verdicts that follow from the data."""

from __future__ import annotations

from dataclasses import replace

from evaluators.experiment import Experiment, Stage
from evaluators.feasible import fault_of
from evaluators.fields import refuse
from evaluators.kv_capacity import kv_blocks, overflows_cache

MAX_FAILED_SHARE = 0.01
MAX_MEAN_TTFT_US = 10e6


def complete(experiment: Experiment, *, measured_kv_blocks: int | None = None, memory_share: float = 0.9) -> Experiment:
    """Return the experiment with its KV capacity, and marked as overloaded or thrashing by what was observed.

    Raises:
        UnreadableError: settings that no engine accepts, a cache without room for a single request, or a load that is
            beyond what can be simulated.
    """
    engine = experiment.engine
    blocks = measured_kv_blocks
    if blocks is None:
        blocks = kv_blocks(
            experiment.model, experiment.gpu, experiment.tp, block_size=engine.block_size, memory_share=memory_share
        )
    capacity_tokens = float(blocks * engine.block_size)
    whole = replace(
        experiment,
        engine=replace(engine, kv_blocks=blocks),
        overloaded=any(is_overloaded(stage) for stage in experiment.workload.stages),
        thrashing=engine.prefix_caching and overflows_cache(experiment.workload, engine.max_num_seqs, capacity_tokens),
    )
    if fault := fault_of(whole):
        refuse(experiment.name, *fault)
    return whole


def is_overloaded(stage: Stage) -> bool:
    """Return whether the load of a stage exceeded what the engine serves.

    More than 1 % of the requests failed, or the mean wait for the first token is above 10 s: of the public runs at
    4 reasoning requests/s one answers 4796 of 4800 requests, after 120 s each.
    """
    seen = stage.observed
    if seen is None:
        return False
    return seen.requests - seen.succeeded > MAX_FAILED_SHARE * seen.requests or seen.ttft.mean_us > MAX_MEAN_TTFT_US
