"""Reader of CSV tables: a header, rows of text, comment lines that begin with ``#`` above the header."""

from __future__ import annotations

import csv
from pathlib import Path

from evaluators.fields import MAX_TABLE_BYTES, Fields, nearest, read_text, refuse

MAX_ROWS = 100_000


def read_table(path: Path, required: frozenset[str], optional: frozenset[str]) -> tuple[Fields, ...]:
    """Return the rows of a table whose header holds every required column.

    A column that is neither required nor optional is kept; one that looks like a misspelt optional column is refused.

    Raises:
        UnreadableError: no such file, broken CSV, missing, unknown or doubled columns, ragged rows, or no rows at all.
    """
    text = read_text(path, MAX_TABLE_BYTES)
    if "\0" in text:
        refuse(path, "file", "a NUL character", "text")
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    above = next((n for n, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    try:
        rows = list(csv.reader(lines[above:], strict=True))
    except csv.Error as problem:
        refuse(path, "file", str(problem), "a comma-separated table")
    if not rows:
        refuse(path, "header", "an empty file", f"a header with {', '.join(sorted(required))}")
    header = [name.strip() for name in rows[0]]
    if len(header) == 1 and (separator := next((mark for mark in ";\t|" if mark in header[0]), None)):
        refuse(path, "header", f"columns separated by {separator!a}", "commas between columns, points in decimals")
    _check_header(path, header, required, optional)
    filled = [(n, row) for n, row in enumerate(rows[1:], start=above + 2) if row]
    if not 1 <= len(filled) <= MAX_ROWS:
        refuse(path, "rows", str(len(filled)), f"1 to {MAX_ROWS} rows under the header")
    for number, row in filled:
        if len(row) != len(header):
            refuse(path, f"line {number}", f"{len(row)} columns", f"the {len(header)} of the header")
    return tuple(
        Fields(str(path), dict(zip(header, row, strict=True)), f"line {number}: ", textual=True)
        for number, row in filled
    )


def _check_header(path: Path, header: list[str], required: frozenset[str], optional: frozenset[str]) -> None:
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        refuse(path, "header", f"`{twice}` twice", "each column once")
    if missing := sorted(required - set(header)):
        near = nearest(missing[0], [name for name in header if name not in required], 0.7)
        got = f"no column `{missing[0]}`" + (f", but `{near}`" if near else "")
        refuse(path, "header", got, f"the columns {', '.join(sorted(required))}")
    for name in header:
        near = None if name in required | optional else nearest(name, optional, 0.85)
        if near:
            refuse(path, "header", f"an unknown column `{name[:60]}`", f"`{near}`, or a name less like it")
