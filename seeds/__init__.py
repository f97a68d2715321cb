"""Seed programs: one file each, parsed and never imported; the search starts from all of them."""

from __future__ import annotations

from importlib.resources import files


def seed_texts() -> dict[str, str]:
    """Return the text of every seed program by its name, in the order of the names."""
    programs = (
        entry for entry in files("seeds").iterdir() if entry.name.endswith(".py") and entry.name != "__init__.py"
    )
    return {
        entry.name.removesuffix(".py"): entry.read_text(encoding="utf-8")
        for entry in sorted(programs, key=lambda e: e.name)
    }
