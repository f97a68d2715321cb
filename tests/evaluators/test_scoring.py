"""What a score says, against numbers worked out by hand, and when there is none."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from evaluators.benchmark import builtin
from evaluators.evaluation import Evaluation
from evaluators.experiment import Experiment, Latency, Observed
from evaluators.fitting import WEIGHTS
from evaluators.scoring import Row, Score, Unscorable, row_of, score, score_json
from evaluators.simulation import StageOutcome, scene_of
from tests.programs import compiled, shortened, step_program

SLOW = step_program("9000.0")


def row(name: str, stage: int, e2e: float, ttft: float, tpot: float, succeeded: int = 100) -> Row:
    """Return a row whose observation is 1000, 100 and 10 us."""
    observed = Observed(succeeded, succeeded, Latency(1000.0), Latency(100.0, p50_us=90.0), 10.0)
    return Row(
        name, stage, 100, 100, Latency(e2e, 1.0, 2.0, 3.0, 4.0), Latency(ttft, 81.0, 99.0, 3.0, 4.0), tpot, observed
    )


ROWS = (
    row("a", 0, 1100.0, 80.0, 11.0, succeeded=300),
    row("a", 1, 900.0, 120.0, 9.5, succeeded=100),
    row("b", 0, 1300.0, 100.0, 10.0),
    row("c", 0, 1040.0, 150.0, 10.2),
)


@pytest.fixture
def by_hand() -> Score:
    return Score(ROWS)


@pytest.fixture(scope="module")
def experiment() -> Experiment:
    return shortened(builtin("h100-vllm")[0], 30.0)


def outcome(e2e_us: list[int], ttft_us: list[int], requests: int) -> StageOutcome:
    arrays = np.array(e2e_us, dtype=np.int64), np.array(ttft_us, dtype=np.int64)
    return StageOutcome(requests, *arrays, 7.0, 1, 1, 1, 0, 1, 1)


def test_a_row_error_is_predicted_over_observed_less_one_with_its_sign() -> None:
    assert ROWS[0].error("e2e") == pytest.approx(0.10)
    assert ROWS[1].error("e2e") == pytest.approx(-0.10)
    assert ROWS[0].error("ttft") == pytest.approx(-0.20)
    assert ROWS[1].error("tpot") == pytest.approx(-0.05)


def test_a_quantile_error_is_taken_where_the_source_has_the_figure() -> None:
    assert ROWS[0].quantile_error("ttft", "p50_us") == pytest.approx(0.1)
    assert ROWS[0].quantile_error("ttft", "p90_us") is None
    assert ROWS[0].quantile_error("e2e", "p50_us") is None


def test_summaries_are_means_and_medians_of_absolute_errors_over_stage_rows(by_hand: Score) -> None:
    assert by_hand.mean("e2e") == pytest.approx((0.10 + 0.10 + 0.30 + 0.04) / 4)
    assert by_hand.median("e2e") == pytest.approx(0.10)
    assert by_hand.mean("ttft") == pytest.approx((0.2 + 0.2 + 0.0 + 0.5) / 4)
    assert by_hand.mean("tpot") == pytest.approx((0.1 + 0.05 + 0.0 + 0.02) / 4)
    assert by_hand.bias == pytest.approx((0.10 - 0.10 + 0.30 + 0.04) / 4)


def test_the_worst_figures_are_of_the_largest_end_to_end_errors(by_hand: Score) -> None:
    assert (by_hand.worst.experiment, by_hand.worst.stage) == ("b", 0)
    assert by_hand.worst3 == pytest.approx((0.3 + 0.1 + 0.1) / 3)
    assert Score(ROWS[:1]).worst3 == pytest.approx(0.1)


def test_the_objective_is_the_weighted_mean_of_the_three_metrics(by_hand: Score) -> None:
    total = sum(WEIGHTS[metric] * by_hand.mean(metric) for metric in ("e2e", "ttft", "tpot"))
    assert by_hand.error == pytest.approx(total / sum(WEIGHTS.values()))


def test_an_experiment_is_judged_by_its_request_weighted_mean_over_stages(by_hand: Score) -> None:
    """300 requests at 1100 and 100 at 900 average 1050 where 1000 was observed."""
    errors = by_hand.per_experiment("e2e")
    assert list(errors) == ["a", "b", "c"]
    assert errors["a"] == pytest.approx(0.05)
    assert errors["b"] == pytest.approx(0.30)
    assert by_hand.per_experiment("tpot")["a"] == pytest.approx((300 * 11.0 + 100 * 9.5) / 4000.0 - 1.0)


def test_a_simulated_row_holds_mean_and_quantiles_of_the_requests_that_succeeded() -> None:
    observed = ROWS[0].observed
    made = row_of("x", 3, outcome(list(range(0, 1010, 10)), list(range(101)), requests=102), observed)
    assert isinstance(made, Row)
    assert (made.requests, made.succeeded, made.stage, made.tpot_us) == (102, 101, 3, 7.0)
    assert made.e2e == Latency(500.0, 100.0, 500.0, 900.0, 990.0)
    assert made.ttft == Latency(50.0, 10.0, 50.0, 90.0, 99.0)


def test_a_stage_without_a_single_success_has_no_score() -> None:
    made = row_of("x", 0, outcome([], [], requests=120), ROWS[0].observed)
    assert made == Unscorable("x stage 0: none of 120 requests finished in time")


def test_a_stage_that_loses_more_than_a_served_load_may_lose_has_no_score() -> None:
    """Else a program that times out what is slow would be judged by what is quick."""
    made = row_of("x", 1, outcome([900] * 98, [100] * 98, requests=100), ROWS[0].observed)
    assert made == Unscorable("x stage 1: 98 of 100 requests finished in time")
    assert isinstance(row_of("x", 1, outcome([900] * 99, [100] * 99, requests=100), ROWS[0].observed), Row)


def test_requests_that_all_time_out_leave_no_score(experiment: Experiment) -> None:
    hasty = replace(experiment, workload=replace(experiment.workload, timeout_s=0.05))
    result = score(compiled(SLOW), np.empty(0), [scene_of(hasty)])
    assert isinstance(result, Unscorable)
    assert "finished in time" in result.reason
    assert experiment.name in result.reason


@pytest.mark.parametrize("expression", ["6.1e7", "1.0 / 0.0", "0.0 / 0.0", "1e300"])
def test_a_step_of_more_than_a_minute_leaves_no_score(expression: str, experiment: Experiment) -> None:
    result = score(compiled(step_program(expression)), np.empty(0), [scene_of(experiment)])
    assert isinstance(result, Unscorable)
    assert "over a minute" in result.reason


def test_a_dataset_without_an_observed_stage_leaves_no_score(experiment: Experiment) -> None:
    stages = tuple(replace(stage, observed=None) for stage in experiment.workload.stages)
    unseen = replace(experiment, workload=replace(experiment.workload, stages=stages))
    assert score(compiled(SLOW), np.empty(0), [scene_of(unseen)]) == Unscorable("the dataset has no observed stage")


def test_stages_that_nobody_observed_are_simulated_but_not_scored(experiment: Experiment) -> None:
    """The second stage scores as it does after an observed first one: the first still warms the cache."""
    first, *others = experiment.workload.stages
    half = replace(experiment.workload, stages=(replace(first, observed=None), *others))
    whole = score(compiled(SLOW), np.empty(0), [scene_of(experiment)])
    part = score(compiled(SLOW), np.empty(0), [scene_of(replace(experiment, workload=half))])
    assert isinstance(whole, Score)
    assert isinstance(part, Score)
    assert part.rows == whole.rows[1:]


def numbers(value: object) -> list[float]:
    """Return every number in a JSON value."""
    if isinstance(value, dict):
        return [number for entry in value.values() for number in numbers(entry)]
    if isinstance(value, list):
        return [number for entry in value for number in numbers(entry)]
    return [value] if isinstance(value, int | float) else []


def test_a_score_as_json_is_finite_and_keeps_its_keys(fitted: dict[str, Evaluation]) -> None:
    for verdict in fitted.values():
        written = json.loads(json.dumps(score_json(verdict.score), allow_nan=False))
        assert list(written) == ["error", "median", "worst3", "bias", "rows"]
        assert set(written["error"]) == set(written["median"]) == {"e2e", "ttft", "tpot"}
        assert {frozenset(entry) for entry in written["rows"]} == {
            frozenset({"name", "stage", "requests", "succeeded", "e2e", "ttft", "tpot", "predicted", "observed"})
        }
        assert len(written["rows"]) == 20
        assert all(math.isfinite(number) for number in numbers(written))
        assert written["error"]["e2e"] == verdict.score.mean("e2e")
        assert written["rows"][3]["e2e"] == verdict.score.rows[3].error("e2e")
