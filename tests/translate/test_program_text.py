"""What the parser accepts and means by it, and the way back to text."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.translate.program_samples import NO_CAPS, OVERLAP, VOCABULARY, accepted, refused, step
from translate.errors import Refusal
from translate.ir import (
    Binary,
    Choice,
    Compare,
    Constant,
    Feature,
    Function,
    Local,
    Number,
    Program,
    Return,
    Unary,
    negate,
    with_constants,
)
from translate.parse import parse
from translate.random_programs import random_number, random_program
from translate.source import number_source, to_source
from translate.to_plain import evaluate


def value(body: str, constants: str = "", **features: float) -> float:
    program = accepted(step(body, constants))
    return evaluate(program.functions[0], features, dict(program.constants))


def test_text_of_a_random_program_parses_back_to_it():
    rng = np.random.default_rng(31)
    for _ in range(300):
        program = random_program(rng, VOCABULARY)
        text = to_source(program)
        assert parse(text, VOCABULARY, NO_CAPS) == program, text
        assert to_source(accepted(text)) == text


def test_random_programs_stay_within_the_caps_and_the_vocabulary():
    rng = np.random.default_rng(32)
    for _ in range(300):
        program = random_program(rng, VOCABULARY)
        assert not isinstance(parse(to_source(program), VOCABULARY), Refusal)


def test_random_programs_come_from_the_generator_handed_in():
    draws = [random_program(np.random.default_rng(33), VOCABULARY) for _ in range(2)]
    assert draws[0] == draws[1] != random_program(np.random.default_rng(34), VOCABULARY)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.text(max_size=60))
def test_any_docstring_survives_the_way_through_text(doc):
    body = (Return(Number(1.0)),)
    program = Program(doc.replace("\r\n", "\n").replace("\r", "\n"), (), (Function("predict_step_time", "b", body),))
    text = to_source(program)
    text.encode()
    assert parse(text, VOCABULARY) == program


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_any_finite_number_survives_the_way_through_text_bit_for_bit(number):
    body = (Return(Binary("pow", Number(number), Constant("k"))),)
    program = Program("", (("k", number),), (Function("predict_step_time", "b", body),))
    again = accepted(to_source(program))
    assert again == program
    assert again.constants[0][1].hex() == number.hex()


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_a_number_without_a_literal_is_not_written(number):
    with pytest.raises(ValueError, match="no literal"):
        number_source(Number(number))


@pytest.mark.parametrize(
    "text",
    [
        "-x ** 2",
        "(-x) ** 2",
        "(-2.0) ** x",
        "x ** -y",
        "x ** y ** z",
        "(x ** y) ** z",
        "x - (y - z)",
        "x - y - z",
        "x / (y * z)",
        "-(x + y)",
        "-x * y",
        "x - -2.0",
        "-(x if x < y else z)",
        "(x if x < y else z) if y < z else x",
        "x if x < y else z if y < z else x",
        "x if not (x < y and y < z) else z",
        "x if x < y and (y < z or x < z) else z",
        "x if (x < y or y < z) and x < z else z",
        "x if x < y or y < z and x < z else z",
        "max(x, y, min(x, z))",
        "max(x, max(y, z))",
        "-abs(-x)",
    ],
)
def test_precedence_is_that_of_python_both_ways(text):
    names = {"x": 1.7, "y": -2.3, "z": 0.6}
    constants = "CONSTANTS = " + repr(names)
    program = accepted(step(f"return {text}", constants))
    again = accepted(to_source(program))
    assert again == program
    node = program.functions[0].body[0].value
    assert number_source(node).replace("2.0", "2") == text.replace("2.0", "2")
    want = eval(text, {"max": max, "min": min, "abs": abs}, names)
    if isinstance(want, float):
        assert value(f"return {text}", constants) == want


def test_an_augmented_assignment_is_the_assignment_it_stands_for():
    assert accepted(step("x = 1;;x += 2;;x **= 3;;return x")) == accepted(
        step("x = 1;;x = x + 2;;x = x ** 3;;return x")
    )


def test_a_chained_comparison_is_the_comparisons_joined_by_and():
    chained, joined = "1 < b['kv_read'] <= 3", "1 < b['kv_read'] and b['kv_read'] <= 3"
    assert accepted(step(f"return 1 if {chained} else 2")) == accepted(step(f"return 1 if {joined} else 2"))


def test_min_and_max_of_more_arguments_nest_to_the_left():
    assert accepted(step("return max(1, 2, 3)")) == accepted(step("return max(max(1, 2), 3)"))


def test_a_sign_before_a_literal_belongs_to_the_literal_but_not_before_a_power():
    body = accepted(step("return -2 ** 2")).functions[0].body
    assert body == (Return(Unary("neg", Binary("pow", Number(2.0), Number(2.0)))),)
    assert accepted(step("return - - 2")).functions[0].body == (Return(Number(2.0)),)
    assert negate(Number(2.0)) == Number(-2.0)


def test_elif_pass_docstrings_comments_and_imports_are_read_as_python_reads_them():
    text = (
        'import math  # allowed\n\nCONSTANTS = {"a": +1, "b2": -2}\n\n'
        'def predict_step_time(batch):\n    """What it does."""\n    pass\n'
        '    if batch["kv_read"] < 1:\n        x = a\n    elif batch["kv_read"] < 2:\n        x = b2\n'
        "    else:\n        x = math.sqrt(4)\n    return x  # done\n"
    )
    program = accepted(text)
    assert program.constants == (("a", 1.0), ("b2", -2.0))
    function = program.function("predict_step_time")
    assert [evaluate(function, {"kv_read": v}, dict(program.constants)) for v in (0.0, 1.0, 2.0)] == [1.0, -2.0, 2.0]
    assert 'elif batch["kv_read"] < 2.0:' in to_source(program)
    assert to_source(program).startswith("import math\n")


def test_constants_may_stand_after_the_functions_or_be_absent():
    assert accepted("def predict_step_time(b):\n    return k\nCONSTANTS = {'k': 3}").constant_names == ("k",)
    assert accepted(step("return 3")).constants == ()


def test_line_ends_and_a_byte_order_mark_make_no_difference():
    assert (
        accepted("\ufeff" + OVERLAP.replace("\n", "\r\n")) == accepted(OVERLAP) == accepted(OVERLAP.replace("\n", "\r"))
    )


def test_other_letters_may_stand_in_docstrings_and_comments():
    program = accepted('"""Zeit in µs → schön."""\n' + step("return 1  # größer"))
    assert program.doc == "Zeit in µs → schön."
    assert accepted(to_source(program)) == program


def test_a_local_set_on_every_path_may_be_read_afterwards():
    assert value("if 1 < 2:;;    x = 1;;else:;;    x = 2;;return x") == 1.0
    assert value("if 1 > 2:;;    return 5;;else:;;    x = 2;;return x") == 2.0
    assert refused(step("if 1 > 2:;;    y = 5;;else:;;    x = 2;;return x")).line == 7


def test_a_program_reads_as_its_author_wrote_it():
    assert to_source(accepted(OVERLAP)).replace("\n\n\n", "\n\n") == OVERLAP.replace('top."""\n', 'top."""\n\n')


def test_positions_do_not_take_part_in_equality():
    spread = OVERLAP.replace("\n    return", "\n\n    # here\n    return")
    assert accepted(spread) == accepted(OVERLAP)
    assert hash(accepted(spread)) == hash(accepted(OVERLAP))
    assert accepted(spread).functions[0].body[-1].at != accepted(OVERLAP).functions[0].body[-1].at


def test_with_constants_replaces_values_in_order_and_refuses_another_number_of_them():
    program = with_constants(accepted(OVERLAP), [1, 2, 3])
    assert program.constants == (("launch", 1.0), ("bw", 2.0), ("mfu", 3.0))
    with pytest.raises(ValueError, match="shorter"):
        with_constants(program, [1, 2])


def test_random_number_holds_as_many_operations_as_asked():
    rng = np.random.default_rng(35)
    node = random_number(rng, ["kv_read"], ["k"], 5)
    assert isinstance(node, Binary | Unary | Choice)
    assert not isinstance(node, Compare | Feature | Local)
