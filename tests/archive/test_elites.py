"""The grid's rules against a model of a dozen lines, and the archive's determinism across processes."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive.elites import Archive, Axes, Axis, Cell, Descriptor, Elite, Outcome
from tests.archive.samples import elite, random_elite

ROOT = Path(__file__).parents[2]
AXES = Axes()
any_whole = st.integers(-(10**30), 10**30)


@settings(derandomize=True, max_examples=200)
@given(any_whole, any_whole)
def test_cell_of_stays_in_the_grid(operations: int, features: int) -> None:
    row, column = AXES.cell_of(Descriptor(operations, features))
    assert 0 <= row < 10
    assert 0 <= column < 5


@settings(derandomize=True, max_examples=200)
@given(any_whole | st.integers(-2, 40), any_whole | st.integers(-2, 40), st.integers(1, 15))
def test_cell_of_never_decreases_along_an_axis(a: int, b: int, other: int) -> None:
    low, high = sorted((a, b))
    assert AXES.cell_of(Descriptor(low, other))[0] <= AXES.cell_of(Descriptor(high, other))[0]
    assert AXES.cell_of(Descriptor(other, low))[1] <= AXES.cell_of(Descriptor(other, high))[1]


def test_every_bin_of_the_default_axes_holds_three_values() -> None:
    assert [AXES.operations.bin_of(value) for value in range(1, 31)] == [(value - 1) // 3 for value in range(1, 31)]
    assert [AXES.features.bin_of(value) for value in range(1, 16)] == [(value - 1) // 3 for value in range(1, 16)]


def test_an_infinite_value_falls_into_the_bin_at_its_end_and_nan_has_none() -> None:
    assert AXES.operations.bin_of(float("inf")) == 9
    assert AXES.operations.bin_of(float("-inf")) == 0
    with pytest.raises(ValueError, match="NaN"):
        AXES.operations.bin_of(float("nan"))


def test_an_axis_with_more_bins_than_values_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one value per bin"):
        Axis(1, 3, 4)


offers = st.lists(
    st.tuples(st.integers(0, 5), st.integers(1, 30), st.integers(1, 15), st.integers(0, 1)), min_size=1, max_size=60
)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(offers)
def test_a_cell_holds_the_best_fitness_seen_and_a_tie_keeps_the_incumbent(
    rows: list[tuple[int, int, int, int]],
) -> None:
    archive = Archive(islands=2, capacity=110)
    model: dict[tuple[int, Cell], Elite] = {}
    for number, (level, operations, features, island) in enumerate(rows):
        newcomer = elite(number, level / 5, operations, features)
        place = (island, ((operations - 1) // 3, (features - 1) // 3))
        held = model.get(place)
        if held is None:
            expected = Outcome.NEW
        else:
            expected = Outcome.IMPROVED if newcomer.fitness > held.fitness else Outcome.KEPT
        if expected is not Outcome.KEPT:
            model[place] = newcomer
        assert archive.insert(newcomer, island) is expected
    for island in (0, 1):
        assert archive.cells(island) == {cell: kept for (home, cell), kept in model.items() if home == island}
    assert archive.best() == max(model.values(), key=lambda kept: (kept.fitness, -kept.number))


@settings(derandomize=True, max_examples=30, deadline=None)
@given(st.permutations(range(6)))
def test_of_equal_programs_in_a_cell_the_first_inserted_stays(order: list[int]) -> None:
    archive = Archive(islands=1, capacity=60)
    for number in order:
        archive.insert(elite(number, fitness=0.25), 0)
    assert archive.cells(0)[1, 0].number == order[0]
    assert archive.best().number == order[0]


def test_elites_survive_a_full_archive_and_the_worst_of_the_others_leave() -> None:
    archive, rng = Archive(islands=2, capacity=120), np.random.default_rng(3)
    best: dict[tuple[int, Cell], float] = {}
    for number in range(1500):
        newcomer, island = random_elite(number, rng, levels=1000), number % 2
        place = (island, archive.axes.cell_of(newcomer.descriptor))
        best[place] = max(best.get(place, -1.0), newcomer.fitness)
        archive.insert(newcomer, island)
    assert len(archive) == 120
    assert {(i, cell): held.fitness for i in (0, 1) for cell, held in archive.cells(i).items()} == best


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
def test_only_finite_scores_enter(bad: float) -> None:
    archive = Archive(islands=1)
    empty = archive.digest()
    with pytest.raises(ValueError, match="fitness"):
        archive.insert(elite(0, fitness=bad), 0)
    with pytest.raises(ValueError, match="worst3"):
        archive.insert(elite(0, objectives=(0.1, bad, 3.0)), 0)
    assert archive.digest() == empty
    assert list(archive) == []


def test_a_program_told_twice_changes_nothing_and_a_better_refit_takes_its_place() -> None:
    archive = Archive(islands=2)
    first = elite(1, fitness=0.5)
    archive.insert(first, 0)
    before = archive.digest()
    assert archive.insert(first, 0) is Outcome.KEPT
    assert archive.insert(replace(first, number=2), 0) is Outcome.KEPT
    assert archive.insert(replace(first, fitness=0.4, number=2), 0) is Outcome.KEPT
    assert archive.digest() == before
    refit = replace(first, fitness=0.6, number=3)
    assert archive.insert(refit, 0) is Outcome.IMPROVED
    assert list(archive) == [refit]
    assert archive.best() == refit
    assert archive.insert(first, 1) is Outcome.NEW  # another island judges for itself
    assert archive.cells()[1, 0] == refit


def test_one_id_stands_for_one_descriptor() -> None:
    archive = Archive(islands=1)
    archive.insert(elite(1, operations=5), 0)
    with pytest.raises(ValueError, match="the archive holds it at"):
        archive.insert(replace(elite(1, fitness=0.9), descriptor=Descriptor(6, 3)), 0)


def filled(count: int = 300, islands: int = 3, seed: int = 11) -> Archive:
    archive, rng = Archive(islands=islands, capacity=400), np.random.default_rng(seed)
    for number in range(count):
        archive.insert(random_elite(number, rng), number % islands)
    return archive


def test_sampling_changes_nothing_and_depends_on_the_generator_alone() -> None:
    archive = filled()
    before = archive.digest()
    draws = [archive.sample(1, np.random.default_rng(seed), 4) for seed in range(60)]
    assert archive.digest() == before
    assert draws == [archive.sample(1, np.random.default_rng(seed), 4) for seed in range(60)]
    assert len({parent.id for parent, _ in draws}) > 20


def test_a_sample_comes_from_its_island_and_names_nobody_twice() -> None:
    archive = filled()
    rng = np.random.default_rng(0)
    for island in range(3):
        for count in (0, 1, 5):
            parent, others = archive.sample(island, rng, count)
            assert len(others) <= count
            assert len({parent.id, *(other.id for other in others)}) == 1 + len(others)
            assert all(member.number % 3 == island for member in (parent, *others))


def test_an_empty_island_borrows_from_the_next_one_that_has_programs() -> None:
    archive = Archive(islands=4)
    only = elite(1)
    archive.insert(only, 2)
    before = archive.digest()
    assert archive.sample(3, np.random.default_rng(0), 2) == (only, ())
    assert archive.digest() == before


def test_an_empty_archive_says_so() -> None:
    archive = Archive()
    with pytest.raises(LookupError, match="empty"):
        archive.best()
    with pytest.raises(LookupError, match="empty"):
        archive.sample(0, np.random.default_rng(0), 1)
    assert archive.cells() == {}


def test_migration_copies_the_best_of_each_island_to_both_neighbours_when_due() -> None:
    archive = Archive(islands=4, migration_interval=5)
    for island in range(4):
        archive.insert(elite(island, fitness=0.1 * (island + 1), operations=1 + 3 * island), island)
    rng = np.random.default_rng(0)
    assert [archive.migrate(number, rng) for number in (0, 1, 4, 6)] == [0, 0, 0, 0]
    assert archive.migrate(5, rng) == 8
    for island in range(4):
        lives_here = {held.number for held in archive.cells(island).values()}
        assert lives_here == {island, (island - 1) % 4, (island + 1) % 4}
    assert [member.number for member in archive] == [0, 1, 2, 3]


def test_a_migrated_copy_does_not_travel_on() -> None:
    archive = Archive(islands=5, migration_interval=1, capacity=300)
    archive.insert(elite(1), 0)
    rng = np.random.default_rng(0)
    assert [archive.migrate(number, rng) for number in (1, 2, 3)] == [2, 0, 0]
    assert [len(archive.cells(island)) for island in range(5)] == [1, 1, 0, 0, 1]


def test_most_parents_hold_a_cell_however_crowded_one_cell_is() -> None:
    archive = Archive(islands=1)
    for number in range(10):
        archive.insert(elite(number, fitness=0.1, operations=1 + 3 * number), 0)
    for number in range(10, 100):
        archive.insert(elite(number, fitness=0.09, operations=1), 0)
    rng = np.random.default_rng(0)
    parents = [archive.sample(0, rng, 0)[0].number for _ in range(400)]
    assert 0.65 < np.mean([number < 10 for number in parents]) < 0.8  # 0.7 + 0.3 * 10/100, give or take
    assert len(set(parents)) > 40


USES_EVERYTHING = """
import random
import numpy as np
from archive import Archive, frontier, select
from tests.archive.samples import random_elite

random.seed(5)
np.random.seed(5)
plain, legacy = random.getstate(), np.random.get_state()[1].copy()
archive, rng = Archive(), np.random.default_rng(1)
for number in range(60):
    archive.insert(random_elite(number, rng), number % 4)
archive.sample(0, rng, 3)
assert archive.migrate(10, rng) > 0
assert frontier(archive)
assert select(archive, 5, rng)
assert random.getstate() == plain
assert np.array_equal(np.random.get_state()[1], legacy)
"""


def test_the_callers_random_states_are_left_alone_imports_included() -> None:
    run = subprocess.run(
        [sys.executable, "-c", USES_EVERYTHING],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize(
    "kwargs",
    [{"islands": 0}, {"migration_interval": 0}, {"migration_rate": 1.5}, {"capacity": 200}, {"capacity": 5001}],
)
def test_settings_that_would_lose_elites_or_time_are_refused(kwargs: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="want"):
        Archive(**kwargs)  # type: ignore[arg-type]


def test_an_island_that_does_not_exist_is_refused() -> None:
    archive = Archive(islands=2)
    for island in (-1, 2):
        with pytest.raises(ValueError, match=r"want 0\.\.1"):
            archive.insert(elite(0), island)


HISTORY = """
import random, sys
import numpy as np
from archive.elites import Archive
from tests.archive.samples import random_elite

random.seed(int(sys.argv[1]))
archive, rng = Archive(islands=4, migration_interval=1, capacity=220), np.random.default_rng(7)
for number in range(500):
    archive.insert(random_elite(number, rng), number % 4)
    archive.sample(number % 4, rng, 4)
    if number % 100 == 99:
        archive.migrate(number // 100 + 1, rng)
    if number % 50 == 49:
        print(archive.digest())
        print([member.id for member in archive.sample(0, rng, 5)[1]])
"""


def test_two_processes_with_different_hash_seeds_tell_the_same_history() -> None:
    def history(seed: str) -> str:
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
        return subprocess.run(
            [sys.executable, "-c", HISTORY, seed], env=environment, capture_output=True, text=True, check=True
        ).stdout

    first = history("1")
    assert len(first.splitlines()) == 20
    assert first == history("2")


def test_importing_the_package_leaves_openevolve_and_deap_alone() -> None:
    code = "import sys, archive; print([name for name in ('openevolve', 'deap', 'numpy') if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
