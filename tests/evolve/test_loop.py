"""The loop is a fold over rounds: budgets are exact, and neither workers nor interruptions change what it finds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from archive import Accepted, Duplicate, Ledger, LedgerReader, Record, Rejected
from evaluators.benchmark import builtin
from evaluators.evaluation import Evaluation, Failure, fit_and_score, prepare
from evaluators.random import stream
from evolve.genetic import GENETIC
from evolve.loop import IDLE_ROUNDS, REFITS, Plan, RoundReport, State, absorb, evolve, initial_state
from evolve.tally import recorded_program
from tests.evolve.fake_pools import FakePool
from tests.programs import program, shortened, step_program
from translate.canonical import digest
from translate.caps import Caps
from translate.complexity import measure
from translate.ir import Program

PLAN = Plan(
    seed=3, budget=60, round_size=8, islands=3, migration_interval=2, migration_rate=0.2, capacity=400, caps=Caps()
)
SOURCE = step_program("b['layers'] * 7.0")
SEEDS = tuple(
    program(step_program(text, {"a": 1.0, "c": 30.0}))
    for text in (
        "a * b['gemm_time'] + c * b['layers']",
        "max(a * b['total_bytes'], a * b['total_flops']) + c * b['batch_size']",
        "a * b['weight_load'] + a * b['kv_read'] + c * b['tp_hops']",
        "a * b['gemm_time'] + a * b['elementwise_time'] + c * b['tp'] + 900.0",
        "math.sqrt(a * b['total_bytes'] * b['total_bytes'] + c * b['layers'])",
    )
)


def searched(
    folder: Path, plan: Plan = PLAN, pool: FakePool | None = None, seeds: Sequence[Program] = SEEDS
) -> tuple[State, list[RoundReport]]:
    """Run (or go on with) the search whose ledger lies in ``folder``."""
    path = folder / "run.db"
    state = folded(path, plan) if path.exists() else initial_state(plan)
    with Ledger.open(path) if path.exists() else Ledger.create(path) as ledger:
        return state, list(evolve(plan, seeds, state, ledger, pool or FakePool()))


def folded(path: Path, plan: Plan) -> State:
    """Return the state that the rounds of a ledger add up to, each checked against the digest written with it."""
    state = initial_state(plan)
    with LedgerReader.open(path) as ledger:
        for past in ledger.rounds():
            absorb(state, past.number, past.records, plan)
            assert state.archive.digest() == past.archive_digest
    return state


def records_of(folder: Path) -> list[Record]:
    with LedgerReader.open(folder / "run.db") as ledger:
        return [record for past in ledger.rounds() for record in past.records]


@dataclass(frozen=True)
class Run:
    folder: Path
    state: State
    pool: FakePool
    reports: list[RoundReport]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder, pool = tmp_path_factory.mktemp("run"), FakePool()
    state, reports = searched(folder, pool=pool)
    return Run(folder, state, pool, reports)


def fingerprint(state: State) -> tuple[object, ...]:
    """Return everything of a state that later rounds depend on."""
    return state.archive.digest(), state.tally, state.bandit, state.seen, state.rounds, state.idle_rounds


@pytest.mark.parametrize("budget", [1, 4, 5, 6, 23])
def test_exactly_the_budget_is_evaluated(budget: int, tmp_path: Path) -> None:
    pool = FakePool()
    state, reports = searched(tmp_path, replace(PLAN, budget=budget), pool)
    assert state.tally.evaluations == len(pool.evaluated) == budget
    assert sum(len(report.records) for report in reports) == state.tally.proposals >= budget


def test_no_round_is_larger_than_asked_and_the_first_holds_the_seeds(run: Run) -> None:
    state, reports = run.state, run.reports
    assert [report.number for report in reports] == list(range(state.rounds))
    assert [record.operator for record in reports[0].records] == ["seed"] * len(SEEDS)
    assert max(len(report.records) for report in reports[1:]) <= PLAN.round_size
    numbers = [record.number for report in reports for record in report.records]
    assert numbers == list(range(len(numbers)))


def test_every_proposal_ends_as_one_record_on_its_island_from_a_known_operator(run: Run) -> None:
    folder, state, pool = run.folder, run.state, run.pool
    records = records_of(folder)
    assert len(records) == state.tally.proposals
    assert {record.island for record in records} == set(range(PLAN.islands))
    assert {record.operator for record in records} <= {*GENETIC, "seed", "random_seedling"}
    counted = {kind: sum(isinstance(record, kind) for record in records) for kind in (Accepted, Rejected, Duplicate)}
    assert counted[Accepted] + counted[Rejected] == state.tally.evaluations == len(pool.evaluated)
    assert counted[Accepted] > 10
    assert counted[Rejected] > 0
    known = {record.program_id for record in records if isinstance(record, Accepted)}
    for record in records:
        assert set(record.parents) <= known


def test_programs_stay_within_the_caps_and_their_descriptors_are_their_own(run: Run) -> None:
    for record in records_of(run.folder):
        complexity = measure(recorded_program(record.source))
        assert complexity.operations <= PLAN.caps.operations
        assert complexity.conditionals <= PLAN.caps.conditionals
        assert complexity.constants <= PLAN.caps.constants
        if isinstance(record, Accepted):
            place = record.elite.descriptor
            assert (place.operations, place.features) == (complexity.operations, len(complexity.features))


def test_no_formula_is_paid_for_twice_unless_its_constants_are_being_looked_for(run: Run) -> None:
    paid = [r for r in records_of(run.folder) if not isinstance(r, Duplicate) and r.operator not in REFITS]
    digests = [digest(recorded_program(record.source)) for record in paid]
    assert len(set(digests)) == len(digests)


def test_folding_the_ledger_gives_the_state_that_the_run_ended_with(run: Run) -> None:
    folder, state = run.folder, run.state
    assert fingerprint(folded(folder / "run.db", PLAN)) == fingerprint(state)


def test_the_order_in_which_workers_finish_changes_nothing(run: Run, tmp_path: Path) -> None:
    folder, state, pool = run.folder, run.state, run.pool
    other_pool = FakePool(backwards=True)
    other, _ = searched(tmp_path, pool=other_pool)
    assert other_pool.evaluated != pool.evaluated
    assert fingerprint(other) == fingerprint(state)
    assert records_of(tmp_path) == records_of(folder)


@pytest.mark.parametrize("kept", [1, 2, 5])
def test_a_run_split_in_two_equals_a_run_in_one_go(kept: int, run: Run, tmp_path: Path) -> None:
    """The first half is abandoned between two rounds, as a kill -9 leaves it; the second starts from the file."""
    folder, state = run.folder, run.state
    with Ledger.create(tmp_path / "run.db") as ledger:
        rounds = evolve(PLAN, SEEDS, initial_state(PLAN), ledger, FakePool())
        for _ in range(kept):
            next(rounds)
    resumed, _ = searched(tmp_path)
    assert fingerprint(resumed) == fingerprint(state)
    assert records_of(tmp_path) == records_of(folder)


def test_another_seed_makes_another_run(run: Run, tmp_path: Path) -> None:
    searched(tmp_path, replace(PLAN, seed=4))
    assert records_of(tmp_path)[len(SEEDS) :] != records_of(run.folder)[len(SEEDS) :]


def test_a_finished_run_is_not_touched_by_going_on(run: Run) -> None:
    pool = FakePool()
    state, reports = searched(run.folder, pool=pool)
    assert reports == []
    assert pool.batches == []
    assert fingerprint(state) == fingerprint(run.state)


def test_the_archive_and_the_frontier_hold_the_best_that_was_met(run: Run) -> None:
    folder, state = run.folder, run.state
    accepted = [record.elite for record in records_of(folder) if isinstance(record, Accepted)]
    assert state.archive.best().fitness == max(elite.fitness for elite in accepted)
    front = [entry.elite for entry in state.tally.front]
    assert min(elite.objectives for elite in front)[0] == min(elite.objectives[0] for elite in accepted)
    for one in front:
        for other in accepted:
            better = all(o <= m for o, m in zip(other.objectives, one.objectives, strict=True))
            assert not (better and other.objectives != one.objectives)


def test_the_outcome_written_with_a_record_is_what_the_archive_did(run: Run) -> None:
    """Replayed here insert by insert, and migrated after each round by the stream that is named for it."""
    archive = initial_state(PLAN).archive
    with LedgerReader.open(run.folder / "run.db") as ledger:
        for past in ledger.rounds():
            for record in past.records:
                if isinstance(record, Accepted):
                    assert archive.insert(record.elite, record.island) is record.outcome
            archive.migrate(past.number, stream(PLAN.seed, "migrate", past.number))
            assert archive.digest() == past.archive_digest


def test_a_repeated_seed_is_a_duplicate_and_costs_nothing(tmp_path: Path) -> None:
    twin = program(step_program("k * b['layers'] + b['gemm_time'] * x", {"x": 5.0, "k": 1.0}))
    pool = FakePool()
    searched(tmp_path, replace(PLAN, budget=len(SEEDS)), pool, (*SEEDS[:1], twin, *SEEDS[1:]))
    first, second, *_ = records_of(tmp_path)
    assert isinstance(second, Duplicate)
    assert second.program_id == digest(SEEDS[0])[:16] == digest(twin)[:16]
    assert pool.evaluated[0] == digest(SEEDS[0])
    assert first.number == 0


def test_a_run_whose_programs_all_fail_still_ends_with_its_budget(tmp_path: Path) -> None:
    pool = FakePool(verdict=lambda _: Failure("fit", "EV001", "made up"))
    state, _ = searched(tmp_path, replace(PLAN, budget=20), pool)
    assert state.tally.evaluations == 20
    assert len(state.archive) == 0
    assert state.tally.rejected == {"fit": 20}


def test_rounds_without_anything_new_end_the_run_also_when_it_is_split(tmp_path: Path) -> None:
    """Counted in the state, so that a resumed run gives up where the whole one would have."""
    state, duplicate = initial_state(PLAN), Duplicate(0, "", "mutate", (), 0, "x")
    for number in range(IDLE_ROUNDS):
        assert state.idle_rounds == number
        absorb(state, number, [replace(duplicate, number=number)], PLAN)
    with Ledger.create(tmp_path / "run.db") as ledger:
        assert list(evolve(PLAN, SEEDS, state, ledger, FakePool())) == []
    assert state.tally.evaluations == 0
    absorb(state, IDLE_ROUNDS, [Rejected(99, SOURCE, "mutate", (), 0, "fit", "EV001", "made up")], PLAN)
    assert state.idle_rounds == 0


def test_a_score_in_the_ledger_is_strict_json_with_the_generalisation(run: Run) -> None:
    for record in records_of(run.folder):
        if isinstance(record, Accepted):
            body = json.loads(record.score_json)
            assert set(body["generalisation"]) == {"model", "workload"}
            assert body["error"]["e2e"] == pytest.approx(body["rows"][0]["e2e"])


def test_text_that_is_no_program_is_refused_when_a_ledger_is_read_back() -> None:
    with pytest.raises(ValueError, match="does not parse"):
        recorded_program("while True: pass")


def test_a_small_real_search_improves_and_repeats(tmp_path: Path) -> None:
    """Real operators, real fits and real simulations of short stages; the champion's printed text scores as written."""
    experiments = [shortened(experiment, 10.0) for experiment in builtin("h100-vllm")[:2]]
    benchmark, cache = prepare(experiments), dict[str, Evaluation | Failure]()

    def verdict(candidate: Program) -> Evaluation | Failure:
        key = str(candidate)
        if key not in cache:
            cache[key] = fit_and_score(candidate, benchmark, PLAN.seed)
        return cache[key]

    plan = replace(PLAN, budget=14)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, reports = searched(tmp_path / "one", plan, FakePool(verdict), SEEDS[:3])
    two, _ = searched(tmp_path / "two", plan, FakePool(verdict, backwards=True), SEEDS[:3])
    assert fingerprint(one) == fingerprint(two)
    assert one.tally.evaluations == 14
    assert len(reports) >= 2
    assert any(isinstance(record, Accepted) for report in reports for record in report.records)
