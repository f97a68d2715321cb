"""The frontier against all pairs compared, and the selection's rules."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.elites import Elite
from archive.frontier import frontier, select
from tests.archive.samples import elite

levels = st.integers(0, 3).map(float)
values = levels | st.floats(-1e308, 1e308, allow_nan=False) | st.sampled_from([0.0, -0.0, 1e308, 9.1e307, 5e-324])
vectors = st.lists(st.tuples(values, values, levels), max_size=40)


def dominates(one: Elite, other: Elite) -> bool:
    pairs = list(zip(one.objectives, other.objectives, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)


def undominated(elites: list[Elite]) -> set[tuple[float, ...]]:
    """Compare all pairs."""
    return {e.objectives for e in elites if not any(dominates(other, e) for other in elites)}


def elites_of(rows: list[tuple[float, float, float]]) -> list[Elite]:
    return [elite(number, objectives=row) for number, row in enumerate(rows)]


@settings(derandomize=True, max_examples=300, deadline=None)
@given(vectors)
def test_the_frontier_is_what_no_other_elite_dominates(rows: list[tuple[float, float, float]]) -> None:
    elites = elites_of(rows)
    front = frontier(elites)
    assert {e.objectives for e in front} == undominated(elites)
    assert len({e.objectives for e in front}) == len(front)
    assert [(e.objectives[2], e.objectives[0]) for e in front] == sorted(
        (e.objectives[2], e.objectives[0]) for e in front
    )


@settings(derandomize=True, max_examples=50, deadline=None)
@given(vectors, vectors)
def test_a_frontier_can_be_kept_round_by_round(
    early: list[tuple[float, float, float]], late: list[tuple[float, float, float]]
) -> None:
    elites = elites_of(early + late)
    assert frontier((*frontier(elites[: len(early)]), *elites[len(early) :])) == frontier(elites)


def test_the_frontier_agrees_with_all_pairs_on_many_random_programs() -> None:
    rng = np.random.default_rng(2)
    elites = elites_of([(float(a), float(b), float(rng.integers(1, 31))) for a, b in rng.random((1500, 2))])
    assert {e.objectives for e in frontier(elites)} == undominated(elites)


def test_of_clones_the_first_proposal_stands_for_all() -> None:
    clones = [elite(number, objectives=(0.1, 0.2, 3.0)) for number in (4, 2, 9)]
    assert [e.number for e in frontier(clones)] == [2]
    assert [e.number for e in select(clones, 3, np.random.default_rng(0))] == [2]


@settings(derandomize=True, max_examples=100, deadline=None)
@given(vectors, st.integers(0, 45), st.randoms(use_true_random=False))
def test_select_takes_whole_fronts_first_whatever_the_order_of_its_input(
    rows: list[tuple[float, float, float]], k: int, shuffler: random.Random
) -> None:
    elites = elites_of(rows)
    chosen = select(elites, k, np.random.default_rng(1))
    distinct = {e.objectives for e in elites}
    assert len(chosen) == len({e.objectives for e in chosen}) == min(k, len(distinct))
    left_out = [e for e in elites if e.objectives not in {c.objectives for c in chosen}]
    assert not any(dominates(e, c) for e in left_out for c in chosen)
    shuffled = list(elites)
    shuffler.shuffle(shuffled)
    assert select(shuffled, k, np.random.default_rng(1)) == chosen


def test_select_keeps_the_ends_of_a_front_and_drops_its_most_crowded_programs() -> None:
    line = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]
    front = [elite(i, objectives=(x, 5.0 - x, 1.0)) for i, x in enumerate(line)]
    for seed in range(5):
        assert {e.number for e in select(front, 2, np.random.default_rng(seed))} == {0, 5}


def test_select_breaks_ties_by_its_generator_alone() -> None:
    front = [elite(i, objectives=(float(i), 20.0 - i, 1.0)) for i in range(20)]
    picks = [select(front, 6, np.random.default_rng(seed)) for seed in range(8)]
    assert picks == [select(front, 6, np.random.default_rng(seed)) for seed in range(8)]
    assert len(set(picks)) > 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_score_that_is_not_finite_is_refused(bad: float) -> None:
    elites = [elite(0), elite(1, objectives=(bad, 0.1, 2.0))]
    with pytest.raises(ValueError, match="finite"):
        frontier(elites)
    with pytest.raises(ValueError, match="finite"):
        select(elites, 1, np.random.default_rng(0))


def test_nothing_in_gives_nothing_out_and_the_global_random_is_untouched() -> None:
    random.seed(3)
    before = random.getstate()
    assert frontier([]) == ()
    assert select([], 3, np.random.default_rng(0)) == ()
    select([elite(i, objectives=(float(i), -float(i), 1.0)) for i in range(9)], 4, np.random.default_rng(0))
    assert random.getstate() == before
    with pytest.raises(ValueError, match="k=-1"):
        select([elite(0)], -1, np.random.default_rng(0))
