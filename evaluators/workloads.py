"""The named loads of the public measurements: lengths that the profiles ask for, and seconds per stage."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """Profile lengths in tokens and the length of one stage."""

    duration_s: float
    output_tokens: int
    system_tokens: int
    question_tokens: int


LOADS = {
    "general-lite": Load(600.0, 248, 100, 447),
    "reasoning-lite": Load(1200.0, 1448, 100, 934),
    "general": Load(600.0, 248, 100, 447),
    "codegen": Load(600.0, 247, 100, 466),
    "roleplay": Load(1200.0, 251, 150, 600),
    "reasoning": Load(1200.0, 1448, 100, 934),
}
"""By name; a name that contains another comes first. Source: profile.yaml of the public runs."""


def named_in(text: str) -> str | None:
    """Return the load whose name a folder or experiment name contains."""
    return next((name for name in LOADS if name in text.lower()), None)


def shared_prefix_tokens(system_tokens: float, question_tokens: float, prompt_tokens: float) -> int:
    """Return the real length of the shared prefix: its configured share of the real mean prompt.

    Real prompts are some 4.5 % longer than configured; prefix and question are taken to grow alike.
    """
    return round(system_tokens * prompt_tokens / (system_tokens + question_tokens))
