"""The tally, the choice of the champion, summary.json, and the champion's file."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archive import Record
from evaluators.features import VOCABULARY
from evolve.settings import RunSettings, Settings
from evolve.summary import program_text, summarise, summary_json
from evolve.tally import Tally, recorded_program
from tests.evolve.tiny_runs import LINEAR, accepted, duplicate, rejected
from translate.ir import Program
from translate.parse import parse

SETTINGS = Settings(run=RunSettings(seed=7, budget=9))
SIX_KEYS = ["status", "seed", "budget", "evaluations", "rejected", "wall_s", "llm", "dataset", "champion", "frontier"]


def tally_of(*records: Record) -> Tally:
    tally = Tally()
    tally.add(records)
    return tally


def source_with(operations: int, constants: int = 1, features: int = 1) -> str:
    """Return a program of exactly these counts."""
    names = ["gemm_time", "kv_read", "lm_head", "layers"][:features]
    terms = [f'b["{name}"]' for name in names]
    terms += [f"c{n}" for n in range(constants)] + ["1.5"] * (operations + 1 - features - constants)
    declared = ", ".join(f'"c{n}": 2.0' for n in range(constants))
    return f"CONSTANTS = {{{declared}}}\ndef predict_step_time(b):\n    return {' + '.join(terms)}\n"


def champion_number(*records: Record) -> int | None:
    champion = tally_of(*records).champion()
    return None if champion is None else champion.elite.number


def test_the_champion_is_the_simplest_within_five_per_cent_of_the_best_error() -> None:
    best, near, far = source_with(9), source_with(5), source_with(3)
    assert champion_number(accepted(0, 0.100, best, 9), accepted(1, 0.1049, near, 5), accepted(2, 0.106, far, 3)) == 1


def test_fewer_constants_then_fewer_features_then_a_lower_error_break_ties() -> None:
    many, few = source_with(5, constants=3), source_with(5, constants=2)
    assert champion_number(accepted(0, 0.100, many, 5), accepted(1, 0.104, few, 5)) == 1
    wide, narrow = source_with(5, features=3), source_with(5, features=2)
    assert champion_number(accepted(0, 0.100, wide, 5), accepted(1, 0.104, narrow, 5)) == 1
    assert champion_number(accepted(0, 0.104, few, 5), accepted(1, 0.100, few, 5)) == 1


def test_without_an_accepted_program_there_is_no_champion() -> None:
    summary = summarise(SETTINGS, tally_of(rejected(0)), status="finished", wall_s=1.0)
    assert (summary["champion"], summary["frontier"], summary["evaluations"]) == (None, [], 1)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.floats(0.01, 1.0), st.integers(2, 12)), min_size=1, max_size=12), st.integers(0, 12))
def test_a_tally_does_not_depend_on_how_the_records_fall_into_rounds(
    programs: list[tuple[float, int]], cut: int
) -> None:
    records = [accepted(n, error, source_with(size), size) for n, (error, size) in enumerate(programs)]
    split = Tally()
    split.add(records[:cut])
    split.add(records[cut:])
    whole = tally_of(*records)
    assert split.champion() == whole.champion()
    assert split.front == whole.front
    reach = 1.05 * min(error for error, _ in programs)
    champion = whole.champion()
    assert champion is not None
    assert champion.elite.descriptor.operations == min(size for error, size in programs if error <= reach)


def test_the_summary_has_the_agreed_keys_and_counts() -> None:
    tally = tally_of(accepted(0, 0.2), rejected(1), rejected(2, "invariants"), duplicate(3), rejected(4))
    summary = summarise(SETTINGS, tally, status="finished", wall_s=12.3456)
    assert list(summary) == SIX_KEYS
    assert (summary["status"], summary["seed"], summary["budget"], summary["evaluations"]) == ("finished", 7, 9, 4)
    assert summary["rejected"] == {"duplicate": 1, "fit": 2, "invariants": 1}
    assert summary["wall_s"] == 12.346
    assert summary["llm"] == {"calls": 0, "usd": 0.0, "accepted": 0}
    assert summary["frontier"] == [{"id": f"{0:016x}", "operations": 2, "e2e": 0.2}]


def test_the_champion_is_described_with_its_counts_and_its_errors_per_stage() -> None:
    champion = summarise(SETTINGS, tally_of(accepted(0, 0.2)), status="finished", wall_s=1.0)["champion"]
    assert (champion["operations"], champion["conditionals"], champion["constants"], champion["features"]) == (
        2,
        0,
        2,
        1,
    )
    assert champion["error"] == {"e2e": 0.2, "ttft": 0.2, "tpot": 0.1}
    assert champion["per_experiment"] == [
        {"name": "x", "stage": 0, "e2e": 0.2, "ttft": 0.2, "tpot": 0.1},
        {"name": "x", "stage": 1, "e2e": -0.4, "ttft": -0.4, "tpot": -0.2},
    ]
    assert champion["worst"] == champion["per_experiment"][1]


def numbers(value: object) -> Iterator[float]:
    if isinstance(value, dict):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, int | float):
        yield value


def test_every_number_of_a_summary_is_finite_and_others_are_refused() -> None:
    summary = summarise(SETTINGS, tally_of(accepted(0, 0.2)), status="finished", wall_s=1.0)
    found = list(numbers(json.loads(summary_json(summary))))
    assert len(found) > 15
    assert all(map(math.isfinite, found))
    with pytest.raises(ValueError, match="JSON compliant"):
        summary_json({**summary, "wall_s": math.nan})


def reparsed(text: str) -> Program:
    program = parse(text, VOCABULARY)
    assert isinstance(program, Program)
    return program


def test_the_champions_file_says_its_errors_and_origin_and_is_the_same_program() -> None:
    tally = tally_of(accepted(41, 0.0123, '"""Bytes first."""\n' + LINEAR))
    champion = tally.champion()
    assert champion is not None
    text = program_text(champion, SETTINGS)
    assert text.startswith('"""Bytes first.\n\nErrors: E2E 1.23 %, TTFT 20.00 %, TPOT 10.00 %: ')
    assert "proposal 41 (seed) of seed 7 on h100-vllm." in text
    again, before = reparsed(text), recorded_program(LINEAR)
    assert (again.constants, again.functions) == (before.constants, before.functions)


def test_a_docstring_that_was_written_before_is_replaced_and_does_not_grow() -> None:
    first = tally_of(accepted(0, 0.2)).champion()
    assert first is not None
    text = program_text(first, SETTINGS)
    again = tally_of(accepted(1, 0.1, text)).champion()
    assert again is not None
    twice = program_text(again, SETTINGS)
    assert twice.count("Errors: ") == twice.count("Origin: ") == 1
    assert len(twice.splitlines()) == len(text.splitlines())
