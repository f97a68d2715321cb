"""Shares of the operators: a distribution with a floor, moved by wins, and a fold over the records."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evolve.bandit import LEAST_SHARE, Bandit

WEIGHTS = {"mutate": 2.0, "crossover": 1.0, "jitter": 1.0}
LESSONS = st.lists(st.tuples(st.sampled_from([*WEIGHTS, "seed"]), st.booleans()), max_size=200)


def taught(lessons: list[tuple[str, bool]], weights: dict[str, float] | None = None) -> Bandit:
    bandit = Bandit(weights or WEIGHTS)
    for arm, won in lessons:
        bandit.learn(arm, won)
    return bandit


def test_before_anything_is_known_the_shares_follow_the_weights() -> None:
    shares = Bandit(WEIGHTS).shares()
    assert list(shares) == list(WEIGHTS)
    assert shares["crossover"] == shares["jitter"]
    assert (shares["mutate"] - LEAST_SHARE) / (shares["crossover"] - LEAST_SHARE) == pytest.approx(2.0)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(LESSONS)
def test_shares_sum_to_one_and_none_falls_below_the_floor(lessons: list[tuple[str, bool]]) -> None:
    shares = taught(lessons).shares()
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-12)
    assert min(shares.values()) >= LEAST_SHARE - 1e-12


def test_the_floor_gives_way_where_there_are_more_arms_than_it_leaves_room_for() -> None:
    many = {str(number): 1.0 + number for number in range(80)}
    shares = Bandit(many).shares()
    assert sum(shares.values()) == pytest.approx(1.0)
    assert min(shares.values()) == pytest.approx(1.0 / 80)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(LESSONS, st.sampled_from(list(WEIGHTS)))
def test_a_win_never_lowers_the_share_of_its_arm_below_that_of_a_loss(
    lessons: list[tuple[str, bool]], arm: str
) -> None:
    won, lost = (taught([*lessons, (arm, result)]).shares()[arm] for result in (True, False))
    assert won > lost


def test_an_arm_that_wins_gains_on_one_of_the_same_weight_that_loses() -> None:
    before = Bandit(WEIGHTS).shares()
    after = taught([("crossover", True), ("jitter", False)] * 20).shares()
    assert after["crossover"] > before["crossover"]
    assert after["jitter"] < before["jitter"]


def test_an_arm_that_never_wins_sinks_towards_the_floor_and_comes_back_when_it_wins() -> None:
    sunk = taught([("mutate", False)] * 400 + [("crossover", True)] * 50 + [("jitter", True)] * 50)
    assert sunk.shares()["mutate"] < 3 * LEAST_SHARE
    low = sunk.shares()["mutate"]
    for _ in range(30):
        sunk.learn("mutate", True)
    assert sunk.shares()["mutate"] > 3 * low


def test_what_is_no_arm_teaches_nothing() -> None:
    assert taught([("seed", True), ("migrant", False)]).shares() == Bandit(WEIGHTS).shares()


def test_the_same_lessons_give_the_same_shares_however_they_are_read() -> None:
    """A fold: half of the lessons learnt before an interruption and half after are all of them."""
    rng = np.random.default_rng(5)
    lessons = [(str(rng.choice(list(WEIGHTS))), bool(rng.random() < 0.3)) for _ in range(100)]
    one = taught(lessons)
    two = taught(lessons[:37])
    two.shares()
    for arm, won in lessons[37:]:
        two.learn(arm, won)
    assert one == two
    assert one.shares() == two.shares()


def test_late_wins_count_more_than_early_ones() -> None:
    """Arms have memories of their own: only the order within an arm matters."""
    late = taught([("jitter", False)] * 50 + [("jitter", True)] * 50).shares()["jitter"]
    early = taught([("jitter", True)] * 50 + [("jitter", False)] * 50).shares()["jitter"]
    assert late > early


def test_choices_follow_the_shares_and_take_one_draw() -> None:
    bandit = taught([("mutate", True)] * 10 + [("jitter", False)] * 10)
    rng = np.random.default_rng(1)
    counts = Counter(bandit.choose(rng) for _ in range(20_000))
    for arm, share in bandit.shares().items():
        assert counts[arm] / 20_000 == pytest.approx(share, abs=0.015)
    one, other = np.random.default_rng(2), np.random.default_rng(2)
    bandit.choose(one)
    other.random()
    assert one.random() == other.random()
