"""Every code of the table, each with a text that earns it, its place, and a hint that helps."""

import pytest

from tests.translate.program_samples import FEATURES, OVERLAP, VOCABULARY, accepted, refused, step
from translate.complexity import measure
from translate.errors import MEANINGS, Code
from translate.ir import Program
from translate.parse import Caps, Vocabulary, parse

HEAD = "def predict_step_time(b):\n"

# text, code, "line:column", words of the message
CASES = [
    ("\0", Code.NOT_TEXT, "1:1", "U+0000"),
    (HEAD + "    return 1 \ud800", Code.NOT_TEXT, "2:14", "U+D800"),
    ("#" * 70_000, Code.TOO_LONG, "1:1", "70000 bytes"),
    ("(" * 10_000 + ")" * 10_000, Code.TOO_LONG, "1:1", "20000 words and marks"),
    ("```python\n" + OVERLAP + "```", Code.SYNTAX, "1:1", "Markdown"),
    (HEAD + "    return (1", Code.SYNTAX, "2:12", "never closed"),
    (HEAD + "  return " + "9" * 5000, Code.SYNTAX, "2:1", "4300 digits"),
    (HEAD + "    return " + "(" * 300 + "1" + ")" * 300, Code.TOO_DEEP, "2", "locals"),
    (HEAD + "    return " + "-" * 3000 + 'b["kv_read"]', Code.TOO_DEEP, "1:1", "locals"),
    (HEAD + "    return " + "+".join(["1"] * 150), Code.TOO_DEEP, "2", "100 levels"),
    (
        HEAD + "    if 1<2:\n        return 1\n" + "    elif 1<2:\n        return 1\n" * 150,
        Code.TOO_DEEP,
        "203:9",
        "100",
    ),
    (step("mаx_ = 1;;return mаx_"), Code.NON_ASCII_NAME, "3:5", "\\u0430"),
    (step("return ｍax(1, 2)"), Code.NON_ASCII_NAME, "3:12", "ASCII"),
    ("x = 3\n" + OVERLAP, Code.TOP_LEVEL, "1:1", "CONSTANTS"),
    ("class A: pass\n" + OVERLAP, Code.TOP_LEVEL, "1:1", "a class"),
    (OVERLAP + "\nprint(3)", Code.TOP_LEVEL, "9:1", "stands alone"),
    ("import os\n" + OVERLAP, Code.IMPORT, "1:1", "import math"),
    ("import math as m\n" + OVERLAP, Code.IMPORT, "1:1", "import math"),
    ("import math, os\n" + OVERLAP, Code.IMPORT, "1:1", "import math"),
    ("from math import exp\n" + OVERLAP, Code.IMPORT, "1:1", "import math"),
    (step("return 1", "CONSTANTS = dict(a=1)"), Code.CONSTANTS_FORM, "1:13", "dict literal"),
    (step("return 1", 'CONSTANTS = {**{"a": 1}}'), Code.CONSTANTS_FORM, "1:16", "name every constant"),
    (step("return 1", "CONSTANTS = {3: 1}"), Code.CONSTANTS_FORM, "1:14", "name every constant"),
    (step("return 1", 'CONSTANTS = {"a": 2 * 3}'), Code.CONSTANTS_FORM, "1:19", "literal"),
    (step("return 1", 'CONSTANTS = {"if": 2}'), Code.CONSTANTS_FORM, "1:14", "'if'"),
    (step("return 1", 'CONSTANTS = {"a b": 2}'), Code.CONSTANTS_FORM, "1:14", "'a b'"),
    (step("return 1", 'CONSTANTS = {"ä": 2}'), Code.CONSTANTS_FORM, "1:14", "ASCII"),
    (step("return 1", 'CONSTANTS = {"a": True}'), Code.LITERAL, "1:19", "`True`"),
    (step("return 1", 'CONSTANTS = {"a": "1"}'), Code.LITERAL, "1:19", "a string"),
    (step("return 1", 'CONSTANTS = {"a": -1e999}'), Code.LITERAL, "1:20", "1.797e308"),
    (step("return 1", 'CONSTANTS = {"a": 1, "a": 2}'), Code.CONSTANTS_TWICE, "1:22", "`a`"),
    ("CONSTANTS = {}\n" + step("return 1", "CONSTANTS = {}"), Code.CONSTANTS_TWICE, "2:1", "merge"),
    (step("return 1", 'CONSTANTS = {"max": 1}'), Code.NAME_CLASH, "1:14", "max_value"),
    (step("return 1", 'CONSTANTS = {"__class__": 1}'), Code.NAME_CLASH, "1:14", "rename"),
    (step("k = 1;;return k", 'CONSTANTS = {"k": 1}'), Code.NAME_CLASH, "3:5", "`k` is a constant"),
    (step("b = 1;;return b"), Code.NAME_CLASH, "3:5", "the input"),
    (step("min = 1;;return min"), Code.NAME_CLASH, "3:5", "rename"),
    ('CONSTANTS = {"b": 1}\n' + HEAD + "    return b", Code.NAME_CLASH, "2:23", "`b` is a constant"),
    ("def predict_step_tim(b):\n    return 1", Code.UNKNOWN_FUNCTION, "1:1", "did you mean `predict_step_time`?"),
    ("def helper(x):\n    return 1\n" + OVERLAP, Code.UNKNOWN_FUNCTION, "1:1", "helper functions"),
    (step("return 1") * 2, Code.FUNCTION_TWICE, "5:1", "second"),
    ("def predict_scheduling_time():\n    return 1", Code.FUNCTION_MISSING, "2:1", "predict_step_time"),
    ("", Code.FUNCTION_MISSING, "1:1", "predict_step_time"),
    ("def predict_step_time():\n    return 1", Code.SIGNATURE, "1:1", "0 parameters"),
    ("def predict_step_time(b, c):\n    return 1", Code.SIGNATURE, "1:1", "2 parameters"),
    ("def predict_step_time(b=1):\n    return 1", Code.SIGNATURE, "1:1", "defaults"),
    ("def predict_step_time(*b):\n    return 1", Code.SIGNATURE, "1:1", "defaults, *"),
    ("def predict_step_time(b: dict):\n    return 1", Code.SIGNATURE, "1:1", "annotation"),
    ("def predict_step_time(b) -> float:\n    return 1", Code.SIGNATURE, "1:1", "annotation"),
    ("@njit\ndef predict_step_time(b):\n    return 1", Code.SIGNATURE, "1:2", "decorator"),
    (step("return 1") + "def predict_scheduling_time(b):\n    return 1", Code.SIGNATURE, "4:1", "1 parameters"),
    (step("for i in b:;;    x = 1;;return 1"), Code.STATEMENT, "3:5", "`for` loop"),
    (step("while 1 < 2:;;    x = 1;;return 1"), Code.STATEMENT, "3:5", "`while` loop"),
    (step("import os;;return 1"), Code.STATEMENT, "3:5", "import"),
    (step("global x;;return 1"), Code.STATEMENT, "3:5", "CONSTANTS"),
    (step("x = 1;;del x;;return 1"), Code.STATEMENT, "4:5", "`del`"),
    (step("def f(): return 1;;return 1"), Code.STATEMENT, "3:5", "nested function"),
    (step("try:;;    x = 1;;except: x = 2;;return 1"), Code.STATEMENT, "3:5", "no operation raises"),
    (step("print(1);;return 1"), Code.STATEMENT, "3:5", "stands alone"),
    (step("x: float = 1;;return x"), Code.TARGET, "3:5", "annotation"),
    (step("x, y = 1, 2;;return x"), Code.TARGET, "3:5", "one assignment per line"),
    (step("x = y = 1;;return x"), Code.TARGET, "3:5", "several targets"),
    (step('b["kv_read"] = 1;;return 1'), Code.TARGET, "3:5", "plain name"),
    (step("return 1;;x = 2"), Code.UNREACHABLE, "4:5", "after a return"),
    (step("if 1 < 2:;;    return 1;;else:;;    return 2;;return 3"), Code.UNREACHABLE, "7:5", "after a return"),
    (step("x = 1"), Code.NO_RETURN, "2:1", "every path"),
    (step("if 1 < 2:;;    return 1"), Code.NO_RETURN, "2:1", "every path"),
    (step("pass"), Code.NO_RETURN, "2:1", "every path"),
    (step("return"), Code.NO_RETURN, "3:5", "without a value"),
    (step("return lambda: 1"), Code.EXPRESSION, "3:12", "a lambda"),
    (step("return [x for x in b]"), Code.EXPRESSION, "3:12", "comprehension"),
    (step('return f"{1}"'), Code.EXPRESSION, "3:12", "f-string"),
    (step("return (x := 1)"), Code.EXPRESSION, "3:13", "`:=`"),
    (step("return (1, 2)"), Code.EXPRESSION, "3:12", "a tuple"),
    (step("return {}"), Code.EXPRESSION, "3:12", "a dict"),
    (step("return math.pi"), Code.EXPRESSION, "3:12", "write the number out"),
    (step("return b.__class__"), Code.EXPRESSION, "3:12", "`.__class__`"),
    (step("return (yield 1)"), Code.EXPRESSION, "3:13", "`yield`"),
    (step('return b["kv_read"] // 2'), Code.OPERATOR, "3:12", "use `/`"),
    (step('return b["kv_read"] % 2'), Code.OPERATOR, "3:12", "`%`"),
    (step("x = 1;;x @= 2;;return x"), Code.OPERATOR, "4:5", "`@`"),
    (step("return ~1"), Code.OPERATOR, "3:12", "`~`"),
    (step("return 1 if 1 in (1, 2) else 2"), Code.EXPRESSION, "3:22", "a tuple"),
    (step("return 1 if 1 is 2 else 2"), Code.OPERATOR, "3:17", "`is`"),
    (step("return sqrt(2)"), Code.CALL, "3:12", "did you mean `math.sqrt`?"),
    (step("return np.exp(2)"), Code.CALL, "3:12", "did you mean `math.exp`?"),
    (step("return math.exp2(2)"), Code.CALL, "3:12", "did you mean `math.exp`?"),
    (step("return pow(2, 2)"), Code.CALL, "3:12", "x ** y"),
    (step('return b.get("kv_read", 0)'), Code.CALL, "3:12", 'b["name"]'),
    (step("return predict_step_time(b)"), Code.CALL, "3:12", "themselves"),
    (step('return eval("1")'), Code.CALL, "3:12", "`eval`"),
    (step("return (lambda: 1)()"), Code.CALL, "3:12", "a call"),
    (step("return ().__class__.__bases__[0]()"), Code.CALL, "3:12", "a call"),
    (step("return max(1, 2, key=3)"), Code.ARGUMENTS, "3:12", "keyword"),
    (step("return max(*b)"), Code.ARGUMENTS, "3:12", "starred"),
    (step("return max(1)"), Code.ARGUMENTS, "3:12", "2 or more"),
    (step("return abs(1, 2)"), Code.ARGUMENTS, "3:12", "1 argument"),
    (step("return math.log(2, 10)"), Code.ARGUMENTS, "3:12", "1 argument"),
    (step("return 1j"), Code.LITERAL, "3:12", "complex"),
    (step("return True"), Code.LITERAL, "3:12", "`True`"),
    (step('return "x"'), Code.LITERAL, "3:12", "a string"),
    (step("return ..."), Code.LITERAL, "3:12", "`...`"),
    (step("return 1e999"), Code.LITERAL, "3:12", "beyond the range"),
    (step("return 0x" + "f" * 20_000), Code.LITERAL, "3:12", "beyond the range"),
    (step("memory = 1;;return memroy"), Code.UNKNOWN_NAME, "4:12", "did you mean `memory`?"),
    (step("return kv_read"), Code.UNKNOWN_NAME, "3:12", 'did you mean b["kv_read"]?'),
    (step("return launch"), Code.UNKNOWN_NAME, "3:12", "declare it in CONSTANTS"),
    (step("return CONSTANTS"), Code.UNKNOWN_NAME, "3:12", "CONSTANTS"),
    (step("x += 1;;return x"), Code.UNASSIGNED, "3:5", "`x`"),
    (step("y = x;;x = 1;;return y"), Code.UNASSIGNED, "3:9", "`x`"),
    (step("if 1 < 2:;;    x = 1;;return x"), Code.UNASSIGNED, "5:12", "before the `if`"),
    (step('return b["kv_raed"]'), Code.UNKNOWN_FEATURE, "3:12", 'did you mean b["kv_read"]?'),
    (step('return b["zzz"]'), Code.UNKNOWN_FEATURE, "3:12", "known features: decode_gemm"),
    (step('return b["waiting"]'), Code.UNKNOWN_FEATURE, "3:12", "another function"),
    (step("return b"), Code.INPUT_USE, "3:12", 'b["feature"]'),
    (step("return b[0]"), Code.INPUT_USE, "3:12", "literal string"),
    (step('x = 1;;return x["kv_read"]'), Code.INPUT_USE, "4:12", "only the input"),
    (
        step("return 1") + 'def predict_scheduling_time():\n    return b["kv_read"]',
        Code.INPUT_USE,
        "5:12",
        "no input",
    ),
    (step("x = 1 < 2;;return x"), Code.WANTED_NUMBER, "3:9", "1.0 if condition else 0.0"),
    (step("return 1 + (2 > 1)"), Code.WANTED_NUMBER, "3:17", "a condition"),
    (step("return 1 and 2"), Code.WANTED_NUMBER, "3:12", "a condition"),
    (step("return not 1"), Code.WANTED_NUMBER, "3:12", "a condition"),
    (step("if 1:;;    return 1;;return 2"), Code.WANTED_CONDITION, "3:8", "x != 0"),
    (step('return 1 if b["kv_read"] else 2'), Code.WANTED_CONDITION, "3:17", "compare"),
    (step("return 1 if not 1 else 2"), Code.WANTED_CONDITION, "3:21", "compare"),
    (step("return " + "+".join(["1"] * 33)), Code.OPERATIONS, "3", "32 operations; want at most 30"),
    (
        step("x = 1;;" + "if x < 1: x = 1;;" * 4 + "return x"),
        Code.CONDITIONALS,
        "7:5",
        "4 conditionals; want at most 3",
    ),
    (step("return 1", f"CONSTANTS = { ({f'k{i}': 1 for i in range(11)}) }"), Code.CONSTANTS, "1:1", "11 constants"),
]


@pytest.mark.parametrize(("text", "code", "place", "words"), CASES)
def test_a_text_outside_the_language_is_refused_with_its_code_place_and_way_out(text, code, place, words):
    refusal = refused(text)
    message = str(refusal)
    assert refusal.code is code, message
    assert f" line {place}" in message
    assert message.startswith(f"{code.value} line {refusal.line}:{refusal.column}: got ")
    assert "; want " in message
    assert ". Hint: " in message
    assert words in message, message
    assert message.isprintable()
    assert len(message) < 400


def test_every_code_has_a_meaning_and_a_case():
    assert set(MEANINGS) == set(Code) == {case[1] for case in CASES}


def test_the_first_problem_in_the_text_is_the_one_reported():
    assert refused(step("x = lambda: 1;;return nope")).line == 3
    assert refused(step("return nope", 'CONSTANTS = {"a": "x"}') + "def other():\n    return 1").line == 1
    assert refused(step("return nope") + "def other():\n    return 1").line == 3


def test_columns_count_characters_and_not_bytes():
    assert refused(step('"äöü"; return nope')).column == 19


def test_caps_are_the_callers():
    text = step("return 1 + 1 + 1")
    assert parse(text, VOCABULARY, Caps(operations=1)) == refused(text, Caps(operations=1))
    assert measure(accepted(text)).operations == 2
    assert "2 operations; want at most 1" in str(refused(text, Caps(operations=1)))


def test_a_function_without_features_in_the_vocabulary_says_so():
    refusal = parse(step('return b["kv_read"]'), Vocabulary({}), Caps())
    assert "no features" in str(refusal)


def test_the_seed_text_is_accepted_with_the_default_caps():
    assert isinstance(parse(OVERLAP, VOCABULARY), Program)
    assert set(FEATURES) >= measure(accepted(OVERLAP)).features
