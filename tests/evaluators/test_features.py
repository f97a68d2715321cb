"""Every feature against a formula of its own, from the list of the requests in the batch."""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evaluators.experiment import Engine, Experiment, Model, Stage, Workload
from evaluators.features import (
    BATCH_FIELDS,
    FEATURE_COUNT,
    FEATURE_NAMES,
    FEATURES,
    INDEX,
    METADATA_START,
    REQUEST_NAMES,
    VOCABULARY,
    experts_touched,
    features_of,
    fill_context,
    fill_features,
    fill_metadata,
    gemm_time_us,
    padded,
    request_features_of,
)
from evaluators.physics import physics_of
from evaluators.reference_features import Work, expected_experts, features_of_batch
from tests.evaluators.small_worlds import DENSE, GPU, MIXTURE

F64 = NDArray[np.float64]
LOAD = Workload("none", 10, 10.0, 0.0, 0, (Stage(1.0, 1.0),))
REPEATABLE = settings(derandomize=True, max_examples=150, deadline=None, database=None)


def experiment(model: Model, tp: int) -> Experiment:
    return Experiment("test", model, GPU, tp, Engine(), LOAD)


works = st.one_of(
    st.builds(Work, tokens=st.integers(1, 2048), cached=st.integers(0, 4096), prefill=st.just(True)),
    st.builds(Work, tokens=st.just(1), cached=st.integers(1, 4096), prefill=st.just(False)),
)
batches = st.lists(works, min_size=1, max_size=40)
experiments = st.builds(experiment, st.sampled_from([DENSE, MIXTURE]), st.sampled_from([1, 2, 4]))


def row_of(batch: list[Work]) -> F64:
    """Return the `BATCH_FIELDS` of a batch."""
    prefills, decodes = [w for w in batch if w.prefill], [w.cached for w in batch if not w.prefill]
    cached = [w.cached for w in batch]
    values = {
        "prefill_tokens": sum(w.tokens for w in prefills),
        "prefill_reqs": len(prefills),
        "decode_reqs": len(decodes),
        "kv_sum": sum(cached),
        "kv_square_sum": sum(c * c for c in cached),
        "kv_max": max(cached),
        "kv_decode_sum": sum(decodes),
        "kv_decode_max": max(decodes, default=0),
        "prefill_pairs": sum(w.tokens * (w.cached + (w.tokens + 1) / 2) for w in prefills),
    }
    return np.array([values[name] for name in BATCH_FIELDS], dtype=np.float64)


@REPEATABLE
@given(experiments, batches)
def test_every_feature_equals_its_definition_over_the_list_of_requests(of: Experiment, batch: list[Work]) -> None:
    want = features_of_batch(of, batch)
    assert set(want) == set(FEATURE_NAMES)
    got = features_of(physics_of(of), row_of(batch)[:, None])[:, 0]
    for name in FEATURE_NAMES:
        exact = 1e-7 * max(w.cached for w in batch) ** 2 if name == "kv_var" else 0.0
        assert got[INDEX[name]] == pytest.approx(want[name], rel=1e-9, abs=exact), name


@REPEATABLE
@given(experiments, st.lists(st.integers(1, 4000), min_size=1, max_size=40), st.integers(1, 100))
def test_a_later_step_of_the_same_decoding_requests_changes_only_what_fill_context_writes(
    of: Experiment, contexts: list[int], later: int
) -> None:
    physics = physics_of(of)
    now, then = ([Work(1, context + shift, False) for context in contexts] for shift in (0, later))
    tokens = float(len(contexts))
    touched = experts_touched(physics, tokens)
    out = np.zeros(FEATURE_COUNT)
    fill_metadata(physics, out, METADATA_START)
    fill_features(physics, row_of(now), touched, gemm_time_us(physics, tokens, touched), out)
    fill_context(physics, row_of(then), out)
    np.testing.assert_array_equal(out, features_of(physics, row_of(then)[:, None])[:, 0])


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 9, 16, 17, 255, 256, 257, 505, 511, 512, 513, 2048])
def test_padded_is_the_next_size_of_1_2_4_and_multiples_of_8_up_to_512(size: int) -> None:
    graphs = [1, 2, 4, *range(8, 513, 8)]
    assert padded(float(size)) == min((graph for graph in graphs if graph >= size), default=size)


@given(st.floats(0.01, 4096))
@REPEATABLE
def test_padded_never_shrinks_a_step_nor_adds_more_than_seven_tokens(tokens: float) -> None:
    assert tokens <= padded(tokens) < max(tokens + 8.0, 1.001)


@pytest.mark.parametrize("tokens", [1, 2, 7, 64])
def test_experts_touched_is_what_random_routing_touches(tokens: int) -> None:
    """Draw k of E experts per token, many times; Source: Monte Carlo, 4 standard errors."""
    physics = physics_of(experiment(MIXTURE, 1))
    rng = np.random.default_rng(5)
    draws = 4000
    scores = rng.random((draws, tokens, MIXTURE.experts))
    chosen = np.argpartition(scores, MIXTURE.experts_per_token, axis=2)[:, :, : MIXTURE.experts_per_token]
    shares = [len(np.unique(draw)) / MIXTURE.experts for draw in chosen]
    error = 4.0 * float(np.std(shares)) / draws**0.5 + 1.0 / draws
    assert experts_touched(physics, float(tokens)) == pytest.approx(float(np.mean(shares)), abs=error)
    assert expected_experts(MIXTURE, tokens) == pytest.approx(float(np.mean(shares)) * MIXTURE.experts, abs=8 * error)


def test_one_token_touches_its_own_experts_and_a_dense_model_has_none() -> None:
    share = MIXTURE.experts_per_token / MIXTURE.experts
    assert experts_touched(physics_of(experiment(MIXTURE, 1)), 1.0) == pytest.approx(share)
    assert experts_touched(physics_of(experiment(DENSE, 1)), 1.0) == 0.0


def test_jitted_feature_kernels_match_their_python_source() -> None:
    physics = physics_of(experiment(MIXTURE, 2))
    row = row_of([Work(5, 16, True), Work(1, 40, False), Work(1, 90, False)])
    results = []
    for pick in (lambda kernel: kernel, lambda kernel: getattr(kernel, "py_func", kernel)):
        out = np.zeros(FEATURE_COUNT)
        touched = pick(experts_touched)(physics, 7.0)
        pick(fill_metadata)(physics, out, METADATA_START)
        pick(fill_features)(physics, row, touched, pick(gemm_time_us)(physics, 7.0, touched), out)
        pick(fill_context)(physics, row, out)
        results.append(out)
    np.testing.assert_allclose(results[0], results[1], rtol=1e-15)


def test_the_table_names_each_feature_once_with_a_range_that_holds_a_real_step() -> None:
    assert max(Counter(FEATURE_NAMES).values()) == 1
    llama = Model("l", layers=32, hidden=4096, heads=32, kv_heads=32, head_dim=128, vocab=32000, ffn=11008)
    batch = [Work(8, 576, True), *(Work(1, 700 + n, False) for n in range(60))]
    values = features_of(physics_of(experiment(llama, 1)), row_of(batch)[:, None])[:, 0]
    for feature, value in zip(FEATURES, values, strict=True):
        assert feature.low <= value <= feature.high, feature.name


def test_no_feature_names_a_model_a_workload_or_an_experiment() -> None:
    words = {"name", "model", "workload", "experiment", "stage", "rate", "seed"}
    for name in FEATURE_NAMES:
        assert not words & set(name.split("_")) or name == "model_params_b"


def test_the_vocabulary_of_each_function_is_the_table() -> None:
    assert VOCABULARY.features["predict_step_time"] == frozenset(FEATURE_NAMES)
    assert VOCABULARY.features["predict_queueing_time"] == frozenset(REQUEST_NAMES)


def test_request_features_are_the_prompt_length_and_the_metadata_of_the_step() -> None:
    physics = physics_of(experiment(MIXTURE, 2))
    got = request_features_of(physics, np.array([7.0, 900.0]))
    step = features_of(physics, row_of([Work(1, 1, False)])[:, None])[:, 0]
    assert got[0].tolist() == [7.0, 900.0]
    for name, row in zip(REQUEST_NAMES[1:], got[1:], strict=True):
        assert row.tolist() == [step[INDEX[name]]] * 2


def test_features_of_refuses_a_step_without_requests_and_a_missing_row() -> None:
    physics = physics_of(experiment(DENSE, 1))
    with pytest.raises(ValueError, match="without a request"):
        features_of(physics, np.zeros((len(BATCH_FIELDS), 1)))
    with pytest.raises(ValueError, match="want"):
        features_of(physics, np.ones((len(BATCH_FIELDS) - 1, 1)))


def test_only_achieved_features_depend_on_achieved_rates() -> None:
    of = experiment(DENSE, 2)
    achieved = {"gemm_time", "elementwise_time", "kv_read_time", "allreduce_time"}
    start = [f.name for f in fields(GPU)].index("gemm_efficiency")
    slower = replace(GPU, **{f.name: 0.5 * getattr(GPU, f.name) for f in fields(GPU)[start:]})
    row = row_of([Work(600, 0, True), Work(1, 50, False)])[:, None]
    before, after = features_of(physics_of(of), row), features_of(physics_of(replace(of, gpu=slower)), row)
    changed = {name for name in FEATURE_NAMES if before[INDEX[name], 0] != after[INDEX[name], 0]}
    assert changed == achieved
