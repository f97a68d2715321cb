"""How large a program may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Caps:
    """Upper bounds, each inclusive, over all functions of a program together."""

    operations: int = 30
    conditionals: int = 3
    constants: int = 10
    text_bytes: int = 65_536
    """Length of the text, UTF-8; longer texts are refused unread."""
    tokens: int = 8_000
    """Words and marks, docstring and comments included: bounds the depth that Python's own parser can meet."""
    depth: int = 100
    """Nesting of expressions and of branches."""
