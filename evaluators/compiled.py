"""A program made ready to run: its step time compiled, its other functions as small columns."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numba.core.types.function_type import CompileResultWAP
from numpy.typing import NDArray

from evaluators.features import FEATURE_NAMES, REQUEST_NAMES
from evaluators.jit import kernel
from evaluators.simulation import DEFAULT_OUTPUT_TOKEN_US, Timing
from evaluators.simulator import SIGNATURE
from evaluators.simulator import Program as StepKernel
from translate.ir import Program
from translate.to_numba import compile_numba
from translate.to_numpy import compile_numpy

F64 = NDArray[np.float64]
Columns = Callable[[F64, F64], F64]


def as_argument(function: Any) -> StepKernel:
    """Return a compiled function as a value of its function type.

    A dispatcher would be its own type, and every kernel that takes one would be compiled again for each program.
    """
    return CompileResultWAP(function.get_compile_result(SIGNATURE))


@dataclass(frozen=True, slots=True)
class Compiled:
    """The functions of a program; an absent optional one is None and keeps its default."""

    program: Program
    step: StepKernel
    queueing: Columns | None
    output_token: Columns | None
    scheduling: Columns | None
    preemption: Columns | None


def compile_program(program: Program) -> Compiled:
    """Compile every function of a program (about 0.1 s)."""

    def columns(name: str, order: Sequence[str]) -> Columns | None:
        return compile_numpy(program, name, order) if program.function(name) else None

    return Compiled(
        program=program,
        step=as_argument(compile_numba(program, "predict_step_time", FEATURE_NAMES)),
        queueing=columns("predict_queueing_time", REQUEST_NAMES),
        output_token=columns("predict_output_token_time", ()),
        scheduling=columns("predict_scheduling_time", ()),
        preemption=columns("predict_preemption_time", ()),
    )


def _scalar(function: Columns | None, constants: F64, default: float) -> float:
    """Return a delay without inputs [us]: finite, 0 to a minute."""
    if function is None:
        return default
    value = float(function(np.empty((0, 1)), constants)[0])
    return 60e6 if math.isnan(value) else min(max(value, 0.0), 60e6)


def output_token_us(compiled: Compiled, constants: F64) -> float:
    """Return what the front end needs per token with these constants [us]."""
    return _scalar(compiled.output_token, constants, DEFAULT_OUTPUT_TOKEN_US)


def scheduling_us(compiled: Compiled, constants: F64) -> float:
    """Return what a step takes longer per request that it admits [us]."""
    return _scalar(compiled.scheduling, constants, 0.0)


def timing_of(compiled: Compiled, constants: F64) -> Timing:
    """Return what the simulator needs of a program with these constants, in the order of ``program.constants``."""
    queueing = compiled.queueing
    return Timing(
        step=compiled.step,
        constants=constants,
        queueing=None if queueing is None else partial(_swap, queueing, constants),
        output_token_us=output_token_us(compiled, constants),
        scheduling_us=scheduling_us(compiled, constants),
        preemption_us=_scalar(compiled.preemption, constants, 0.0),
    )


def _swap(function: Columns, constants: F64, features: F64) -> F64:
    return function(features, constants)


@kernel
def evaluate_steps(step: StepKernel, steps: F64, constants: F64, out: F64) -> None:
    """Write the program's time for each row of ``steps`` (n, FEATURE_COUNT) to ``out`` (n,) [us]."""
    for number in range(steps.shape[0]):
        out[number] = step(steps[number], constants)
