"""The speed table renders, keeps its columns, and never judges a timing."""

from __future__ import annotations

import json

import pytest

from benchmarks.__main__ import main
from benchmarks.measures import MEASURES, Reading, median_s
from benchmarks.table import HEADINGS, quantity, table_text


def test_a_quick_subset_prints_a_row_per_measure(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "compile", "rows", "--repeats", "1"]) == 0
    heading, rule, *rows = capsys.readouterr().out.splitlines()
    assert [part.strip() for part in heading.split("  ") if part.strip()] == list(HEADINGS)
    assert set(rule) == {"-", " "}
    assert len(rows) == 2
    assert "step rows" in rows[1]
    assert float(rows[0].split()[-1]) > 0.0


def test_the_same_as_json_holds_measure_budget_and_ratio(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--only", "columns", "--repeats", "1", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert set(row) == {"name", "what", "measured", "budget", "unit", "ratio"}
    assert row["ratio"] == pytest.approx(row["measured"] / row["budget"])


def test_every_measure_has_a_name_of_its_own_and_a_budget() -> None:
    assert len({measure.name for measure in MEASURES}) == len(MEASURES)
    assert all(measure.budget_s > 0.0 for measure in MEASURES)


def test_a_timing_beyond_its_budget_is_shown_and_nothing_more() -> None:
    text = table_text([Reading("slow", "something slow", 30.0, 10.0, "s")])
    assert text.splitlines()[-1].split()[-1] == "3.00"


def test_the_first_call_is_not_counted_and_the_median_is_taken() -> None:
    calls: list[int] = []
    assert median_s(lambda: calls.append(1), repeats=3) >= 0.0
    assert len(calls) == 4


@pytest.mark.parametrize(
    ("value", "unit", "expected"),
    [
        (0.1514, "s", "151 ms"),
        (0.00042, "s", "420 us"),
        (600.0, "s", "600 s"),
        (1.46, "GB", "1.46 GB"),
        (12.34, "s", "12.3 s"),
    ],
)
def test_figures_carry_a_unit_that_fits(value: float, unit: str, expected: str) -> None:
    assert quantity(value, unit) == expected


def test_wrong_arguments_are_usage_errors() -> None:
    for arguments in (["--repeats", "0"], ["--only", "nothing"]):
        with pytest.raises(SystemExit) as leaving:
            main(arguments)
        assert leaving.value.code == 2
