"""Formulas that break an invariant are caught, the share of batches named; the probe is wider than the benchmark."""

from __future__ import annotations

import re

import numpy as np
import pytest

from evaluators.benchmark import builtin
from evaluators.compiled import compile_program
from evaluators.evaluation import Evaluation
from evaluators.features import FEATURE_NAMES, FEATURES, INDEX
from evaluators.invariants import (
    BATCHES,
    DEPLOYMENTS,
    LARGEST_BIAS,
    LEAST_OF_PEAK,
    Violation,
    check,
    check_bias,
    faster_than_peak,
    probe,
)
from tests.programs import compiled, program, step_program
from translate.ir import Function
from translate.to_plain import evaluate

BASE = "1.1 * b['gemm_time'] + 1.3 * b['kv_read_time'] + 2.0 * b['attention_flops'] + 60.0 * b['layers']"


def verdict(expression: str, constants: dict[str, float] | None = None) -> Violation | None:
    values = constants or {}
    return check(compiled(step_program(expression, values)), np.array(list(values.values())))


def function_of(expression: str) -> Function:
    found = program(step_program(expression)).function("predict_step_time")
    assert found is not None
    return found


def test_a_sensible_formula_keeps_them_all() -> None:
    assert verdict(BASE) is None


def test_every_fitted_seed_keeps_them_all(fitted: dict[str, Evaluation]) -> None:
    for name, evaluation in fitted.items():
        constants = np.array(evaluation.program.constant_values)
        assert check(compile_program(evaluation.program), constants) is None, name
        assert check_bias(evaluation.score.bias) is None, name


@pytest.mark.parametrize(
    "expression",
    [
        f"{BASE} - 1e9",
        "0.0",
        f"{BASE} + 0.0 / 0.0",
        f"{BASE} / b['prefill_tokens']",
        f"{BASE} + math.log(b['prefill_tokens'])",
        f"{BASE} + math.sqrt(b['tp_hops'] - 1000.0)",
        f"{BASE} - 1e9 if b['is_moe'] > 0.5 else {BASE}",
        "math.exp(b['gemm_time'])",
    ],
)
def test_a_time_that_is_not_positive_and_finite_breaks_the_first(expression: str) -> None:
    found = verdict(expression)
    assert found is not None
    assert found.code == "INV-M-1"
    count = re.match(r"(\d+) of (\d+) probe batches", found.reason)
    assert count is not None
    assert 1 <= int(count[1]) <= int(count[2]) == DEPLOYMENTS * BATCHES


@pytest.mark.parametrize(
    ("expression", "work"),
    [
        (f"{BASE} + 1e9 / (1.0 + b['decode_reqs'])", "decoding requests"),
        (f"{BASE} + 1e9 / (1.0 + b['kv_max'])", "context"),
        (f"{BASE} + 1e9 / (1.0 + b['prefill_tokens'])", "prefill tokens"),
    ],
)
def test_more_work_in_less_time_breaks_the_fifth_and_is_named(expression: str, work: str) -> None:
    found = verdict(expression)
    assert found is not None
    assert found.code == "INV-M-5"
    assert f"more {work} take less time in " in found.reason
    share = re.search(r"in (\d+)% of", found.reason)
    assert share is not None
    assert int(share[1]) >= 5


def test_the_share_named_is_the_share_of_batches_that_break_the_rule() -> None:
    """Counted here from the probe itself: prefill tokens matter in the batches that have any."""
    found = verdict(f"{BASE} + 1e13 / (1.0 + b['prefill_tokens'])")
    share = np.mean(probe().steps[:, INDEX["prefill_tokens"]] > 0.0)
    assert found is not None
    assert f"in {share:.0%} of" in found.reason


def test_less_time_in_under_a_twentieth_of_the_batches_is_let_pass() -> None:
    """A dip that begins just below the largest batch of the probe: a few batches step into it."""
    decodes = np.sort(probe().more_decodes[:, INDEX["decode_reqs"]])
    edge = float(decodes[-6] + decodes[-7]) / 2.0
    dipping = f"{BASE} - (1000.0 if b['decode_reqs'] > {edge} else 0.0)"
    assert verdict(dipping) is None
    edge = float(np.median(decodes))
    assert verdict(f"{BASE} + 1e6 - (1e3 * b['decode_reqs'] if b['decode_reqs'] > {edge} else 0.0)") is not None


@pytest.mark.parametrize(
    "expression",
    [
        "12000.0",
        f"min({BASE}, 15000.0)",
        "0.5 * b['weight_load'] + 0.5 * b['kv_read'] + 0.5 * b['total_flops']",
        "1.2 * b['weight_load'] + 1.2 * b['kv_read']",
    ],
)
def test_a_step_faster_than_the_hardware_s_peak_breaks_the_rule_of_ours(expression: str) -> None:
    """Constants, ceilings, half the peak's time, and formulas that forget the arithmetic of long prefills."""
    found = verdict(expression)
    assert found is not None
    assert found.code == "INV-P-1"
    steps = probe().steps
    bytes_us = steps[:, INDEX["weight_load"]] + steps[:, INDEX["kv_read"]]
    times = [
        evaluate(function_of(expression), dict(zip(FEATURE_NAMES, map(float, row), strict=True)), {}) for row in steps
    ]
    share = np.mean(np.array(times) < LEAST_OF_PEAK * np.maximum(bytes_us, steps[:, INDEX["total_flops"]]))
    assert f"{share:.0%} of the probe batches" in found.reason


def test_a_step_at_the_peak_is_possible_and_one_at_half_of_it_leads_by_half() -> None:
    peak = "max(b['weight_load'] + b['kv_read'], b['total_flops'])"
    assert verdict(peak) is None
    none, half, all_of_it = (
        faster_than_peak(compiled(step_program(text)), np.empty(0)) for text in (peak, f"0.5 * {peak}", "0.0 / 0.0")
    )
    np.testing.assert_array_equal(none, 0.0)
    np.testing.assert_allclose(half, 0.5)
    np.testing.assert_array_equal(all_of_it, 1.0)


@pytest.mark.parametrize("bias", [0.0, 0.0499, -0.0499])
def test_a_small_bias_is_none(bias: float) -> None:
    assert check_bias(bias) is None


@pytest.mark.parametrize("bias", [LARGEST_BIAS, -LARGEST_BIAS, 0.3])
def test_a_bias_of_a_twentieth_breaks_the_sixth_and_shows_its_sign(bias: float) -> None:
    found = check_bias(bias)
    assert found is not None
    assert found.code == "INV-M-6"
    assert f"{bias:+.1%}" in found.reason


def test_the_probe_holds_models_and_gpus_that_the_benchmark_has_not() -> None:
    def kinds(column: str, values: np.ndarray) -> set[float]:
        return {round(float(value), 3) for value in values[:, INDEX[column]]}

    steps = probe().steps
    measured = {(e.model.hidden, e.model.layers) for e in builtin("h100-vllm")}
    probed = {(int(r[INDEX["hidden"]]), int(r[INDEX["layers"]])) for r in steps}
    assert len(probed - measured) >= 5
    assert len(kinds("gpu_hbm_gb_per_s", steps)) >= 3
    assert len(kinds("tp", steps)) >= 3
    assert kinds("is_moe", steps) == {0.0, 1.0}


def test_probe_batches_are_possible_ones() -> None:
    batches = probe()
    for steps in (batches.steps, batches.more_decodes, batches.more_context, batches.more_prefill):
        assert steps.shape == (DEPLOYMENTS * BATCHES, len(FEATURES))
        assert np.isfinite(steps).all()
        assert (steps >= 0.0).all()
        assert (steps[:, INDEX["kv_decode_max"]] >= steps[:, INDEX["kv_decode_mean"]] * (1.0 - 1e-12)).all()
    decodes = batches.steps[:, INDEX["decode_reqs"]]
    assert decodes.min() <= 2.0
    assert decodes.max() >= 128.0
    prefills = batches.steps[:, INDEX["prefill_tokens"]]
    assert 0.2 < np.mean(prefills == 0.0) < 0.8
    assert prefills.max() > 100.0


def test_no_feature_of_work_falls_where_the_probe_says_there_is_more_of_it() -> None:
    """Every feature in microseconds is a time at some rate: more work never makes one smaller."""
    batches = probe()
    work = [INDEX[feature.name] for feature in FEATURES if feature.kind == "batch" and feature.unit in ("us", "tokens")]
    means = {INDEX["kv_mean"], INDEX["kv_decode_mean"]}
    for more in (batches.more_decodes, batches.more_context, batches.more_prefill):
        for column in sorted(set(work) - means):
            assert (more[:, column] >= batches.steps[:, column] * (1.0 - 1e-12)).all(), FEATURES[column].name
    assert (batches.more_decodes[:, INDEX["decode_reqs"]] > batches.steps[:, INDEX["decode_reqs"]]).all()
    assert (batches.more_context[:, INDEX["kv_sum"]] > batches.steps[:, INDEX["kv_sum"]]).all()
