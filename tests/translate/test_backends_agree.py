"""Random programs at the caps, over inputs of every kind: the three backends give the same numbers."""

import math

import numpy as np
import pytest

from tests.translate.program_samples import FEATURES, OVERLAP, VOCABULARY, accepted, columns, same_bits
from translate import to_plain
from translate.ir import Program
from translate.operators import BINARY, UNARY, Rule
from translate.random_programs import Shape, random_program, random_program_of
from translate.to_numba import compile_numba
from translate.to_numpy import BLOCK_ROWS, compile_numpy

STEP = "predict_step_time"
ROUNDED = ("log", "log1p", "exp", "expm1", "pow")


def plain(program: Program, table: np.ndarray) -> np.ndarray:
    function = program.function(STEP)
    inputs = [dict(zip(FEATURES, map(float, column), strict=True)) for column in table.T]
    return np.array([to_plain.evaluate(function, one, dict(program.constants)) for one in inputs])


def numpy_values(program: Program, table: np.ndarray) -> np.ndarray:
    return compile_numpy(program, STEP, FEATURES)(table, np.array(program.constant_values))


def numba_values(program: Program, table: np.ndarray) -> np.ndarray:
    kernel, constants = compile_numba(program, STEP, FEATURES), np.array(program.constant_values)
    return np.array([kernel(np.ascontiguousarray(column), constants) for column in table.T])


def nudged(rule: Rule, ulps: int) -> Rule:
    def apply(*values: float) -> float:
        result = rule.apply(*values)
        return result + ulps * math.ulp(result) if math.isfinite(result) and result != 0.0 else result

    return Rule(rule.text, rule.edges, apply)


def plain_range(program, table, monkeypatch):
    """Smallest and largest outcome when log, exp and pow are off by 2 ulp, and where that changes more than digits."""
    outcomes = []
    for ulps in (-2, 0, 2):
        with monkeypatch.context() as patch:
            patch.setattr(to_plain, "UNARY", {k: nudged(r, ulps) if k in ROUNDED else r for k, r in UNARY.items()})
            patch.setattr(to_plain, "BINARY", {k: nudged(r, ulps) if k in ROUNDED else r for k, r in BINARY.items()})
            outcomes.append(plain(program, table))
    low, high = np.minimum.reduce(outcomes), np.maximum.reduce(outcomes)
    with np.errstate(invalid="ignore"):
        shaky = ~(
            (low == high) | (np.abs(high - low) <= 1e-9 * np.abs(outcomes[1])) | np.all(np.isnan(outcomes), axis=0)
        )
    return outcomes[1], shaky


def assert_exact(seed: int, count: int, backend) -> None:
    rng = np.random.default_rng(seed)
    for index in range(count):
        program = random_program_of(rng, VOCABULARY, Shape(30, 3, 10, transcendental=False))
        table = columns(rng, 60)
        assert same_bits(backend(program, table), plain(program, table)), (seed, index, program)


def assert_close(seed: int, count: int, backend, monkeypatch) -> None:
    rng = np.random.default_rng(seed)
    total = skipped = 0
    for index in range(count):
        program = random_program_of(rng, VOCABULARY, Shape(30, 3, 10))
        table = columns(rng, 40)
        want, shaky = plain_range(program, table, monkeypatch)
        got = backend(program, table)
        close = np.isclose(got, want, rtol=1e-8, atol=0.0, equal_nan=True)
        assert np.all(close | shaky), (seed, index, program)
        total, skipped = total + shaky.size, skipped + int(shaky.sum())
    assert skipped < 0.1 * total


def test_numpy_columns_equal_the_interpreter_bit_for_bit_without_exp_and_log():
    assert_exact(11, 150, numpy_values)


def test_compiled_kernels_equal_the_interpreter_bit_for_bit_without_exp_and_log():
    assert_exact(12, 15, numba_values)


@pytest.mark.long
def test_compiled_kernels_equal_the_interpreter_bit_for_bit_without_exp_and_log_at_length():
    assert_exact(13, 400, numba_values)


@pytest.mark.long
def test_numpy_columns_equal_the_interpreter_bit_for_bit_without_exp_and_log_at_length():
    assert_exact(14, 5000, numpy_values)


def test_numpy_columns_equal_the_interpreter_but_for_the_last_digits_of_exp_log_and_pow(monkeypatch):
    assert_close(15, 60, numpy_values, monkeypatch)


def test_compiled_kernels_equal_the_interpreter_but_for_the_last_digits_of_exp_log_and_pow(monkeypatch):
    assert_close(16, 10, numba_values, monkeypatch)


@pytest.mark.long
def test_compiled_kernels_equal_the_interpreter_but_for_the_last_digits_at_length(monkeypatch):
    assert_close(17, 400, numba_values, monkeypatch)


def test_numpy_columns_do_not_depend_on_how_many_rows_come_at_once():
    rng = np.random.default_rng(18)
    for _ in range(5):
        program = random_program(rng, VOCABULARY)
        table = columns(rng, 2 * BLOCK_ROWS + 7)
        whole = numpy_values(program, table)
        for start, stop in ((0, 1), (0, 20), (BLOCK_ROWS - 3, BLOCK_ROWS + 3), (2 * BLOCK_ROWS, 2 * BLOCK_ROWS + 7)):
            part = numpy_values(program, np.ascontiguousarray(table[:, start:stop]))
            assert np.allclose(part, whole[start:stop], rtol=1e-12, atol=0.0, equal_nan=True)
        assert numpy_values(program, table[:, :0]).shape == (0,)


def test_numpy_columns_leave_their_input_as_it_was():
    rng = np.random.default_rng(19)
    table = columns(rng, 50)
    before = table.copy()
    for _ in range(20):
        numpy_values(random_program(rng, VOCABULARY), table)
    assert same_bits(before, table)


def test_a_result_that_is_a_constant_or_a_feature_fills_the_column():
    table = columns(np.random.default_rng(20), 9)
    for body, want in (("return 3", np.full(9, 3.0)), ('return b["kv_read"]', table[1])):
        program = accepted(f"def predict_step_time(b):\n    {body}\n")
        for backend in (numpy_values, numba_values, plain):
            assert same_bits(backend(program, table), want)


def test_python_runs_the_seed_text_to_the_same_numbers():
    """The text is plain Python: what a reader computes by hand is what every backend computes."""
    table = np.random.default_rng(21).lognormal(3.0, 2.0, (len(FEATURES), 30))
    program = accepted(OVERLAP)
    weight, kv, prefill, decode = table[:4]
    want = np.maximum(1.1 * (weight + kv), 2.0 * (prefill + decode)) + 900.0
    for backend in (numpy_values, numba_values, plain):
        assert same_bits(backend(program, table), want)


def test_a_missing_function_or_feature_is_a_key_error():
    program = accepted(OVERLAP)
    for compile_one in (compile_numpy, compile_numba):
        with pytest.raises(KeyError, match="predict_queueing_time"):
            compile_one(program, "predict_queueing_time", FEATURES)
        with pytest.raises(KeyError, match="weight_load"):
            compile_one(program, STEP, FEATURES[1:])
