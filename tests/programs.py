"""Program texts and small experiments for tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache

from evaluators.compiled import Compiled, compile_program
from evaluators.experiment import Experiment
from evaluators.features import VOCABULARY
from translate.errors import Refusal
from translate.ir import Program
from translate.parse import parse


def program(text: str) -> Program:
    """Return the parsed program; a refusal fails the test."""
    parsed = parse(text, VOCABULARY)
    assert not isinstance(parsed, Refusal), str(parsed)
    return parsed


def step_program(expression: str, constants: Mapping[str, float] | None = None, more: str = "") -> str:
    """Return the text of a program whose step time is one expression."""
    head = f"import math\nCONSTANTS = {dict(constants or {})!r}\n"
    return f"{head}\ndef predict_step_time(b):\n    return {expression}\n{more}"


@lru_cache(maxsize=256)
def compiled(text: str) -> Compiled:
    """Return the compiled program, compiled once per test session."""
    return compile_program(program(text))


def shortened(experiment: Experiment, duration_s: float, stages: int | None = None) -> Experiment:
    """Return the experiment with stages of another length; the observed means stay."""
    kept = experiment.workload.stages[:stages]
    short = tuple(replace(stage, duration_s=duration_s) for stage in kept)
    return replace(experiment, workload=replace(experiment.workload, stages=short))
