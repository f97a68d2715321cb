"""A compiled program says what the plain interpreter says, optional functions have defaults, and nothing recompiles."""

from __future__ import annotations

import numpy as np
import pytest

from evaluators.benchmark import builtin
from evaluators.compiled import compile_program, evaluate_steps, timing_of
from evaluators.features import FEATURE_NAMES, REQUEST_NAMES
from evaluators.invariants import probe
from evaluators.scoring import score
from evaluators.simulation import DEFAULT_OUTPUT_TOKEN_US, DEFAULT_QUEUEING_US, queueing_us, scene_of
from evaluators.simulator import stage_kernel
from tests.programs import compiled, program, shortened, step_program
from translate.ir import Program
from translate.to_plain import evaluate

STEP = "1000.0 + b['batch_size']"


def test_the_step_kernel_gives_what_the_plain_interpreter_gives(seed_programs: dict[str, Program]) -> None:
    steps = np.ascontiguousarray(probe().steps[::7])
    for name, seed_program in seed_programs.items():
        constants = np.array(seed_program.constant_values)
        out = np.empty(len(steps))
        evaluate_steps(compile_program(seed_program).step, steps, constants, out)
        function = seed_program.function("predict_step_time")
        assert function is not None
        plain = [
            evaluate(function, dict(zip(FEATURE_NAMES, map(float, row), strict=True)), dict(seed_program.constants))
            for row in steps
        ]
        np.testing.assert_allclose(out, plain, rtol=1e-12, err_msg=name)


def test_absent_functions_keep_their_defaults() -> None:
    bare = compiled(step_program(STEP))
    timing = timing_of(bare, np.empty(0))
    assert timing.queueing is None
    assert (timing.output_token_us, timing.scheduling_us, timing.preemption_us) == (DEFAULT_OUTPUT_TOKEN_US, 0.0, 0.0)
    scene = scene_of(shortened(builtin("h100-vllm")[0], 5.0))
    np.testing.assert_array_equal(queueing_us(scene, timing), DEFAULT_QUEUEING_US)


@pytest.mark.parametrize(
    ("value", "expected_us"),
    [
        ("7.5", 7.5),
        ("-3.0", 0.0),
        ("0.0", 0.0),
        ("1.0 / 0.0", 60e6),
        ("-1.0 / 0.0", 0.0),
        ("0.0 / 0.0", 60e6),
        ("1e99", 60e6),
    ],
)
def test_delays_are_kept_between_zero_and_a_minute(value: str, expected_us: float) -> None:
    functions = [
        f"\ndef predict_{name}():\n    return {value}\n"
        for name in ("output_token_time", "scheduling_time", "preemption_time")
    ]
    functions.append(f"\ndef predict_queueing_time(r):\n    return 0.0 * r['prompt_tokens'] + {value}\n")
    made = compiled(step_program(STEP, more="".join(functions)))
    timing = timing_of(made, np.empty(0))
    assert (timing.output_token_us, timing.scheduling_us, timing.preemption_us) == (expected_us,) * 3
    scene = scene_of(shortened(builtin("h100-vllm")[0], 5.0))
    np.testing.assert_array_equal(queueing_us(scene, timing), expected_us)


def test_the_queueing_time_sees_each_prompt_and_the_deployment() -> None:
    text = step_program(
        STEP, {"c": 3.0}, "\ndef predict_queueing_time(r):\n    return c * r['prompt_tokens'] + r['tp']\n"
    )
    scene = scene_of(shortened(builtin("h100-vllm")[0], 5.0))
    delays = queueing_us(scene, timing_of(compiled(text), np.array([3.0])))
    np.testing.assert_allclose(delays, 3.0 * scene.load.prompt_tokens + scene.experiment.tp)
    assert REQUEST_NAMES[0] == "prompt_tokens"


def test_a_second_program_does_not_compile_the_simulator_or_the_batch_kernel_again() -> None:
    scene = scene_of(shortened(builtin("h100-vllm")[0], 5.0))
    kernels = (stage_kernel(), evaluate_steps)
    counts = []
    for number in range(3):
        made = compile_program(program(step_program(f"{5000 + number}.0 + b['batch_size'] * {number + 2}.0")))
        score(made, np.empty(0), [scene])
        evaluate_steps(made.step, probe().steps, np.empty(0), np.empty(len(probe().steps)))
        counts.append(tuple(len(kernel.signatures) for kernel in kernels))  # type: ignore[attr-defined]
    assert counts[0] == counts[1] == counts[2]
