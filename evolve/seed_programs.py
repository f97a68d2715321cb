"""The programs that a run begins with: the files of ``seeds/``, in order of their names."""

from __future__ import annotations

from evaluators.features import VOCABULARY
from seeds import seed_texts
from translate.caps import Caps
from translate.errors import CAP_CODES, Refusal
from translate.ir import Program
from translate.parse import parse


def seed_programs(caps: Caps) -> tuple[Program, ...]:
    """Return the seed programs that keep within the caps.

    Raises: RuntimeError: a seed is refused for another reason; it is the project's own file, so that is a bug.
    """
    programs = []
    for name, text in seed_texts().items():
        program = parse(text, VOCABULARY, caps)
        if not isinstance(program, Refusal):
            programs.append(program)
        elif program.code not in CAP_CODES:
            raise RuntimeError(f"seeds/{name}.py: {program}")
    return tuple(programs)
