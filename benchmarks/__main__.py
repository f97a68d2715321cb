"""Measure what the project promises about speed: ``python -m benchmarks``; ``--long`` adds a whole run."""

from __future__ import annotations

import argparse
import sys

from benchmarks.measures import MEASURES, Reading, long_readings, readings_of
from benchmarks.table import table_json, table_text


def main(arguments: list[str] | None = None) -> int:
    """Measure and print the table; the exit status does not depend on any timing."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print a JSON array")
    parser.add_argument("--long", action="store_true", help="measure `run --budget 1000` as well: minutes")
    parser.add_argument("--repeats", type=int, default=9, help="timed calls per row after one that is not counted [9]")
    parser.add_argument("--only", nargs="+", choices=[m.name for m in MEASURES], metavar="ROW", help="some rows only")
    asked = parser.parse_args(arguments)
    if asked.repeats < 1:
        parser.error("--repeats: want 1 or more")
    readings: list[Reading] = []
    for measure in MEASURES:
        if asked.only is None or measure.name in asked.only:
            print(f"measuring: {measure.what}", file=sys.stderr)
            readings.append(readings_of(measure, asked.repeats))
    if asked.long:
        print("measuring: a whole run; this takes minutes", file=sys.stderr)
        readings += long_readings()
    print(table_json(readings) if asked.json else table_text(readings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
