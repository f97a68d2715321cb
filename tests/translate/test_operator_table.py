"""The table against IEEE-754 as stated elsewhere (NumPy's scalars, C's pow), and each backend against the table."""

import math

import numpy as np
import pytest

from tests.translate.program_samples import SPECIALS, same_bits
from translate.ir import Binary, Choice, Compare, Feature, Function, Number, Program, Return, Unary
from translate.operators import BINARY, COMPARE, INT64_MAX, LOGIC, OPERATORS, UNARY, whole_us
from translate.to_numba import compile_numba
from translate.to_numpy import compile_numpy

ORDER = ("kv_read", "weight_load")
X, Y = Feature("kv_read"), Feature("weight_load")
PAIRS = [(float(a), float(b)) for a in SPECIALS for b in SPECIALS]
ROUNDED = ("log", "log1p", "exp", "expm1", "pow")
EXACT_BINARY = [op for op in BINARY if op not in ROUNDED]


def program_of(result):
    return Program("", (), (Function("predict_step_time", "b", (Return(result),)),))


def within(a: float, b: float, ulps: int) -> bool:
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or math.isinf(b) or b == 0.0:
        return same_bits(np.float64(a), np.float64(b))
    return abs(a - b) <= ulps * math.ulp(b)


@pytest.mark.parametrize("op", ["add", "sub", "mul", "div"])
def test_arithmetic_is_that_of_ieee_scalars(op):
    scalar = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[op]
    with np.errstate(all="ignore"):
        for a, b in PAIRS:
            assert same_bits(np.float64(BINARY[op].apply(a, b)), scalar(np.float64(a), np.float64(b))), (a, b)


def test_min_and_max_are_nan_if_either_is_and_put_minus_zero_below_zero():
    for a, b in PAIRS:
        low, high = BINARY["min"].apply(a, b), BINARY["max"].apply(a, b)
        if math.isnan(a) or math.isnan(b):
            assert math.isnan(low)
            assert math.isnan(high)
        else:
            key = lambda v: (v, math.copysign(1.0, v))  # noqa: E731
            assert key(low) == min(key(a), key(b))
            assert key(high) == max(key(a), key(b))


def test_pow_follows_c99_at_the_edges():
    inf, nan = math.inf, math.nan
    for a, b, want in [
        (nan, 0.0, 1.0),
        (1.0, nan, 1.0),
        (0.0, -1.0, inf),
        (-0.0, -1.0, -inf),
        (-0.0, -2.0, inf),
        (-0.0, 3.0, -0.0),
        (0.0, -inf, inf),
        (-1.0, inf, 1.0),
        (-8.0, 1 / 3, nan),
        (-inf, 0.5, inf),
        (-inf, 3.0, -inf),
        (-inf, -3.0, -0.0),
        (-0.0, 0.5, 0.0),
        (-10.0, 309.0, -inf),
        (-10.0, 310.0, inf),
        (10.0, 400.0, inf),
        (2.0, -2000.0, 0.0),
        (0.5, -inf, inf),
        (nan, 2.0, nan),
    ]:
        assert same_bits(np.float64(BINARY["pow"].apply(a, b)), np.float64(want)), (a, b)


def test_functions_outside_their_domain_give_nan_and_at_its_border_infinity():
    assert UNARY["log"].apply(0.0) == UNARY["log"].apply(-0.0) == UNARY["log1p"].apply(-1.0) == -math.inf
    assert all(math.isnan(UNARY[op].apply(-2.0)) for op in ("log", "log1p", "sqrt"))
    assert UNARY["exp"].apply(1e4) == UNARY["expm1"].apply(1e4) == UNARY["sqrt"].apply(math.inf) == math.inf
    assert math.copysign(1.0, UNARY["sqrt"].apply(-0.0)) == -1.0
    assert all(math.isnan(rule.apply(math.nan)) for rule in UNARY.values())


def test_comparisons_with_nan_are_false_but_for_not_equal():
    for op, rule in COMPARE.items():
        assert rule.apply(math.nan, 1.0) == rule.apply(math.nan, math.nan) == (op == "ne")


def test_every_operation_of_the_language_has_a_line_in_the_table():
    assert set(OPERATORS) == {*UNARY, *BINARY, *COMPARE, *LOGIC}
    assert all(rule.text and rule.edges for rule in OPERATORS.values())


def test_whole_us_truncates_is_at_least_one_and_saturates():
    assert [whole_us(v) for v in (-math.inf, -5.0, 0.0, 0.99, 1.0, 1.99, 2.0, 1e15 + 0.5)] == [
        1,
        1,
        1,
        1,
        1,
        1,
        2,
        10**15,
    ]
    assert [whole_us(v) for v in (math.nan, math.inf, 2.0**63, 1e300)] == [INT64_MAX] * 4
    assert whole_us(math.nextafter(2.0**63, 0.0)) == 2**63 - 1024


@pytest.mark.parametrize("op", sorted({*UNARY, *BINARY, *COMPARE}))
def test_numpy_columns_follow_the_table_on_every_pair_of_special_values(op):
    columns = np.array(PAIRS).T
    got = compile_numpy(single(op), "predict_step_time", ORDER)(columns, np.zeros(0))
    check(op, got)


@pytest.mark.parametrize("op", sorted({*UNARY, *BINARY, *COMPARE}))
def test_compiled_kernels_follow_the_table_on_every_pair_of_special_values(op):
    kernel = compile_numba(single(op), "predict_step_time", ORDER)
    got = np.array([kernel(np.array(pair), np.zeros(0)) for pair in PAIRS])
    check(op, got)


@pytest.mark.parametrize("exponent", [0.0, 0.5, 1.0, 2.0, 3.0, -1.0, -0.5])
def test_pow_with_a_literal_exponent_is_the_same_pow(exponent):
    program = program_of(Binary("pow", X, Number(exponent)))
    predict = compile_numpy(program, "predict_step_time", ORDER)
    kernel = compile_numba(program, "predict_step_time", ORDER)
    for value, got in zip(SPECIALS, predict(np.array([SPECIALS, SPECIALS]), np.zeros(0)), strict=True):
        want = BINARY["pow"].apply(float(value), exponent)
        assert within(got, want, 2), (value, got, want)
        assert within(kernel(np.array([value, 0.0]), np.zeros(0)), want, 2), value


def single(op: str) -> Program:
    if op in UNARY:
        return program_of(Unary(op, X))
    if op in BINARY:
        return program_of(Binary(op, X, Y))
    return program_of(Choice(Compare(op, X, Y), Number(1.0), Number(0.0)))


def check(op: str, got: np.ndarray) -> None:
    for (a, b), value in zip(PAIRS, got, strict=True):
        want = float(OPERATORS[op].apply(a) if op in UNARY else OPERATORS[op].apply(a, b))
        assert within(value, want, 2 if op in ROUNDED else 0), (op, a, b, value, want)
