"""The speed table as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from benchmarks.measures import Reading

HEADINGS = ("what", "measured (median)", "budget", "ratio")


def quantity(value: float, unit: str) -> str:
    """Return a figure with three digits and a unit that fits its size."""
    if unit == "s" and value < 1.0:
        return f"{value * 1e3:.3g} ms" if value >= 1e-3 else f"{value * 1e6:.3g} us"
    return f"{value:.3g} {unit}" if value < 100.0 else f"{value:.0f} {unit}"


def table_text(readings: Sequence[Reading]) -> str:
    """Return the readings as aligned columns under a heading; a ratio up to 1 is within budget."""
    rows = [(r.what, quantity(r.measured, r.unit), quantity(r.budget, r.unit), f"{r.ratio:.2f}") for r in readings]
    widths = [max(len(row[column]) for row in (HEADINGS, *rows)) for column in range(len(HEADINGS))]
    first = "  ".join(text.ljust(width) for text, width in zip(HEADINGS, widths, strict=True)).rstrip()
    lines = [first, "  ".join("-" * width for width in widths)]
    for what, *figures in rows:
        aligned = (text.rjust(width) for text, width in zip(figures, widths[1:], strict=True))
        lines.append("  ".join((what.ljust(widths[0]), *aligned)))
    return "\n".join(lines)


def table_json(readings: Sequence[Reading]) -> str:
    """Return the readings as a JSON array, a row an object."""
    return json.dumps([{**asdict(reading), "ratio": reading.ratio} for reading in readings], indent=2, allow_nan=False)
