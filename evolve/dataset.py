"""The experiments that a run is judged on, and the digest that tells whether they are still the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict

from evaluators.datasets import load_dataset
from evaluators.experiment import DataError, Experiment
from evolve.errors import CommandError


def open_dataset(source: str) -> tuple[Experiment, ...]:
    """Return the experiments of a source. Raises: CommandError: there is nothing readable."""
    experiments = load_dataset(source)
    if isinstance(experiments, DataError):
        raise CommandError(f"dataset: {experiments}")
    return experiments


def require_scored(source: str, experiments: Sequence[Experiment]) -> None:
    """Accept the experiments if one of them counts in a score.

    Raises: CommandError: none does, and why.
    """
    if any(experiment.scored for experiment in experiments):
        return
    observed = [experiment for experiment in experiments if experiment.observed]
    if not observed:
        raise CommandError(
            f"dataset {source}: none of its {len(experiments)} experiments has an observed stage, so there is nothing "
            "to score against. Add measured latencies, or take --data h100-vllm"
        )
    raise CommandError(
        f"dataset {source}: each of its {len(observed)} observed experiments is overloaded or thrashing, which keeps "
        "it out of the accuracy figures. Add one that ran within capacity; `data` shows the flags"
    )


def digest_of(experiments: Sequence[Experiment]) -> str:
    """Return the SHA-256 over every field of every experiment, in order."""
    content = json.dumps([asdict(experiment) for experiment in experiments], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()


def require_same(source: str, experiments: Sequence[Experiment], digest: str) -> None:
    """Accept the experiments if they are those that were pinned; an empty ``digest`` pins nothing.

    Raises: CommandError: they changed.
    """
    found = digest_of(experiments)
    if digest and found != digest:
        raise CommandError(
            f"dataset {source}: it changed since this run began (digest {found[:12]}, was {digest[:12]}), so the "
            "scores would not compare. Put the old data back, or start a new run"
        )
