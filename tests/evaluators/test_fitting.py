"""Fitting finds constants that are known, keeps signs, repeats itself, and gains from the simulator's steering."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace

import numpy as np
import pytest

from evaluators.benchmark import builtin
from evaluators.compiled import compile_program, timing_of
from evaluators.evaluation import (
    Benchmark,
    Evaluation,
    Failure,
    accuracy_set,
    evaluate_as_is,
    fit_and_score,
    prepare,
)
from evaluators.experiment import Experiment, Latency, Observed
from evaluators.fitting import (
    LARGEST,
    WEIGHTS,
    Fit,
    fit,
    has_fitted_threshold,
    mean_field_prediction,
    refit,
    relative_errors,
    weighted_error,
)
from evaluators.meanfield import METRICS
from evaluators.random import stream
from evaluators.scoring import Score
from evaluators.simulation import scene_of, simulate
from tests.conftest import FIT_SEED
from tests.programs import compiled, program, step_program
from translate.canonical import digest
from translate.ir import Program, with_constants

FRONT = (
    "\ndef predict_queueing_time(r):\n    return arrival\n\ndef predict_output_token_time():\n    return front_end\n"
)
KNOWN = {"per_gemm": 1.1, "per_kv": 1.3, "per_layer": 45.0, "arrival": 7000.0, "front_end": 40.0}
TRUTH = step_program("per_gemm * b['gemm_time'] + per_kv * b['kv_read_time'] + per_layer * b['layers']", KNOWN, FRONT)


def measured(experiment: Experiment, truth: Program) -> Experiment:
    """Return the experiment with its observations replaced by what the truth gives in the full simulator."""
    outcomes = simulate(scene_of(experiment), timing_of(compile_program(truth), np.array(truth.constant_values)))
    assert isinstance(outcomes, tuple)
    stages = tuple(
        replace(
            stage,
            observed=Observed(
                outcome.requests,
                len(outcome.e2e_us),
                Latency(float(outcome.e2e_us.mean())),
                Latency(float(outcome.ttft_us.mean())),
                outcome.tpot_us,
            ),
        )
        for stage, outcome in zip(experiment.workload.stages, outcomes, strict=True)
    )
    return replace(experiment, workload=replace(experiment.workload, stages=stages))


@pytest.fixture(scope="module")
def known_world() -> Benchmark:
    truth = program(TRUTH)
    return prepare([measured(experiment, truth) for experiment in accuracy_set(builtin("h100-vllm"))])


def test_the_truth_scores_zero_on_what_it_made_itself(known_world: Benchmark) -> None:
    score = evaluate_as_is(program(TRUTH), known_world)
    assert isinstance(score, Score)
    assert score.error == 0.0
    assert score.bias == 0.0


def test_constants_are_recovered_from_observations_that_the_simulator_made_with_them(known_world: Benchmark) -> None:
    factors = dict(zip(KNOWN, (2.0, 0.4, 0.5, 1.7, 0.3), strict=True))
    start = with_constants(program(TRUTH), [KNOWN[name] * factors[name] for name in KNOWN])
    verdict = fit_and_score(start, known_world, seed=3)
    assert isinstance(verdict, Evaluation)
    assert verdict.score.error < 0.005
    found = dict(verdict.program.constants)
    for name, tolerance in (("per_gemm", 0.03), ("per_kv", 0.1), ("per_layer", 0.1), ("arrival", 0.1)):
        assert found[name] == pytest.approx(KNOWN[name], rel=tolerance), name


def test_every_constant_keeps_the_sign_of_its_start(builtin_benchmark: Benchmark) -> None:
    """The data wants the second term positive and the third negative; both were declared the other way round."""
    text = step_program("a * b['gemm_time'] + n * b['layers'] + p * b['weight_load']", {"a": 1.5, "n": -5.0, "p": 0.1})
    start = np.array([1.5, -5.0, 0.1])
    found = fit(compiled(text), builtin_benchmark.field, start, stream(1, "t"))
    assert (np.sign(found.constants) * np.sign(start) >= 0.0).all()
    assert found.constants[1] == pytest.approx(0.0, abs=1.0)


def test_the_same_arguments_give_the_same_constants_whatever_else_was_drawn(builtin_benchmark: Benchmark) -> None:
    function = compiled(TRUTH)
    start = np.array(list(KNOWN.values()))
    fits = []
    for number in range(2):
        np.random.seed(number)
        fits.append(fit(function, builtin_benchmark.field, start, stream(9, "fit")))
    np.testing.assert_array_equal(fits[0].constants, fits[1].constants)
    assert fits[0].error == fits[1].error


def test_a_fit_is_never_worse_than_its_start_and_states_its_own_error(builtin_benchmark: Benchmark) -> None:
    field, function = builtin_benchmark.field, compiled(TRUTH)
    for number in range(3):
        start = np.array(list(KNOWN.values())) * np.exp(stream(number, "start").normal(0.0, 1.0, len(KNOWN)))
        found = fit(function, field, start, stream(number, "fit"))
        before, after = (
            weighted_error(relative_errors(mean_field_prediction(function, field, constants), field.observed))
            for constants in (start, found.constants)
        )
        assert found.error == pytest.approx(after)
        assert after <= before


def test_the_ratio_of_the_simulator_over_the_mean_field_multiplies_predictions(builtin_benchmark: Benchmark) -> None:
    """With the ratio that makes a program's prediction perfect, its constants are the optimum and error is 0."""
    field, function, start = builtin_benchmark.field, compiled(TRUTH), np.array(list(KNOWN.values()))
    ratio = field.observed / mean_field_prediction(function, field, start)
    np.testing.assert_allclose(refit(function, field, start, ratio), start, rtol=1e-6)


def test_a_program_without_constants_is_scored_as_it_stands(builtin_benchmark: Benchmark) -> None:
    text = step_program(
        "1.036 * b['gemm_time'] + 0.963 * b['kv_read_time'] + 12.65 * b['attention_flops'] + 28.15 * b['layers']"
    )
    found = fit(compiled(text), builtin_benchmark.field, np.empty(0), stream(1, "t"))
    assert isinstance(found, Fit)
    assert found.constants.shape == (0,)
    verdict = fit_and_score(program(text), builtin_benchmark, seed=1)
    assert isinstance(verdict, Evaluation)
    assert verdict.score == evaluate_as_is(program(text), builtin_benchmark)


@pytest.mark.parametrize(
    "expression", ["a / 0.0", "0.0 * a / 0.0", "a * math.log(0.0 * b['layers'])", "a * math.sqrt(-1.0)"]
)
def test_a_program_that_is_never_finite_fails_as_a_value_before_it_is_simulated(
    expression: str, builtin_benchmark: Benchmark
) -> None:
    verdict = fit_and_score(program(step_program(expression, {"a": 1.0})), builtin_benchmark, seed=1)
    assert isinstance(verdict, Failure)
    assert (verdict.stage, verdict.code) == ("fit", "EV001")


@pytest.mark.parametrize("start", [0.0, 1e-300, 1e300])
def test_absurd_start_values_are_no_exception(start: float, builtin_benchmark: Benchmark) -> None:
    text = step_program("a * b['gemm_time'] + c * b['layers']", {"a": start, "c": start})
    with np.errstate(all="ignore"):
        verdict = fit_and_score(program(text), builtin_benchmark, seed=1)
    assert isinstance(verdict, Evaluation | Failure)


def test_relative_errors_are_bounded_and_finite_whatever_was_predicted() -> None:
    observed = np.array([100.0, 100.0, 100.0, 100.0, 100.0])
    predicted = np.array([110.0, np.nan, np.inf, -np.inf, 1e300])
    np.testing.assert_allclose(relative_errors(predicted, observed), [0.1, LARGEST, LARGEST, LARGEST, LARGEST])


def test_the_weighted_error_is_the_weighted_mean_of_absolute_errors() -> None:
    errors = np.array([[0.1, -0.3], [0.2, 0.2], [-0.4, 0.0]])
    by_metric = {"e2e": 0.2, "ttft": 0.2, "tpot": 0.2}
    assert set(by_metric) == set(METRICS) == set(WEIGHTS)
    assert weighted_error(errors) == pytest.approx(0.2)
    errors[1] = 1.0
    expected = (WEIGHTS["e2e"] * 0.2 + WEIGHTS["ttft"] * 1.0 + WEIGHTS["tpot"] * 0.2) / sum(WEIGHTS.values())
    assert weighted_error(errors) == pytest.approx(expected)


def test_steering_by_the_simulator_improves_on_the_mean_field_alone(
    builtin_benchmark: Benchmark, seed_programs: dict[str, Program], fitted: dict[str, Evaluation]
) -> None:
    """No seed gets worse than at the constants that the same draws give without the simulator; most get better."""
    alone, steered = [], []
    for name, seed_program in seed_programs.items():
        function = compile_program(seed_program)
        rng = stream(FIT_SEED, "fit", int(digest(seed_program)[:8], 16))
        found = fit(function, builtin_benchmark.field, np.array(seed_program.constant_values), rng)
        score = evaluate_as_is(with_constants(seed_program, [float(c) for c in found.constants]), builtin_benchmark)
        assert isinstance(score, Score)
        alone.append(score.error)
        steered.append(fitted[name].score.error)
    assert (np.array(steered) <= np.array(alone) * 1.0001).all()
    assert np.median(np.array(steered) / np.array(alone)) < 0.97


def test_a_threshold_that_least_squares_cannot_see_is_still_moved(builtin_benchmark: Benchmark) -> None:
    """One extra cost applies from some number of GPUs on; declared at 9, where it applies nowhere in the data."""
    body = "b['total_bytes'] + n * b['layers'] + (w * b['tp_hops'] if b['tp'] > {} else 0.0)"
    fixed = step_program(body.format("9.0"), {"n": 100.0, "w": 20.0})
    fitted = step_program(body.format("t"), {"n": 100.0, "w": 20.0, "t": 9.0})
    errors = {
        text: fit(compiled(text), builtin_benchmark.field, np.array(start), stream(1, "t")).error
        for text, start in ((fixed, [100.0, 20.0]), (fitted, [100.0, 20.0, 9.0]))
    }
    assert has_fitted_threshold(compiled(fitted).program)
    assert not has_fitted_threshold(compiled(fixed).program)
    assert errors[fitted] < 0.9 * errors[fixed]


@pytest.mark.parametrize("value", [1e308, -1e308, 5e-324, -0.0])
def test_constants_at_the_ends_of_float64_are_fitted_or_rejected_without_a_warning(
    builtin_benchmark: Benchmark, value: float
) -> None:
    text = step_program("per_gemm * b['gemm_time'] if b['kv_max'] < edge else launch", {
        "per_gemm": value, "edge": value, "launch": value,
    })  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = fit(compiled(text), builtin_benchmark.field, np.full(3, value), stream(FIT_SEED))
    assert np.isfinite(found.constants).all()
    assert math.isfinite(found.error)
