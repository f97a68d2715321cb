"""`evaluate`: score one program file on a dataset, with its constants as they are or fitted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evaluators.experiment import Experiment
from evaluators.features import VOCABULARY
from evolve.errors import CommandError
from evolve.summary import METRICS, stage_errors
from evolve.tables import milliseconds, percent, print_table, signed_percent
from translate.caps import Caps
from translate.complexity import measure
from translate.errors import CAP_CODES, Refusal
from translate.ir import Program
from translate.parse import parse
from translate.source import to_source

if TYPE_CHECKING:
    from evaluators.invariants import Violation


@dataclass(frozen=True, slots=True)
class Verdict:
    """A program and its score; ``score`` is the JSON that the ledger keeps of accepted programs."""

    program: Program
    score: dict[str, Any]
    fitted: bool
    violation: Violation | None = None
    """The invariant that it breaks: it has a score, and a search would reject it all the same."""


def read_program(path: Path, caps: Caps) -> Program:
    """Return the program of a file. Raises: CommandError: no text file, or no program; with the line and a caret."""
    text = _read_text(path, caps)
    program = parse(text, VOCABULARY, caps)
    if isinstance(program, Refusal):
        raise CommandError(refusal_text(path, text, program))
    return program


def refusal_text(path: Path, text: str, refusal: Refusal) -> str:
    """Return a refusal with the program's line under it and a caret under its column."""
    lines = [f"{path}: {refusal}"]
    source = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if 1 <= refusal.line <= len(source):
        whole = source[refusal.line - 1]
        start = max(0, refusal.column - 61)  # a long line is shown around the place
        shown = whole[start : start + 100]
        head = f"  {refusal.line} | "
        before = "".join("\t" if c == "\t" else " " for c in shown[: refusal.column - 1 - start])
        lines += [head + _printable(shown), " " * (len(head) - 2) + "| " + before + "^"]
    if refusal.code in CAP_CODES:
        lines.append(
            "The caps can be raised: --max-operations, --max-conditionals, --max-constants, or --settings FILE"
        )
    return "\n".join(lines)


def evaluate_program(program: Program, experiments: Sequence[Experiment], *, fit: bool) -> Verdict:
    """Score a program on the experiments that count.

    Raises: CommandError: it fails somewhere in the cascade, or the experiments cannot be simulated.
    """
    from evaluators.evaluation import Failure, broken_invariant, evaluate_as_is, fit_and_score, prepare
    from evaluators.scoring import score_json

    try:
        benchmark = prepare(experiments)
    except ValueError as problem:
        raise CommandError(f"dataset: {problem}") from problem
    if fit:
        found = fit_and_score(program, benchmark, seed=0)
        if isinstance(found, Failure):
            raise CommandError(f"the program failed at {found.stage} ({found.code}): {found.reason}")
        return Verdict(found.program, score_json(found.score), fitted=True)
    score = evaluate_as_is(program, benchmark)
    if isinstance(score, Failure):
        raise CommandError(f"the program failed at {score.stage} ({score.code}): {score.reason}")
    return Verdict(program, score_json(score), fitted=False, violation=broken_invariant(program, score))


def verdict_json(verdict: Verdict, dataset: str) -> str:
    """Return a verdict as a JSON document with the keys of the summary's champion."""
    counts = measure(verdict.program)
    document = {
        "dataset": dataset,
        "fitted": verdict.fitted,
        "source": to_source(verdict.program),
        "operations": counts.operations,
        "conditionals": counts.conditionals,
        "constants": counts.constants,
        "features": len(counts.features),
        "constant_values": dict(verdict.program.constants),
        "feature_names": sorted(counts.features),
        "error": verdict.score["error"],
        "median": verdict.score["median"],
        "worst": max(stage_errors(verdict.score["rows"]), key=lambda row: abs(row["e2e"])),
        "worst3": verdict.score["worst3"],
        "bias": verdict.score["bias"],
        "violation": None if verdict.violation is None else asdict(verdict.violation),
        "per_experiment": stage_errors(verdict.score["rows"]),
    }
    return json.dumps(document, indent=2, allow_nan=False)


def print_verdict(verdict: Verdict) -> None:
    """Print the program's size, its errors, and predicted beside observed for every stage."""
    counts = measure(verdict.program)
    if verdict.fitted:
        print(to_source(verdict.program))
    print(
        f"{counts.operations} operations, {counts.conditionals} conditionals, {counts.constants} constants"
        f"{' (fitted)' if verdict.fitted else ''}, {len(counts.features)} features\n"
    )
    if verdict.violation is not None:
        print(f"A run would reject this program ({verdict.violation.code}): {verdict.violation.reason}.\n")
    print_errors(verdict.score)
    print_stages(verdict.score["rows"])


def print_errors(score: dict[str, Any]) -> None:
    """Print mean and median errors of the three metrics."""
    rows = [
        (what, *(percent(score[key][m]) for m in METRICS)) for what, key in (("mean", "error"), ("median", "median"))
    ]
    print_table(("error %", "E2E", "TTFT", "TPOT"), rows, left=("error %",))
    print(f"worst three stages: E2E {percent(score['worst3'])} %; bias {signed_percent(score['bias'])} %\n")


def print_stages(rows: Sequence[dict[str, Any]]) -> None:
    """Print predicted beside observed means and their errors, a line per stage."""
    header = ("experiment", "stage", "E2E ms", "seen", "%", "TTFT ms", "seen", "%", "TPOT ms", "seen", "%")
    print_table(
        header,
        [
            (row["name"], str(row["stage"]), *(cell for metric in METRICS for cell in _cells(row, metric)))
            for row in rows
        ],
        left=("experiment",),
        group=1,
    )


def _cells(row: dict[str, Any], metric: str) -> tuple[str, str, str]:
    predicted, observed = row["predicted"], row["observed"]
    if metric == "tpot":
        pair = predicted["tpot_us"], observed["tpot_us"]
    else:
        pair = predicted[metric]["mean_us"], observed[metric]["mean_us"]
    return milliseconds(pair[0]), milliseconds(pair[1]), signed_percent(row[metric])


def _read_text(path: Path, caps: Caps) -> str:
    try:
        if path.is_dir():
            raise CommandError(f"{path}: got a folder; want a program file")
        if not path.exists():
            raise CommandError(f"{path}: there is no such file")
        if not path.is_file():
            raise CommandError(f"{path}: not a regular file; want a program file")
        with path.open("rb") as stream:
            data = stream.read(caps.text_bytes + 4)
    except (OSError, ValueError) as problem:
        reason = getattr(problem, "strerror", None) or str(problem)
        raise CommandError(f"{ascii(str(path))[:200]}: cannot be read: {reason}") from None
    if len(data) > caps.text_bytes + 3:  # a byte-order mark does not count
        raise CommandError(f"{path}: got more than {caps.text_bytes} bytes; want a program of a few lines")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise CommandError(f"{path}: got byte {problem.start} that is not UTF-8; want program text") from None


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\t" else "\ufffd" for c in text)
