"""Names: what is in scope inside a function, which are taken, and what a misspelt one may have meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field

from translate.errors import Code
from translate.ir import Span
from translate.parse_text import Text, refused
from translate.vocabulary import PARAMETERS

RESERVED = frozenset({"min", "max", "abs", "math", "CONSTANTS", *PARAMETERS})


@dataclass(slots=True)
class Scope:
    """What the parser knows while it reads one function."""

    text: Text
    function: str
    parameter: str | None
    features: frozenset[str]
    other_features: frozenset[str]
    constants: frozenset[str]
    later: frozenset[str]
    """Every name that the function assigns somewhere."""
    depth_cap: int
    assigned: frozenset[str] = field(default=frozenset())
    """The locals that every path to the current statement has set."""


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word most like ``word``; None where nothing is near."""
    found = difflib.get_close_matches(word[:100], sorted(known), n=1, cutoff=0.6)
    return found[0] if found else None


def check_new_name(name: str, at: Span, taken: Iterable[str], taken_by: str) -> None:
    """Refuse a name that is reserved or that something else in the file has."""
    if name in RESERVED or name.startswith("__"):
        raise refused(
            Code.NAME_CLASH, at, f"`{name}` as a name", "a name of your own", f"rename it, for example `{_own(name)}`"
        )
    if name in taken:
        raise refused(
            Code.NAME_CLASH,
            at,
            f"`{name}` as a name",
            "a name that is free",
            f"`{name}` is {taken_by}; rename one of them",
        )


def _own(name: str) -> str:
    return f"{name.strip('_').lower() or 'x'}_value"


def feature_hint(name: str, scope: Scope) -> str:
    """Return what to do about an unknown feature."""
    if scope.parameter is None:
        return f"{scope.function} has no input; only constants can enter it"
    if not scope.features:
        return f"{scope.function} has no features in this setting; use constants only"
    if name in scope.other_features:
        return f"`{name}` belongs to another function's input"
    near = nearest(name, scope.features)
    if near is not None:
        return f'did you mean {scope.parameter}["{near}"]?'
    return "known features: " + ", ".join(sorted(scope.features)[:12]) + (" ..." if len(scope.features) > 12 else "")


def name_hint(name: str, scope: Scope) -> str:
    """Return what to do about an unknown name."""
    if name in scope.features:
        return f'did you mean {scope.parameter}["{name}"]?'
    near = nearest(name, scope.assigned | scope.constants)
    if near is not None:
        return f"did you mean `{near}`?"
    near_feature = nearest(name, scope.features)
    if near_feature is not None:
        return f'did you mean {scope.parameter}["{near_feature}"]?'
    return f"declare it in CONSTANTS, or assign `{name}` before it is used"
