"""What a run came to: summary.json with stable keys for scripts, and the champion as a program file.

Both follow from the settings and the records alone, so identical runs give identical files but for ``wall_s``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from evolve.settings import Settings
from evolve.tables import percent
from evolve.tally import Scored, Tally, complexity_of, recorded_program
from translate.source import to_source

METRICS = ("e2e", "ttft", "tpot")

Summary = dict[str, Any]
"""The JSON document of DESIGN's run folder; its keys are stable."""


def summarise(settings: Settings, tally: Tally, *, status: str, wall_s: float) -> Summary:
    """Return the summary of a run that stands where ``tally`` stands.

    Args: status: finished, exhausted, interrupted, failed or running. wall_s: seconds, over all sessions of the run.
    """
    champion = tally.champion()
    return {
        "status": status,
        "seed": settings.run.seed,
        "budget": settings.run.budget,
        "evaluations": tally.evaluations,
        "rejected": dict(sorted(tally.rejected.items())),
        "wall_s": round(wall_s, 3),
        "llm": {"calls": 0, "usd": 0.0, "accepted": 0},
        "dataset": settings.run.dataset,
        "champion": None if champion is None else describe(champion, settings),
        "frontier": [
            {"id": entry.elite.id, "operations": entry.elite.descriptor.operations, "e2e": entry.errors.e2e}
            for entry in tally.front
        ],
    }


def describe(entry: Scored, settings: Settings) -> dict[str, Any]:
    """Return everything about one program: its text, its size, its errors overall and per stage."""
    score, counts = json.loads(entry.score_json), complexity_of(entry.elite)
    program = recorded_program(entry.elite.source)
    rows = stage_errors(score["rows"])
    return {
        "id": entry.elite.id,
        "source": program_text(entry, settings),
        "operations": counts.operations,
        "conditionals": counts.conditionals,
        "constants": counts.constants,
        "features": len(counts.features),
        "constant_values": dict(program.constants),
        "feature_names": sorted(counts.features),
        "error": asdict(entry.errors),
        "median": {metric: score["median"][metric] for metric in METRICS},
        "worst": max(rows, key=lambda row: abs(row["e2e"])),
        "worst3": score["worst3"],
        "bias": score["bias"],
        "generalisation": score["generalisation"],
        "per_experiment": rows,
    }


def stage_errors(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return name, stage and the signed relative errors of each row."""
    return [{key: row[key] for key in ("name", "stage", *METRICS)} for row in rows]


def program_text(entry: Scored, settings: Settings) -> str:
    """Return a program as a file: fitted constants, and a docstring that says how good it is and where it came from.

    The search and the evaluation read the file as it is, so the same numbers come out again.
    """
    program = recorded_program(entry.elite.source)
    rows = json.loads(entry.score_json)["rows"]
    e2e, ttft, tpot = (f"{percent(getattr(entry.errors, metric))} %" for metric in METRICS)
    count = len({row["name"] for row in rows})
    lines = [
        f"Errors: E2E {e2e}, TTFT {ttft}, TPOT {tpot}: mean absolute, over {len(rows)} stages of {count} experiments.",
        f"Origin: program {entry.elite.id}, proposal {entry.elite.number} ({entry.elite.operator}) of seed "
        f"{settings.run.seed} on {Path(settings.run.dataset).name}.",
    ]
    kept = [line for line in program.doc.strip().splitlines() if not line.startswith(("Errors: ", "Origin: "))]
    doc = "\n".join([*kept, "", *lines] if any(line.strip() for line in kept) else lines)
    return to_source(replace(program, doc=f"{doc}\n"))


def summary_json(summary: Summary) -> str:
    """Return the summary as text. Raises: ValueError: a number in it is not finite, which no summary may hold."""
    return json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
