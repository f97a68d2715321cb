"""Plain tables: columns of text, as wide as the terminal, or as wide as they like in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

WIDE = 1000
"""Columns where nobody looks: a table in a pipe is not wrapped."""


def print_table(header: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[str] = ()) -> None:
    """Print rows of text under a header; columns in ``left`` are aligned left and may be wrapped, numbers may not."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold", pad_edge=False)
    for name in header:
        text = name in left
        table.add_column(name, justify="left" if text else "right", no_wrap=not text, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console(width=None if sys.stdout.isatty() else WIDE, highlight=False)
    console.print(table)


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
