"""A run from end to end: dataset, settings, ledger, workers, rounds, summary. Start reading here.

`start` begins a run and `resume` goes on with one; both end in `_search`. What a run knows is a fold over the rounds in
its ledger, so going on means folding them again.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from archive import Event, JsonValue, Ledger, LedgerReader, Round
from evaluators.experiment import Experiment
from evolve.dataset import digest_of, open_dataset, require_same, require_scored
from evolve.errors import CommandError
from evolve.files import write_atomic
from evolve.progress import View, snapshot
from evolve.run_folder import RunFolder, create_run, reading, writing
from evolve.settings import Settings
from evolve.stopping import StopRequested, no_survivors
from evolve.summary import Summary, program_text, summarise, summary_json
from evolve.tally import Tally

if TYPE_CHECKING:
    from evolve.loop import Plan, State


@dataclass(frozen=True, slots=True)
class Finish:
    """How a session ended."""

    folder: RunFolder
    summary: Summary
    exit_code: int


def start(settings: Settings, name: str | None, view: View) -> Finish:
    """Run a new search. Raises: CommandError: the dataset or the folder cannot be used, or a worker died."""
    experiments = _experiments(settings)
    settings = settings.resolved(digest_of(experiments))
    folder = create_run(Path(settings.run.runs), name, settings)
    view.begin(f"run {folder.path}", settings.run.budget)
    return _search(folder, settings, experiments, view)


def resume(folder: RunFolder, workers: int | None, view: View) -> Finish:
    """Go on with a run where its ledger ends. Raises: CommandError: also where the dataset or the ledger changed."""
    settings = folder.settings()
    with reading(folder) as earlier:
        _require_same_search(folder, settings, earlier)
    experiments = _experiments(settings)
    if workers is not None:
        settings = settings.model_copy(update={"run": settings.run.model_copy(update={"workers": workers})})
    view.begin(f"resume {folder.path}", settings.run.budget)
    return _search(folder, settings, experiments, view)


def _search(folder: RunFolder, settings: Settings, experiments: tuple[Experiment, ...], view: View) -> Finish:
    began, status, exit_code, earlier_s = time.monotonic(), "failed", 1, 0.0
    with writing(folder) as ledger, _telling_how_to_resume(folder):
        try:
            earlier_s = wall_seconds(ledger)
            body: dict[str, JsonValue] = {"workers": settings.run.workers, "search": settings.search_digest()}
            ledger.append_event("resumed" if any(ledger.events()) else "started", body)
            status, exit_code = _rounds(settings, experiments, ledger, view), 0
        except StopRequested as stop:
            status, exit_code = "interrupted", stop.exit_code
        finally:
            view.close()
            summary = _conclude(folder, settings, ledger, status, earlier_s + time.monotonic() - began)
    return Finish(folder, summary, exit_code)


def _rounds(settings: Settings, experiments: tuple[Experiment, ...], ledger: Ledger, view: View) -> str:
    """Run the rounds that are left and return how it ended."""
    view.phase("compiling the simulator: a minute on first use, then kept")
    from evolve.loop import evolve
    from evolve.seed_programs import seed_programs
    from evolve.workers import workers

    plan = plan_of(settings)
    state = restore(ledger, plan)
    tally = state.tally
    if tally.evaluations >= plan.budget:
        return "finished"
    view.phase(f"starting {settings.run.workers} worker{'s' * (settings.run.workers > 1)}")
    began, before = time.monotonic(), tally.evaluations
    with workers(settings.run.workers, experiments, plan.seed) as pool, no_survivors():
        for report in evolve(plan, seed_programs(plan.caps), state, ledger, pool):
            view.show(snapshot(report.number, tally, plan.budget, time.monotonic() - began, before))
    return "finished" if tally.evaluations >= plan.budget else "exhausted"


def _conclude(folder: RunFolder, settings: Settings, ledger: Ledger, status: str, wall_s: float) -> Summary:
    """Write down what the ledger holds: the event, the summary and the champion."""
    tally = tally_of(ledger)
    summary = summarise(settings, tally, status=status, wall_s=wall_s)
    ledger.append_event(status, {"wall_s": round(wall_s, 3), "evaluations": tally.evaluations})
    if (champion := tally.champion()) is not None:
        write_atomic(folder.champion_path, program_text(champion, settings))
    write_atomic(folder.summary_path, summary_json(summary))
    return summary


def plan_of(settings: Settings) -> Plan:
    """Return what decides the search."""
    from evolve.loop import Plan

    search = settings.search
    return Plan(
        seed=settings.run.seed,
        budget=settings.run.budget,
        round_size=search.round_size,
        islands=search.islands,
        migration_interval=search.migration_interval,
        migration_rate=search.migration_rate,
        capacity=search.capacity,
        caps=settings.caps.for_parser(),
    )


def restore(ledger: LedgerReader, plan: Plan) -> State:
    """Fold the ledger's rounds into a state, and check that the archive is the one that was recorded.

    Raises: CommandError: it is not.
    """
    from evolve.loop import absorb, initial_state

    state, last = initial_state(plan), ledger.next_round - 1
    for past in ledger.rounds():
        try:
            absorb(state, past.number, past.records, plan)
        except ValueError as problem:
            raise CommandError(f"{ledger.path}: round {past.number} cannot be read back: {problem}") from problem
        if past.number == last and past.archive_digest not in (None, state.archive.digest()):
            raise CommandError(
                f"{ledger.path}: after round {past.number} the archive is not the one that was recorded: the settings, "
                "the ledger or the program changed since. Start a new run, or go back to the version that wrote it"
            )
    return state


def tally_of(ledger: LedgerReader) -> Tally:
    """Return the tally of all rounds in a ledger."""
    tally = Tally()
    for past in ledger.rounds():
        tally.add(past.records)
    return tally


def wall_seconds(ledger: LedgerReader) -> float:
    """Return how long the sessions of a run took together."""
    return session_seconds(ledger.events(), ledger.rounds())


def session_seconds(events: Iterable[Event], rounds: Iterable[Round]) -> float:
    """Return the time of all sessions; one that was killed counts up to the last that it wrote."""
    moments = [(event.at_utc, event.kind, event.body) for event in events]
    moments += [(past.at_utc, "round", {}) for past in rounds]
    total, previous = 0.0, None
    for at_utc, kind, body in sorted(moments, key=lambda moment: moment[0]):
        now = datetime.fromisoformat(at_utc)
        if previous is not None and kind not in ("started", "resumed"):
            total += (now - previous).total_seconds()
        total = float(str(body.get("wall_s", total)))
        previous = now
    return total


def _experiments(settings: Settings) -> tuple[Experiment, ...]:
    source = settings.run.dataset
    experiments = open_dataset(source)
    require_same(source, experiments, settings.run.dataset_digest)
    require_scored(source, experiments)
    return experiments


def _require_same_search(folder: RunFolder, settings: Settings, ledger: LedgerReader) -> None:
    """Accept settings under which the run could have begun. Raises: CommandError: they were changed since."""
    begun = next((str(event.body["search"]) for event in ledger.events() if "search" in event.body), None)
    if begun is not None and begun != settings.search_digest():
        raise CommandError(
            f"{folder.settings_path}: got another seed, [search] or [caps] than the run began with; want them as they "
            "were, or it would end as no run from the start does. Put them back, or start a new run"
        )


@contextmanager
def _telling_how_to_resume(folder: RunFolder) -> Iterator[None]:
    try:
        yield
    except BrokenProcessPool:
        raise CommandError(
            "a worker process died, perhaps for lack of memory. Nothing of the finished rounds is lost: "
            f"go on with `resume {folder.path}`, maybe with fewer --workers"
        ) from None
