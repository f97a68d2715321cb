"""`show`: one run, read from its ledger, while it runs or after; or one of its programs."""

from __future__ import annotations

import json
from typing import Any

from archive import Accepted, LedgerReader
from evolve.errors import CommandError
from evolve.progress import duration
from evolve.run_folder import RunFolder, is_running, reading
from evolve.scoring_program import print_errors, print_stages
from evolve.session import tally_of, wall_seconds
from evolve.settings import Settings
from evolve.summary import Summary, describe, summarise
from evolve.tables import percent, print_table
from evolve.tally import Scored, Tally, scored


def summary_of(folder: RunFolder) -> tuple[Summary, Tally]:
    """Return the summary of a run as its ledger stands now."""
    settings = folder.settings()
    with reading(folder) as ledger:
        tally = tally_of(ledger)
        summary = summarise(settings, tally, status=_status(folder, ledger), wall_s=wall_seconds(ledger))
    return summary, tally


def find_program(folder: RunFolder, prefix: str) -> Scored:
    """Return the accepted program whose id begins with ``prefix``; of several fits of one program the best.

    Raises: CommandError: no program, or several ones.
    """
    found: dict[str, Scored] = {}
    with reading(folder) as ledger:
        for past in ledger.rounds():
            for record in past.records:
                if isinstance(record, Accepted) and record.program_id.startswith(prefix):
                    entry = scored(record)
                    held = found.get(record.program_id)
                    if held is None or entry.error < held.error:
                        found[record.program_id] = entry
    if not prefix or not found:
        raise CommandError(f"{folder.name}: no accepted program has an id that begins with `{prefix}`")
    if len(found) > 1:
        shown = ", ".join(sorted(found)[:5]) + (", ..." if len(found) > 5 else "")
        raise CommandError(f"{folder.name}: `{prefix}` begins the ids of {len(found)} programs: {shown}")
    return next(iter(found.values()))


def program_json(entry: Scored, settings: Settings) -> dict[str, Any]:
    """Return one program as a JSON object: the summary's champion, with its parents and its whole score."""
    elite = entry.elite
    origin = {"operator": elite.operator, "parents": list(elite.parents), "number": elite.number}
    return {**describe(entry, settings), **origin, "score": json.loads(entry.score_json)}


def print_run(folder: RunFolder) -> None:
    """Print a run: settings, counts, frontier, champion."""
    summary, tally = summary_of(folder)
    settings, champion = folder.settings(), tally.champion()
    print(f"run {folder.path}: {summary['status']}\n")
    _print_settings(settings)
    rejected = ", ".join(f"{stage} {count}" for stage, count in summary["rejected"].items()) or "none"
    print(f"evaluations  {summary['evaluations']} of {summary['budget']} in {duration(summary['wall_s'])}")
    print(f"rejected     {rejected}\n")
    if champion is None:
        print("no program accepted yet")
        return
    print_frontier(tally)
    print(f"\nchampion {champion.elite.id}, the simplest program within 5 % of the best loss:\n")
    print_program(champion, settings)


def print_program(entry: Scored, settings: Settings) -> None:
    """Print one program with its errors, overall and per stage."""
    print(program_json(entry, settings)["source"])
    score = json.loads(entry.score_json)
    print_errors(score)
    print_stages(score["rows"])


def print_frontier(tally: Tally) -> None:
    """Print the frontier by operations."""
    rows = [
        (entry.elite.id[:12], str(entry.elite.descriptor.operations), percent(entry.errors.e2e),
         percent(entry.errors.ttft), percent(entry.errors.tpot), percent(entry.elite.objectives[1]),
         entry.elite.operator)
        for entry in tally.front
    ]  # fmt: skip
    header = ("frontier", "operations", "E2E %", "TTFT %", "TPOT %", "worst 3 %", "operator")
    print_table(header, rows, left=("frontier", "operator"))


def _print_settings(settings: Settings) -> None:
    for section, table in settings.model_dump().items():
        if section == "run":
            table.pop("runs")
            table["dataset_digest"] = table["dataset_digest"][:12]
        print(f"{section:12} " + ", ".join(f"{key} {value}" for key, value in table.items() if value != ""))


def _status(folder: RunFolder, ledger: LedgerReader) -> str:
    """Return what the ledger last says of the run; a run that ends without a word was killed, or still runs."""
    last = ""
    for event in ledger.events():
        last = event.kind
    if last not in ("started", "resumed", ""):
        return last
    return "running" if is_running(folder) else "killed"
