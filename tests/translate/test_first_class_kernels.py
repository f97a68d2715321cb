import numpy as np

from tests.translate.first_class_driver import total
from tests.translate.program_samples import FEATURES, OVERLAP, accepted, step
from translate.to_numba import compile_numba, generate

STEP = "predict_step_time"


def test_one_compiled_driver_runs_kernels_that_were_compiled_after_it():
    constants = np.array([5.0])
    for body, want in (('return b["weight_load"] * k', 5.0 * 45), ('return b["weight_load"] + k', 45 + 50.0)):
        program = accepted(step(body, 'CONSTANTS = {"k": 5}'))
        kernel = compile_numba(program, STEP, FEATURES)
        assert total(kernel, np.zeros(len(FEATURES)), constants, 10) == want
    assert len(total.signatures) == 1


def test_a_kernel_takes_new_constants_without_another_compilation():
    kernel = compile_numba(accepted(OVERLAP), STEP, FEATURES)
    features = np.array([1.0, 2.0, 3.0, 4.0, 0.0, 0.0])
    assert kernel(features, np.array([900.0, 1.1, 2.0])) == 914.0
    assert kernel(features, np.array([0.0, 10.0, 2.0])) == 30.0
    assert len(kernel.signatures) == 1


def test_generated_text_holds_none_of_the_programs_words():
    head = 'CONSTANTS = {"os": 1}\ndef predict_step_time(sys):\n'
    text = head + '    eval_ = os * sys["kv_read"]\n    return eval_ if os < 2 else 1\n'
    words = set(generate(accepted(text), STEP, FEATURES).replace("(", " ").replace("[", " ").split())
    assert not words & {"os", "sys", "eval_", "kv_read", "predict_step_time"}
    assert "\n".join(sorted(words)).isascii()


def test_python_cannot_fold_a_negative_base_into_a_complex_number():
    kernel = compile_numba(accepted(step("return (-8) ** 0.5")), STEP, FEATURES)
    assert np.isnan(kernel(np.zeros(len(FEATURES)), np.zeros(0)))
