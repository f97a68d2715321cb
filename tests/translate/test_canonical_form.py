"""Same meaning, bit for bit; one form for every spelling of it."""

import dataclasses

import numpy as np
import pytest

from tests.translate.program_samples import FEATURES, NO_CAPS, OVERLAP, VOCABULARY, accepted, columns, same_bits, step
from translate.canonical import canonical, digest, inline
from translate.fingerprint import fingerprint, probe_constants
from translate.ir import Assign, Binary, Branch, Choice, Compare, Constant, Local, Logic, Not, Program, Return
from translate.parse import parse
from translate.random_programs import random_program
from translate.source import to_source
from translate.to_plain import evaluate

PROBES = np.random.default_rng(40).lognormal(3.0, 2.0, (len(FEATURES), 64))
MIRROR = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def values(program: Program, name: str, table: np.ndarray) -> np.ndarray:
    function = program.function(name)
    inputs = [dict(zip(FEATURES, map(float, column), strict=True)) for column in table.T]
    return np.array([evaluate(function, one, dict(program.constants)) for one in inputs])


def respelt(node, rng, names):
    """The same node with operands of commutative operations swapped, branches turned round, and new names."""
    if isinstance(node, tuple):
        return tuple(respelt(item, rng, names) for item in node)
    if not dataclasses.is_dataclass(node):
        return node
    parts = {f.name: respelt(getattr(node, f.name), rng, names) for f in dataclasses.fields(node) if f.name != "at"}
    if isinstance(node, Constant | Local | Assign):
        parts["name"] = names[node.name]
    swap = rng.random() < 0.5
    if isinstance(node, Binary | Logic) and swap and node.op in ("add", "mul", "min", "max", "and", "or"):
        parts["left"], parts["right"] = parts["right"], parts["left"]
    if isinstance(node, Compare) and swap:
        parts["left"], parts["right"], parts["op"] = parts["right"], parts["left"], MIRROR[node.op]
    if isinstance(node, Choice | Branch) and swap:
        parts["then"], parts["otherwise"], parts["condition"] = (
            parts["otherwise"],
            parts["then"],
            Not(parts["condition"]),
        )
    return type(node)(**parts)


def respelling(program: Program, rng) -> Program:
    fresh = [f"z{i}" for i in rng.permutation(60)]
    old = [*program.constant_names, *(f"t{i}" for i in range(40))]
    names = dict(zip(old, fresh, strict=False))
    order = rng.permutation(len(program.constants))
    constants = tuple((names[program.constants[i][0]], program.constants[i][1]) for i in order)
    bodies = tuple(dataclasses.replace(f, body=respelt(f.body, rng, names)) for f in reversed(program.functions))
    return Program("Another text.", constants, bodies)


def random_programs(seed: int, count: int):
    rng = np.random.default_rng(seed)
    return [(random_program(rng, VOCABULARY), rng) for _ in range(count)]


def test_the_canonical_form_means_the_same_bit_for_bit():
    for program, rng in random_programs(41, 150):
        form, table = canonical(program), columns(rng, 15)
        for function in program.functions:
            assert same_bits(values(program, function.name, table), values(form, function.name, table)), program


def test_the_canonical_form_of_a_canonical_form_is_itself():
    for program, _ in random_programs(42, 150):
        form = canonical(program)
        assert repr(canonical(form)) == repr(form)


def test_the_canonical_form_is_a_program():
    for program, _ in random_programs(43, 150):
        form = canonical(program)
        assert parse(to_source(form), VOCABULARY, NO_CAPS) == form


def test_swapped_operands_turned_branches_and_new_names_leave_the_canonical_form_as_it_is():
    for program, rng in random_programs(44, 150):
        other = respelling(program, rng)
        assert repr(canonical(other)) == repr(canonical(program)), (to_source(program), to_source(other))
        assert digest(other) == digest(program)
        assert fingerprint(other, PROBES, FEATURES) == fingerprint(program, PROBES, FEATURES)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('x = b["kv_read"];;return x * k', 'return k * b["kv_read"]'),
        ("return k * m", "return k"),
        ('return 2 * k * b["kv_read"]', 'return k * b["kv_read"]'),
        ('return b["kv_read"] / 4', 'return 0.25 * b["kv_read"]'),
        ('return b["kv_read"] - 3', 'return -3 + b["kv_read"]'),
        ('return b["kv_read"] * 1 / 1', 'return b["kv_read"] ** 1'),
        ('return k - -b["kv_read"]', 'return k + b["kv_read"]'),
        ('return k + -2 * b["kv_read"]', 'return k - b["kv_read"] * 2'),
        ('return max(k, max(b["kv_read"], 1), 3)', 'return max(b["kv_read"], 3, k, b["kv_read"])'),
        ('return -b["kv_read"] + -k', 'return -k + -b["kv_read"]'),
        ('return -b["kv_read"] * k', 'return -(k * b["kv_read"])'),
        ('return -b["kv_read"] / -k', 'return b["kv_read"] / k'),
        ('return abs(-b["kv_read"])', 'return abs(abs(b["kv_read"]))'),
        ("return 1 + 2", "return 3"),
        ("if 1 < 2:;;    return k;;return 7", "return k"),
        ('return 1 if not b["kv_read"] == 2 else 3', 'return 3 if 2 == b["kv_read"] else 1'),
        ('if b["kv_read"] > k:;;    x = 1;;else:;;    x = 2;;return x', 'return 1 if k < b["kv_read"] else 2'),
        ('if b["kv_read"] > k:;;    return 1;;y = 3;;return 2', 'return 1 if k < b["kv_read"] else 2'),
        ('x = 3 * b["kv_read"];;return k', "return k"),
    ],
)
def test_spellings_of_one_formula_have_one_digest(one, other):
    constants = 'CONSTANTS = {"k": 1.5, "m": 7}'
    assert digest(accepted(step(one, constants))) == digest(accepted(step(other, constants)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ('return k * b["kv_read"] + k', 'return k * b["kv_read"] + m'),
        ('return b["kv_read"] - k', 'return k - b["kv_read"]'),
        ('return b["kv_read"] + 0.0', 'return b["kv_read"]'),
        ('return b["kv_read"] - b["kv_read"]', "return 0"),
        ('return 1 if b["kv_read"] < k else 2', 'return 2 if b["kv_read"] >= k else 1'),
        ('return 2 * b["kv_read"]', 'return k * b["kv_read"]'),
        ("return 0.0", "return -0.0"),
        ('return b["kv_read"]', 'return b["weight_load"]'),
    ],
)
def test_formulas_that_differ_for_some_input_or_constant_have_different_digests(one, other):
    constants = 'CONSTANTS = {"k": 1.5, "m": 7}'
    assert digest(accepted(step(one, constants))) != digest(accepted(step(other, constants)))


def test_start_values_do_not_enter_the_digest_or_the_fingerprint():
    other = accepted(OVERLAP.replace("900.0", "1.0"))
    assert digest(other) == digest(accepted(OVERLAP))
    assert fingerprint(other, PROBES, FEATURES) == fingerprint(accepted(OVERLAP), PROBES, FEATURES)


def test_interchangeable_constants_are_told_apart_by_use_alone():
    body = 'return ({0} * b["kv_read"] + {1} * b["kv_read"]) / max({0}, 2) ** {0} + {1}'
    constants = 'CONSTANTS = {"p": 1.5, "q": 7}'
    first, second = (accepted(step(body.format(*names), constants)) for names in ("pq", "qp"))
    assert digest(first) == digest(second)


def test_fingerprints_agree_where_only_rounding_differs_and_differ_where_behaviour_does():
    def mark(body):
        return fingerprint(accepted(step(body, 'CONSTANTS = {"k": 1.5}')), PROBES, FEATURES)

    total = 'b["kv_read"] + b["weight_load"] + b["decode_gemm"]'
    assert mark(f"return {total}") == mark('return b["kv_read"] + (b["decode_gemm"] + b["weight_load"])')
    assert mark('return b["kv_read"] ** 2') == mark('return b["kv_read"] * b["kv_read"]')
    assert mark('return k * (b["kv_read"] + 1)') == mark('return k * b["kv_read"] + k')
    assert mark("return 0.0") == mark('return -0.0 * b["kv_read"]')
    assert mark('return b["kv_read"]') != mark('return b["kv_read"] * 1.000001')
    assert mark('return k * b["kv_read"]') != mark('return b["kv_read"]')


def test_a_fingerprint_covers_every_function():
    other = OVERLAP + 'def predict_queueing_time(r):\n    return launch * r["waiting"]\n'
    assert fingerprint(accepted(other), PROBES, FEATURES) != fingerprint(accepted(OVERLAP), PROBES, FEATURES)


def test_probe_constants_do_not_depend_on_how_many_are_asked_for():
    assert np.array_equal(probe_constants(10)[:4], probe_constants(4))
    assert len(set(probe_constants(30))) == 30
    assert probe_constants(30).min() > 0.5


def test_inline_gives_the_whole_function_as_one_expression():
    for program, rng in random_programs(45, 60):
        function, table = program.functions[0], columns(rng, 10)
        alone = dataclasses.replace(function, body=(Return(inline(function)),))
        single = dataclasses.replace(program, functions=(alone,))
        assert same_bits(values(program, function.name, table), values(single, function.name, table))


def test_a_chain_of_doublings_stays_small():
    """As a tree it would have 2**28 leaves."""
    body = 'x = b["kv_read"];;' + "x = x + x;;" * 28 + "return x"
    program = accepted(step(body))
    assert len(to_source(canonical(program))) < 2_000
    assert fingerprint(program, PROBES, FEATURES)
