"""Every operator on every kind of parent: valid, within the caps, new, repeatable, and nothing else touched."""

from __future__ import annotations

import random

import numpy as np
import pytest

from evaluators.random import stream
from evolve.drafts import draft_of
from evolve.gate import has_time_unit
from evolve.genetic import GENETIC, jitter_constants, random_seedling
from evolve.proposal import Parent, Proposal
from tests.evolve.genetic_samples import CAPS, is_valid, parents, program, seeds
from translate.canonical import digest
from translate.complexity import measure
from translate.parse import Caps
from translate.source import to_source

NAMES = sorted(GENETIC)


def applied(name: str, chosen: list[Parent], seed: int, caps: Caps = CAPS) -> Proposal:
    operator = GENETIC[name]
    return operator.apply(chosen[: operator.parents], stream(seed, name), caps)


def pairs() -> list[list[Parent]]:
    every = parents()
    return [[parent, every[(7 * number + 3) % len(every)]] for number, parent in enumerate(every)]


@pytest.mark.parametrize("name", NAMES)
def test_an_operator_gives_a_valid_program_of_another_structure_on_every_kind_of_parent(name):
    for seed in range(2):
        for pair in pairs():
            proposal = applied(name, pair, seed)
            assert is_valid(proposal.program), to_source(proposal.program)
            assert proposal.operator == name
            assert set(proposal.parents) <= {parent.id for parent in pair}
            if name != "jitter_constants":
                assert digest(proposal.program) != digest(pair[0].program)


@pytest.mark.parametrize("name", NAMES)
def test_an_operator_applies_to_every_seed_without_starting_afresh(name):
    for seed in range(5):
        for number, parent in enumerate(seeds()):
            proposal = applied(name, [parent, seeds()[number - 3]], seed)
            assert proposal.parents[0] == parent.id


@pytest.mark.parametrize("name", NAMES)
def test_the_same_parents_and_stream_give_the_same_proposal_and_leave_the_parents_and_global_random_alone(name):
    pair = [seeds()[3], seeds()[7]]
    texts = [to_source(parent.program) for parent in pair]
    python_state, numpy_state = random.getstate(), np.random.get_state()[1].tolist()
    assert applied(name, pair, 5) == applied(name, pair, 5)
    assert [to_source(parent.program) for parent in pair] == texts
    assert random.getstate() == python_state
    assert np.random.get_state()[1].tolist() == numpy_state


@pytest.mark.parametrize("name", NAMES)
def test_an_operator_keeps_units_apart_where_the_parent_does(name):
    for seed in range(6):
        for number, parent in enumerate(seeds()):
            draft = draft_of(applied(name, [parent, seeds()[number - 2]], seed).program)
            assert draft is not None
            assert all(map(has_time_unit, draft.bodies.values()))


@pytest.mark.parametrize("caps", [Caps(operations=6, conditionals=0, constants=3), Caps(1, 0, 1), Caps(0, 0, 0)])
def test_operators_keep_to_tighter_caps_even_from_parents_beyond_them(caps):
    for number, name in enumerate(NAMES):
        for pair in pairs()[number % 10 :: 10]:
            assert is_valid(applied(name, pair, number, caps).program, caps)


@pytest.mark.parametrize("chain", range(3))
def test_two_hundred_random_operators_in_a_row_never_leave_the_language_or_the_caps(chain):
    rng = stream(chain, "chain")
    pool = [*seeds()]
    for number in range(200):
        name = NAMES[int(rng.integers(len(NAMES)))]
        place, other = (int(i) for i in rng.integers(len(pool), size=2))
        proposal = GENETIC[name].apply([pool[place], pool[other]][: GENETIC[name].parents], rng, CAPS)
        assert is_valid(proposal.program)
        assert all(np.isfinite(proposal.program.constant_values))
        pool[place] = Parent(str(number), proposal.program)


def test_two_hundred_operators_on_one_program_stay_within_the_caps():
    rng = stream(1, "single chain")
    parent = seeds()[0]
    for number in range(200):
        name = NAMES[number % len(NAMES)]
        parent = Parent(
            str(number), GENETIC[name].apply([parent, seeds()[1]][: GENETIC[name].parents], rng, CAPS).program
        )
        size = measure(parent.program)
        assert size.operations <= 30
        assert size.conditionals <= 3
        assert size.constants <= 10


def test_jitter_scales_every_constant_and_keeps_the_text_otherwise_with_signs_and_zeros():
    text = (
        'CONSTANTS = {"a": 2.0, "m": -3.0, "z": 0.0}\n\n\n'
        'def predict_step_time(b):\n    slow = a * b["weight_load"]\n    return slow + m * b["tp"] + z\n'
    )
    parent = Parent("p", program(text))
    jittered = jitter_constants([parent], stream(1, "jitter")).program
    assert jittered.functions == parent.program.functions
    a, m, z = jittered.constant_values
    assert a > 0.0
    assert a != 2.0
    assert m < 0.0
    assert m != -3.0
    assert z == 0.0


def test_crossover_keeps_the_constants_of_both_parents_apart():
    """Both parents call their only constant k; whatever is grafted, no value of one stands for the other's."""
    first = Parent(
        "first", program('CONSTANTS = {"k": 3.5}\ndef predict_step_time(b):\n    return k * b["weight_load"]\n')
    )
    second = Parent(
        "second", program('CONSTANTS = {"k": 117.0}\ndef predict_step_time(b):\n    return k * b["layers"]\n')
    )
    joined = 0
    for seed in range(40):
        child = GENETIC["crossover"].apply([first, second], stream(seed, "cross"), CAPS).program
        values = dict(child.constants)
        source = to_source(child)
        if set(values) == {"per_weight_load", "per_layer"}:
            joined += 1
            assert values == {"per_weight_load": 3.5, "per_layer": 117.0}, source
            assert 'per_layer * b["layers"]' in source
    assert joined > 5


def test_crossover_of_a_program_with_itself_still_proposes_something_else():
    for parent in seeds():
        child = GENETIC["crossover"].apply([parent, parent], stream(2, "self"), CAPS)
        assert digest(child.program) != digest(parent.program)


def test_seedlings_are_valid_small_sums_in_time_units_and_seldom_repeat():
    found = [random_seedling(stream(seed, "seedling")) for seed in range(200)]
    assert all(is_valid(seedling.program) and seedling.parents == () for seedling in found)
    assert all(all(map(has_time_unit, draft_of(seedling.program).bodies.values())) for seedling in found)
    assert max(measure(seedling.program).operations for seedling in found) <= 20
    assert len({digest(seedling.program) for seedling in found}) > 150
    assert random_seedling(stream(3, "seedling")) == found[3]


def test_every_operator_has_a_positive_weight_and_one_or_two_parents():
    assert all(operator.weight > 0.0 and operator.parents in (1, 2) for operator in GENETIC.values())
