"""The load: arrivals are a Poisson process conditioned on its count, prompts come in a cycle."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from evaluators.experiment import Engine, Experiment, Stage, Workload
from evaluators.load import arrivals_us, load_of, prompt_lengths
from evaluators.random import stream
from tests.evaluators.small_worlds import DENSE, GPU

REPEATABLE = settings(derandomize=True, max_examples=60, deadline=None, database=None)
WORKLOAD = Workload("test", 100, 590.0, 9.0, 100, (Stage(5.0, 60.0), Stage(10.0, 60.0)))
EXPERIMENT = Experiment("test", DENSE, GPU, 1, Engine(), WORKLOAD)


@REPEATABLE
@given(st.integers(1, 500), st.floats(0.01, 2000.0), st.sampled_from(["poisson", "constant"]), st.integers(0, 2**31))
def test_a_stage_has_exactly_rate_times_duration_arrivals_and_ends_with_the_last(
    count: int, duration_s: float, arrivals: str, seed: int
) -> None:
    times = arrivals_us(Stage(count / duration_s, duration_s), arrivals, stream(seed))
    assert len(times) == count
    assert times[-1] == round(duration_s * 1e6)
    assert times[0] >= 0
    assert np.all(np.diff(times) >= 0)


def test_poisson_gaps_are_exponential() -> None:
    times = arrivals_us(Stage(20.0, 600.0), "poisson", stream(3, "arrivals", 0))
    gaps_s = np.diff(times, prepend=0) / 1e6
    assert kstest(gaps_s, "expon", args=(0.0, 1.0 / 20.0)).pvalue > 0.01
    assert kstest(gaps_s, "uniform", args=(0.0, 1.0 / 10.0)).pvalue < 1e-6


def test_arrivals_given_their_count_are_uniform_over_the_stage() -> None:
    """A Poisson process conditioned on its count is so many independent uniform points."""
    times = arrivals_us(Stage(20.0, 600.0), "poisson", stream(4, "arrivals", 0))
    assert kstest(times[:-1] / times[-1], "uniform").pvalue > 0.01


def test_neighbouring_gaps_are_independent() -> None:
    gaps = np.diff(arrivals_us(Stage(20.0, 600.0), "poisson", stream(5)))
    assert abs(np.corrcoef(gaps[:-1], gaps[1:])[0, 1]) < 4.0 / len(gaps) ** 0.5


def test_constant_arrivals_are_evenly_spaced() -> None:
    assert arrivals_us(Stage(4.0, 2.0), "constant", stream(1)).tolist() == [250_000 * n for n in range(1, 9)]


@REPEATABLE
@given(st.floats(1.0, 2000.0), st.floats(0.0, 300.0), st.integers(1, 300), st.integers(0, 2**31))
def test_prompt_lengths_are_positive_and_do_not_depend_on_the_seed_but_for_their_order(
    mean: float, spread: float, prompts: int, seed: int
) -> None:
    workload = replace(WORKLOAD, prompt_tokens=mean, prompt_tokens_std=spread, prompts=prompts)
    lengths = prompt_lengths(workload, stream(seed))
    assert len(lengths) == prompts
    assert lengths.min() >= 1
    assert sorted(lengths) == sorted(prompt_lengths(workload, stream(seed + 1)))


def test_prompt_lengths_have_the_mean_and_the_spread_that_the_workload_states() -> None:
    lengths = prompt_lengths(WORKLOAD, stream(1))
    assert lengths.mean() == pytest.approx(590.0, abs=0.5)
    assert lengths.std() == pytest.approx(9.0, rel=0.05)


def test_every_stage_sends_the_fixed_prompts_in_a_cycle_from_the_first() -> None:
    for stage in load_of(EXPERIMENT, 1).stages:
        assert stage.prompt.tolist() == [n % 100 for n in range(len(stage.arrival_us))]


def test_groups_share_the_prompts_evenly() -> None:
    assert np.bincount(load_of(EXPERIMENT, 1).prompt_group).tolist() == [10] * 10
    uneven = replace(EXPERIMENT, workload=replace(WORKLOAD, prompts=7, groups=3))
    assert load_of(uneven, 1).prompt_group.tolist() == [0, 0, 0, 1, 1, 1, 2]


def test_the_same_seed_gives_the_same_load_and_another_one_another() -> None:
    first, again, other = load_of(EXPERIMENT, 1), load_of(EXPERIMENT, 1), load_of(EXPERIMENT, 2)
    for stage in range(2):
        np.testing.assert_array_equal(first.stages[stage].arrival_us, again.stages[stage].arrival_us)
        assert not np.array_equal(first.stages[stage].arrival_us, other.stages[stage].arrival_us)
    assert not np.array_equal(np.diff(first.stages[0].arrival_us), np.diff(first.stages[1].arrival_us[:300]))


def test_a_stage_keeps_its_arrivals_when_another_is_added() -> None:
    longer = replace(EXPERIMENT, workload=replace(WORKLOAD, stages=(*WORKLOAD.stages, Stage(1.0, 10.0))))
    for before, after in zip(load_of(EXPERIMENT, 1).stages, load_of(longer, 1).stages, strict=False):
        np.testing.assert_array_equal(before.arrival_us, after.arrival_us)
