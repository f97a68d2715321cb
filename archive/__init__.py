"""What a run keeps: elites on islands, the Pareto frontier, and the append-only ledger."""

from archive.elites import LARGEST_CAPACITY, OBJECTIVES, Archive, Axes, Axis, Cell, Descriptor, Elite, Outcome
from archive.errors import (
    LedgerCorrupt,
    LedgerError,
    LedgerExists,
    LedgerFailed,
    LedgerInUse,
    LedgerMissing,
    LedgerNewer,
)
from archive.frontier import frontier, select
from archive.ledger import Ledger, LedgerReader
from archive.records import Accepted, Duplicate, Event, JsonValue, Record, Rejected, Round

__all__ = [
    "LARGEST_CAPACITY",
    "OBJECTIVES",
    "Accepted",
    "Archive",
    "Axes",
    "Axis",
    "Cell",
    "Descriptor",
    "Duplicate",
    "Elite",
    "Event",
    "JsonValue",
    "Ledger",
    "LedgerCorrupt",
    "LedgerError",
    "LedgerExists",
    "LedgerFailed",
    "LedgerInUse",
    "LedgerMissing",
    "LedgerNewer",
    "LedgerReader",
    "Outcome",
    "Record",
    "Rejected",
    "Round",
    "frontier",
    "select",
]
