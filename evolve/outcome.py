"""What a run says when it ends: how it went, the champion, and the commands that come next."""

from __future__ import annotations

from typing import Any

from evolve.progress import duration
from evolve.session import Finish
from evolve.tables import percent

HEADLINES = {
    "finished": "Done",
    "exhausted": "The search found nothing new any more and ended early",
    "interrupted": "Stopped",
}


def outcome_text(finish: Finish) -> str:
    """Return the last words of a run."""
    summary, folder = finish.summary, finish.folder
    counts = f"{summary['evaluations']} of {summary['budget']} evaluations in {duration(summary['wall_s'])}"
    lines = [f"{HEADLINES[summary['status']]}: {counts}."]
    interrupted = summary["status"] == "interrupted"
    if summary["champion"]:
        lines += champion_lines(summary["champion"], with_source=not interrupted)
    elif not interrupted:
        lines.append("No program was accepted.")
    if interrupted:
        lines.append(f"Nothing that was finished is lost. Go on with: python -m evolve resume {folder.path}")
    lines.append(f"See it with: python -m evolve show {folder.path}")
    return "\n".join(lines)


def folds_text(folds: dict[str, float | None]) -> str:
    """Return the leave-one-out errors in words."""
    parts = [f"one {group} {percent(value, 1)} %" for group, value in folds.items() if value is not None]
    return ", ".join(parts) or "not known, the dataset has one model and one workload"


def champion_lines(champion: dict[str, Any], *, with_source: bool) -> list[str]:
    """Return the champion's size, errors and text."""
    worst = champion["worst"]
    errors = ", ".join(f"{metric.upper()} {percent(value)} %" for metric, value in champion["error"].items())
    lines = [
        f"Champion {champion['id']}: {champion['operations']} operations, {champion['constants']} constants, "
        f"{champion['features']} features.",
        f"Mean absolute errors: {errors}.",
        f"E2E error when left out of the fit: {folds_text(champion['generalisation'])}.",
        f"Worst stage: {worst['name']} #{worst['stage']}, E2E {100.0 * worst['e2e']:+.1f} %.",
    ]
    if with_source:
        text = champion["source"].rstrip().splitlines()
        lines += ["", *("    " + line if line else "" for line in text), ""]
    return lines
