"""What comes out of an operator reads well, computes what it says, and is simplified without changing predictions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evaluators.features import FEATURE_NAMES, VOCABULARY
from evaluators.random import stream
from evolve.alphabet import STEP, features_for, probes, typical
from evolve.drafts import draft_of, program_of
from evolve.genetic import GENETIC
from evolve.simplification import TOLERANCE, simplified
from evolve.units import PURE, US, consistent, unit_of
from tests.evolve.genetic_samples import CAPS, is_valid, parents, program, seeds
from translate.complexity import measure
from translate.ir import Program
from translate.random_programs import random_program
from translate.source import to_source
from translate.to_numpy import compile_numpy


def times(candidate: Program, name: str = STEP) -> np.ndarray:
    order = features_for(name)
    matrix = np.array([probes()[feature] for feature in order]) if order else np.empty((0, 1))
    return compile_numpy(candidate, name, order)(matrix, np.array(candidate.constant_values))


def step_of(expression: str, constants: str = "{}") -> Program:
    return program(f"CONSTANTS = {constants}\ndef predict_step_time(b):\n    return {expression}\n")


@pytest.mark.parametrize("parent", seeds(), ids=lambda p: p.id)
def test_a_draft_turned_back_into_a_program_computes_the_same_in_no_more_operations(parent):
    back = program_of(draft_of(parent.program))
    assert is_valid(back)
    assert measure(back).operations <= measure(parent.program).operations
    assert len(back.constants) <= len(parent.program.constants)
    for function in parent.program.functions:
        np.testing.assert_allclose(times(back, function.name), times(parent.program, function.name), rtol=1e-12)
    assert program_of(draft_of(back)) == back


@given(st.integers(0, 10**6))
@settings(max_examples=60, derandomize=True, deadline=None)
def test_a_random_program_through_a_draft_computes_the_same_but_for_rounding(seed):
    wild = random_program(np.random.default_rng(seed), VOCABULARY, transcendental=False)
    draft = draft_of(wild)
    if draft is None:
        return
    old, new = times(wild), times(program_of(draft))
    well = np.isfinite(old) & np.isfinite(new) & (np.abs(old) > 1e-6 * np.max(np.abs(old), initial=1.0))
    assert np.mean(np.isclose(new[well], old[well], rtol=1e-6)) > 0.9 if well.any() else True


def test_what_is_computed_once_in_the_text_stays_one_local():
    both = step_of("math.sqrt(m * m + c * c)", '{"m": 1.0, "c": 2.0}')
    text = (
        'CONSTANTS = {"m": 1.0, "c": 2.0}\ndef predict_step_time(b):\n'
        '    x = m * b["total_bytes"]\n    y = c * b["total_flops"]\n    return math.sqrt(x * x + y * y)\n'
    )
    back = program_of(draft_of(program(text)))
    assert "memory * memory + compute * compute" in to_source(back)
    assert measure(back).operations == 6
    assert measure(program_of(draft_of(both))).operations <= 4


def test_constants_are_named_by_what_they_multiply():
    text = to_source(
        program_of(
            draft_of(
                step_of(
                    'x * b["weight_load"] * (1.0 + y * b["tp"]) + z + w * b["layers"] * b["batch_size"]'
                    ' + u * math.sqrt(b["layers"])',
                    '{"x": 1.0, "y": 0.1, "z": 5.0, "w": 0.2, "u": 7.0}',
                )
            )
        )
    )
    names = ("per_weight_load", "growth_per_gpu", "fixed", "per_layer_request", "per_root_layer")
    assert all(f'"{name}":' in text for name in names), text


@pytest.mark.parametrize(
    ("messy", "tidy"),
    [
        ('a * c * b["layers"]', 'per_layer * b["layers"]'),
        ('a * b["layers"] + c * b["layers"]', 'per_layer * b["layers"]'),
        ('a + b["gemm_time"] + c', 'fixed + b["gemm_time"]'),
        ('b["gemm_time"] * 1.0 + 0.0', 'b["gemm_time"]'),
        ('max(b["gemm_time"], b["gemm_time"])', 'b["gemm_time"]'),
        ('b["gemm_time"] / a', 'per_gemm * b["gemm_time"]'),
        ('b["gemm_time"] - -a * b["tp"]', 'b["gemm_time"] + per_gpu * b["tp"]'),
        ('b["lm_head"] if 1.0 > 2.0 else b["kv_read"]', 'b["kv_read"]'),
    ],
)
def test_constants_that_only_meet_each_other_merge_and_literals_fold(messy, tidy):
    before = step_of(messy, '{"a": 2.0, "c": 3.0}')
    after = program_of(draft_of(before))
    assert f"    return {tidy}\n" in to_source(after)
    np.testing.assert_allclose(times(after), times(before), rtol=1e-12)


def test_lines_stay_short_whatever_the_operators_do():
    rng = stream(4, "lines")
    for number in range(150):
        name = sorted(GENETIC)[number % len(GENETIC)]
        pair = [seeds()[number % 8], seeds()[(3 * number + 1) % 8]]
        child = GENETIC[name].apply(pair[: GENETIC[name].parents], rng, CAPS).program
        if name == "jitter_constants":
            continue
        assert max(map(len, to_source(child).splitlines())) <= 130
        assert child.doc
        assert child.doc.endswith(".")


def test_simplification_changes_no_prediction_by_more_than_its_tolerance():
    smaller = 0
    for parent in parents():
        draft = draft_of(parent.program)
        if draft is None:
            continue
        after = program_of(simplified(draft))
        smaller += measure(after).operations < measure(parent.program).operations
        before = times(parent.program)
        if np.all(np.isfinite(before) & (before != 0.0)):
            np.testing.assert_allclose(times(after), before, rtol=TOLERANCE * 1.0001)
    assert smaller > 3


def test_simplification_drops_dead_locals_zero_constants_and_terms_that_do_not_matter():
    text = (
        'CONSTANTS = {"k": 1.0, "z": 0.0, "t": 0.001, "dead": 4.0}\ndef predict_step_time(b):\n'
        '    unused = dead * b["layers"]\n'
        '    return k * b["gemm_time"] * (1.0 + z * b["tp"]) + z * b["kv_read"] + t * b["layers"]\n'
    )
    after = program_of(simplified(draft_of(program(text))))
    assert to_source(after).endswith('    return per_gemm * b["gemm_time"]\n')
    assert after.constants == (("per_gemm", 1.0),)


def test_units_bridge_by_constants_only():
    def unit(expression: str) -> object:
        return unit_of(draft_of(step_of(expression, '{"k": 2.0}')).bodies[STEP])

    def mixed(expression: str) -> bool:
        return consistent(draft_of(step_of(expression, '{"k": 2.0}')).bodies[STEP])

    assert unit('b["gemm_time"] + b["kv_read"]') == US
    assert unit('b["gemm_time"] / b["kv_read"]') == PURE
    assert unit('math.sqrt(b["gemm_time"] * b["gemm_time"])') == US
    assert unit('k * b["kv_sum"]') is None
    assert mixed('b["gemm_time"] + k * b["kv_sum"]')
    assert not mixed('b["gemm_time"] + b["kv_sum"]')
    assert not mixed('max(b["gemm_time"], b["layers"])')
    assert not mixed('b["gemm_time"] if b["kv_sum"] > b["layers"] else b["kv_read"]')


def test_every_feature_has_a_positive_usual_size_and_probes():
    assert set(FEATURE_NAMES) | {"prompt_tokens"} == set(typical()) == set(probes())
    assert all(value > 0.0 for value in typical().values())
