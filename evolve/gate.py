"""What a mutation's result must pass to be proposed: the caps, the units, a time that makes sense, a new structure."""

from __future__ import annotations

import math

from evaluators.features import VOCABULARY
from evolve.alphabet import STEP, typical
from evolve.drafts import Draft, draft_of, program_of
from evolve.units import US, compatible, consistent, unit_of
from translate.canonical import digest
from translate.caps import Caps
from translate.complexity import measure
from translate.ir import Expr, Program
from translate.parse import parse
from translate.source import to_source
from translate.to_plain import evaluate

DEFAULT_CAPS = Caps()


class Gate:
    """Knows the first parent: what it kept, its proposals keep; its structure is refused."""

    def __init__(self, parent: Program, draft: Draft | None, caps: Caps) -> None:
        self.caps = caps
        self._parent = parent
        self._same = {digest(parent)}
        self._typed = draft is not None and all(map(has_time_unit, draft.bodies.values()))
        self._sound = is_sound(parent)
        if draft is not None:
            self._same.add(digest(program_of(draft)))

    def program(self, draft: Draft) -> Program | None:
        """Return the program of a draft if it may be proposed."""
        if self._typed and not all(map(has_time_unit, draft.bodies.values())):
            return None
        program = program_of(draft)
        return program if self.accepts(program) and draft_of(program) is not None else None

    def accepts(self, program: Program) -> bool:
        """Tell whether ``program`` is valid, new, and gives a usual step a time if the parent does."""
        return self.is_valid(program) and self.differs(program) and (not self._sound or is_sound(program))

    def differs(self, program: Program) -> bool:
        """Tell whether ``program`` has another structure than the parent."""
        return digest(program) not in self._same

    def is_valid(self, program: Program) -> bool:
        """Tell whether the text of ``program`` is one of the language, within the caps."""
        size = measure(program)
        if (
            size.operations > self.caps.operations
            or size.conditionals > self.caps.conditionals
            or size.constants > self.caps.constants
            or not all(map(math.isfinite, program.constant_values))
        ):
            return False
        return parse(to_source(program), VOCABULARY, self.caps) == program


def has_time_unit(body: Expr) -> bool:
    """Tell whether a function's body adds only what may be added and gives a time."""
    return compatible(unit_of(body), US) and consistent(body)


def is_sound(program: Program) -> bool:
    """Tell whether the step time of a usual step is positive and finite."""
    function = program.function(STEP)
    if function is None:
        return False
    value = evaluate(function, typical(), dict(program.constants))
    return math.isfinite(value) and value > 0.0
