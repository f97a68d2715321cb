"""The cascade: which experiments count, what fails where, and that a score can be had again from the text alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluators.benchmark import builtin
from evaluators.datasets import load_dataset
from evaluators.evaluation import (
    SIGNIFICANT_DIGITS,
    Benchmark,
    Evaluation,
    Failure,
    accuracy_set,
    behaviour,
    evaluate_as_is,
    fit_and_score,
    prepare,
)
from evaluators.experiment import DataError, Experiment
from evaluators.scoring import Score
from tests.conftest import FIT_SEED
from tests.programs import program, shortened, step_program
from translate.ir import Program, with_constants
from translate.source import to_source

SENSIBLE = "a * b['gemm_time'] + 0.963 * b['kv_read_time'] + 12.65 * b['attention_flops'] + 26.0 * b['layers']"


@pytest.fixture(scope="module")
def experiments() -> tuple[Experiment, ...]:
    return builtin("h100-vllm")


@pytest.fixture(scope="module")
def small(experiments: tuple[Experiment, ...]) -> Benchmark:
    return prepare([shortened(experiment, 20.0) for experiment in accuracy_set(experiments)[:4]])


def loaded(source: str) -> tuple[Experiment, ...]:
    found = load_dataset(source)
    assert not isinstance(found, DataError), str(found)
    return found


def test_the_accuracy_set_is_what_was_measured_within_capacity(experiments: tuple[Experiment, ...]) -> None:
    chosen = accuracy_set(experiments)
    assert len(experiments) == 16
    assert len(chosen) == 12
    assert sum(len(experiment.workload.stages) for experiment in chosen) == 20
    assert {e.name for e in experiments} - {e.name for e in chosen} == {e.name for e in experiments if e.overloaded}


def test_overloaded_thrashing_and_unobserved_experiments_do_not_count(experiments: tuple[Experiment, ...]) -> None:
    good = accuracy_set(experiments)[0]
    stages = tuple(replace(stage, observed=None) for stage in good.workload.stages)
    bad = (
        replace(good, overloaded=True),
        replace(good, thrashing=True),
        replace(good, workload=replace(good.workload, stages=stages)),
    )
    assert accuracy_set((*bad, good)) == (good,)
    for experiment in bad:
        with pytest.raises(ValueError, match="no observed experiment within capacity"):
            prepare([experiment])


def test_mean_field_rows_and_scored_rows_are_the_same_stages_in_the_same_order(
    builtin_benchmark: Benchmark, fitted: dict[str, Evaluation]
) -> None:
    for verdict in fitted.values():
        assert tuple((row.experiment, row.stage) for row in verdict.score.rows) == builtin_benchmark.field.labels


def test_the_raw_folder_and_the_built_in_table_give_a_seed_the_same_score(
    data_folder: Path, fitted: dict[str, Evaluation]
) -> None:
    raw = prepare(loaded(str(data_folder / "vllm-h100")))
    verdict = fitted["roofline"]
    assert evaluate_as_is(verdict.program, raw) == verdict.score


def test_a_stage_table_of_other_models_is_scored_without_what_lies_beyond_capacity(
    data_folder: Path, fitted: dict[str, Evaluation]
) -> None:
    """A formula fitted on the four built-in models is within a fifth on the table's; no row is off by more than two."""
    table = loaded(str(data_folder / "vllm-h100-mixed" / "stages.csv"))
    left_out = {experiment.name for experiment in table if experiment.thrashing or experiment.overloaded}
    assert left_out
    result = evaluate_as_is(fitted["host_and_device"].program, prepare(table))
    assert isinstance(result, Score)
    assert {row.experiment for row in result.rows} == {experiment.name for experiment in table} - left_out
    assert result.mean("e2e") < 0.2
    assert result.mean("tpot") < 0.2


def test_the_same_arguments_give_the_same_evaluation(
    builtin_benchmark: Benchmark, seed_programs: dict[str, Program], fitted: dict[str, Evaluation]
) -> None:
    again = fit_and_score(seed_programs["soft_maximum"], builtin_benchmark, FIT_SEED)
    assert again == fitted["soft_maximum"]


def test_the_printed_program_gives_its_score_again_exactly(
    builtin_benchmark: Benchmark, fitted: dict[str, Evaluation]
) -> None:
    for name, verdict in fitted.items():
        again = evaluate_as_is(program(to_source(verdict.program)), builtin_benchmark)
        assert again == verdict.score, name


def test_fitted_constants_have_at_most_six_digits(fitted: dict[str, Evaluation]) -> None:
    for verdict in fitted.values():
        for name, value in verdict.program.constants:
            assert float(f"{value:.{SIGNIFICANT_DIGITS}g}") == value, name


def test_other_arrivals_change_a_score_by_less_than_programs_differ(
    experiments: tuple[Experiment, ...], fitted: dict[str, Evaluation]
) -> None:
    """Two draws of the Poisson arrivals move the E2E error by under half a point."""
    verdict = fitted["roofline"]
    other = evaluate_as_is(verdict.program, prepare(experiments, seed=1))
    assert isinstance(other, Score)
    assert other != verdict.score
    assert abs(other.mean("e2e") - verdict.score.mean("e2e")) < 0.005


@pytest.mark.parametrize(
    ("text", "stage", "code"),
    [
        (step_program("a / 0.0", {"a": 1.0}), "fit", "EV001"),
        (step_program("5e7 + 0.0 * b['layers']"), "fit", "EV001"),
        (step_program("a * b['gemm_time'] if b['decode_reqs'] < 14.5 else 1e18", {"a": 1.3}), "fit", "EV001"),
        (step_program("a * b['gemm_time'] + c / b['prefill_reqs'] * 0.0 ", {"a": 1.3, "c": 1.0}), "fit", "EV001"),
        (step_program("a + 0.0 * b['layers']", {"a": 12000.0}), "invariants", "INV-P-1"),
        (step_program(f"{SENSIBLE} + 1e6 / (2000.0 + b['kv_max'])", {"a": 1.0}), "invariants", "INV-M-5"),
    ],
)
def test_a_failure_names_its_stage_and_a_stable_code(
    text: str, stage: str, code: str, builtin_benchmark: Benchmark
) -> None:
    verdict = fit_and_score(program(text), builtin_benchmark, FIT_SEED)
    assert isinstance(verdict, Failure), verdict.score.error
    assert (verdict.stage, verdict.code) == (stage, code)
    assert verdict.reason


def test_a_step_that_explodes_only_in_a_burst_fails_in_the_simulation(builtin_benchmark: Benchmark) -> None:
    """The mean field never sees a batch of 126, so the fit cannot know."""
    text = step_program(
        "a * b['gemm_time'] + c * b['layers'] if b['decode_reqs'] < 126.0 else 1e12", {"a": 1.0, "c": 66.0}
    )
    verdict = fit_and_score(program(text), builtin_benchmark, FIT_SEED)
    assert isinstance(verdict, Failure)
    assert (verdict.stage, verdict.code) == ("simulate", "EV003")
    assert "over a minute" in verdict.reason


def test_scoring_as_it_stands_reports_what_the_simulation_could_not_finish(small: Benchmark) -> None:
    verdict = evaluate_as_is(program(step_program("1e12")), small)
    assert isinstance(verdict, Failure)
    assert (verdict.stage, verdict.code) == ("simulate", "EV003")


def test_behaviour_depends_on_the_structure_and_not_on_start_values(seed_programs: dict[str, Program]) -> None:
    known = {behaviour(seed_program) for seed_program in seed_programs.values()}
    assert len(known) == len(seed_programs)
    for seed_program in seed_programs.values():
        doubled = with_constants(seed_program, [2.0 * value for value in seed_program.constant_values])
        assert behaviour(doubled) in known


def test_behaviour_sees_through_spelling() -> None:
    one = program(step_program("a * (b['layers'] + b['tp']) + c", {"a": 1.0, "c": 2.0}))
    same = program(step_program("second + (b['tp'] + b['layers']) * first", {"second": 7.0, "first": 2.0}))
    other = program(step_program("a * (b['layers'] - b['tp']) + c", {"a": 1.0, "c": 2.0}))
    assert behaviour(one) == behaviour(same)
    assert behaviour(one) != behaviour(other)


def test_what_an_evaluation_costs_to_generalise_enters_what_the_search_minimises(fitted: dict[str, Evaluation]) -> None:
    for verdict in fitted.values():
        assert verdict.generalisation.model is not None
        assert verdict.generalisation.workload is not None
        assert verdict.loss > verdict.score.error
        assert np.isfinite(verdict.loss)
