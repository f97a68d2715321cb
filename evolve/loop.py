"""The MAP-Elites loop: propose from the archive, refuse, evaluate, insert, write down; then the next round.

A round's proposals are all made from the archive as it stood when the round began, and every draw comes from a stream
named by the proposal's number. Workers only compute. So the number of workers, their timing and an interruption change
nothing: the state is a fold over the rounds in the ledger, whether they were just made or read back.

Source: Mouret and Clune, "Illuminating search spaces by mapping elites", 2015; islands as in Romera-Paredes et al.,
"Mathematical discoveries from program search with large language models", 2024.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field

import numpy as np

from archive import Accepted, Archive, Descriptor, Duplicate, Elite, Ledger, Outcome, Record, Rejected, select
from evaluators.evaluation import Evaluation, Failure, behaviour
from evaluators.random import stream
from evaluators.scoring import score_json
from evolve.bandit import Bandit
from evolve.genetic import GENETIC, random_seedling
from evolve.proposal import Parent, Proposal
from evolve.tally import Tally, recorded_program
from evolve.workers import Pool
from translate.canonical import digest
from translate.caps import Caps
from translate.complexity import measure
from translate.ir import Program
from translate.source import to_source

FRONTIER_SHARE = 0.3
"""Share of parents drawn from the Pareto frontier of the whole run instead of the island's cells."""
SEEDLING_SHARE = 0.03
"""Share of proposals that start afresh."""
TRIES = 8
"""Proposals tried in one place before a duplicate is accepted as the outcome."""
IDLE_ROUNDS = 20
"""Rounds without anything new to evaluate after which the search gives up."""
REFITS = frozenset({"jitter_constants"})
"""Operators whose proposals may repeat a structure: they look for better constants."""
ID_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Plan:
    """What decides a run, beside the benchmark."""

    seed: int
    budget: int
    """Evaluations: proposals that were compiled and fitted. Refused text and duplicates cost none."""
    round_size: int
    islands: int
    migration_interval: int
    migration_rate: float
    capacity: int
    caps: Caps


@dataclass(slots=True)
class State:
    """Everything the search knows; a fold over the records of its rounds."""

    archive: Archive
    bandit: Bandit
    tally: Tally = field(default_factory=Tally)
    seen: dict[str, str] = field(default_factory=dict)
    """Program id by canonical digest and by behaviour."""
    rounds: int = 0
    idle_rounds: int = 0
    """Rounds since the last one that had something to evaluate."""


@dataclass(frozen=True, slots=True)
class RoundReport:
    """What one round brought; the progress view and the logs read these."""

    number: int
    records: tuple[Record, ...]
    state: State


def initial_state(plan: Plan) -> State:
    """Return the state before the first round."""
    archive = Archive(
        islands=plan.islands,
        migration_interval=plan.migration_interval,
        migration_rate=plan.migration_rate,
        capacity=plan.capacity,
    )
    return State(archive, Bandit({name: operator.weight for name, operator in GENETIC.items()}))


def absorb(state: State, number: int, records: Sequence[Record], plan: Plan) -> None:
    """Fold one round into the state: the only place where it changes."""
    for record in records:
        match record:
            case Accepted(elite=elite, outcome=outcome):
                state.archive.insert(elite, elite.island)
                state.bandit.learn(elite.operator, outcome is not Outcome.KEPT)
                _remember(state.seen, _keys(recorded_program(elite.source)), elite.id)
            case Rejected():
                state.bandit.learn(record.operator, won=False)
                _remember(state.seen, _keys(recorded_program(record.source)), "")
            case Duplicate():
                pass
    state.tally.add(records)
    state.archive.migrate(number, stream(plan.seed, "migrate", number))
    state.rounds = number + 1
    state.idle_rounds = state.idle_rounds + 1 if all(isinstance(record, Duplicate) for record in records) else 0


def _keys(program: Program) -> tuple[str, str]:
    """Return what tells a structure from all others: its canonical form and what it does."""
    return digest(program), behaviour(program)


def _remember(seen: dict[str, str], keys: Sequence[str], program_id: str) -> None:
    """Keep a program's keys; the first program with a key stays its owner."""
    for key in keys:
        seen.setdefault(key, program_id)


def _repeated(seen: Mapping[str, str], keys: Sequence[str]) -> str | None:
    """Return the id of the program that one with these keys repeats, None if it is new."""
    return next((seen[key] for key in keys if key in seen), None)


def evolve(plan: Plan, seeds: Sequence[Program], state: State, ledger: Ledger, pool: Pool) -> Iterator[RoundReport]:
    """Run rounds until the budget of evaluations is spent; yield a report after each one is safe on disk."""
    while state.tally.evaluations < plan.budget and state.idle_rounds < IDLE_ROUNDS:
        number = state.rounds
        left = plan.budget - state.tally.evaluations
        proposals = _seed_round(plan, seeds, left) if number == 0 else _propose_round(plan, state, left)
        records = _settle(state, proposals, pool)
        absorb(state, number, records, plan)
        ledger.append_round(number, records, state.archive.digest())
        yield RoundReport(number, records, state)


@dataclass(frozen=True, slots=True)
class _Placed:
    """A proposal with its number, its island, and the program it repeats, if any."""

    number: int
    island: int
    proposal: Proposal
    repeats: str | None


def _seed_round(plan: Plan, seeds: Sequence[Program], size: int) -> list[_Placed]:
    """Return the seed programs, spread over the islands; one that repeats an earlier one is a duplicate."""
    placed: list[_Placed] = []
    met: dict[str, str] = {}
    for number, program in enumerate(seeds[:size]):
        keys = _keys(program)
        placed.append(_Placed(number, number % plan.islands, Proposal(program, "seed", ()), _repeated(met, keys)))
        _remember(met, keys, keys[0][:ID_LENGTH])
    return placed


def _propose_round(plan: Plan, state: State, left: int) -> list[_Placed]:
    """Make a round's proposals from the archive as it is now; none repeats another if that can be helped."""
    size = min(plan.round_size, left)
    placed: list[_Placed] = []
    pending = dict(state.seen)
    for number in range(state.tally.proposals, state.tally.proposals + size):
        rng = stream(plan.seed, "propose", number)
        island = number % plan.islands
        for _ in range(TRIES):
            proposal = _propose(plan, state, island, rng)
            keys = _keys(proposal.program)
            repeats = _repeated(pending, keys)
            if repeats is None or proposal.operator in REFITS:
                break
        refit = proposal.operator in REFITS
        placed.append(_Placed(number, island, proposal, None if refit else repeats))
        _remember(pending, keys, keys[0][:ID_LENGTH])
    return placed


def _propose(plan: Plan, state: State, island: int, rng: np.random.Generator) -> Proposal:
    """Draw parents and an operator, and apply it."""
    if rng.random() < SEEDLING_SHARE or len(state.archive) == 0:
        return random_seedling(rng, plan.caps)
    operator = GENETIC[state.bandit.choose(rng)]
    first, others = state.archive.sample(island, rng, inspirations=operator.parents - 1)
    if state.tally.front and rng.random() < FRONTIER_SHARE:
        first = select((entry.elite for entry in state.tally.front), 1, rng)[0]
    parents = [Parent(elite.id, recorded_program(elite.source)) for elite in (first, *others)]
    parents += [parents[0]] * (operator.parents - len(parents))
    return operator.apply(parents, rng, plan.caps)


def _settle(state: State, placed: Sequence[_Placed], pool: Pool) -> tuple[Record, ...]:
    """Evaluate what is new and turn every proposal into a record, in order of its number."""
    fresh = [p for p in placed if p.repeats is None]
    verdicts = dict(zip((p.number for p in fresh), pool.evaluate([p.proposal.program for p in fresh]), strict=True))
    trial = _Trial(state.archive)
    return tuple(
        _duplicate(p) if p.repeats is not None else _record(p, verdicts[p.number].result(), trial) for p in placed
    )


def _duplicate(placed: _Placed) -> Duplicate:
    proposal = placed.proposal
    return Duplicate(
        placed.number, to_source(proposal.program), proposal.operator, proposal.parents, placed.island,
        placed.repeats or "",
    )  # fmt: skip


@dataclass(slots=True)
class _Trial:
    """The cells as they will be after the records before this one, to name each record's outcome."""

    archive: Archive
    best: dict[tuple[int, tuple[int, int]], float] = field(default_factory=dict)

    def outcome(self, elite: Elite) -> Outcome:
        cell = self.archive.axes.cell_of(elite.descriptor)
        held = self.archive.cells(elite.island).get(cell)
        best = self.best.get((elite.island, cell), held.fitness if held else None)
        if best is not None and elite.fitness <= best:
            return Outcome.KEPT
        self.best[elite.island, cell] = elite.fitness
        return Outcome.NEW if best is None else Outcome.IMPROVED


def _record(placed: _Placed, verdict: Evaluation | Failure, trial: _Trial) -> Accepted | Rejected:
    proposal = placed.proposal
    if isinstance(verdict, Failure):
        return Rejected(
            placed.number, to_source(proposal.program), proposal.operator, proposal.parents, placed.island,
            verdict.stage, verdict.code, verdict.reason,
        )  # fmt: skip
    elite = elite_of(verdict, placed)
    body = {**score_json(verdict.score), "generalisation": asdict(verdict.generalisation)}
    return Accepted(elite, trial.outcome(elite), json.dumps(body, allow_nan=False))


def elite_of(verdict: Evaluation, placed: _Placed) -> Elite:
    """Return a scored program as the archive keeps it."""
    program = verdict.program
    complexity = measure(program)
    return Elite(
        id=digest(program)[:ID_LENGTH],
        source=to_source(program),
        descriptor=Descriptor(complexity.operations, len(complexity.features)),
        fitness=1.0 / (1.0 + 100.0 * verdict.loss),
        objectives=(verdict.loss, verdict.score.worst3, float(complexity.operations)),
        operator=placed.proposal.operator,
        parents=placed.proposal.parents,
        island=placed.island,
        number=placed.number,
    )
