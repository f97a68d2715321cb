"""Whatever the text, ``parse`` returns a value, quickly, and runs nothing of it."""

import sys
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.translate.program_samples import OVERLAP, VOCABULARY, refused, step
from translate.errors import Refusal
from translate.ir import Program
from translate.parse import Caps, parse

DEEP = {
    "parentheses": "(" * 10_000 + ")" * 10_000,
    "open brackets": "[" * 10_000,
    "signs": step("return " + "-" * 7_900 + "1"),
    "nots": step("return 1 if " + "not " * 7_900 + "1 < 2 else 2"),
    "sums": step("return " + "+".join(["1"] * 3_900)),
    "powers": step("return " + "**".join(["1"] * 2_600)),
    "choices": step("return " + "1 if 1<2 else " * 1_100 + "2"),
    "attributes": step("return a" + ".a" * 3_900),
    "calls": step("return a" + "()" * 3_900),
    "subscripts": step("return b" + "[b" * 190 + "]" * 190),
    "elifs": step("if 1<2: return 1;;" + "elif 1<2: return 1;;" * 880 + "else: return 1"),
    "comparisons": step("return 1 if " + "<".join(["1"] * 3_900) + " else 2"),
    "lambdas": step("return " + "lambda:" * 3_900 + "1"),
    "strings": step("return " + '"" ' * 3_900),
    "f-string": step('return f"{' + "-" * 7_000 + '1}"'),
    "backslashes": "\\\n" * 7_000,
    "indents": "".join(" " * i + "if 1:\n" for i in range(120)),
    "digits": step("return " + "9" * 60_000),
    "hex": step("return 0x" + "9" * 60_000),
    "exponent": step("return 1e" + "9" * 4_000),
    "quotes": '"""' + "\\" * 60_000,
    "blank lines": "\n" * 60_000,
}


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("recursion_limit", [1_000, 100_000])
def test_no_text_exhausts_the_stack(name, recursion_limit):
    """In a thread with a small stack and with Python's own guard set high: our bounds must suffice."""
    results = []
    before, size = sys.getrecursionlimit(), threading.stack_size(8 * 1024 * 1024)
    try:
        sys.setrecursionlimit(recursion_limit)
        started = time.perf_counter()
        thread = threading.Thread(target=lambda: results.append(parse(DEEP[name], VOCABULARY)))
        thread.start()
        thread.join()
        assert time.perf_counter() - started < 10.0
    finally:
        sys.setrecursionlimit(before)
        threading.stack_size(size)
    assert isinstance(results[0], Refusal)
    assert len(str(results[0])) < 500


@settings(max_examples=300, derandomize=True, deadline=None)
@given(st.text(max_size=200))
def test_any_text_gives_a_value(text):
    assert isinstance(parse(text, VOCABULARY), Program | Refusal)


@settings(max_examples=300, derandomize=True, deadline=None)
@given(
    st.lists(
        st.sampled_from(
            [*OVERLAP.split(" "), *'()[]{}:=+-*/<>"\n\\,.;@~%', "if", "else", "not", "1e999", "b", "\t", "é", "\f"]
        )
    )
)
def test_any_shuffling_of_a_programs_words_gives_a_value(words):
    for text in (" ".join(words), step(" ".join(words).replace("\n", " "))):
        assert isinstance(parse(text, VOCABULARY), Program | Refusal)


@settings(max_examples=200, derandomize=True, deadline=None)
@given(st.integers(0, len(OVERLAP) - 1), st.integers(0, 40), st.text(max_size=3))
def test_any_damage_to_a_program_gives_a_value(start, length, patch):
    assert isinstance(parse(OVERLAP[:start] + patch + OVERLAP[start + length :], VOCABULARY), Program | Refusal)


def test_parsing_runs_nothing_of_the_text(tmp_path):
    mark = tmp_path / "ran"
    run = f"open({str(mark)!r}, 'w').close()"
    for text in (run, step(f"return {run}"), f"@{run}\n{OVERLAP}", f"def predict_step_time(b={run}):\n    return 1"):
        refused(text)
    assert not mark.exists()


def test_bounds_on_the_text_are_inclusive():
    text = step("return 1")
    assert isinstance(parse(text, VOCABULARY, Caps(text_bytes=len(text.encode()))), Program)
    assert isinstance(parse(text, VOCABULARY, Caps(text_bytes=len(text.encode()) - 1)), Refusal)
