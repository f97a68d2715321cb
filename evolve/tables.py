"""Plain tables: columns of text, as wide as the terminal, or as wide as they like in a pipe."""

from __future__ import annotations

import io
import shutil
import sys
from collections.abc import Iterable, Sequence

WIDE = 1000
"""Columns where nobody looks: a table in a pipe is not wrapped."""


def print_table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[str] = (), group: int = 0
) -> None:
    """Print rows of text under a header; columns in ``left`` are aligned left and may be wrapped, numbers may not.

    Where the terminal is too narrow, the first ``group`` columns become headings above the rows that share them.
    """
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDE
    body = list(rows)
    lines = table_lines(header, body, left, WIDE)
    if max(map(len, lines)) <= width:
        print("\n".join(lines))
    elif not group:
        print("\n".join(table_lines(header, body, left, width)))
    else:
        print("\n".join(grouped_lines(header, body, left, group, width)))


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str], width: int) -> list[str]:
    """Return a table as lines of at most ``width`` characters where the text columns can be wrapped to that."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for name in header:
        text = name in left
        table.add_column(name, justify="left" if text else "right", no_wrap=not text, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(file=io.StringIO(), width=width, highlight=False, no_color=True)
    with console.capture() as capture:
        console.print(table)
    return [line.rstrip() for line in capture.get().splitlines()]


def grouped_lines(
    header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str], group: int, width: int
) -> list[str]:
    """Return a table without its first ``group`` columns; their values stand above the rows that share them."""
    head, *lines = table_lines(header[group:], [row[group:] for row in rows], left, WIDE)
    result, last = ["  " + head], ""
    for row, line in zip(rows, lines, strict=True):
        heading = "  ".join(row[:group])
        if heading != last:
            result.append(heading[:width])
            last = heading
        result.append("  " + line)
    return result


def percent(fraction: float, digits: int = 2) -> str:
    """Return a fraction as text in per cent."""
    return f"{100.0 * fraction:.{digits}f}"


def signed_percent(fraction: float) -> str:
    """Return a signed fraction as text in per cent."""
    return f"{100.0 * fraction:+.2f}"


def milliseconds(time_us: float) -> str:
    """Return microseconds as text in milliseconds, to four digits or so."""
    value = time_us / 1e3
    return f"{value:.0f}" if value >= 1000 else f"{value:.1f}" if value >= 100 else f"{value:.2f}"
