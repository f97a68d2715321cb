"""What is measured: one entry per row of the speed table, each preparing its inputs once and then timed as a call."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from archive import Archive, Descriptor, Elite
from benchmarks.subprocess_run import measure_run
from evaluators.benchmark import builtin
from evaluators.compiled import compile_program, evaluate_steps, timing_of
from evaluators.evaluation import Evaluation, fit_and_score, prepare
from evaluators.features import FEATURE_NAMES, VOCABULARY
from evaluators.invariants import probe
from evaluators.random import stream
from evaluators.simulation import simulate
from seeds import seed_texts
from translate.errors import Refusal
from translate.ir import Program
from translate.parse import parse
from translate.to_numpy import compile_numpy

SEED_PROGRAM = "roofline"
STEP_ROWS = 120_000
PROGRAMS = 10_000
LONG_BUDGET = 1000


@dataclass(frozen=True, slots=True)
class Reading:
    """One measured figure beside its budget, both in ``unit``."""

    name: str
    what: str
    measured: float
    budget: float
    unit: str

    @property
    def ratio(self) -> float:
        """Return measured over budget: up to 1 is within."""
        return self.measured / self.budget


@dataclass(frozen=True, slots=True)
class Measure:
    """A row of the table. ``prepare`` returns the call that is timed; what it does first is not."""

    name: str
    what: str
    budget_s: float
    prepare: Callable[[], Callable[[], object]]


def median_s(call: Callable[[], object], repeats: int) -> float:
    """Return the median duration of ``repeats`` calls after one that is not counted [s]."""
    call()
    durations = []
    for _ in range(repeats):
        began = perf_counter()
        call()
        durations.append(perf_counter() - began)
    return float(np.median(durations))


def _program(text: str) -> Program:
    parsed = parse(text, VOCABULARY)
    if isinstance(parsed, Refusal):
        raise ValueError(str(parsed))
    return parsed


def _new_texts() -> Callable[[], str]:
    """Return a function that gives another structure each time: the literal in it makes it new."""
    text, numbers = seed_texts()[SEED_PROGRAM], count(1)
    return lambda: text.replace("return max(memory, compute)", f"return max(memory, compute) + {next(numbers)}.0")


def _simulation() -> Callable[[], object]:
    scenes = prepare(builtin("h100-vllm")).scenes
    program = _program(seed_texts()[SEED_PROGRAM])
    timing = timing_of(compile_program(program), np.array(program.constant_values))
    return lambda: [simulate(scene, timing) for scene in scenes]


def _compilation() -> Callable[[], object]:
    text_of = _new_texts()
    return lambda: compile_program(_program(text_of()))


def _structure() -> Callable[[], object]:
    benchmark, text_of = prepare(builtin("h100-vllm")), _new_texts()

    def call() -> None:
        verdict = fit_and_score(_program(text_of()), benchmark, seed=0)
        if not isinstance(verdict, Evaluation):
            raise ValueError(f"{SEED_PROGRAM}: {verdict.reason}")

    return call


def _step_rows() -> NDArray[np.float64]:
    """Return (STEP_ROWS, FEATURE_COUNT) rows: batches of the probe drawn again and again."""
    steps = probe().steps
    drawn = stream(0, "benchmark", "rows").integers(steps.shape[0], size=STEP_ROWS)
    return np.ascontiguousarray(steps[drawn])


def _rows_compiled() -> Callable[[], object]:
    program = _program(seed_texts()[SEED_PROGRAM])
    compiled, constants = compile_program(program), np.array(program.constant_values)
    rows, out = _step_rows(), np.empty(STEP_ROWS)
    return lambda: evaluate_steps(compiled.step, rows, constants, out)


def _rows_columns() -> Callable[[], object]:
    program = _program(seed_texts()[SEED_PROGRAM])
    function = compile_numpy(program, "predict_step_time", FEATURE_NAMES)
    columns, constants = np.ascontiguousarray(_step_rows().T), np.array(program.constant_values)
    return lambda: function(columns, constants)


def _elites() -> Callable[[], Elite]:
    """Return a function that gives another plausible elite each time."""
    rng, numbers = stream(0, "benchmark", "elites"), count()

    def elite() -> Elite:
        number, error, operations = next(numbers), float(rng.uniform(0.01, 1.0)), int(rng.integers(1, 31))
        descriptor = Descriptor(operations, int(rng.integers(1, 16)))
        objectives = (error, 2.0 * error, float(operations))
        return Elite(
            f"{number:016x}", "", descriptor, 1.0 / (1.0 + error), objectives, "mutate", (), number % 4, number
        )

    return elite


def _archive() -> Callable[[], object]:
    archive, elite_of = Archive(islands=4, capacity=5000), _elites()
    for _ in range(PROGRAMS):
        elite = elite_of()
        archive.insert(elite, elite.island)
    rng = stream(0, "benchmark", "sample")

    def call() -> None:
        elite = elite_of()
        archive.insert(elite, elite.island)
        archive.sample(elite.island, rng, inspirations=2)

    return call


MEASURES: tuple[Measure, ...] = (
    Measure("simulate", "12 experiments at full length, one compiled program, one core", 0.15, _simulation),
    Measure("compile", "a new program: parse and compile", 0.15, _compilation),
    Measure("structure", "a new structure: parse, fit constants, full score", 1.0, _structure),
    Measure("rows", f"{STEP_ROWS:,} step rows, one program, compiled kernel", 0.005, _rows_compiled),
    Measure("columns", f"{STEP_ROWS:,} step rows, one program, NumPy columns", 0.005, _rows_columns),
    Measure("archive", f"archive: insert plus sample after {PROGRAMS:,} programs", 0.005, _archive),
)


def readings_of(measure: Measure, repeats: int) -> Reading:
    """Measure one row."""
    return Reading(measure.name, measure.what, median_s(measure.prepare(), repeats), measure.budget_s, "s")


def long_readings() -> Sequence[Reading]:
    """Measure a whole run from the command line, in a process of its own: minutes."""
    with tempfile.TemporaryDirectory() as folder:
        wall_s, peak_bytes = measure_run(LONG_BUDGET, Path(folder))
    what = f"run --budget {LONG_BUDGET}, no LLM"
    return (
        Reading("run", what, wall_s, 600.0, "s"),
        Reading("memory", f"{what}: peak memory, workers included", peak_bytes / 1e9, 1.5, "GB"),
    )
