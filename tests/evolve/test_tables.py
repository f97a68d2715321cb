"""Tables: aligned, in one piece where there is room, and under headings where there is not."""

from __future__ import annotations

from evolve.tables import grouped_lines, milliseconds, percent, signed_percent, table_lines

HEADER = ("name", "stage", "E2E %")
ROWS = [("first-experiment", "0", "1.25"), ("first-experiment", "1", "10.50"), ("second", "0", "-3.00")]


def test_numbers_are_aligned_right_and_text_left() -> None:
    assert table_lines(HEADER, ROWS, ("name",), 80) == [
        "name              stage  E2E %",
        "first-experiment      0   1.25",
        "first-experiment      1  10.50",
        "second                0  -3.00",
    ]


def test_a_narrow_table_puts_what_rows_share_above_them() -> None:
    assert grouped_lines(HEADER, ROWS, ("name",), 1, 20) == [
        "  stage  E2E %",
        "first-experiment",
        "      0   1.25",
        "      1  10.50",
        "second",
        "      0  -3.00",
    ]


def test_square_brackets_in_a_cell_are_text_and_not_markup() -> None:
    assert table_lines(("name",), [("[bold]x",)], ("name",), 80)[1] == "[bold]x"


def test_figures_are_written_with_the_digits_that_matter() -> None:
    assert [milliseconds(us) for us in (7263.0, 121_300.0, 4_678_000.0)] == ["7.26", "121.3", "4678"]
    assert (percent(0.01234), signed_percent(-0.5)) == ("1.23", "-50.00")
